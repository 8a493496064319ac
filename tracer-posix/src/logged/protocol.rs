//! Protocol between controller and recorder: one request, one reply, each a message of its own.
//! Files go with the first message.
//!
//! The functions here make the system calls themselves. In the C library's functions of the same
//! names a thread may be cancelled.

use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;
use std::{io, ptr};

use serde::{Deserialize, Serialize};
use tracer_common::event_type::EVENT_SET_WORDS;
use tracer_engine::source::BegunAnew;
use tracer_engine::{CallTerms, Filtering, Origin};

use crate::descriptors::{self, interrupted_or_failed};
use crate::wire::SentEvent;

/// More than the longest message: an event with the most data.
pub(super) const MESSAGE_BYTES: usize = tracer_engine::sizes::MAX_USER_DATA + 4096;

/// A request of the controller.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    Start(Call),
    Stop(Call),
    Clear(Call),
    SetFilter {
        set: [u64; EVENT_SET_WORDS],
        how: How,
        call: Call,
    },
    Flush(Call),
    /// Collects, and reports the status in shared memory.
    Status,
    ShowNext,
    /// A name, and the identifier that it has in the target, where that is known.
    DefineEventType(Vec<u8>, Option<u32>),
    /// The name of a type.
    EventTypeName(u32),
    /// The first type from an id on.
    EventTypeFrom(u32),
    Shutdown(Call),
}

/// A reply of the recorder.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// The first reply, once the stream is made: the recorder's pid.
    Ready(i32),
    /// The first reply of a program that is of another version, or cannot have its controller's
    /// rights.
    Unfit,
    Done,
    /// An error number.
    Failed(i32),
    Event(Option<SentEvent>),
    EventType(Option<u32>),
    Name(Option<Vec<u8>>),
}

impl Reply {
    /// Returns what a reply about an event type says; `None` for other replies.
    pub fn event_type(&self) -> Option<Option<u32>> {
        if let Self::EventType(id) = self {
            Some(*id)
        } else {
            None
        }
    }

    /// Returns what a reply about a name says; `None` for other replies.
    pub fn name(self) -> Option<Option<Vec<u8>>> {
        if let Self::Name(name) = self {
            Some(name)
        } else {
            None
        }
    }
}

/// Status of a stream with a log, as `posix_trace_get_status()` reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LoggedStatus {
    /// Whether the stream records (`POSIX_TRACE_RUNNING`).
    pub is_running: bool,
    /// Whether its space is used up (`POSIX_TRACE_FULL`).
    pub is_full: bool,
    /// Whether it lost events since this was last asked (`POSIX_TRACE_OVERRUN`).
    pub is_overrun: bool,
    /// Whether a flush is going on (`POSIX_TRACE_FLUSHING`). What was lost is reported when it is
    /// over.
    pub is_flushing: bool,
    /// The error number of the first error of a flush since this was last asked; 0 for none.
    pub flush_error: i32,
    /// Whether the log's space is used up.
    pub is_log_full: bool,
    /// Whether the log lost events since this was last asked.
    pub is_log_overrun: bool,
}

/// A call that waits for emissions under way: who makes it, and on which terms.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Call {
    caller: Caller,
    /// [`BegunAnew`]: process and moment.
    begun_anew: Option<(i32, u64)>,
    is_urgent: bool,
}

impl Call {
    /// Makes the call of `caller`, on these terms.
    pub fn new(caller: Origin, terms: CallTerms) -> Self {
        Self {
            caller: caller.into(),
            begun_anew: terms.begun_anew.map(|begun| (begun.pid, begun.ticks)),
            is_urgent: terms.is_urgent,
        }
    }

    pub fn caller(self) -> Origin {
        self.caller.into()
    }

    pub fn terms(self) -> CallTerms {
        let begun_anew = self.begun_anew;
        CallTerms {
            begun_anew: begun_anew.map(|(pid, ticks)| BegunAnew { pid, ticks }),
            is_urgent: self.is_urgent,
        }
    }
}

/// [`Origin`] as sent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Caller {
    pid: i32,
    tid: i32,
    thread_id: u64,
    program_address: u64,
}

impl From<Origin> for Caller {
    fn from(origin: Origin) -> Self {
        let Origin {
            pid,
            tid,
            thread_id,
            program_address,
        } = origin;
        Self {
            pid,
            tid,
            thread_id,
            program_address,
        }
    }
}

impl From<Caller> for Origin {
    fn from(caller: Caller) -> Self {
        let Caller {
            pid,
            tid,
            thread_id,
            program_address,
        } = caller;
        Self {
            pid,
            tid,
            thread_id,
            program_address,
        }
    }
}

