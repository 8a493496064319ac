//! Waiting for emissions under way, so that a call comes after all that was emitted before it.
//!
//! A thread amid an emission may have read the clock, and not have recorded the event yet. Until it
//! has, no newer event can be put in order. The thread may also have lost its CPU there. So a call
//! does not wait for such a thread where the thread begins anew, with a later time ([`BegunAnew`]),
//! and a call of a real-time thread does not wait for long ([`CallTerms::is_urgent`]).

use std::time::Duration;

use super::{ActiveStream, Flush};
use crate::event::MonotonicNs;
use crate::merge::Merged;
use crate::source::BegunAnew;

/// Terms on which a call waits for emissions under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct CallTerms {
    /// Emissions of the caller's process have begun anew, as the call began.
    pub begun_anew: Option<BegunAnew>,
    /// Whether the caller is a real-time thread, which waits for no thread that has no CPU.
    pub is_urgent: bool,
}

/// Result of waiting for emissions under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct SettledStream {
    /// Time up to which the stream is complete.
    pub until: MonotonicNs,
    /// Time of the call.
    pub called: MonotonicNs,
    /// Whether the stream has all that was emitted before the call.
    pub has_all: bool,
}

/// Longest wait of a call for emissions under way. No source is behind the clock for so long:
/// sources have bounds of their own for threads that are stopped in the middle of an emission.
const SETTLED_WITHIN: Duration = Duration::from_millis(500);
const SETTLE_PAUSE: Duration = Duration::from_micros(20);

/// Longest wait of a real-time thread's call for emissions under way.
const URGENT_WITHIN: Duration = Duration::from_micros(300);

impl<L: Flush> ActiveStream<L> {
    /// Sets the terms of the call that comes next.
    #[doc(hidden)]
    pub fn set_terms(&mut self, terms: CallTerms) {
        self.terms = terms;
    }

    /// Collects as [`sync`](Self::sync) does, until the stream is complete up to the moment of the
    /// call: what was emitted before a call counts as before it. The wait for a thread that was
    /// stopped in the middle of an emission has an end, and where [collecting is
    /// limited](Self::collect_within), it is no longer than that limit.
    pub fn settle(&mut self) -> MonotonicNs {
        self.settle_for_call().until
    }

    /// Settles as [`settle`](Self::settle) does, on the [terms](Self::set_terms) of the call at
    /// hand.
    ///
    /// Where the emissions of the caller's process have begun anew, what was emitted before that
    /// moment was emitted before the call, and the call waits for nothing else.
    #[doc(hidden)]
    pub fn settle_for_call(&mut self) -> SettledStream {
        let called = (self.now)();
        let CallTerms {
            begun_anew,
            is_urgent,
        } = std::mem::take(&mut self.terms);
        if let Some(begun) = begun_anew {
            for merged in &mut self.sources {
                merged.source.note_begun_anew(begun);
            }
        }
        let most = if is_urgent {
            URGENT_WITHIN
        } else {
            SETTLED_WITHIN
        };
        let limit = self.limit.unwrap_or(most).min(most);
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        loop {
            let until = self.sync();
            let has_all = until >= called || self.has_all_of(begun_anew, called);
            let waited = (self.now)().0.saturating_sub(called.0);
            if has_all || waited > limit_ns {
                return SettledStream {
                    until,
                    called,
                    has_all,
                };
            }
            std::thread::sleep(SETTLE_PAUSE);
        }
    }

    /// Tells whether each source has brought all that was emitted before a call.
    fn has_all_of(&self, begun_anew: Option<BegunAnew>, called: MonotonicNs) -> bool {
        let has_all = |merged: &Merged| {
            merged.stated >= called
                || begun_anew.is_some_and(|begun| merged.source.has_all_before(begun))
        };
        self.sources.iter().all(has_all)
    }

    /// Settles as [`settle`](Self::settle) does, for a call that takes effect at the returned time.
    /// A real-time thread does not wait for a thread that has no CPU: older events of that thread
    /// count as late when they come.
    pub(super) fn settle_at(&mut self) -> MonotonicNs {
        let is_urgent = self.terms.is_urgent;
        let settled = self.settle_for_call();
        if settled.has_all || !is_urgent {
            return settled.until;
        }
        self.feed(settled.called);
        settled.called
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    use tracer_common::event_type::EventTypeId;

    use super::*;
    use crate::source::{Batch, Control, LossCause, Source, Unread};
    use crate::stream::Filtering;
    use crate::{EventSet, Origin, StreamFullPolicy};

    const USER: EventTypeId = EventTypeId::UNNAMED_USEREVENT;
    const BEGUN: BegunAnew = BegunAnew { pid: 1, ticks: 50 };

    /// A source with a thread that is amid an emission since `since`.
    #[derive(Default)]
    struct Amid {
        brings: Vec<u64>,
        since: u64,
        begun_anew: Option<BegunAnew>,
        asked: u64,
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Amid>>);

    impl Source for Shared {
        fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
            let mut amid = self.0.lock().unwrap();
            amid.asked += 1;
            for time in amid.brings.drain(..) {
                batch.push(Origin::NONE.header(USER, MonotonicNs(time)), b"");
            }
            MonotonicNs(amid.since)
        }

        fn note_begun_anew(&mut self, begun: BegunAnew) {
            let mut amid = self.0.lock().unwrap();
            amid.begun_anew = Some(begun);
            amid.since = begun.ticks;
        }

        fn has_all_before(&self, begun: BegunAnew) -> bool {
            self.0.lock().unwrap().begun_anew == Some(begun)
        }

        fn count_unread(&mut self, _: MonotonicNs, _: Instant, _: &mut Batch<'_>) -> Unread {
            Unread::Nothing
        }

        fn control(&mut self, _: &Control) {}
    }

