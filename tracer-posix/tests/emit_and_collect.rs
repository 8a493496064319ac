//! Tests that the events that a process emits come out of its area: once, in order, with their
//! data, from all its threads.
//!
//! A stream sees what all threads of the process emit: the tests of this file run one at a time.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracer_area::{Area, AreaSource, RingMode, StreamRequest};
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::source::{Batch, Control, Loss, Source};
use tracer_engine::{EventSet, EventTypes};
use tracer_posix::emit::UserEvent;

/// Reads one source into lists.
struct Harness {
    source: AreaSource,
    types: EventTypes,
    watermark: MonotonicNs,
}

struct Round {
    events: Vec<(EventHeader, Vec<u8>)>,
    losses: Vec<Loss>,
}

impl Round {
    fn lost(&self) -> u64 {
        self.losses.iter().map(|loss| loss.count).sum()
    }
}

impl Harness {
    fn new(request: &StreamRequest) -> Self {
        let area = Area::own().expect("the library has made an area");
        let mut source = AreaSource::open(area, request).unwrap();
        source.control(&Control {
            running: true,
            filter: EventSet::EMPTY,
        });
        Self {
            source,
            types: EventTypes::default(),
            watermark: MonotonicNs(0),
        }
    }

    fn collect(&mut self) -> Round {
        let (mut pending, mut data, mut losses) = (Vec::new(), Vec::new(), Vec::new());
        let watermark = loop {
            let watermark = self.source.collect(&mut Batch::new(
                &mut self.types,
                &mut pending,
                &mut data,
                &mut losses,
            ));
            if !self.source.has_more() {
                break watermark;
            }
        };
        // As the merge does: a source may bring them in any order.
        pending.sort_by_key(|event| event.header.time);
        let events: Vec<_> = pending
            .iter()
            .map(|event| (event.header, event.data(&data).to_vec()))
            .collect();
        for (header, _) in &events {
            assert!(
                header.time >= self.watermark,
                "older than a watermark stated before"
            );
        }
        assert!(watermark >= self.watermark);
        self.watermark = watermark;
        Round { events, losses }
    }
}

/// Held by a test while it runs.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn request() -> StreamRequest {
    // SAFETY: takes nothing and cannot fail.
    let own = unsafe { libc::getpid() };
    StreamRequest {
        target: Some(own),
        inherit: true,
        is_only_source: false,
        bytes: 64 << 10,
        mode: RingMode::KeepOldest,
        max_data: 1024,
        lease: None,
    }
}

fn own_event(name: &str) -> UserEvent {
    UserEvent::open(name).unwrap()
}

fn filter_type(round: &Round, event: UserEvent) -> Vec<&(EventHeader, Vec<u8>)> {
    round
        .events
        .iter()
        .filter(|(header, _)| header.event_type == event.id())
        .collect()
}

#[test]
fn an_event_comes_out_with_all_that_it_was_given() {
    let _alone = alone();
    let event = own_event("whole");
    let mut harness = Harness::new(&request());
    event.emit(b"some data");

    let round = harness.collect();
    let events = filter_type(&round, event);
    let [(header, data)] = events[..] else {
        panic!("one event, not {}", events.len())
    };

    assert_eq!(data, b"some data");
    // SAFETY: take nothing and cannot fail.
    assert_eq!(header.pid, unsafe { libc::getpid() });
    // SAFETY: as above.
    assert_eq!(header.tid, unsafe { libc::gettid() });
    // SAFETY: as above.
    assert_eq!(header.thread_id, unsafe { libc::pthread_self() } as u64);
    assert_eq!(header.truncation, Truncation::None);
    assert_ne!(header.program_address, 0);
    assert!(header.time <= harness.watermark);
}

#[test]
fn data_beyond_the_maximum_is_truncated_and_the_event_says_so() {
    let _alone = alone();
    let event = own_event("long");
    let mut harness = Harness::new(&StreamRequest {
        max_data: 10,
        ..request()
    });
    event.emit(b"0123456789");
    event.emit(b"0123456789a");

    let round = harness.collect();
    let events = filter_type(&round, event);

    assert_eq!(events.len(), 2);
    assert!(events.iter().all(|(_, data)| data == b"0123456789"));
    assert_eq!(events[0].0.truncation, Truncation::None);
    assert_eq!(events[1].0.truncation, Truncation::Record);
}

