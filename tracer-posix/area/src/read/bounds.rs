//! Bounds of the events that are retained of those that are found, so that the retained ones have
//! no holes: see the law of contiguity at [`pool`](crate::layout::pool).

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use tracer_common::area::StreamControl;

use crate::layout::gate;
use crate::layout::ticks::TickClock;
use tracer_engine::event::MonotonicNs;
use tracer_engine::source::{Batch, Loss, LossCause};

/// Events that are not read, since the stream would retain none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spared {
    /// The time of the oldest event, in ticks.
    pub(super) since: u64,
    /// When the last of the chunks was closed, in ticks.
    pub(super) until: u64,
}

impl Spared {
    pub(super) const NOTHING: Self = Self {
        since: u64::MAX,
        until: 0,
    };

    /// Joins the events that are not read for two reasons.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            since: self.since.min(other.since),
            until: self.until.max(other.until),
        }
    }
}

/// Bounds of the events that one stream retains of those found in its chunks.
#[derive(Debug)]
pub(super) struct Bounds {
    /// Whether the oldest events may be overwritten.
    overwrites: bool,
    /// Time, in ticks: only newer events are retained.
    cut: u64,
    /// When the oldest of the events was emitted that are missing up to the cut, as far as is known
    /// and the stream has not been told; `None` where none are missing after what it has taken in.
    missing_since: Option<MonotonicNs>,
    /// Time, in ticks, when the gate was shut: newer events are not retained. [`gate::OPEN`] where
    /// it is open.
    shut: u64,
    /// Whether the stream has been told that the gate was shut.
    is_told: bool,
    /// Pairs of times, in ticks, between which the gate was shut before: events that are newer than
    /// the first and not newer than the second are not retained.
    closings: Vec<(u64, u64)>,
    /// Time up to which the stream has taken in everything.
    pub(super) passed: MonotonicNs,
}

impl Bounds {
    /// Makes the bounds of a stream that has had no losses.
    pub(super) fn new(overwrites: bool, passed: MonotonicNs) -> Self {
        Self {
            overwrites,
            cut: 0,
            missing_since: None,
            shut: gate::OPEN,
            is_told: false,
            closings: Vec::new(),
            passed,
        }
    }

    /// Tells whether the oldest events may be overwritten.
    pub(super) fn overwrites(&self) -> bool {
        self.overwrites
    }

    /// Tells whether an event of this time, in ticks, is retained.
    #[inline(always)]
    pub(super) fn keep(&self, ticks: u64) -> bool {
        ticks > self.cut
            && ticks <= self.shut
            && self
                .closings
                .iter()
                .all(|(after, until)| ticks <= *after || ticks > *until)
    }

    /// Cuts where events were overwritten before they were read: from then on no event is retained
    /// that may be older than one of them, or than one that the stream was `spared`.
    pub(super) fn cut(
        &mut self,
        spared: Option<Spared>,
        control: &StreamControl,
        clock: &TickClock,
        batch: &mut Batch<'_>,
    ) {
        if !self.overwrites {
            return;
        }
        let spared = spared.unwrap_or(Spared::NOTHING);
        // No thread has closed a chunk later than now.
        let untrusted = control.lost_until.load(Acquire).max(spared.until);
        let until = untrusted.min(clock.source().now());
        if until <= self.cut {
            return;
        }
        self.cut = until;
        let time_of = |ticks| clock.time_of(ticks).min(clock.newest());
        let (count, oldest) = batch.take_back(self.passed, time_of(until));
        let overwritten = control.lost_since.swap(u64::MAX, AcqRel);
        // Where the cut before has taken the note that belongs to this one, it is not known.
        let since = match overwritten.min(spared.since) {
            u64::MAX => self.passed,
            since => time_of(since.min(until)),
        };
        let since = oldest.map_or(since, |oldest| oldest.min(since));
        batch.lose(Loss {
            cause: LossCause::ThreadRingOverwritten,
            count,
            since,
            is_marked: true,
        });
        self.note_missing(since.max(self.passed));
    }

    fn note_missing(&mut self, since: MonotonicNs) {
        let before = self.missing_since.unwrap_or(since);
        self.missing_since = Some(before.min(since));
    }

    /// Notes that an event of this time was found and not retained.
    pub(super) fn note_dropped(&mut self, ticks: u64, time: MonotonicNs) {
        if ticks <= self.cut && self.missing_since.is_some() {
            self.note_missing(time.max(self.passed));
        }
    }

    /// Tells the stream where events are missing, as soon as no older ones can be missing: all
    /// events up to `until` were handed over. What the stream has of others, or records of itself,
    /// is not to count as contiguous with what comes after the missing ones, so it is told again
    /// as long as more of them may follow; marks without an event between them are one.
    pub(super) fn tell_missing(
        &mut self,
        until: MonotonicNs,
        clock: &TickClock,
        batch: &mut Batch<'_>,
    ) {
        let Some(since) = self.missing_since.filter(|since| *since <= until) else {
            return;
        };
        batch.mark_missing(since);
        let is_over = until >= clock.time_of(self.cut);
        self.missing_since = (!is_over).then_some(until);
    }