    /// Clock that goes on with each look.
    fn clock() -> MonotonicNs {
        static NOW: AtomicU64 = AtomicU64::new(100);
        MonotonicNs(NOW.fetch_add(1, Relaxed))
    }

    /// Clock that goes on by a millisecond with each look.
    fn fast_clock() -> MonotonicNs {
        static NOW: AtomicU64 = AtomicU64::new(1);
        MonotonicNs(NOW.fetch_add(1, Relaxed) * 1_000_000)
    }

    /// Makes a stream that runs since 10, in which a thread is amid an emission since 20.
    fn stream(now: fn() -> MonotonicNs) -> (ActiveStream, Shared) {
        let mut stream = ActiveStream::new(StreamFullPolicy::Loop, 4096, now);
        stream.core.start(MonotonicNs(10), Origin::NONE);
        let shared = Shared::default();
        shared.0.lock().unwrap().since = 20;
        stream.add_source(Box::new(shared.clone()));
        (stream, shared)
    }

    fn times(stream: &mut ActiveStream) -> Vec<u64> {
        std::iter::from_fn(|| Some(stream.next_event()?.header.time.0)).collect()
    }

    const URGENT: CallTerms = CallTerms {
        begun_anew: None,
        is_urgent: true,
    };

    #[test]
    fn what_has_begun_anew_is_not_waited_for_and_comes_after_the_call() {
        let (mut stream, shared) = stream(clock);
        shared.0.lock().unwrap().brings = vec![30, 50, 60];
        stream.set_terms(CallTerms {
            begun_anew: Some(BEGUN),
            is_urgent: false,
        });
        stream.stop(Origin::NONE);
        assert_eq!(shared.0.lock().unwrap().asked, 1);
        // What is newer than the call was emitted after it.
        assert_eq!(times(&mut stream), [10, 30, 50, 50]);
        shared.0.lock().unwrap().brings = vec![70];
        assert!(stream.end());
        assert_eq!(stream.ledger().lost_in_all(), 0);
        assert!(times(&mut stream).is_empty());
    }

    #[test]
    fn terms_are_those_of_one_call() {
        let (mut stream, shared) = stream(fast_clock);
        stream.set_terms(CallTerms {
            begun_anew: Some(BEGUN),
            is_urgent: true,
        });
        assert!(stream.settle_for_call().has_all);
        assert_eq!(shared.0.lock().unwrap().asked, 1);
        assert!(!stream.settle_for_call().has_all, "the next one waits");
        assert!(shared.0.lock().unwrap().asked > 100);
    }

    #[test]
    fn a_real_time_thread_waits_a_moment_and_has_what_is_older() {
        let (mut stream, shared) = stream(fast_clock);
        shared.0.lock().unwrap().brings = vec![15, 30];
        stream.set_terms(URGENT);
        let settled = stream.settle_for_call();
        assert!(!settled.has_all && settled.until == MonotonicNs(20));
        assert_eq!(shared.0.lock().unwrap().asked, 1);
        assert_eq!(times(&mut stream), [10, 15]);
        // The emission is over.
        shared.0.lock().unwrap().brings = vec![25];
        shared.0.lock().unwrap().since = 40;
        stream.sync();
        assert_eq!(times(&mut stream), [25, 30]);
        assert_eq!(stream.ledger().lost_in_all(), 0);
    }

    #[test]
    fn where_a_call_takes_effect_what_is_older_and_comes_later_is_counted() {
        type Call = fn(&mut ActiveStream);
        let calls: [Call; 3] = [
            |stream| stream.stop(Origin::NONE),
            ActiveStream::clear,
            |stream| stream.set_filter(&EventSet::EMPTY, Filtering::Set, Origin::NONE),
        ];
        for call in calls {
            let (mut stream, shared) = stream(fast_clock);
            shared.0.lock().unwrap().brings = vec![30];
            stream.set_terms(URGENT);
            call(&mut stream);
            let before = stream.ledger().recorded();
            shared.0.lock().unwrap().brings = vec![25];
            shared.0.lock().unwrap().since = u64::MAX / 2;
            stream.sync();
            assert_eq!(stream.ledger().recorded(), before);
            assert!(before >= 2, "START and what was there were recorded before");
            assert_eq!(stream.ledger().lost(LossCause::Late), 1);
        }
    }
}
