//! The merge: what sources bring, put in order of time up to the watermark.

use std::time::Instant;

use crate::event::MonotonicNs;
use crate::source::{Batch, Loss, Marks, Pending, Source, Unread};

use super::EventTypes;
use super::sort;
use super::stream::StreamCore;
use super::ties;

/// The watermark of a source that will never bring anything again.
const NOTHING_MORE: MonotonicNs = MonotonicNs(u64::MAX);

/// A source, and the watermark that it has stated last.
pub(super) struct Merged {
    pub(super) source: Box<dyn Source>,
    pub(super) stated: MonotonicNs,
    /// Number of the source among the stream's sources.
    pub(super) number: u32,
}

/// Tells whether a source has handed over a portion only.
pub(super) fn has_more(sources: &[Merged]) -> bool {
    sources.iter().any(|merged| merged.source.has_more())
}

/// Events that came and cannot be fed yet, since an older one may still come.
#[derive(Default)]
pub(super) struct Merge {
    events: Vec<Pending>,
    losses: Vec<Loss>,
    marks: Marks,
    data: Vec<u8>,
}

impl Merge {
    /// Returns the batch to which a source hands over its events.
    fn batch<'a>(&'a mut self, source: u32, types: &'a mut EventTypes) -> Batch<'a> {
        Batch::new(types, &mut self.events, &mut self.data, &mut self.losses)
            .for_source(source, &mut self.marks)
    }