#[test]
fn a_filtered_or_suspended_stream_gets_nothing_and_another_one_still_does() {
    let _alone = alone();
    let event = own_event("filtered");
    let (mut filtered, mut other) = (Harness::new(&request()), Harness::new(&request()));
    event.emit(b"learned");
    assert_eq!(filter_type(&filtered.collect(), event).len(), 1);
    let mut filter = EventSet::EMPTY;
    filter.insert(event.id());
    let control = |running, filter| Control { running, filter };

    filtered.source.control(&control(true, filter));
    event.emit(b"not wanted");
    assert_eq!(filter_type(&filtered.collect(), event).len(), 0);
    filtered.source.control(&control(false, EventSet::EMPTY));
    event.emit(b"suspended");
    assert_eq!(filter_type(&filtered.collect(), event).len(), 0);

    assert_eq!(filter_type(&other.collect(), event).len(), 3);
}

#[test]
fn every_thread_s_events_come_once_or_are_counted_while_the_reader_reads() {
    let _alone = alone();
    let event = own_event("many threads");
    let mut harness = Harness::new(&StreamRequest {
        mode: RingMode::OverwriteOldest,
        ..request()
    });
    let (threads, each) = (6_u64, 50_000_u64);
    let running = AtomicU64::new(threads);
    let (mut seen, mut lost) = (HashMap::<u64, u64>::new(), 0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let running = &running;
            scope.spawn(move || {
                for sequence in 0..each {
                    let mut data = [0; 16];
                    data[..8].copy_from_slice(&thread.to_ne_bytes());
                    data[8..].copy_from_slice(&sequence.to_ne_bytes());
                    event.emit(&data);
                }
                running.fetch_sub(1, Ordering::Release);
            });
        }
        let mut next = HashMap::<u64, u64>::new();
        loop {
            let is_last = running.load(Ordering::Acquire) == 0;
            let round = harness.collect();
            lost += round.lost();
            for (_, data) in filter_type(&round, event) {
                let thread = u64::from_ne_bytes(data[..8].try_into().unwrap());
                let sequence = u64::from_ne_bytes(data[8..].try_into().unwrap());
                let expected = next.entry(thread).or_default();
                assert!(sequence >= *expected, "twice, or out of order");
                *expected = sequence + 1;
                *seen.entry(thread).or_default() += 1;
            }
            if is_last {
                break;
            }
        }
    });
    assert_eq!(seen.values().sum::<u64>() + lost, threads * each);
}

static HANDLED: AtomicU64 = AtomicU64::new(0);
static IN_SIGNAL: std::sync::OnceLock<UserEvent> = std::sync::OnceLock::new();

extern "C" fn emit_in_handler(_signal: libc::c_int) {
    if let Some(event) = IN_SIGNAL.get() {
        HANDLED.fetch_add(1, Ordering::Relaxed);
        event.emit(b"from a handler");
    }
}

