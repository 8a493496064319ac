//! What is lacking, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use super::btf::file::FileError;
use super::btf::offsets::FieldMissing;
use super::btf::reader;
use super::requirements::release;
use super::self_check::SelfCheckError;

/// Where the kernel describes its types.
pub(super) const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

/// What is lacking. [`remedy`](Self::remedy) says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unmet {
    /// Rights are missing.
    #[error("{missing} {} missing", if missing.contains(' ') { "are" } else { "is" })]
    Capabilities {
        /// The capabilities that are missing, by name.
        missing: &'static str,
    },
    /// The capabilities are those of a user namespace.
    #[error("the capabilities of a user namespace do not let this process use eBPF")]
    UserNamespace,
    /// Nobody can say in which pid namespace this process is.
    #[error("/proc/self/ns/pid cannot be read")]
    PidNamespace {
        /// Why.
        source: io::Error,
    },
    /// The kernel is locked down so far that eBPF may not read its memory.
    #[error("the kernel is in lockdown mode confidentiality")]
    Lockdown,
    /// The kernel does not describe its types.
    #[error("{BTF_PATH} cannot be read")]
    Btf {
        /// Why.
        source: io::Error,
    },
    /// The kernel has no description of its types.
    #[error("this kernel does not describe its types: there is no {BTF_PATH}")]
    BtfMissing,
    /// A file is not what the kernel's types are read from.
    #[error("{} does not serve as the kernel's types: {why}", path.display())]
    TypesFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: FileError,
    },
    /// The types in a file are not those of the kernel that runs.
    #[error("{} is not of this kernel ({}): {why}", path.display(), release())]
    OtherKernel {
        /// The file.
        path: PathBuf,
        /// What differs.
        why: String,
    },
    /// Nobody can say whether the types in a file are those of the kernel that runs.
    #[error("{} cannot be compared with this kernel: {why}", path.display())]
    NotCompared {
        /// The file.
        path: PathBuf,
        /// Why.
        why: SelfCheckError,
    },
    /// Where types are from a file, pids are those of the first pid namespace.
    #[error(
        "with the kernel's types from a file, processes are traced from the first pid namespace alone"
    )]
    NestedWithFile,
    /// What the kernel gives as description of its types is none.
    #[error("{BTF_PATH} holds no usable type information")]
    BtfDamaged {
        /// What is wrong with it.
        source: reader::BtfError,
    },
    /// As [`BtfDamaged`](Self::BtfDamaged), found by the loader.
    #[error("{BTF_PATH} holds no type information that the loader can use")]
    BtfUnusable {
        /// What is wrong with it.
        source: Box<aya::BtfError>,
    },
    /// A field without which nothing can be traced is missing.
    #[error("the kernel's types are not as expected")]
    Field {
        /// Which field.
        source: FieldMissing,
    },
    /// The kernel has no BPF ring buffers.
    #[error("kernel {release} has no BPF ring buffers, which came with 5.8")]
    RingBuffer {
        /// The kernel's release.
        release: String,
    },
    /// The kernel refuses eBPF although the rights are there.
    #[error("the kernel refuses eBPF to this process although it has the capabilities")]
    Refused {
        /// What the kernel says.
        source: io::Error,
    },
    /// Maps count as locked memory, of which too little is allowed.
    #[error("kernel {release} counts eBPF maps as locked memory, and its limit cannot be raised")]
    LockedMemory {
        /// The kernel's release.
        release: String,
        /// Why.
        source: io::Error,
    },
}

impl Unmet {
    /// What to do, as one would say it after "; ".
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Capabilities { .. } => {
                "run as root, or give the program CAP_BPF and CAP_PERFMON (a container: \
                 --cap-add BPF --cap-add PERFMON, or --privileged)"
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