    /// Returns the sources that have said since the last call that they are full.
    pub(super) fn take_full(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.marks.full)
    }

    /// Forgets which sources were full, as the stream starts and all sources take events again.
    pub(super) fn forget_full(&mut self) {
        self.marks.full.clear();
        self.marks.waiting.retain(|mark| !mark.is_full);
    }

    /// Collects a portion from each source that has more, or from all where none has; drops those
    /// that have ended, and feeds what is certain to be in order. Returns the time up to which the
    /// order is certain: no source will bring anything older. Without sources, that is `now`.
    /// `flush` is called before an event for which a stream that is flushed has no space.
    pub(super) fn round(
        &mut self,
        sources: &mut Vec<Merged>,
        types: &mut EventTypes,
        core: &mut StreamCore,
        now: impl FnOnce() -> MonotonicNs,
        flush: &mut dyn FnMut(&mut StreamCore, &EventTypes),
    ) -> MonotonicNs {
        let is_all = !has_more(sources);
        sources.retain_mut(|merged| {
            if is_all || merged.source.has_more() {
                let mut batch = self.batch(merged.number, types);
                merged.stated = merged.source.collect(&mut batch);
            }
            merged.stated != NOTHING_MORE
        });
        let stated = sources.iter().map(|merged| merged.stated).min();
        // Without sources nothing will come any more: all that is there may go.
        let until = stated.unwrap_or(NOTHING_MORE);
        self.feed(until, core, &mut |core| flush(core, types));
        stated.unwrap_or_else(now)
    }

    /// Collects from each source in turn, and then from those that have more, until all have
    /// brought all or until `end`. The next call goes on with the source after the last one, so
    /// that no source waits for its turn for longer than all of them take once. Sources that [come
    /// first](Source::comes_first) have no such turn: each call begins with them, and asks them
    /// again only where they have more. Otherwise this works as [`round`](Self::round) does.
    pub(super) fn round_until(
        &mut self,
        (sources, turn): (&mut Vec<Merged>, &mut usize),
        types: &mut EventTypes,
        core: &mut StreamCore,
        now: impl FnOnce() -> MonotonicNs,
        end: Instant,
        flush: &mut dyn FnMut(&mut StreamCore, &EventTypes),
    ) -> MonotonicNs {
        for merged in sources
            .iter_mut()
            .filter(|merged| merged.source.comes_first())
        {
            let mut batch = self.batch(merged.number, types);
            merged.stated = merged.source.collect(&mut batch);
        }
        let mut is_first_time = true;
        loop {
            for _ in 0..sources.len() {
                *turn = if *turn + 1 < sources.len() {
                    *turn + 1
                } else {
                    0
                };
                let Some(merged) = sources.get_mut(*turn) else {
                    break;
                };
                let is_asked = is_first_time && !merged.source.comes_first();
                if is_asked || merged.source.has_more() {
                    let mut batch = self.batch(merged.number, types);
                    merged.stated = merged.source.collect(&mut batch);
                    if Instant::now() >= end {
                        break;
                    }
                }
            }
            is_first_time = false;
            sources.retain(|merged| merged.stated != NOTHING_MORE);
            let stated = sources.iter().map(|merged| merged.stated).min();
            self.feed(stated.unwrap_or(NOTHING_MORE), core, &mut |core| {
                flush(core, types)
            });
            if !has_more(sources) || Instant::now() >= end {
                return stated.unwrap_or_else(now);
            }
        }
    }

    /// Has each source count what it has not brought of the time up to `until`, by `end`, and gives
    /// up the sources that have done so. Returns whether everything is counted.
    pub(super) fn count_unread(
        &mut self,
        sources: &mut Vec<Merged>,
        types: &mut EventTypes,
        until: MonotonicNs,
        end: Instant,
    ) -> bool {
        let mut is_known = true;
        sources.retain_mut(|merged| {
            let mut batch = self.batch(merged.number, types);
            let unread = merged.source.count_unread(until, end, &mut batch);
            is_known &= unread != Unread::Unknown;
            unread != Unread::Counted
        });
        is_known
    }

    /// Feeds what has come up to `until`.
    pub(super) fn feed(
        &mut self,
        until: MonotonicNs,
        core: &mut StreamCore,
        flush: &mut dyn FnMut(&mut StreamCore),
    ) {
        // Each chain and each ring brings its events in order: these runs are found and merged.
        sort::by_key(&mut self.events, |event| event.header.time);
        sort::by_key(&mut self.losses, |loss| loss.since);
        sort::by_key(&mut self.marks.waiting, |mark| mark.time);
        let ready = self
            .events
            .partition_point(|event| event.header.time <= until);
        // A loss after `until` waits, since it comes after events that are not certain yet.
        let certain = self.losses.partition_point(|loss| loss.since <= until);
        if let Some(events) = self.events.get_mut(..ready) {
            ties::settle(events, &self.data);
        }
        let waiting = &mut self.marks.waiting;
        let marked = waiting.partition_point(|mark| mark.time <= until);
        let mut losses = self.losses.drain(..certain).peekable();
        let mut marks = waiting.drain(..marked).peekable();
        for event in self.events.get(..ready).unwrap_or_default() {
            while let Some(mark) = marks.next_if(|mark| mark.time < event.header.time) {
                core.take_mark(mark);
            }
            while let Some(loss) = losses.next_if(|loss| loss.since < event.header.time) {
                core.feed_loss(loss);
            }
            if core.needs_flush_before(&event.header, event.data_length) {
                flush(core);
            }
            core.take(&event.header, event.data(&self.data));
        }
        // The marks and losses that are left come after the last event that is certain.
        marks.for_each(|mark| core.take_mark(mark));
        losses.for_each(|loss| core.feed_loss(loss));
        self.events.drain(..ready);
        // While a source is behind, much data may wait: it is not copied in vain.
        if ready > 0 {
            self.compact();
        }
    }

    /// Forgets the data of events that were fed.
    fn compact(&mut self) {
        if self.events.is_empty() {
            self.data.clear();
            return;
        }
        let mut rest = Vec::with_capacity(self.data.len());
        for event in &mut self.events {
            let start = rest.len();
            rest.extend_from_slice(event.data(&self.data));
            event.data_start = start;
        }
        self.data = rest;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::{Arc, LazyLock, Mutex};
    use std::thread::sleep;
    use std::time::Duration;

    use tracer_common::event_type::EventTypeId;

    use super::*;
    use crate::source::{Control, LossCause};
    use crate::{ActiveStream, Origin, StreamFullPolicy};

    const USER: EventTypeId = EventTypeId::UNNAMED_USEREVENT;
    const STEP: Duration = Duration::from_millis(10);

    /// Returns the time since the first call.
    fn monotonic_now() -> MonotonicNs {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        let ns = START.elapsed().as_nanos();
        MonotonicNs(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// A source that counts how often it is asked, takes some time, and always has more, or never.
    struct Asked {
        times: Arc<AtomicUsize>,
        takes: Duration,
        has_more: bool,
        comes_first: bool,
    }

    impl Asked {
        fn greedy() -> Self {
            Self {
                times: Arc::default(),
                takes: STEP,
                has_more: true,
                comes_first: false,
            }
        }
    }

    impl Source for Asked {
        fn collect(&mut self, _batch: &mut Batch<'_>) -> MonotonicNs {
            self.times.fetch_add(1, Relaxed);
            sleep(self.takes);
            MonotonicNs(7)
        }

        fn has_more(&self) -> bool {
            self.has_more
        }

        fn comes_first(&self) -> bool {
            self.comes_first
        }

        fn count_unread(&mut self, _: MonotonicNs, _: Instant, _: &mut Batch<'_>) -> Unread {
            Unread::Nothing
        }

        fn control(&mut self, _control: &Control) {}
    }

    #[test]
    fn what_comes_first_is_asked_each_time_however_long_others_take() {
        let mut stream = ActiveStream::new(StreamFullPolicy::Loop, 4096, || MonotonicNs(9));
        for _ in 0..9 {
            stream.add_source(Box::new(Asked::greedy()));
        }
        let times = Arc::default();
        stream.add_source(Box::new(Asked {
            times: Arc::clone(&times),
            takes: Duration::ZERO,
            has_more: false,
            comes_first: true,
        }));
        stream.collect_within(STEP);
        for _ in 0..5 {
            stream.sync();
        }
        assert_eq!(times.load(Relaxed), 5);
    }

    /// A source that never has everything, and knows what it has not brought.
    struct Behind {
        brings: Arc<Mutex<Vec<MonotonicNs>>>,
    }

    impl Behind {
        const HAS: MonotonicNs = MonotonicNs(1);
        const UNREAD: u64 = 5;
    }

    impl Source for Behind {
        fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
            for time in self.brings.lock().unwrap().drain(..) {
                batch.push(Origin::NONE.header(USER, time), b"");
            }
            Self::HAS
        }

        fn count_unread(
            &mut self,
            until: MonotonicNs,
            _end: Instant,
            batch: &mut Batch<'_>,
        ) -> Unread {
            if until <= Self::HAS {
                return Unread::Nothing;
            }
            batch.lose(Loss {
                cause: LossCause::NotRead,
                count: Self::UNREAD,
                since: Self::HAS,
                is_marked: false,
            });
            Unread::Counted
        }

        fn control(&mut self, _control: &Control) {}
    }

    /// A source that has nothing, and once does not know whether that is all.
    struct Unsure {
        is_asked: bool,
    }

    impl Source for Unsure {
        fn collect(&mut self, _: &mut Batch<'_>) -> MonotonicNs {
            monotonic_now()
        }

        fn count_unread(&mut self, _: MonotonicNs, _: Instant, _: &mut Batch<'_>) -> Unread {
            Unread::Nothing
        }

        fn may_have_lost(&mut self) -> bool {
            !std::mem::replace(&mut self.is_asked, true)
        }

        fn control(&mut self, _control: &Control) {}
    }

    #[test]
    fn a_status_says_that_events_are_lost_where_a_source_does_not_know() {
        let mut stream = ActiveStream::new(StreamFullPolicy::Loop, 4096, monotonic_now);
        stream.add_source(Box::new(Unsure { is_asked: false }));
        assert!(stream.status().is_overrun);
        assert!(!stream.status().is_overrun);
    }

    #[test]
    fn what_a_stop_does_not_wait_for_is_recorded_or_counted() {
        let mut stream = ActiveStream::new(StreamFullPolicy::Loop, 4096, monotonic_now);
        stream.start(Origin::NONE);
        let brings: Arc<Mutex<Vec<_>>> = Arc::default();
        stream.add_source(Box::new(Behind {
            brings: Arc::clone(&brings),
        }));
        let before = monotonic_now();
        brings.lock().unwrap().push(before);
        stream.stop(Origin::NONE);
        assert_eq!(stream.ledger().recorded(), 3, "START, what came, STOP");

        // It was emitted before the stop, and comes after.
        brings.lock().unwrap().push(before);
        stream.sync();
        assert!(stream.end());
        assert_eq!(stream.ledger().lost(LossCause::Late), 1);
        assert_eq!(stream.ledger().lost(LossCause::NotRead), Behind::UNREAD);
        assert_eq!(stream.ledger().recorded(), 3);
    }

    #[test]
    fn to_stop_takes_no_longer_than_is_collected() {
        let mut stream = ActiveStream::new(StreamFullPolicy::Loop, 4096, monotonic_now);
        for _ in 0..9 {
            stream.add_source(Box::new(Asked::greedy()));
        }
        stream.collect_within(2 * STEP);
        let start = Instant::now();
        // None of them ever has everything up to now.
        stream.stop(Origin::NONE);
        assert!(start.elapsed() < 10 * STEP, "{:?}", start.elapsed());
    }

    #[test]
    fn sources_that_never_have_enough_leave_others_their_turn() {
        let mut stream = ActiveStream::new(StreamFullPolicy::Loop, 4096, || MonotonicNs(9));
        let counts: Vec<Arc<AtomicUsize>> = (0..9).map(|_| Arc::default()).collect();
        for (index, times) in counts.iter().enumerate() {
            let is_greedy = index != 5;
            stream.add_source(Box::new(Asked {
                times: Arc::clone(times),
                takes: if is_greedy { STEP } else { Duration::ZERO },
                has_more: is_greedy,
                comes_first: false,
            }));
        }
        stream.collect_within(3 * STEP);
        let start = Instant::now();
        for _ in 0..12 {
            stream.sync();
        }
        // Each call ends after the source that is asked when the time is over.
        assert!(start.elapsed() < 12 * 6 * STEP, "{:?}", start.elapsed());
        assert!(stream.has_more());
        let asked: Vec<usize> = counts.iter().map(|times| times.load(Relaxed)).collect();
        let (least, most) = (asked.iter().min().unwrap(), asked.iter().max().unwrap());
        assert!(*least >= 3 && most - least <= 2, "{asked:?}");
    }
}
