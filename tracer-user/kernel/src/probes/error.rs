//! Reasons why probes cannot be attached.

use std::io;
use std::path::PathBuf;

use aya::programs::ProgramError;

/// The map of the sites.
pub(super) const SITES: &str = "PROBE_SITES";

/// Reason why probes cannot be attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// Kernel without probes of programs.
    #[error("the kernel has no probes of programs (use one built with CONFIG_UPROBE_EVENTS=y)")]
    NoUprobes {
        /// Error that shows it.
        source: io::Error,
    },
    /// Kernel that does not tell a program which probe was passed.
    #[error(
        "the kernel does not let a program know which probe was passed; use Linux 5.15 or later"
    )]
    NoCookies,
    /// Program that the kernel refused.
    #[error("the eBPF program for probes was not taken by the kernel")]
    Program {
        /// Error of the loader.
        source: Box<ProgramError>,
    },
    /// Part that the object lacks: it was built from other sources.
    #[error("the eBPF object has no {name}; run: cargo xtask build-ebpf")]
    PartMissing {
        /// The program or map.
        name: &'static str,
    },
    /// Sites that cannot be given to the kernel.
    #[error("the eBPF map {SITES} cannot be written")]
    Sites {
        /// Error of the loader.
        source: Box<aya::maps::MapError>,
    },
    /// Site that cannot be probed.
    #[error("{call} failed for the probe at {offset:#x} of {}{}", path.display(), hint(source))]
    Site {
        /// The call.
        call: &'static str,
        /// The file.
        path: PathBuf,
        /// Offset in the file.
        offset: u64,
        /// Cause.
        source: io::Error,
    },
}

/// Explains some of the kernel's errors.
fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EINVAL) => ": no instruction begins there, or the file is on a strange system",
        Some(libc::EMFILE) => ": raise the limit of open files (ulimit -n), or ask for fewer",
        // The page may be that of any process that has the file mapped: the kernel sets a probe in
        // all of them.
        Some(libc::EFAULT) => {
            ": a process that has the file mapped keeps the kernel from this page of it (userfaultfd); \
             probe the processes that are meant alone (attach --no-inherit), or a copy of the file"
        }
        Some(libc::ENOTSUP | libc::EIO) => ": the kernel cannot stop at this instruction",
        _ => "",
    }
}
