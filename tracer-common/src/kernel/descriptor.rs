//! Descriptors that system calls are given and return.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::RecordHeader;

/// The type of the record of what the descriptors of a call are: no event has it. The record of
/// the call's event follows from the same thread.
pub const DESCRIPTORS_RECORD: u16 = 0x7ffb;

/// Head of such a record. Entries follow, each with a [`DescriptorHead`] and at a multiple of eight
/// bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DescriptorsHead {
    /// Header of every record.
    pub header: RecordHeader,
    /// The type of the event that they belong to.
    pub event_type: u32,
    /// The system call number.
    pub call: u32,
}

/// Head of the description of a descriptor.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DescriptorHead {
    /// Where the call has it: see [`descriptors`].
    pub at: u8,
    /// Kind of the descriptor: see [`descriptors`].
    pub kind: u8,
    /// Bytes that follow.
    pub length: u16,
    /// The descriptor.
    pub descriptor: i32,
}

/// Description of a socket. Behind it are the name of its protocol, which a null ends, and
/// `address_bytes` of the address of a UNIX socket.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SocketHead {
    /// Its inode.
    pub inode: u64,
    /// Inode of the socket that it is connected to, of UNIX sockets.
    pub peer: u64,
    /// The address family.
    pub family: u16,
    /// The protocol, of its family.
    pub protocol: u16,
    /// The port that it is bound to; 0: none.
    pub local_port: u16,
    /// The port that it is connected to, in the network's order.
    pub remote_port: u16,
    /// 1: there is a peer.
    pub has_peer: u16,
    /// Bytes of the address of a UNIX socket.
    pub address_bytes: u16,
    /// The port of a netlink socket.
    pub port_id: u32,
    /// The address that it is bound to: four bytes, or sixteen.
    pub local: [u8; 16],
    /// The address that it is connected to.
    pub remote: [u8; 16],
}

/// Words of records, and of the map `CALL_DESCRIPTORS`.
pub mod descriptors {
    /// Up to here, `at` is the index of an argument.
    pub const ARGUMENTS: u8 = 6;
    /// `at` of what the call returned.
    pub const RETURNED: u8 = 6;
    /// `at` of the first one in memory that an argument points to.
    pub const LISTED: u8 = 8;
    /// Most descriptors of a list.
    pub const MOST_LISTED: u32 = 32;

    /// A file: the names of its path, the innermost first, each ended by a null.
    pub const PATH: u8 = 1;
    /// A file that no longer exists: the names of its path, as above.
    pub const DELETED: u8 = 2;
    /// A pipe: its inode.
    pub const PIPE: u8 = 3;
    /// A socket: [`SocketHead`](super::SocketHead).
    pub const SOCKET: u8 = 4;
    /// An object without an inode of its own: a name.
    pub const ANONYMOUS: u8 = 5;
    /// A file in memory: a name.
    pub const MEMORY: u8 = 6;
    /// A process: its pid in the tracer's pid namespace, or 0.
    pub const PROCESS: u8 = 7;
    /// A namespace: its inode, and its name.
    pub const NAMESPACE: u8 = 8;

    /// Of a call, bits: which arguments are descriptors.
    pub const ARGUMENT_BITS: u32 = 0x3f;
    /// Bit: it returns one.
    pub const RETURNS: u32 = 1 << 6;
    /// Bit: it returns one where its second argument asks for one, as that of `fcntl`.
    pub const RETURNS_COPY: u32 = 1 << 7;
    /// Where the bits begin that say which argument, from 1, points to a pair that is filled in.
    pub const PAIR_AT: u32 = 8;
    /// Where the bits begin that say which argument, from 1, points to a list of `struct pollfd`,
    /// whose length is the next argument.
    pub const POLLED_AT: u32 = 12;
    /// Bits of them.
    pub const WHICH: u32 = 7;
    /// Bit: its second to fourth arguments point to sets, of as many as the first one says.
    pub const SETS: u32 = 1 << 16;
    /// Bit: its second argument points to a `struct msghdr`, with descriptors that are sent.
    pub const SENDS: u32 = 1 << 17;
    /// Bit: the same, of those that are received.
    pub const RECEIVES: u32 = 1 << 18;

    /// Bit: it returns one only where its third argument, its flags, is 0.
    pub const WITHOUT_FLAGS: u32 = 1 << 19;

    /// Calls that the map has, of each table.
    pub const CALLS: u32 = super::super::call_texts::CALLS;
}

const _: () = {
    assert!(size_of::<DescriptorsHead>() == 48);
    assert!(size_of::<DescriptorHead>() == 8);
    assert!(size_of::<SocketHead>() == 64);
};
