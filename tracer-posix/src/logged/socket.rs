//! Messages between a controller and its recorder, and the files that go with the first of them.
//!
//! By system calls, and not by the C library's functions of the same names: in those a thread may
//! be cancelled.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use crate::descriptors::{self, interrupted_or_failed};

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

/// Tells whether the other side has said something, or has closed its end, within a time.
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
