//! Requirements that are not met, and their remedies.

use std::io;
use std::path::{Path, PathBuf};

use super::btf::file::FileError;
use super::btf::offsets::FieldMissing;
use super::btf::reader;
use super::requirements::release;
use super::self_check::SelfCheckError;

/// File in which the kernel describes its types.
pub(super) const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

/// Requirement that is not met. [`remedy`](Self::remedy) says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unmet {
    /// Rights that are missing.
    #[error("{missing} {} missing", if missing.contains(' ') { "are" } else { "is" })]
    Capabilities {
        /// The capabilities that are missing, by name.
        missing: &'static str,
    },
    /// Capabilities that are those of a user namespace.
    #[error("the capabilities of a user namespace do not let this process use eBPF")]
    UserNamespace,
    /// Pid namespace of this process that cannot be found out.
    #[error("/proc/self/ns/pid cannot be read")]
    PidNamespace {
        /// Cause.
        source: io::Error,
    },
    /// Lockdown of the kernel that keeps eBPF from reading its memory.
    #[error("the kernel is in lockdown mode confidentiality")]
    Lockdown,
    /// Description of the kernel's types that cannot be read.
    #[error("{BTF_PATH} cannot be read")]
    Btf {
        /// Cause.
        source: io::Error,
    },
    /// Description of the kernel's types that does not exist.
    #[error("this kernel does not describe its types: there is no {BTF_PATH}")]
    BtfMissing,
    /// File that the kernel's types cannot be read from.
    #[error("{} does not serve as the kernel's types: {why}", path.display())]
    TypesFile {
        /// The file.
        path: PathBuf,
        /// Error in the file.
        why: FileError,
    },
    /// Types in a file that are not those of the kernel that runs.
    #[error("{} is not of this kernel ({}): {why}", path.display(), release())]
    OtherKernel {
        /// The file.
        path: PathBuf,
        /// Difference.
        why: String,
    },
    /// Types in a file that cannot be compared with the kernel that runs.
    #[error("{} cannot be compared with this kernel: {why}", path.display())]
    NotCompared {
        /// The file.
        path: PathBuf,
        /// Reason.
        why: SelfCheckError,
    },
    /// Pid namespace that is not the first one, while types are from a file: processes are then
    /// known only by their pids in the first one.
    #[error(
        "with the kernel's types from a file, processes are traced from the first pid namespace alone"
    )]
    NestedWithFile,
    /// Description of the kernel's types that cannot be parsed.
    #[error("{BTF_PATH} holds no usable type information")]
    BtfDamaged {
        /// Error in it.
        source: reader::BtfError,
    },
    /// Description as in [`BtfDamaged`](Self::BtfDamaged), refused by the loader.
    #[error("{BTF_PATH} holds no type information that the loader can use")]
    BtfUnusable {
        /// Error in it.
        source: Box<aya::BtfError>,
    },
    /// Missing field, without which nothing can be traced.
    #[error("the kernel's types are not as expected")]
    Field {
        /// Missing field.
        source: FieldMissing,
    },
    /// Kernel without BPF ring buffers.
    #[error("kernel {release} has no BPF ring buffers, which came with 5.8")]
    RingBuffer {
        /// The kernel's release.
        release: String,
    },
    /// Refusal of eBPF by the kernel although the rights are there.
    #[error("the kernel refuses eBPF to this process although it has the capabilities")]
    Refused {
        /// Error of the kernel.
        source: io::Error,
    },
    /// Limit of locked memory that is too low, where maps count for it.
    #[error("kernel {release} counts eBPF maps as locked memory, and its limit cannot be raised")]
    LockedMemory {
        /// The kernel's release.
        release: String,
        /// Cause.
        source: io::Error,
    },
}

impl Unmet {
    /// Returns the remedy, in words that follow "; ".
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Capabilities { .. } => {
                "run as root, or give the program CAP_BPF and CAP_PERFMON (a container: \
                 --cap-add BPF --cap-add PERFMON, or --privileged), or have the service that gives \
                 users the kernel's events of their own processes: sudo systemctl enable --now \
                 tracer-user.socket"
            }
            Self::UserNamespace => {
                "run as root of the host, or in a container that has no user namespace of its own \
                 and CAP_BPF and CAP_PERFMON (--cap-add BPF --cap-add PERFMON)"
            }
            Self::PidNamespace { .. } => "mount it: mount -t proc proc /proc",
            Self::Btf { .. } | Self::BtfMissing if !Path::new("/sys/kernel").exists() => {
                "mount sysfs: mount -t sysfs sysfs /sys"
            }
            Self::Lockdown => "boot with lockdown=integrity or without lockdown",
            Self::BtfMissing
            | Self::Btf { .. }
            | Self::BtfDamaged { .. }
            | Self::BtfUnusable { .. } => {
                "give its types by --btf FILE (its vmlinux with debug symbols, or the file of \
                 exactly this kernel from BTFHub), or use a kernel built with \
                 CONFIG_DEBUG_INFO_BTF=y"
            }
            Self::TypesFile { why, .. } => why.remedy(),
            Self::OtherKernel { .. } => {
                "take the file of exactly the kernel that uname -r names: vmlinux of the package \
                 with its debug symbols, or that of BTFHub; or leave --btf out where \
                 /sys/kernel/btf/vmlinux is there"
            }
            Self::NotCompared { .. } => {
                "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, and report this one"
            }
            Self::NestedWithFile => {
                "run it on the host, or in a container that has the host's pids (--pid=host)"
            }
            Self::Field { .. } => "use a kernel of another version, and report this one",
            Self::RingBuffer { .. } => "use kernel 5.8 or later",
            Self::Refused { .. } => {
                "run outside of the container, or allow it the bpf system call and the initial \
                 user namespace"
            }
            Self::LockedMemory { .. } => "run as root, or with: ulimit -l unlimited",
        }
    }
}
