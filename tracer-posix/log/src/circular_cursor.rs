//! Walk through the packets of a `LOOP` log, while the writer may be overwriting them.
//!
//! A pass over all packet headers ([`Survey`]) finds the newest packet, whose header names the
//! oldest that counts. From that one on, packets lie one after the other, and continue once at the
//! region's start. The region's start always holds the first packet of the lap that the writer is
//! in. So a look there, and just past the newest packet, shows whether the writer has written more.

#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, reason = "the file may say anything")
)]

use std::io;

use super::bytes::LogBytes;
use super::layout::{ALIGNMENT, REGION_START};
use super::packet_cursor::{Damage, Rejected, View};
use super::packet_scanner::{Found, PacketScanner};

/// Result of looking at all packet headers.
#[derive(Clone, Copy, Debug)]
struct Survey {
    newest: Option<u64>,
    /// The offset just past the newest packet.
    head: u64,
    /// Sequence number of the packet that was at the region's start.
    start: Option<u64>,
}

/// Position among packets that go round.
#[derive(Debug)]
pub(super) struct CircularCursor {
    survey: Option<Survey>,
    position: u64,
    /// The sequence number that the next packet should have; `None` before the first survey.
    next: Option<u64>,
    /// The cursor has gone back to the region's start since the survey.
    has_wrapped: bool,
    damage: Damage,
    at_end: Damage,
    has_skipped: bool,
    passed: u64,
}

impl Default for CircularCursor {
    fn default() -> Self {
        Self {
            survey: None,
            position: REGION_START,
            next: None,
            has_wrapped: false,
            damage: Damage::default(),
            at_end: Damage::default(),
            has_skipped: false,
            passed: 0,
        }
    }
}

impl CircularCursor {
    pub fn find(
        &mut self,
        scanner: &PacketScanner<impl LogBytes>,
        view: &View,
    ) -> io::Result<Option<Found>> {
        loop {
            let end = scanner.file_length()?.min(view.region_end);
            let Some(survey) = self.survey else {
                self.look_at_all(scanner, view, end)?;
                continue;
            };
            let next = self.next.unwrap_or(0);
            if let Some(found) = self.expected(scanner, view, end, next)? {
                self.at_end = Damage::default();
                return Ok(Some(found));
            }
            if has_gone_on(&survey, scanner, view, end)? {
                self.survey = None;
                continue;
            }
            self.at_end = view.missing_at_end(next);
            let Some(newest) = survey.newest.filter(|newest| next <= *newest) else {
                return Ok(None);
            };
            if let Some((found, bytes)) = self.search(scanner, view, end, next..=newest)? {
                self.at_end = Damage::default();
                self.skip(bytes);
                self.move_to(found.offset);
                return Ok(Some(found));
            }
            self.damage.add(Damage {
                sites: 1,
                bytes: 0,
                packets_missing: newest.saturating_sub(next).saturating_add(1),
            });
            self.next = Some(newest.saturating_add(1));
            self.position = survey.head;
        }
    }

