//! Reasons why probes cannot be set.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::binary::BinaryError;
use super::exits::NotDecoded;
use super::find::MAX_PROBES;

/// Reason why a probe cannot be set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindProbeError {
    /// Process whose files cannot be looked at.
    #[error("the files of process {pid} cannot be looked at (run as root, or give CAP_SYS_PTRACE)")]
    Maps {
        /// The process.
        pid: i32,
        /// Cause.
        source: std::io::Error,
    },
    /// File that cannot be used.
    #[error(transparent)]
    Binary(#[from] BinaryError),
    /// Static probe that no file has.
    #[error(
        "no static probe {provider}:{name} in {}{}; `tracer-user probes PID` lists those of a process",
        files_text(*files),
        similar.as_ref().map_or_else(String::new, |name| format!(" (is {name} meant?)"))
    )]
    NoUsdt {
        /// Provider that was asked for.
        provider: String,
        /// Its name.
        name: String,
        /// Files that were looked at.
        files: usize,
        /// Existing static probe with a similar name.
        similar: Option<String>,
    },
    /// Files without trace points.
    #[error(
        "no trace point of libposixtrace in {}, so no user event can have a stack \
         (--stack-for user); is the program linked with the library of this version? \
         `tracer-user probes PID` lists posixtrace:event then",
        files_text(*files)
    )]
    NoTracePoints {
        /// Files that were looked at.
        files: usize,
    },
    /// File name that no mapped file has.
    #[error("no file {} is mapped; give one of: {}", file.display(), mapped.join(", "))]
    NotMapped {
        /// File that was asked for.
        file: PathBuf,
        /// Files that are mapped.
        mapped: Vec<String>,
    },
    /// Function that the file does not have.
    #[error("{}{} has no function {symbol}{}", file.display(), link_text(link.as_deref()), if *is_stripped {
        "; it is stripped of all symbols but those that it exports: use the unstripped file, or \
         install the package with its symbols (Debian: -dbgsym)"
    } else {
        "; `tracer-user probes PID` lists its functions"
    })]
    NoFunction {
        /// The file.
        file: PathBuf,
        /// Own name of the file, where the given name is a link to it.
        link: Option<OsString>,
        /// The function.
        symbol: String,
        /// File that lacks most symbols.
        is_stripped: bool,
    },
    /// Function that only selects another (an indirect function).
    #[error(
        "{symbol} of {} is no function but chooses one when the program starts (an indirect \
         function): probe the one it chooses, such as __{symbol}_avx2", file.display()
    )]
    Indirect {
        /// The file.
        file: PathBuf,
        /// The function.
        symbol: String,
    },
    /// Function whose exits are not certain.
    #[error(
        "where {symbol} of {} is left cannot be seen in its code: {why}; name what its spans begin \
         and end with (--span NAME=probe:F..probe:G, with --probe for both), or probe its return \
         by the kernel, which ends programs whose exceptions pass through it (--probe and \
         --retprobe {}:{symbol})",
        file.display(),
        file.display()
    )]
    NotDecoded {
        /// The file.
        file: PathBuf,
        /// The function.
        symbol: String,
        /// Reason.
        why: NotDecoded,
    },
    /// Return of a function of Go.
    #[error(
        "{} is made by Go, which ends a program whose return is probed when a stack grows; \
         use --span {}:{symbol}, or --probe with +BYTES at its return instructions",
        file.display(),
        file.display()
    )]
    ReturnInGo {
        /// The file.
        file: PathBuf,
        /// The function.
        symbol: String,
    },
    /// Offset that is not in the function.
    #[error("{symbol} of {} has {size} bytes, and {offset} is not within", file.display())]
    Outside {
        /// The file.
        file: PathBuf,
        /// The function.
        symbol: String,
        /// Its size.
        size: u64,
        /// Offset that was asked for.
        offset: u64,
    },
    /// Offset at which a probe would damage the program.
    #[error("no instruction begins {offset} bytes into {symbol} of {}", file.display())]
    NoInstruction {
        /// The file.
        file: PathBuf,
        /// The function.
        symbol: String,
        /// Offset that was asked for.
        offset: u64,
    },
    /// Number of probes above the limit.
    #[error("{asked} probes are more than {MAX_PROBES}, which is the most there may be")]
    TooMany {
        /// Number of probes asked for.
        asked: usize,
    },
}

fn files_text(files: usize) -> String {
    match files {
        1 => "the 1 file that is mapped".to_owned(),
        files => format!("the {files} files that are mapped"),
    }
}

fn link_text(name: Option<&OsStr>) -> String {
    name.map_or_else(String::new, |name| {
        format!(", a link to {},", name.display())
    })
}
