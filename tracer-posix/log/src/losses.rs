//! Numbers of lost events, by causes whose identifiers never change.

use super::layout::{HEADER_LOSSES, RawLoss};
use super::varint::{self, Cursor};
use tracer_engine::Ledger;
use tracer_engine::source::LossCause;

/// Causes that this version did not know when it continued the log.
const OTHER: u32 = 0;
/// The log overwrote its oldest events.
const LOG_OVERWRITTEN: u32 = 64;
/// The log was full and took no more.
const LOG_FULL: u32 = 65;
/// Events could not be written.
const LOG_UNWRITTEN: u32 = 66;

/// Causes of a stream.
const STREAM_CAUSES: usize = LossCause::ALL.len();

/// Most causes that are reported at once.
const MAX_CAUSES: usize = STREAM_CAUSES + 4;

/// Most bytes that the losses take in a preamble: every identifier is below 128.
pub(super) const MAX_BYTES: usize = 1 + MAX_CAUSES * (1 + 8) + 8;

/// Events lost so far, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LossCounts {
    /// Events lost before they came into the log, in the order of `LossCause::ALL`.
    pub stream: [u64; STREAM_CAUSES],
    /// Events lost in the log: overwritten by newer ones.
    pub overwritten: u64,
    /// Events lost in the log: discarded because it was full.
    pub discarded: u64,
    /// Events lost in the log: they could not be written.
    pub unwritten: u64,
    /// Events lost for causes that this reader does not know.
    pub other: u64,
    /// When the losses were counted, on the monotonic clock: all of them are older. 0 where that is
    /// not known.
    pub counted_by: u64,
}

impl LossCounts {
    /// Returns the number of events lost for a cause before they came into the log.
    pub fn lost(&self, cause: LossCause) -> u64 {
        let position = LossCause::ALL.iter().position(|known| *known == cause);
        position
            .and_then(|position| self.stream.get(position).copied())
            .unwrap_or(0)
    }

    /// Returns the number of events lost in the log.
    pub fn in_log(&self) -> u64 {
        self.overwritten
            .saturating_add(self.discarded)
            .saturating_add(self.unwritten)
    }

    /// Returns the losses of a stream by now.
    pub fn from_ledger(ledger: &Ledger) -> Self {
        Self {
            stream: LossCause::ALL.map(|cause| ledger.lost(cause)),
            ..Self::default()
        }
    }

    /// Sets the losses of streams: those of earlier streams (`before`), and what this one has lost
    /// `by_now`, less what it had lost when the log was cleared (`since`).
    pub fn set_stream(&mut self, before: &Self, since: &Self, by_now: &Self) {
        for (cause, count) in LossCause::ALL.into_iter().zip(&mut self.stream) {
            let lost = by_now.lost(cause).saturating_sub(since.lost(cause));
            *count = before.lost(cause).saturating_add(lost);
        }
    }

    /// Raises each count to that of `other`, if that is larger: counts only grow.
    pub fn raise_to(&mut self, other: &Self) {
        for (mine, theirs) in self.stream.iter_mut().zip(other.stream) {
            *mine = theirs.max(*mine);
        }
        self.overwritten = self.overwritten.max(other.overwritten);
        self.discarded = self.discarded.max(other.discarded);
        self.unwritten = self.unwritten.max(other.unwritten);
        self.other = self.other.max(other.other);
        self.counted_by = self.counted_by.max(other.counted_by);
    }

    /// Returns the identifier and count of every cause with losses.
    fn by_id(&self) -> impl Iterator<Item = (u32, u64)> {
        let stream = LossCause::ALL
            .into_iter()
            .map(LossCause::log_id)
            .zip(self.stream);
        stream
            .chain([
                (LOG_OVERWRITTEN, self.overwritten),
                (LOG_FULL, self.discarded),
                (LOG_UNWRITTEN, self.unwritten),
                (OTHER, self.other),
            ])
            .filter(|(_, count)| *count > 0)
    }

    fn add(&mut self, cause_id: u32, count: u64) {
        let known = LossCause::ALL
            .into_iter()
            .zip(&mut self.stream)
            .find(|(cause, _)| cause.log_id() == cause_id)
            .map(|(_, count)| count);
        let counter = match (known, cause_id) {
            (Some(counter), _) => counter,
            (None, LOG_OVERWRITTEN) => &mut self.overwritten,
            (None, LOG_FULL) => &mut self.discarded,
            (None, LOG_UNWRITTEN) => &mut self.unwritten,
            (None, _) => &mut self.other,
        };
        *counter = counter.saturating_add(count);
    }