    /// Notes that the gate was found shut, if that is new; `since` is in ticks.
    pub(super) fn shut(
        &mut self,
        since: u64,
        cause: LossCause,
        clock: &TickClock,
        batch: &mut Batch<'_>,
    ) {
        if self.shut != gate::OPEN {
            return;
        }
        self.shut = since;
        self.is_told = false;
        let after = clock.time_of(since).max(self.passed);
        let (count, since) = batch.take_back(after, MonotonicNs(u64::MAX));
        batch.lose(Loss {
            cause,
            count,
            since: since.unwrap_or(after),
            is_marked: true,
        });
    }

    /// Tells the stream that it was full, if it was at `read_until` and has not been told. All
    /// events up to `read_until` were handed over, and none before `settled` can come any more;
    /// both are in ticks.
    pub(super) fn tell(
        &mut self,
        read_until: u64,
        settled: u64,
        clock: &TickClock,
        batch: &mut Batch<'_>,
    ) {
        if self.shut <= read_until && !self.is_told {
            self.is_told = true;
            batch.mark_full(clock.time_of(self.shut).max(self.passed));
        }
        self.closings.retain(|(_, until)| *until > settled);
    }

    /// Notes that the gate was shut from `since` on, as far as is known, and was opened before
    /// `now`; both are in ticks.
    pub(super) fn open(&mut self, since: u64, now: u64) {
        self.closings.push((since.min(self.shut), now));
        self.shut = gate::OPEN;
    }

    /// Returns since when the gate is shut, as far as is known.
    pub(super) fn shut_since(&self) -> Option<u64> {
        (self.shut != gate::OPEN).then_some(self.shut)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tracer_common::event_type::EventTypeId;
    use tracer_engine::event::{EventHeader, Truncation};
    use tracer_engine::source::{Control, Source, Unread};
    use tracer_engine::{ActiveStream, Origin, StreamFullPolicy};

    use super::*;
    use crate::layout::ticks::TickSource;

    const USER: EventTypeId = EventTypeId::UNNAMED_USEREVENT;

    fn header(time: u64) -> EventHeader {
        EventHeader {
            time: MonotonicNs(time),
            event_type: USER,
            pid: 0,
            tid: 0,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        }
    }

    /// A source that brings an event each time, of the next time, and may miss some.
    struct Steps {
        times: std::vec::IntoIter<u64>,
        bounds: Option<(Bounds, TickClock)>,
    }

    impl Source for Steps {
        fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
            let Some(time) = self.times.next() else {
                return MonotonicNs(1000);
            };
            match &mut self.bounds {
                Some((bounds, _)) if !bounds.keep(time) => {}
                _ => batch.push(header(time), b""),
            }
            if let Some((bounds, clock)) = &mut self.bounds {
                bounds.tell_missing(MonotonicNs(time), clock, batch);
            }
            MonotonicNs(time)
        }

        fn count_unread(&mut self, _: MonotonicNs, _: Instant, _: &mut Batch<'_>) -> Unread {
            Unread::Nothing
        }

        fn control(&mut self, _: &Control) {}
    }

    #[test]
    fn what_is_missing_is_marked_before_what_others_have_after_it() {
        let mut bounds = Bounds::new(true, MonotonicNs(0));
        (bounds.cut, bounds.missing_since) = (45, Some(MonotonicNs(15)));
        let clock = TickClock::new(TickSource::Monotonic);
        let mut stream = ActiveStream::new(StreamFullPolicy::Loop, 4096, || MonotonicNs(0));
        stream.start(Origin::NONE);
        stream.add_source(Box::new(Steps {
            times: vec![10, 20, 30, 40, 50, 60].into_iter(),
            bounds: Some((bounds, clock)),
        }));
        stream.add_source(Box::new(Steps {
            times: vec![14, 16, 34, 46, 55, 66].into_iter(),
            bounds: None,
        }));
        for _ in 0..7 {
            stream.sync();
        }

        let mut seen = Vec::new();
        while let Some(event) = stream.try_next_event() {
            match event.header.event_type {
                USER => seen.push(Ok(event.header.time.0)),
                EventTypeId::OVERFLOW => seen.push(Err(event.header.time.0)),
                _ => {}
            }
        }
        let expected = [
            Ok(14),
            Err(15),
            Ok(16),
            Err(20),
            Ok(34),
            Err(40),
            Ok(46),
            Ok(50),
            Ok(55),
            Ok(60),
            Ok(66),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn nothing_is_kept_from_the_shutting_of_the_gate_to_its_opening() {
        let mut bounds = Bounds::new(false, MonotonicNs(0));
        assert!(bounds.keep(100));
        bounds.shut = 50;
        assert!(bounds.keep(50) && !bounds.keep(51));
        bounds.open(50, 70);
        bounds.shut = 90;
        let kept: Vec<u64> = (49..92).filter(|ticks| bounds.keep(*ticks)).collect();
        assert_eq!(
            kept,
            [49, 50].into_iter().chain(71..=90).collect::<Vec<_>>()
        );
    }
}