/// [`Filtering`] as sent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum How {
    Set,
    Add,
    Sub,
}

impl From<Filtering> for How {
    fn from(how: Filtering) -> Self {
        match how {
            Filtering::Set => Self::Set,
            Filtering::Add => Self::Add,
            Filtering::Sub => Self::Sub,
        }
    }
}

impl From<How> for Filtering {
    fn from(how: How) -> Self {
        match how {
            How::Set => Self::Set,
            How::Add => Self::Add,
            How::Sub => Self::Sub,
        }
    }
}

/// Returns the two ends of a conversation.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: space for two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and no other value owns it.
    Ok(ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) }).into())
}

/// Returns a copy of a descriptor, away from the standard ones.
pub(super) fn duplicate(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let copy = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Sends one message.
pub(super) fn send(socket: &OwnedFd, message: &[u8]) -> io::Result<()> {
    loop {
        // SAFETY: the message has so many bytes.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_sendto,
                socket.as_raw_fd(),
                message.as_ptr(),
                message.len(),
                libc::MSG_NOSIGNAL,
                ptr::null::<libc::sockaddr>(),
                0,
            )
        };
        if sent >= 0 {
            return Ok(());
        }
        interrupted_or_failed()?;
    }
}

/// Receives one message; an error when the other side has closed its end.
pub(super) fn receive<'a>(socket: &OwnedFd, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    loop {
        // SAFETY: there is so much space.
        let received = unsafe {
            libc::syscall(
                libc::SYS_recvfrom,
                socket.as_raw_fd(),
                buffer.as_mut_ptr(),
                buffer.len(),
                0,
                ptr::null::<libc::sockaddr>(),
                ptr::null::<libc::socklen_t>(),
            )
        };
        match usize::try_from(received) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => return Ok(buffer.get(..length).unwrap_or_default()),
            Err(_failed) => interrupted_or_failed()?,
        }
    }
}

/// Sends one message, and descriptors with it.
pub(super) fn send_with_files(socket: &OwnedFd, message: &[u8], files: &[RawFd]) -> io::Result<()> {
    descriptors::send_with_files(socket.as_fd(), message, files).map(drop)
}

/// Receives one message and the descriptors that come with it.
pub(super) fn receive_with_files<'a>(
    socket: &OwnedFd,
    buffer: &'a mut [u8],
) -> io::Result<(&'a [u8], Vec<OwnedFd>)> {
    let (length, files) = descriptors::receive_with_files(socket.as_fd(), buffer)?;
    match buffer.get(..length) {
        Some(message) if length > 0 => Ok((message, files)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Tells whether the other side sends something, or closes its end, within a time.
pub(super) fn is_readable(socket: &OwnedFd, time: Duration) -> bool {
    let mut polled = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // The kernel writes what is left of it.
    let mut time = libc::timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: libc::c_long::from(time.subsec_nanos()),
    };
    // SAFETY: one valid entry and a valid time; the mask of signals stays as it is.
    unsafe {
        libc::syscall(
            libc::SYS_ppoll,
            &raw mut polled,
            1,
            &raw mut time,
            ptr::null::<libc::sigset_t>(),
            0,
        )
    };
    polled.revents != 0
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek, Write};

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri sends no descriptors")]
    fn files_that_are_sent_with_a_message_arrive_with_it() {
        let (ours, theirs) = pair().unwrap();
        let mut first = tempfile::tempfile().unwrap();
        first.write_all(b"of the first").unwrap();
        let second = tempfile::tempfile().unwrap();
        let files = [first.as_raw_fd(), second.as_raw_fd()];
        send_with_files(&ours, b"message", &files).unwrap();
        send_with_files(&ours, b"another", &[]).unwrap();

        let mut buffer = [0; 100];
        let (message, files) = receive_with_files(&theirs, &mut buffer).unwrap();
        assert_eq!((message, files.len()), (&b"message"[..], 2));
        let mut got = File::from(files.into_iter().next().unwrap());
        got.rewind().unwrap();
        let mut text = String::new();
        got.read_to_string(&mut text).unwrap();
        assert_eq!(text, "of the first");
        let (message, files) = receive_with_files(&theirs, &mut buffer).unwrap();
        assert_eq!((message, files.len()), (&b"another"[..], 0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no such sockets")]
    fn a_message_is_waited_for_no_longer_than_was_said() {
        let (ours, theirs) = pair().unwrap();
        assert!(!is_readable(&ours, Duration::from_millis(1)));
        send(&theirs, b"x").unwrap();
        assert!(is_readable(&ours, Duration::ZERO));
    }
}
