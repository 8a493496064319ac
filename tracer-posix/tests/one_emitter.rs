//! A thread that emits alone need not wait for its loads before it reads the clock; as soon as it
//! is not alone, it does. Either way the order is exact.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use tracer_common::event_type::EventTypeId;
use tracer_engine::{Attributes, EventSet, Filtering, StreamFullPolicy};
use tracer_posix::emit::UserEvent;
use tracer_posix::stream::Stream;

/// Streams on this process see all of its threads: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn running_stream() -> Stream {
    let attributes = Attributes::default()
        .with_stream_min_size(256 << 20)
        .with_stream_full_policy(StreamFullPolicy::UntilFull);
    let mut stream = Stream::create_for_self(&attributes).unwrap();
    stream.start();
    stream
}

/// Returns the types and first eight bytes of all that a stream recorded, in its order.
fn recorded(mut stream: Stream) -> Vec<(EventTypeId, u64)> {
    stream.stop();
    let status = stream.status();
    assert!(!status.is_overrun && !status.is_full, "{status:?}");
    let mut events = Vec::new();
    while let Some(traced) = stream.try_next() {
        let value = traced.event.data.first_chunk().copied();
        let value = value.map_or(0, u64::from_ne_bytes);
        events.push((traced.event.header.event_type, value));
    }
    events
}

fn push_out_of_caches(word: &AtomicU64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the word is valid, and the instruction part of every x86-64.
    unsafe {
        std::arch::x86_64::_mm_clflush(std::ptr::from_ref(word).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = word;
}

#[test]
fn what_the_controller_does_comes_before_what_it_lets_the_only_thread_do() {
    const ROUNDS: u64 = 2000;
    let _alone = alone();
    let event = UserEvent::open("only thread").unwrap();
    let mut stream = running_stream();
    let (asked, done) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                while asked.load(Acquire) < round {
                    thread::yield_now();
                }
                event.emit(&round.to_ne_bytes());
                done.store(round, Release);
            }
        });
        for round in 1..=ROUNDS {
            stream.set_filter(&EventSet::EMPTY, Filtering::Set);
            asked.store(round, Release);
            while done.load(Acquire) < round {
                thread::yield_now();
            }
        }
    });

    let events = recorded(stream);
    // A START before them, a STOP after them.
    let (_start, events) = events.split_first().unwrap();
    let (_stop, events) = events.split_last().unwrap();
    assert_eq!(events.len() as u64, 2 * ROUNDS);
    for (round, pair) in (1..=ROUNDS).zip(events.as_chunks::<2>().0) {
        assert_eq!(pair[0].0, EventTypeId::FILTER, "round {round}");
        assert_eq!(pair[1].1, round);
    }
}

#[test]
fn a_thread_that_was_alone_is_in_order_with_one_that_comes_later() {
    const CAUSES: u64 = 400_000;
    const CAUSE: u64 = 1 << 63;
    let _alone = alone();
    let (cause, effect) = (
        UserEvent::open("cause").unwrap(),
        UserEvent::open("effect").unwrap(),
    );
    let stream = running_stream();
    let (value, effects) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            for count in 1..=CAUSES {
                // Only the value leads from the load, which takes long, to the event: no branch
                // keeps the clock from being read before the load is done.
                push_out_of_caches(&value);
                effect.emit(&value.load(Relaxed).to_ne_bytes());
                effects.store(count, Relaxed);
            }
        });
        scope.spawn(|| {
            while effects.load(Relaxed) < 1000 {
                thread::yield_now();
            }
            for next in 1..=CAUSES {
                cause.emit(&(CAUSE | next).to_ne_bytes());
                value.store(next, Relaxed);
            }
        });
    });

    let (mut last_cause, mut seen) = (0, 0_u64);
    for (event_type, value) in recorded(stream) {
        if value & CAUSE != 0 {
            assert_eq!(value ^ CAUSE, last_cause + 1);
            last_cause += 1;
        } else if event_type.is_user() {
            assert!(value <= last_cause, "{value} was seen after {last_cause}");
            seen += 1;
        }
    }
    assert_eq!((last_cause, seen), (CAUSES, CAUSES));
}
