//! Other ends of local sockets, as the kernel says them (`sock_diag(7)`).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;

/// `UDIAG_SHOW_PEER`, and its attribute (`UNIX_DIAG_PEER`).
const SHOW_PEER: u32 = 4;
const PEER: u16 = 2;

/// Bytes of the header of a message, and of the facts about a socket behind it.
const HEADER: usize = 16;
const FACTS: usize = 16;

/// Returns the inode of the other end of a local socket of this network namespace, where it has
/// one; `None` where it is no such socket.
pub fn find(inode: u64) -> Option<Option<u64>> {
    let socket = open().ok()?;
    let request = request(u32::try_from(inode).ok()?);
    // SAFETY: the buffer has so many bytes.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            request.as_ptr().cast(),
            request.len(),
            0,
        )
    };
    if usize::try_from(sent).ok()? != request.len() {
        return None;
    }
    let mut answer = [0; 4096];
    // The kernel has answered by now.
    // SAFETY: the buffer has so many bytes.
    let received = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            answer.as_mut_ptr().cast(),
            answer.len(),
            libc::MSG_DONTWAIT,
        )
    };
    peer(answer.get(..usize::try_from(received).ok()?)?)
}

fn open() -> io::Result<OwnedFd> {
    // SAFETY: takes integers only.
    let socket = unsafe {
        libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::NETLINK_SOCK_DIAG,
        )
    };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was opened just now, and no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// Returns the question about a socket with this inode.
fn request(inode: u32) -> Vec<u8> {
    const BYTES: u32 = 40;
    /// `NLM_F_REQUEST`.
    const REQUEST: u16 = 1;
    const FAMILY: u8 = 1;
    let mut request = Vec::new();
    request.extend(BYTES.to_ne_bytes());
    request.extend(BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    // Its number, and who asks.
    request.extend([0; 8]);
    request.extend([FAMILY, 0, 0, 0]);
    // Of all states, and without a cookie.
    for word in [u32::MAX, inode, SHOW_PEER, u32::MAX, u32::MAX] {
        request.extend(word.to_ne_bytes());
    }
    request
}

/// Returns the other end in an answer; `None` where it is an error.
fn peer(answer: &[u8]) -> Option<Option<u64>> {
    let half = |at: usize| {
        let bytes = answer.get(at..)?.first_chunk()?;
        Some(u16::from_ne_bytes(*bytes))
    };
    if half(4)? != BY_FAMILY {
        return None;
    }
    let mut at = HEADER + FACTS;
    while let (Some(length), Some(kind)) = (half(at), half(at + 2)) {
        let length = usize::from(length);
        if kind == PEER {
            let bytes = answer.get(at + 4..)?.first_chunk()?;
            let peer = u64::from(u32::from_ne_bytes(*bytes));
            return Some(Some(peer).filter(|peer| *peer != 0));
        }
        if length < 4 {
            break;
        }
        at += length.next_multiple_of(4);
    }
    Some(None)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn inode(socket: &impl AsRawFd) -> u64 {
        let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        let link = link.to_str().unwrap().to_owned();
        super::super::sockets::inode_of(link.as_bytes()).unwrap()
    }

    #[test]
    fn the_other_end_of_a_local_socket_is_found() {
        let (one, other) = UnixStream::pair().unwrap();
        let [one_inode, other_inode] = [&one, &other].map(inode);
        assert_eq!(find(one_inode), Some(Some(other_inode)));
        assert_eq!(find(other_inode), Some(Some(one_inode)));
        drop(other);
        assert_eq!(find(one_inode), Some(None));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(find(inode(&listener)), None);
    }

    #[test]
    fn an_answer_that_ends_early_says_nothing() {
        assert_eq!(peer(&[]), None);
        assert_eq!(peer(&[0; 40]), None);
        let mut answer = [0; 34];
        answer[4] = 20;
        assert_eq!(peer(&answer), Some(None));
    }
}
