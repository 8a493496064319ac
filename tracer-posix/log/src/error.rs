//! Why a log cannot be written or opened.

use std::ffi::c_int;
use std::io;

/// Why events could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The system refused a write. The error number is the system's: `ENOSPC`, `EFBIG` (also where
    /// the write would exceed the process's limit on the size of files), `EIO`...
    #[error("cannot write the log: {0}")]
    Io(#[from] io::Error),
    /// `EBADF`.
    #[error("the log's file is not open for writing")]
    NotWritable,
    /// `EAGAIN`, as for any file that another process has locked.
    #[error("process {pid} writes to the same log: give another file, or wait until it has ended")]
    InUse {
        /// The process; 0 where it is not known.
        pid: i32,
    },
    /// `EINVAL`.
    #[error(
        "the log is to go to something that is no regular file, and a log needs writes at any offset"
    )]
    NotARegularFile,
    /// `EINVAL`.
    #[error(
        "the log's file was opened with O_APPEND, and a log needs writes at any offset: open it without"
    )]
    Appending,
    /// `EINVAL`.
    #[error(
        "the log's file was opened with O_DIRECT, and a log is not written in whole blocks: open it without"
    )]
    Direct,
    /// `EINVAL`.
    #[error("log-max-size is {max_size}, and an event of max-data-size with a STOP needs {least}")]
    TooSmall {
        /// The size asked for, in bytes.
        max_size: u64,
        /// The least that is possible, in bytes.
        least: u64,
    },
    /// `EINVAL`.
    #[error("log-max-size is {max_size}, and no file can be as large")]
    TooLarge {
        /// The size asked for, in bytes.
        max_size: u64,
    },
    /// `ENOSPC`.
    #[error("no space for a log of {bytes} bytes: {source}")]
    NoSpace {
        /// The space asked for.
        bytes: u64,
        /// The system's error.
        source: io::Error,
    },
    /// `EINVAL`. The event was counted as lost in the log.
    #[error("an event has {length} bytes of data, and the log takes at most {max}")]
    EventTooLong {
        /// Bytes of its data.
        length: usize,
        /// The most that fit.
        max: usize,
    },
    /// `EINVAL`. The event was counted as lost in the log.
    #[error("an event came {late_ns} ns too late: later ones are in the log already")]
    OutOfOrder {
        /// Nanoseconds by which it is late.
        late_ns: u64,
    },
    /// `EINVAL`.
    #[error("the log cannot be continued: {0}")]
    Unreadable(#[from] OpenError),
    /// `EBADF`.
    #[error("the log's file is not open for reading, which continuing it takes")]
    NotReadable,
    /// `EINVAL`.
    #[error(
        "the log has overwritten its oldest events (POSIX_TRACE_LOOP), and cannot be continued: make a new one"
    )]
    Overwritten,
    /// `ENOSPC`.
    #[error("the log is full (POSIX_TRACE_UNTIL_FULL): make a new one")]
    Full,
}

impl WriteError {
    /// Returns the error number that the C functions return.
    #[must_use]
    pub fn error_number(&self) -> c_int {
        match self {
            Self::Io(error) => match errno_of(error) {
                // A file without positions, or one that is sealed, goes with no policy.
                libc::ESPIPE | libc::EPERM => libc::EINVAL,
                errno => errno,
            },
            Self::NotWritable | Self::NotReadable => libc::EBADF,
            Self::InUse { .. } => libc::EAGAIN,
            Self::NotARegularFile
            | Self::Appending
            | Self::Direct
            | Self::TooSmall { .. }
            | Self::TooLarge { .. }
            | Self::EventTooLong { .. }
            | Self::OutOfOrder { .. }
            | Self::Overwritten => libc::EINVAL,
            Self::NoSpace { .. } | Self::Full => libc::ENOSPC,
            Self::Unreadable(error) => error.error_number(),
        }
    }
}

/// Why a file cannot be read as a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The system refused a read.
    #[error("cannot read the log: {0}")]
    Io(#[from] io::Error),
    /// The file does not begin as a log does.
    #[error("not a trace log")]
    NotALog,
    /// Both copies of its header are damaged.
    #[error("a trace log whose header is damaged, in both of its copies")]
    HeaderDamaged,
    /// A later version wrote it, and this version cannot read it.
    #[error("a trace log of a later version: this reads version {known}, and it takes {needed}")]
    TooNew {
        /// The oldest version that can read it.
        needed: u16,
        /// The version of this reader.
        known: u16,
    },
    /// The data of its events has another byte order or word size than this machine.
    #[error(
        "a trace log from another kind of machine ({}-endian, {word_bits} bits): read it on one of that kind",
        if *.is_big_endian { "big" } else { "little" }
    )]
    Foreign {
        /// Its byte order.
        is_big_endian: bool,
        /// Its word size.
        word_bits: u32,
    },
}

impl OpenError {
    /// Returns the error number that the C functions return.
    #[must_use]
    pub fn error_number(&self) -> c_int {
        match self {
            Self::Io(error) => match errno_of(error) {
                // The standard demands `EINVAL` for what is no log, such as a pipe or a directory.
                libc::ESPIPE | libc::EISDIR => libc::EINVAL,
                errno => errno,
            },
            Self::NotALog | Self::HeaderDamaged | Self::TooNew { .. } | Self::Foreign { .. } => {
                libc::EINVAL
            }
        }
    }
}

fn errno_of(error: &io::Error) -> c_int {
    error.raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_no_log_and_a_bad_disk_is_a_bad_disk() {
        let errno = |raw| OpenError::Io(io::Error::from_raw_os_error(raw)).error_number();

        assert_eq!(errno(libc::ESPIPE), libc::EINVAL);
        assert_eq!(errno(libc::EIO), libc::EIO);
    }

    #[test]
    fn a_foreign_log_says_what_machine_it_wants() {
        let foreign = OpenError::Foreign {
            is_big_endian: true,
            word_bits: 32,
        };

        assert!(foreign.to_string().contains("(big-endian, 32 bits)"));
    }
}