    /// Appends the counts as a preamble has them. The log's own causes are there even without
    /// losses: so the length does not change while a packet is written.
    pub fn put(&self, bytes: &mut Vec<u8>) {
        let by_id = LossCause::ALL
            .into_iter()
            .map(LossCause::log_id)
            .zip(self.stream);
        let used = by_id.filter(|(_, count)| *count > 0);
        let log = [
            (LOG_OVERWRITTEN, self.overwritten),
            (LOG_FULL, self.discarded),
            (LOG_UNWRITTEN, self.unwritten),
            (OTHER, self.other),
        ];
        let all = used.clone().chain(log);
        varint::put(bytes, all.clone().count() as u64);
        for (id, count) in all {
            varint::put(bytes, u64::from(id));
            bytes.extend_from_slice(&count.to_le_bytes());
        }
        bytes.extend_from_slice(&self.counted_by.to_le_bytes());
    }

    /// Reads what [`put`](Self::put) of this version or another one wrote.
    pub fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let mut counts = Self::default();
        for _ in 0..cursor.varint()? {
            let id = cursor.varint32()?;
            counts.add(id, cursor.fixed64()?);
        }
        // Earlier versions do not say when.
        if !cursor.is_at_end() {
            counts.counted_by = cursor.fixed64()?;
        }
        Some(counts)
    }

    /// Returns the counts as the file's header has them, and their number.
    pub fn to_header(self) -> ([RawLoss; HEADER_LOSSES], u32) {
        let mut losses = [RawLoss::default(); HEADER_LOSSES];
        let mut used = 0;
        for (to, (id, count)) in losses.iter_mut().zip(self.by_id()) {
            to.cause = id.into();
            to.count = count.into();
            used += 1;
        }
        (losses, used)
    }

    /// Reads what [`to_header`](Self::to_header) of this version or a later one made.
    pub fn from_header(untrusted: &[RawLoss], used: u32) -> Self {
        let mut counts = Self::default();
        let used = usize::try_from(used).unwrap_or(usize::MAX);
        for loss in untrusted.iter().take(used) {
            counts.add(loss.cause.get(), loss.count.get());
        }
        counts
    }
}

const _: () = assert!(MAX_CAUSES <= HEADER_LOSSES);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn one_of_each() -> LossCounts {
        let mut ledger = Ledger::default();
        for (count, cause) in LossCause::ALL.into_iter().enumerate() {
            ledger.lose(cause, count as u64 + 1);
        }
        LossCounts {
            overwritten: 1 << 40,
            discarded: 21,
            unwritten: 22,
            other: 23,
            counted_by: 24,
            ..LossCounts::from_ledger(&ledger)
        }
    }

    #[test]
    fn every_cause_has_an_identifier_of_its_own() {
        let counts = one_of_each();
        let ids: BTreeSet<_> = counts.by_id().map(|(id, _)| id).collect();

        assert_eq!(ids.len(), MAX_CAUSES);
    }

    #[test]
    fn counts_come_back_from_a_preamble_and_from_the_header() {
        let counts = one_of_each();
        let mut bytes = Vec::new();
        counts.put(&mut bytes);
        let (losses, used) = counts.to_header();

        assert_eq!(LossCounts::read(&mut Cursor::new(&bytes, 0)), Some(counts));
        let before = &bytes[..bytes.len() - 8];
        let without_time = LossCounts {
            counted_by: 0,
            ..counts
        };
        assert_eq!(
            LossCounts::read(&mut Cursor::new(before, 0)),
            Some(without_time)
        );
        assert!(bytes.len() <= MAX_BYTES);
        assert_eq!(LossCounts::from_header(&losses, used), without_time);
    }

    #[test]
    fn a_cause_that_is_not_known_is_counted_all_the_same() {
        let mut bytes = vec![2, 99];
        bytes.extend_from_slice(&5_u64.to_le_bytes());
        bytes.push(98);
        bytes.extend_from_slice(&6_u64.to_le_bytes());

        let counts = LossCounts::read(&mut Cursor::new(&bytes, 0)).unwrap();

        assert_eq!(counts.other, 11);
    }

    #[test]
    fn what_an_earlier_stream_lost_stays_counted() {
        let before = one_of_each();
        let mut ledger = Ledger::default();
        ledger.lose(LossCause::Late, 100);
        let mut counts = before;

        counts.set_stream(
            &before,
            &LossCounts::default(),
            &LossCounts::from_ledger(&ledger),
        );

        assert_eq!(
            counts.lost(LossCause::Late),
            before.lost(LossCause::Late) + 100
        );
        assert_eq!(
            counts.lost(LossCause::KernelMissed),
            before.lost(LossCause::KernelMissed)
        );
    }
}