    /// Returns the packet with the sequence number `next`, at the cursor's position or at the
    /// region's start.
    fn expected(
        &mut self,
        scanner: &PacketScanner<impl LogBytes>,
        view: &View,
        end: u64,
        next: u64,
    ) -> io::Result<Option<Found>> {
        for offset in [self.position, REGION_START] {
            let found = scanner.packet_at(offset, view.log_id)?;
            let found = found.filter(|found| found.header.sequence == next && found.end() <= end);
            if found.is_some() {
                self.move_to(offset);
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn move_to(&mut self, offset: u64) {
        self.has_wrapped |= offset < self.position;
        self.position = offset;
    }

    /// Surveys all packet headers, and moves to the oldest packet that counts and was not read yet.
    fn look_at_all(
        &mut self,
        scanner: &PacketScanner<impl LogBytes>,
        view: &View,
        end: u64,
    ) -> io::Result<()> {
        let mut newest: Option<Found> = None;
        for_each_packet(scanner, view, end, |found| {
            if newest.is_none_or(|newest| found.header.sequence > newest.header.sequence) {
                newest = Some(found);
            }
        })?;
        let oldest = newest.map_or(0, |newest| newest.header.oldest_sequence);
        let oldest = oldest.max(view.oldest);
        // Packets that were overwritten before reading began do not count as missing.
        let next = self.next.unwrap_or(oldest);
        let least = next.max(oldest);
        let mut first: Option<Found> = None;
        let mut start = None;
        for_each_packet(scanner, view, end, |found| {
            let sequence = found.header.sequence;
            if found.offset == REGION_START {
                start = Some(sequence);
            }
            let is_older = first.is_none_or(|first| sequence < first.header.sequence);
            if sequence >= least && is_older {
                first = Some(found);
            }
        })?;
        let head = newest.map_or(REGION_START, |newest| newest.end());
        self.survey = Some(Survey {
            newest: newest.map(|newest| newest.header.sequence),
            head,
            start,
        });
        self.next = Some(next);
        self.position = first.map_or(head, |first| first.offset);
        self.has_wrapped = false;
        if let Some(first) = first.filter(|first| first.header.sequence > next) {
            self.miss(first.header.sequence.saturating_sub(next));
            self.next = Some(first.header.sequence);
        }
        Ok(())
    }

    fn miss(&mut self, packets_missing: u64) {
        self.damage.add(Damage {
            sites: 1,
            bytes: 0,
            packets_missing,
        });
    }

    fn skip(&mut self, bytes: u64) {
        self.damage.add(Damage {
            sites: 1,
            bytes,
            packets_missing: 0,
        });
        self.passed = self.passed.saturating_add(bytes);
        self.has_skipped = true;
    }

    /// Returns the first packet on the way that has one of the sequence numbers, and how many bytes
    /// lie before it.
    fn search(
        &self,
        scanner: &PacketScanner<impl LogBytes>,
        view: &View,
        end: u64,
        sequences: std::ops::RangeInclusive<u64>,
    ) -> io::Result<Option<(Found, u64)>> {
        let before_end = end.saturating_sub(self.position);
        let mut legs = vec![(self.position, end, 0)];
        if !self.has_wrapped {
            legs.push((REGION_START, self.position, before_end));
        }
        for (start, end_of_leg, bytes_before) in legs {
            let mut from = start;
            while let Some(found) = scanner.search(from, end_of_leg, view.log_id)? {
                if sequences.contains(&found.header.sequence) && found.end() <= end {
                    return Ok(Some((
                        found,
                        bytes_before.saturating_add(found.offset.saturating_sub(start)),
                    )));
                }
                from = found.offset.saturating_add(ALIGNMENT as u64);
            }
        }
        Ok(None)
    }

    pub fn accept(&mut self, found: &Found) {
        let missing = found.header.sequence.saturating_sub(self.next.unwrap_or(0));
        self.damage.add(Damage {
            sites: u64::from(missing > 0 && !self.has_skipped),
            bytes: 0,
            packets_missing: missing,
        });
        self.go_past(found);
    }

    fn go_past(&mut self, found: &Found) {
        let sequence = found.header.sequence;
        self.next = Some(sequence.saturating_add(1));
        self.position = found.end();
        self.passed = self.passed.saturating_add(found.header.length as u64);
        self.has_skipped = false;
        let Some(survey) = &mut self.survey else {
            return;
        };
        if survey.newest.is_none_or(|newest| sequence >= newest) {
            survey.newest = Some(sequence);
            survey.head = found.end();
            self.has_wrapped = false;
        }
        if found.offset == REGION_START {
            survey.start = Some(sequence);
        }
    }

    pub fn reject(
        &mut self,
        found: &Found,
        scanner: &PacketScanner<impl LogBytes>,
        view: &View,
    ) -> io::Result<Rejected> {
        let sequence = found.header.sequence;
        let survey = self.survey;
        let newest = survey.and_then(|survey| survey.newest);
        let is_newest = newest.is_none_or(|newest| sequence >= newest);
        let bytes = found.header.length as u64;
        let missing = sequence.saturating_sub(self.next.unwrap_or(0));
        if is_newest && view.packets.is_none() {
            let after = scanner.packet_at(found.end(), view.log_id)?;
            if after.is_none_or(|after| after.header.sequence <= sequence) {
                self.at_end = Damage {
                    sites: 1,
                    bytes,
                    packets_missing: 1,
                };
                return Ok(Rejected::Perhaps);
            }
        }
        let end = scanner.file_length()?.min(view.region_end);
        let was_overwritten = match &survey {
            Some(survey) => has_gone_on(survey, scanner, view, end)?,
            None => true,
        };
        self.damage.add(Damage {
            sites: u64::from(!self.has_skipped),
            bytes: if was_overwritten { 0 } else { bytes },
            packets_missing: missing.saturating_add(1),
        });
        self.go_past(found);
        if was_overwritten {
            self.survey = None;
        }
        Ok(Rejected::Skipped)
    }

    pub fn damage(&self) -> Damage {
        self.damage.and(self.at_end)
    }

    pub fn passed(&self) -> u64 {
        self.passed
    }
}

/// Tells whether packets were written since a survey.
fn has_gone_on(
    survey: &Survey,
    scanner: &PacketScanner<impl LogBytes>,
    view: &View,
    end: u64,
) -> io::Result<bool> {
    let sequence_at = |offset| -> io::Result<Option<u64>> {
        let found = scanner.packet_at(offset, view.log_id)?;
        // As in the survey. Otherwise a packet that reaches beyond the end would count as new for
        // ever.
        let found = found.filter(|found| found.end() <= end);
        Ok(found.map(|found| found.header.sequence))
    };
    if sequence_at(REGION_START)? > survey.start {
        return Ok(true);
    }
    let after_newest = sequence_at(survey.head)?;
    Ok(after_newest.is_some() && after_newest > survey.newest)
}

/// Passes all packets in the region to `look`, in the order of their offsets.
fn for_each_packet(
    scanner: &PacketScanner<impl LogBytes>,
    view: &View,
    end: u64,
    mut look: impl FnMut(Found),
) -> io::Result<()> {
    let mut offset = REGION_START;
    loop {
        let here = scanner.packet_at(offset, view.log_id)?;
        let found = match here.filter(|found| found.end() <= end) {
            Some(found) => found,
            None => {
                match scanner.search(offset.saturating_add(ALIGNMENT as u64), end, view.log_id)? {
                    Some(found) if found.end() <= end => found,
                    Some(found) => {
                        offset = found.offset;
                        continue;
                    }
                    None => return Ok(()),
                }
            }
        };
        look(found);
        offset = found.end();
    }
}
