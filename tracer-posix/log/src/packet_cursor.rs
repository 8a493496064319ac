//! Common part of the two ways to walk through a log.

#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, reason = "the file may say anything")
)]

use std::io;

use super::bytes::LogBytes;
use super::circular_cursor::CircularCursor;
use super::file_header::FileHeader;
use super::layout::{LogId, REGION_START};
use super::packet_scanner::{Found, PacketScanner};
use super::sequential_cursor::SequentialCursor;
use tracer_engine::LogFullPolicy;

/// Parts of a log that could not be read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Damage {
    /// Places where packets were damaged, truncated or missing.
    pub sites: u64,
    /// Bytes that were skipped there.
    pub bytes: u64,
    /// Packets known to be missing, by the gaps in their sequence numbers.
    pub packets_missing: u64,
}

impl Damage {
    /// Returns the sum of both.
    #[must_use]
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            sites: self.sites.saturating_add(other.sites),
            bytes: self.bytes.saturating_add(other.bytes),
            packets_missing: self.packets_missing.saturating_add(other.packets_missing),
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        *self = self.and(other);
    }
}

/// Facts about a log that a walk through it needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub log_id: LogId,
    /// The offset just past the region, where it has a limit.
    pub region_end: u64,
    /// Where the trailer lies, of a complete log; 0 for nowhere.
    pub trailer: u64,
    /// How many packets were ever written, of a complete log.
    pub packets: Option<u64>,
    /// The oldest packet that counts, of a complete log.
    pub oldest: u64,
}

impl View {
    pub fn from_header(header: &FileHeader) -> Self {
        let content = &header.content;
        Self {
            log_id: header.log_id,
            region_end: match header.options.policy {
                LogFullPolicy::Append => u64::MAX,
                LogFullPolicy::Loop | LogFullPolicy::UntilFull => {
                    REGION_START.saturating_add(header.options.max_size)
                }
            },
            trailer: content.trailer,
            packets: content.status.map(|_| content.packets),
            oldest: content.status.map_or(0, |_| content.oldest),
        }
    }

    /// Returns the damage where a log ends before packet `next`, which was expected.
    pub fn missing_at_end(&self, next: u64) -> Damage {
        let packets_missing = self
            .packets
            .map_or(0, |packets| packets.saturating_sub(next));
        Damage {
            sites: u64::from(packets_missing > 0),
            bytes: 0,
            packets_missing,
        }
    }
}

/// Treatment of a packet that was found but could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejected {
    /// The packet was skipped and counted.
    Skipped,
    /// The writer may still be writing the packet: the reader looks at it again later.
    Perhaps,
}

/// Walk through a log, from its oldest packet to its newest.
#[derive(Debug)]
pub(super) enum PacketCursor {
    /// Packets that follow one another.
    Sequential(SequentialCursor),
    /// Packets that go round.
    Circular(CircularCursor),
}

impl PacketCursor {
    /// Returns a walk from the start.
    pub fn new(policy: LogFullPolicy) -> Self {
        match policy {
            LogFullPolicy::Loop => Self::Circular(CircularCursor::default()),
            LogFullPolicy::UntilFull | LogFullPolicy::Append => {
                Self::Sequential(SequentialCursor::default())
            }
        }
    }

    /// Returns the next packet whose header is whole; the same packet again until it is accepted or
    /// rejected. `None` at the end of what is there now.
    pub fn find(
        &mut self,
        scanner: &PacketScanner<impl LogBytes>,
        view: &View,
    ) -> io::Result<Option<Found>> {
        match self {
            Self::Sequential(cursor) => cursor.find(scanner, view),
            Self::Circular(cursor) => cursor.find(scanner, view),
        }
    }

    /// Continues after a packet.
    pub fn accept(&mut self, found: &Found) {
        match self {
            Self::Sequential(cursor) => cursor.accept(found),
            Self::Circular(cursor) => cursor.accept(found),
        }
    }

    /// Rejects the packet that was found last.
    pub fn reject(
        &mut self,
        found: &Found,
        scanner: &PacketScanner<impl LogBytes>,
        view: &View,
    ) -> io::Result<Rejected> {
        match self {
            Self::Sequential(cursor) => cursor.reject(found, scanner, view),
            Self::Circular(cursor) => cursor.reject(found, scanner, view),
        }
    }

    /// Returns the damage up to here.
    pub fn damage(&self) -> Damage {
        match self {
            Self::Sequential(cursor) => cursor.damage(),
            Self::Circular(cursor) => cursor.damage(),
        }
    }

    /// Returns the number of bytes of packets that were passed.
    pub fn passed(&self) -> u64 {
        match self {
            Self::Sequential(cursor) => cursor.passed(),
            Self::Circular(cursor) => cursor.passed(),
        }
    }
}
