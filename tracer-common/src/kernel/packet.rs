//! Packets on their way from a thread to another one of the machine.

use core::mem::size_of;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Packets that a CPU hands on: an entry of the map `PACKETS`, by the CPU's index. As long as a
/// cache line, so that CPUs do not disturb each other.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PacketsOf {
    /// Thread of the packet that is handed over to its receiver now; 0 for none, or where it is
    /// not known.
    pub handed_by: u64,
    /// Address of the packet that was sent last.
    pub sent: u64,
    /// Thread that has sent it; 0 where that is not known.
    pub sent_by: u64,
    /// Address of the packet that comes in, while it is looked at.
    pub incoming: u64,
    /// Zero.
    pub reserved: [u64; 4],
}

/// Slots in the map `SENDERS`: a power of two.
pub const SENDER_SLOTS: u32 = 4096;

/// Sender of a packet that waits to be handed over: an entry of the map `SENDERS`, whose slot is a
/// part of the packet's address. Of two packets of one slot that wait at the same time, nothing is
/// known of one.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Sender {
    /// From the lowest bit: the thread, 22 bits, and the packet's address without its lowest six
    /// bits and its uppermost 16. One word, so that it is never half of one and half of another.
    /// 0: none.
    pub who: u64,
    /// Address of the network device that the packet comes in by: memory that held this packet may
    /// hold another one, from another device, when this one was dropped.
    pub device: u64,
}

const _: () = assert!(size_of::<PacketsOf>() == 64);
