//! Descriptors that go with a message over a Unix socket.
//!
//! The functions here make the system calls themselves. In the C library's functions of the same
//! names a thread may be cancelled.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Most descriptors that one message brings.
pub const MOST_FILES: usize = 6;

/// Space for the control message of so many descriptors, aligned as the kernel wants it.
type ControlBuffer = [u64; 5];

/// Sends a message, and descriptors with its first byte. Returns the bytes that were sent.
///
/// # Errors
///
/// The system's error; `InvalidInput` for more descriptors than may be sent.
pub fn send_with_files(
    socket: BorrowedFd<'_>,
    message: &[u8],
    files: &[RawFd],
) -> io::Result<usize> {
    if files.len() > MOST_FILES {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut part = libc::iovec {
        iov_base: message.as_ptr().cast_mut().cast(),
        iov_len: message.len(),
    };
    let mut buffer = ControlBuffer::default();
    let bytes = u32::try_from(size_of_val(files)).map_err(io::Error::other)?;
    let mut header = header_of(&mut part, &mut buffer);
    if files.is_empty() {
        header.msg_control = std::ptr::null_mut();
        header.msg_controllen = 0;
        return send_header(socket, &header);
    }
    // SAFETY: a plain sum.
    header.msg_controllen = (unsafe { libc::CMSG_SPACE(bytes) }) as _;
    // SAFETY: the space takes a header and so many descriptors.
    let control = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
    // SAFETY: a plain sum.
    let length = unsafe { libc::CMSG_LEN(bytes) };
    // SAFETY: within the space, as the line above says.
    if let Some(control) = unsafe { control.as_mut() } {
        control.cmsg_level = libc::SOL_SOCKET;
        control.cmsg_type = libc::SCM_RIGHTS;
        control.cmsg_len = length as _;
    }
    // SAFETY: the header is within the space.
    let data = unsafe { libc::CMSG_DATA(control) };
    // SAFETY: there is space for so many descriptors; bytes need no alignment.
    unsafe { data.copy_from_nonoverlapping(files.as_ptr().cast(), size_of_val(files)) };
    send_header(socket, &header)
}

fn send_header(socket: BorrowedFd<'_>, header: &libc::msghdr) -> io::Result<usize> {
    loop {
        // SAFETY: all that the header names is valid.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_sendmsg,
                socket.as_raw_fd(),
                &raw const *header,
                libc::MSG_NOSIGNAL,
            )
        };
        match usize::try_from(sent) {
            Ok(bytes) => return Ok(bytes),
            Err(_failed) => interrupted_or_failed()?,
        }
    }
}

/// Receives bytes, and the descriptors that come with them, which are closed on exec. If more
/// descriptors come than there is space for, none is kept.
///
/// # Errors
///
/// The system's error; `InvalidData` where bytes or descriptors were truncated.
pub fn receive_with_files(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut files = ControlBuffer::default();
    let mut header = header_of(&mut part, &mut files);
    let received = loop {
        // SAFETY: all that the header names is valid.
        let received = unsafe {
            libc::syscall(
                libc::SYS_recvmsg,
                socket.as_raw_fd(),
                &raw mut header,
                libc::MSG_CMSG_CLOEXEC,
            )
        };
        match usize::try_from(received) {
            Ok(length) => break length,
            Err(_failed) => interrupted_or_failed()?,
        }
    };
    let files = files_in(&header);
    let is_whole = header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) == 0;
    if !is_whole {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok((received, files))
}

/// Returns the descriptors that a message has brought.
fn files_in(header: &libc::msghdr) -> Vec<OwnedFd> {
    // SAFETY: the kernel has filled the header in.
    let control = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: null, or within the space.
    let Some(found) = (unsafe { control.as_ref() }) else {
        return Vec::new();
    };
    if found.cmsg_level != libc::SOL_SOCKET || found.cmsg_type != libc::SCM_RIGHTS {
        return Vec::new();
    }
    // SAFETY: a plain sum.
    let empty = unsafe { libc::CMSG_LEN(0) };
    let bytes = in_bytes(found.cmsg_len).saturating_sub(in_bytes(empty));
    let count = (bytes / size_of::<RawFd>()).min(MOST_FILES);
    // SAFETY: the header is within the space.
    let data = unsafe { libc::CMSG_DATA(control) }.cast::<RawFd>();
    let descriptor = |index| {
        // SAFETY: the kernel has written so many descriptors.
        let at = unsafe { data.add(index) };
        // SAFETY: as above.
        unsafe { at.read_unaligned() }
    };
    // SAFETY: just opened for this process, and no other value owns it.
    (0..count)
        .map(|index| unsafe { OwnedFd::from_raw_fd(descriptor(index)) })
        .collect()
}

/// Returns a length, whose type is not the same in all C libraries.
fn in_bytes(length: impl TryInto<usize>) -> usize {
    length.try_into().unwrap_or(usize::MAX)
}

fn header_of(part: &mut libc::iovec, files: &mut ControlBuffer) -> libc::msghdr {
    // SAFETY: all of it is integers and pointers, which may be null.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    header.msg_control = files.as_mut_ptr().cast();
    header.msg_controllen = size_of::<ControlBuffer>() as _;
    header
}

/// Returns the last error. Returns `Ok` if a signal interrupted the call: the caller repeats it.
pub(crate) fn interrupted_or_failed() -> io::Result<()> {
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted {
        return Ok(());
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri sends no descriptors")]
    fn of_more_descriptors_than_there_is_space_for_none_is_kept() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        let raw = file.as_raw_fd();
        assert!(send_with_files(ours.as_fd(), b"x", &[raw; MOST_FILES + 1]).is_err());
        // As many as there is space for arrive. They are copies of the sender's.
        assert_eq!(
            send_with_files(ours.as_fd(), b"x", &[raw; MOST_FILES]).unwrap(),
            1
        );
        let mut buffer = [0; 8];
        let (bytes, files) = receive_with_files(theirs.as_fd(), &mut buffer).unwrap();
        assert_eq!((bytes, files.len()), (1, MOST_FILES));
        for file in &files {
            // SAFETY: takes integers only.
            let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) };
            assert_eq!(flags, libc::FD_CLOEXEC);
        }
    }
}
