//! Going through packets that follow one another (`APPEND`, `UNTIL_FULL`).

#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, reason = "the file may say anything")
)]

use std::io;

use super::bytes::LogBytes;
use super::layout::{ALIGNMENT, REGION_START};
use super::packet_cursor::{Damage, Rejected, View};
use super::packet_scanner::{Found, PacketScanner};

/// Position among packets that follow one another.
#[derive(Debug)]
pub(super) struct SequentialCursor {
    position: u64,
    /// The sequence number that the next packet should have.
    next: u64,
    /// Damage that has been passed.
    damage: Damage,
    /// Damage at the end, so far: the bytes there may still be written.
    at_end: Damage,
    /// The damage before the packet that was found is counted already.
    has_skipped: bool,
    /// The range of offsets in which a search found no packet.
    searched: Option<(u64, u64)>,
}

impl Default for SequentialCursor {
    fn default() -> Self {
        Self {
            position: REGION_START,
            next: 0,
            damage: Damage::default(),
            at_end: Damage::default(),
            has_skipped: false,
            searched: None,
        }
    }
}

impl SequentialCursor {
    pub fn find(
        &mut self,
        scanner: &PacketScanner<impl LogBytes>,
        view: &View,
    ) -> io::Result<Option<Found>> {
        let end = self.end(scanner, view)?;
        let here = scanner.packet_at(self.position, view.log_id)?;
        if let Some(found) = here.filter(|found| self.is_next(found, end)) {
            self.at_end = Damage::default();
            return Ok(Some(found));
        }
        self.at_end = view.missing_at_end(self.next);
        let is_at_end =
            self.position >= end || scanner.trailer_end(self.position, view.log_id)?.is_some();
        if is_at_end {
            return Ok(None);
        }
        if let Some(found) = self.search(scanner, view, end)? {
            self.at_end = Damage::default();
            self.damage.add(Damage {
                sites: 1,
                bytes: found.offset.saturating_sub(self.position),
                packets_missing: 0,
            });
            self.has_skipped = true;
            self.position = found.offset;
            return Ok(Some(found));
        }
        self.at_end.sites = 1;
        self.at_end.bytes = end.saturating_sub(self.position);
        Ok(None)
    }

    fn end(&self, scanner: &PacketScanner<impl LogBytes>, view: &View) -> io::Result<u64> {
        let length = scanner.file_length()?;
        let is_possible = (self.position..=length).contains(&view.trailer);
        Ok(if is_possible { view.trailer } else { length })
    }

    fn is_next(&self, found: &Found, end: u64) -> bool {
        found.header.sequence >= self.next && found.end() <= end
    }

    fn search(
        &mut self,
        scanner: &PacketScanner<impl LogBytes>,
        view: &View,
        end: u64,
    ) -> io::Result<Option<Found>> {
        if self.searched == Some((self.position, end)) {
            return Ok(None);
        }
        let mut from = self.position.saturating_add(ALIGNMENT as u64);
        while let Some(found) = scanner.search(from, end, view.log_id)? {
            if self.is_next(&found, end) {
                return Ok(Some(found));
            }
            from = found.offset.saturating_add(ALIGNMENT as u64);
        }
        self.searched = Some((self.position, end));
        Ok(None)
    }

    pub fn accept(&mut self, found: &Found) {
        let missing = found.header.sequence.saturating_sub(self.next);
        self.damage.add(Damage {
            sites: u64::from(missing > 0 && !self.has_skipped),
            bytes: 0,
            packets_missing: missing,
        });
        self.go_past(found);
    }

    fn go_past(&mut self, found: &Found) {
        self.next = found.header.sequence.saturating_add(1);
        self.position = found.end();
        self.has_skipped = false;
        self.searched = None;
    }

    pub fn reject(
        &mut self,
        found: &Found,
        scanner: &PacketScanner<impl LogBytes>,
        view: &View,
    ) -> io::Result<Rejected> {
        let is_last = found.end() >= self.end(scanner, view)?;
        let bytes = found.header.length as u64;
        if is_last && view.packets.is_none() {
            self.at_end = Damage {
                sites: 1,
                bytes,
                packets_missing: 1,
            };
            return Ok(Rejected::Perhaps);
        }
        let missing = found.header.sequence.saturating_sub(self.next);
        self.damage.add(Damage {
            sites: u64::from(!self.has_skipped),
            bytes,
            packets_missing: missing.saturating_add(1),
        });
        self.go_past(found);
        Ok(Rejected::Skipped)
    }

    pub fn damage(&self) -> Damage {
        self.damage.and(self.at_end)
    }

    pub fn passed(&self) -> u64 {
        self.position.saturating_sub(REGION_START)
    }
}