#[test]
fn a_handler_that_interrupts_an_emission_loses_nothing_and_spoils_nothing() {
    let _alone = alone();
    let event = own_event("interrupted");
    let handled = *IN_SIGNAL.get_or_init(|| own_event("in a handler"));
    let mut harness = Harness::new(&StreamRequest {
        bytes: 64 << 20,
        ..request()
    });
    let handler: extern "C" fn(libc::c_int) = emit_in_handler;
    // SAFETY: the handler does only what a handler may.
    unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
    let done = AtomicBool::new(false);
    let (mut emitted, mut lost) = (0_u64, 0);
    let (mut own, mut from_handler) = (Vec::new(), 0);
    let mut collect = || {
        let round = harness.collect();
        lost += round.lost();
        own.extend(
            filter_type(&round, event)
                .into_iter()
                .map(|(_, data)| data.clone()),
        );
        from_handler += filter_type(&round, handled).len() as u64;
    };
    std::thread::scope(|scope| {
        // SAFETY: takes nothing and cannot fail.
        let emitter = unsafe { libc::pthread_self() };
        let done = &done;
        scope.spawn(move || {
            // A thread that is interrupted without end does nothing else; and there is space for so
            // many.
            while !done.load(Ordering::Relaxed) && HANDLED.load(Ordering::Relaxed) < 200_000 {
                // SAFETY: the thread outlives this scope.
                unsafe { libc::pthread_kill(emitter, libc::SIGUSR1) };
                std::thread::yield_now();
            }
        });
        // On a busy machine it takes a while until the other thread gets to send its signals.
        let begin = Instant::now();
        while HANDLED.load(Ordering::Relaxed) <= 1000 && begin.elapsed() < Duration::from_secs(20) {
            for _ in 0..10_000 {
                event.emit(&emitted.to_ne_bytes());
                emitted += 1;
            }
            // On one CPU with others the sender of signals needs its turn.
            std::thread::yield_now();
            collect();
        }
        done.store(true, Ordering::Relaxed);
    });

    collect();

    assert!(HANDLED.load(Ordering::Relaxed) > 1000, "the handler ran");
    assert_eq!(lost, 0);
    assert_eq!(own.len() as u64, emitted);
    for (sequence, data) in (0_u64..).zip(&own) {
        assert_eq!(**data, sequence.to_ne_bytes());
    }
    assert_eq!(from_handler, HANDLED.load(Ordering::Relaxed));
}

#[test]
fn a_forked_child_emits_under_its_own_pid_if_the_stream_is_inherited() {
    let _alone = alone();
    let event = own_event("in a child");
    let mut inheriting = Harness::new(&request());
    let mut closing = Harness::new(&StreamRequest {
        inherit: false,
        ..request()
    });
    event.emit(b"parent");
    // SAFETY: the child does only what is safe after a fork of a process with threads.
    let child = unsafe { libc::fork() };
    if child == 0 {
        event.emit(b"child");
        // SAFETY: ends the child without running what belongs to the parent.
        unsafe { libc::_exit(0) };
    }
    // SAFETY: waits for the own child; no status is asked for.
    let waited = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    assert_eq!(waited, child);
    // A child that the C library knows nothing of.
    // SAFETY: as fork, without any memory shared: the child does only what is safe there.
    let raw_child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    if raw_child == 0 {
        event.emit(b"raw child");
        // SAFETY: as above.
        unsafe { libc::_exit(0) };
    }
    let raw_child = i32::try_from(raw_child).unwrap();
    // SAFETY: waits for the own child; no status is asked for.
    unsafe { libc::waitpid(raw_child, std::ptr::null_mut(), 0) };

    let mut pids: Vec<_> = filter_type(&inheriting.collect(), event)
        .iter()
        .map(|(header, data)| (data.clone(), header.pid))
        .collect();
    pids.sort();

    // SAFETY: takes nothing and cannot fail.
    let own = unsafe { libc::getpid() };
    assert_eq!(
        pids,
        [
            (b"child".to_vec(), child),
            (b"parent".to_vec(), own),
            (b"raw child".to_vec(), raw_child)
        ]
    );
    assert_eq!(filter_type(&closing.collect(), event).len(), 1);
}

/// Returns how many parts of areas this process has mapped.
fn mapped_parts() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let lines = maps.lines();
    lines
        .filter(|line| line.contains("posix_trace_area"))
        .count()
}

#[test]
fn rings_of_ended_threads_are_used_again_once_they_were_read() {
    let _alone = alone();
    let event = own_event("short threads");
    let mut harness = Harness::new(&request());
    let mut seen = 0;
    let mapped = mapped_parts();
    // Far more threads than an area has rings.
    for _ in 0..400 {
        std::thread::scope(|scope| {
            for _ in 0..25 {
                scope.spawn(|| event.emit(b"short"));
            }
        });
        let round = harness.collect();
        assert_eq!(round.lost(), 0);
        seen += filter_type(&round, event).len();
    }
    assert_eq!(seen, 400 * 25);
    // Some threads may still be about to end, and the reader has some rings itself.
    let left = mapped_parts();
    assert!(left < mapped + 1000, "{left} parts, and {mapped} before");
}
