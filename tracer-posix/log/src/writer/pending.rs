//! Packets that are not in the file yet.

use std::collections::VecDeque;

use crate::encode::SealedPacket;

/// Bytes of packets that wait while they cannot be written.
const MAX_BYTES: usize = 1 << 20;

/// Packets that are not in the file yet, oldest first.
#[derive(Debug, Default)]
pub(super) struct Pending {
    packets: VecDeque<SealedPacket>,
    bytes: usize,
    /// Buffers of packets that were written, to be used again.
    spare: Vec<Vec<u8>>,
}

impl Pending {
    /// Returns the oldest.
    pub fn first(&self) -> Option<&SealedPacket> {
        self.packets.front()
    }

    /// Tells whether no more packets should wait.
    pub fn is_full(&self) -> bool {
        self.bytes >= MAX_BYTES
    }

    /// Returns the most bytes that the packets take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of events in them.
    pub fn events(&self) -> u64 {
        self.packets
            .iter()
            .map(|packet| u64::from(packet.count))
            .sum()
    }

    /// Adds a packet.
    pub fn push(&mut self, packet: SealedPacket) {
        self.bytes += packet.max_length();
        self.packets.push_back(packet);
    }

    /// Takes the oldest out.
    pub fn pop(&mut self) {
        if let Some(packet) = self.packets.pop_front() {
            self.bytes = self.bytes.saturating_sub(packet.max_length());
            self.spare.push(packet.events);
        }
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        while !self.packets.is_empty() {
            self.pop();
        }
    }

    /// Returns a buffer for events.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.truncate(2);
        self.spare.pop().unwrap_or_default()
    }
}
