//! Packets, the parts of the stream.

use std::io::{self, Write};
use tracer_engine::event::MonotonicNs;

/// Magic number at the start of every packet.
pub const MAGIC: u32 = 0xc1fc_1fc1;

/// Bytes of header and context, before the events: magic, identifier, stream; two times, two sizes,
/// sequence number, lost events.
const HEAD_BYTES: usize = 4 + 16 + 4 + 6 * 8;

/// Data that all packets of a stream have in common.
#[derive(Clone, Copy, Debug)]
pub struct PacketHeader {
    /// Identifier of the trace.
    pub uuid: [u8; 16],
}

/// Packet that is being filled.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    sequence: u64,
    /// Times of the first and the last event.
    times: Option<(MonotonicNs, MonotonicNs)>,
    /// End of the packet before it.
    after: MonotonicNs,
    /// Number of events lost up to its end.
    pub lost: u64,
    events: Vec<u8>,
}

impl Packet {
    /// Sets the start time of a packet that has no event.
    pub fn begin(&mut self, at: MonotonicNs) {
        self.times.get_or_insert((at, at));
    }

    /// Extends it until `at`.
    pub fn end_at(&mut self, at: MonotonicNs) {
        let (first, last) = self.times.unwrap_or((self.after, self.after));
        self.times = Some((first, last.max(at)));
    }

    /// Begins an event, and returns the buffer to which its context and fields are to be appended.
    pub fn event(&mut self, id: u32, at: MonotonicNs) -> &mut Vec<u8> {
        // An event before the log was made lies before the first, empty packet: the stream must not
        // go back.
        let at = at.max(self.after);
        self.begin(at);
        self.end_at(at);
        self.events.extend_from_slice(&id.to_ne_bytes());
        self.events.extend_from_slice(&at.0.to_ne_bytes());
        &mut self.events
    }

    /// Returns the number of bytes of its events.
    pub fn bytes(&self) -> usize {
        self.events.len()
    }

    /// Writes the packet.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn write(&self, header: &PacketHeader, out: &mut impl Write) -> io::Result<()> {
        const BITS: u64 = 8;
        let (first, last) = self.times.unwrap_or((self.after, self.after));
        let bytes = u64::try_from(HEAD_BYTES + self.events.len()).map_err(io::Error::other)?;
        out.write_all(&MAGIC.to_ne_bytes())?;
        out.write_all(&header.uuid)?;
        out.write_all(&0_u32.to_ne_bytes())?;
        for value in [
            first.0,
            last.0,
            bytes * BITS,
            bytes * BITS,
            self.sequence,
            self.lost,
        ] {
            out.write_all(&value.to_ne_bytes())?;
        }
        out.write_all(&self.events)
    }

    /// Returns the packet after it, empty, which takes over its memory.
    pub fn next(mut self) -> Self {
        self.events.clear();
        Self {
            sequence: self.sequence + 1,
            times: None,
            after: self.times.map_or(self.after, |(_, last)| last),
            lost: self.lost,
            events: self.events,
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Content of a packet.
    pub struct Read {
        pub sequence: u64,
        pub times: (u64, u64),
        pub lost: u64,
        pub events: usize,
    }

    /// Parses a stream.
    pub fn packets(mut stream: &[u8]) -> Vec<Read> {
        let mut packets = Vec::new();
        while !stream.is_empty() {
            let word = |index: usize| {
                let at = 24 + 8 * index;
                u64::from_ne_bytes(stream[at..at + 8].try_into().unwrap())
            };
            assert_eq!(stream[..4], MAGIC.to_ne_bytes());
            let bytes = usize::try_from(word(2) / 8).unwrap();
            packets.push(Read {
                sequence: word(4),
                times: (word(0), word(1)),
                lost: word(5),
                events: bytes - HEAD_BYTES,
            });
            stream = &stream[bytes..];
        }
        packets
    }

    #[test]
    fn a_packet_says_its_times_sizes_and_losses() {
        let header = PacketHeader { uuid: [7; 16] };
        let mut out = Vec::new();
        let mut packet = Packet::default();
        packet.begin(MonotonicNs(5));
        packet.write(&header, &mut out).unwrap();
        let mut packet = packet.next();
        packet.event(1, MonotonicNs(3)).push(0);
        packet.event(1, MonotonicNs(9)).push(0);
        packet.lost = 4;
        packet.write(&header, &mut out).unwrap();
        packet.next().write(&header, &mut out).unwrap();

        let packets = packets(&out);
        let times: Vec<_> = packets.iter().map(|packet| packet.times).collect();
        assert_eq!(times, [(5, 5), (5, 9), (9, 9)], "never back");
        assert_eq!(packets[1].events, 2 * (4 + 8 + 1));
        assert_eq!(
            (packets[0].lost, packets[1].lost, packets[2].lost),
            (0, 4, 4)
        );
        assert_eq!(packets[2].sequence, 2);
    }
}
