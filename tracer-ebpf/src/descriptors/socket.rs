//! Description of a socket: its protocol, and the addresses of its ends.

use core::mem::offset_of;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;

use tracer_common::kernel::SocketHead;
use tracer_common::kernel::descriptors::SOCKET;
use tracer_common::kernel::globals::NO_OFFSET;

use crate::offsets::{
    FILE_PRIVATE, INODE_NUMBER, NETLINK_PORT, SOCK_FAMILY, SOCK_LOCAL, SOCK_LOCAL_6,
    SOCK_LOCAL_PORT, SOCK_PROTOCOL, SOCK_REMOTE, SOCK_REMOTE_6, SOCK_REMOTE_PORT, SOCK_SOCKET,
    SOCKET_INODE, SOCKET_SOCK, UNIX_ADDRESS, UNIX_ADDRESS_BYTES, UNIX_ADDRESS_NAME, UNIX_PEER,
};

use super::space::{Space, add_kernel_text, field, half_at, read, word_at};

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
const AF_NETLINK: u16 = 16;

/// Bytes of a `struct sockaddr_un`.
const MOST_ADDRESS: u32 = 110;

/// Adds what the socket is that an open file is, with this inode and the name of a protocol: its
/// kind, or 0.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn add_socket(file: u64, inode: u64, name: u64) -> i32 {
    let Some(space) = Space::current() else {
        return 0;
    };
    let socket = word_at(file, FILE_PRIVATE.load());
    let sock = word_at(socket, SOCKET_SOCK.load());
    let Some(to) = space.next() else {
        return 0;
    };
    let family = field(sock, SOCK_FAMILY.load());
    // It is filled where it will be: the stack has no space for it below so many callers.
    let head = Head(to);
    head.begin(inode, family);
    head.copy(
        offset_of!(SocketHead, protocol),
        2,
        sock,
        SOCK_PROTOCOL.load(),
    );
    let mut bytes = 0;
    let mut address = 0;
    match family {
        AF_INET => {
            head.copy_ports(sock);
            head.copy(offset_of!(SocketHead, local), 4, sock, SOCK_LOCAL.load());
            head.copy(offset_of!(SocketHead, remote), 4, sock, SOCK_REMOTE.load());
        }
        AF_INET6 => {
            head.copy_ports(sock);
            head.copy(offset_of!(SocketHead, local), 16, sock, SOCK_LOCAL_6.load());
            head.copy(
                offset_of!(SocketHead, remote),
                16,
                sock,
                SOCK_REMOTE_6.load(),
            );
        }
        AF_NETLINK => head.copy(
            offset_of!(SocketHead, port_id),
            4,
            sock,
            NETLINK_PORT.load(),
        ),
        AF_UNIX => {
            let peer = word_at(sock, UNIX_PEER.load());
            let peer_inode = inode_of(peer);
            // It may have ended meanwhile.
            if word_at(sock, UNIX_PEER.load()) != peer {
                return 0;
            }
            let bound = word_at(sock, UNIX_ADDRESS.load());
            if bound != 0 {
                address = bound + u64::from(UNIX_ADDRESS_NAME.load());
            }
            bytes = half_at(bound, UNIX_ADDRESS_BYTES.load()).min(MOST_ADDRESS);
            head.set_unix(peer_inode, peer != 0, bytes);
        }
        _ => {}
    }
    space.add(size_of::<SocketHead>() as u64);
    if add_kernel_text(name) == 0 {
        return 0;
    }
    let bytes = bytes.min(MOST_ADDRESS);
    if bytes > 0 {
        let Some(to) = space.next() else {
            return 0;
        };
        // SAFETY: the helper writes at most so many bytes, for which there is space, and checks
        // the address.
        if unsafe { bpf_probe_read_kernel(to.cast(), bytes, address as *const _) } < 0 {
            return 0;
        }
        space.add(u64::from(bytes));
    }
    i32::from(SOCKET)
}

/// A [`SocketHead`] in a record.
#[derive(Clone, Copy)]
struct Head(*mut u8);

impl Head {
    /// Writes what every socket has, and zeros.
    #[inline(always)]
    fn begin(self, inode: u64, family: u16) {
        let mut nth = 0;
        while nth < size_of::<SocketHead>() / 8 {
            // SAFETY: inside the struct, for which there is space; entries begin at a multiple
            // of 8.
            unsafe { self.0.cast::<u64>().wrapping_add(nth).write_volatile(0) };
            nth += 1;
        }
        self.set(offset_of!(SocketHead, inode), inode);
        self.set(offset_of!(SocketHead, family), family);
    }

    #[inline(always)]
    fn set<T>(self, offset: usize, value: T) {
        // SAFETY: it is a field of the struct, for which there is space.
        unsafe {
            self.0
                .wrapping_add(offset)
                .cast::<T>()
                .write_volatile(value)
        };
    }

    /// Copies a field of the kernel's; zeros where it cannot be read.
    #[inline(always)]
    fn copy(self, to: usize, bytes: u32, base: u64, offset: u32) {
        if offset == NO_OFFSET || base == 0 {
            return;
        }
        let from = base + u64::from(offset);
        let to = self.0.wrapping_add(to);
        // SAFETY: the helper writes so many bytes, which the field has, and checks the address.
        unsafe { bpf_probe_read_kernel(to.cast(), bytes, from as *const _) };
    }

    #[inline(always)]
    fn copy_ports(self, sock: u64) {
        self.copy(
            offset_of!(SocketHead, local_port),
            2,
            sock,
            SOCK_LOCAL_PORT.load(),
        );
        self.copy(
            offset_of!(SocketHead, remote_port),
            2,
            sock,
            SOCK_REMOTE_PORT.load(),
        );
    }

    #[inline(always)]
    fn set_unix(self, peer: u64, has_peer: bool, address_bytes: u32) {
        self.set(offset_of!(SocketHead, peer), peer);
        self.set(offset_of!(SocketHead, has_peer), u16::from(has_peer));
        #[expect(clippy::cast_possible_truncation, reason = "limited")]
        let address_bytes = address_bytes as u16;
        self.set(offset_of!(SocketHead, address_bytes), address_bytes);
    }
}

/// Returns the inode of a socket; 0 where it is no descriptor's.
#[inline(always)]
fn inode_of(sock: u64) -> u64 {
    let socket = word_at(sock, SOCK_SOCKET.load());
    if socket == 0 {
        return 0;
    }
    let inode = socket + u64::from(SOCKET_INODE.load()) + u64::from(INODE_NUMBER.load());
    read(inode)
}
