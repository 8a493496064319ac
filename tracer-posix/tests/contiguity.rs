//! The law of contiguity: what a stream keeps is a suffix of what was emitted, or a prefix, by all
//! threads and processes together, and without a hole between any two places where a loss is
//! marked. It holds whichever threads emit, come and go, how fast they do, and whenever a reader
//! reads or asks.
//!
//! The writers of these tests emit one after the other, so that the order of all events is known;
//! `tests/src/bin/stress` has those that emit at once.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use proptest::prelude::*;
use tracer_area::{Area, AreaSource, RingMode, StreamRequest, monotonic_now};
use tracer_engine::sizes::event_size;
use tracer_engine::{ActiveStream, EventTypes, Flush, Origin, StreamCore, StreamFullPolicy};
use tracer_posix::EventTypeId;
use tracer_posix::emit::UserEvent;

/// Steps of a test, one after the other.
#[derive(Clone, Debug)]
enum Op {
    /// A writer emits so many events of so many bytes.
    Emit {
        writer: usize,
        count: usize,
        length: usize,
    },
    /// A child process does, and ends.
    Child {
        count: usize,
    },
    /// The writer's thread ends; its next events come from another one.
    End {
        writer: usize,
    },
    Read {
        count: usize,
    },
    Status,
}

/// A thread that emits what it is asked to.
struct Writer {
    orders: Sender<(u64, usize, usize)>,
    done: Receiver<()>,
    thread: JoinHandle<()>,
}

fn emit(event: UserEvent, first: u64, count: usize, length: usize) {
    let mut data = vec![7; length.max(8)];
    for sequence in (first..).take(count) {
        data[..8].copy_from_slice(&sequence.to_ne_bytes());
        event.emit(&data);
    }
}

impl Writer {
    fn start(event: UserEvent) -> Self {
        let (orders, to_emit) = channel();
        let (emitted, done) = channel();
        let thread = thread::spawn(move || {
            for (first, count, length) in to_emit {
                emit(event, first, count, length);
                emitted.send(()).unwrap();
            }
        });
        Self {
            orders,
            done,
            thread,
        }
    }

    fn end(self) {
        drop(self.orders);
        self.thread.join().unwrap();
    }
}

/// Flushed events: of each its type, and its number.
#[derive(Default)]
struct Flushed(Vec<(EventTypeId, u64)>);

impl Flush for Flushed {
    fn flush(&mut self, core: &mut StreamCore, _types: &EventTypes, caller: Origin) {
        core.begin_flush(caller);
        let mut data = Vec::new();
        while let Some(header) = core.next(&mut data, monotonic_now) {
            self.0.push((header.event_type, sequence(&data)));
        }
        core.end_flush(caller);
    }
}

/// Returns the number of an event of a writer's.
fn sequence(data: &[u8]) -> u64 {
    data.first_chunk()
        .map_or(0, |data| u64::from_ne_bytes(*data))
}

/// A stream, and what was sent to it and came out of it.
struct Run {
    stream: ActiveStream<Flushed>,
    policy: StreamFullPolicy,
    bytes: usize,
    event: UserEvent,
    writers: Vec<Option<Writer>>,
    /// How many events were sent, and of how many bytes each lot was.
    sent: u64,
    lots: Vec<(usize, usize)>,
    /// The next event, where none may be missing before it.
    next: Option<u64>,
    first_seen: Option<u64>,
    /// The one after the last that was seen.
    after_last: u64,
    seen: u64,
    has_seen_start: bool,
    /// How many were seen since the last mark.
    in_a_row: u64,
    /// How many events were sent when the STOP was read: the stream has started again by that.
    restarted_at: Option<u64>,
}

impl Run {
    fn new(policy: StreamFullPolicy, bytes: usize, max_data: usize) -> Self {
        let request = StreamRequest {
            target: Some(std::process::id().cast_signed()),
            inherit: true,
            is_only_source: false,
            bytes,
            mode: RingMode::for_policy(policy),
            max_data,
            lease: None,
        };
        let source = AreaSource::open(Area::own().unwrap(), &request).unwrap();
        let log = Flushed::default();
        let mut stream = ActiveStream::with_log(policy, bytes, monotonic_now, log);
        stream.add_source(Box::new(source));
        stream.start(Origin::NONE);
        Self {
            stream,
            policy,
            bytes,
            event: UserEvent::open("contiguous").unwrap(),
            writers: Vec::new(),
            sent: 0,
            lots: Vec::new(),
            next: Some(0),
            first_seen: None,
            after_last: 0,
            seen: 0,
            has_seen_start: false,
            in_a_row: 0,
            restarted_at: None,
        }
    }

    fn play(&mut self, op: &Op) {
        match *op {
            Op::Emit {
                writer,
                count,
                length,
            } => {
                if self.writers.len() <= writer {
                    self.writers.resize_with(writer + 1, || None);
                }
                let event = self.event;
                let thread = self.writers[writer].get_or_insert_with(|| Writer::start(event));
                thread.orders.send((self.sent, count, length)).unwrap();
                thread.done.recv().unwrap();
                self.count_sent(count, length);
            }
            Op::Child { count } => {
                // SAFETY: the child only emits, and ends without running what is its parent's.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    emit(self.event, self.sent, count, 8);
                    // SAFETY: as above.
                    unsafe { libc::_exit(0) };
                }
                let mut status = 0;
                // SAFETY: valid for writes.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert_eq!(status, 0);
                self.count_sent(count, 8);
            }
            Op::End { writer } => {
                if let Some(writer) = self.writers.get_mut(writer).and_then(Option::take) {
                    writer.end();
                }
            }
            Op::Read { count } => self.read(count),
            Op::Status => {
                let status = self.stream.status();
                if status.is_full && self.policy == StreamFullPolicy::UntilFull {
                    assert!(!status.is_running, "full, and goes on");
                }
            }
        }
    }

    fn count_sent(&mut self, count: usize, length: usize) {
        self.sent += count as u64;
        self.lots.push((count, event_size(length.max(8))));
    }

    /// Reads so many events, or all that there are, and holds each against the law.
    fn read(&mut self, count: usize) {
        if self.policy == StreamFullPolicy::Flush {
            self.stream.sync();
            self.stream.flush(Origin::NONE);
            for (event_type, sequence) in std::mem::take(&mut self.stream.log().0.0) {
                self.hold_against_the_law(event_type, sequence);
            }
            return;
        }
        for _ in 0..count {
            let Some(event) = self.stream.try_next_event() else {
                return;
            };
            let (event_type, sequence) = (event.header.event_type, sequence(event.data));
            self.hold_against_the_law(event_type, sequence);
        }
    }

    fn hold_against_the_law(&mut self, event_type: EventTypeId, sequence: u64) {
        match event_type {
            EventTypeId::START => {
                self.has_seen_start = true;
                if let Some(sent) = self.restarted_at.take() {
                    self.next = Some(sent);
                    self.in_a_row = 0;
                }
            }
            EventTypeId::STOP => {
                assert_eq!(self.policy, StreamFullPolicy::UntilFull);
                assert!(
                    self.next.is_some_and(|next| next < self.sent),
                    "it stopped, and nothing is missing"
                );
                (self.next, self.restarted_at) = (None, Some(self.sent));
            }
            EventTypeId::OVERFLOW => {
                assert_ne!(self.policy, StreamFullPolicy::UntilFull);
                self.next = None;
            }
            EventTypeId::RESUME => self.in_a_row = 0,
            EventTypeId::FLUSH_START | EventTypeId::FLUSH_STOP => {}
            id => {
                assert_eq!(id, self.event.id());
                match self.next {
                    Some(next) => assert_eq!(sequence, next, "a hole that is not marked"),
                    None => assert!(sequence >= self.after_last, "it went back"),
                }
                self.next = Some(sequence + 1);
                self.after_last = sequence + 1;
                self.first_seen.get_or_insert(sequence);
                self.seen += 1;
                self.in_a_row += 1;
            }
        }
    }

    /// Ends the writers, and reads all that is left.
    fn end(mut self, is_read_before: bool) {
        for writer in self.writers.iter_mut().filter_map(Option::take) {
            writer.end();
        }
        let all = usize::MAX;
        let unread = self.sent - self.after_last;
        self.read(all);
        let lost = self.stream.ledger().lost_in_all();
        let start_lost = u64::from(!self.has_seen_start);
        assert_eq!(self.seen + lost - start_lost, self.sent, "seen and lost");
        match self.policy {
            StreamFullPolicy::Loop => {
                if self.sent > 0 {
                    assert_eq!(self.next, Some(self.sent), "the newest one is not there");
                }
                let held = held_by_one_buffer(self.lots.iter().rev(), self.bytes);
                assert!(self.in_a_row >= held.min(unread), "{held} would be held");
            }
            StreamFullPolicy::UntilFull if !is_read_before => {
                let held = held_by_one_buffer(self.lots.iter(), self.bytes);
                assert!(self.seen >= held.min(self.sent), "{held} would be held");
                assert!(matches!(self.first_seen, None | Some(0)), "not the oldest");
                if self.seen == self.sent {
                    assert_eq!(lost, 0);
                }
                // It takes what comes after.
                let before = self.seen;
                self.play(&Op::Emit {
                    writer: 0,
                    count: 3,
                    length: 8,
                });
                self.read(all);
                assert_eq!(self.seen, before + 3);
                self.writers.into_iter().flatten().for_each(Writer::end);
            }
            StreamFullPolicy::UntilFull | StreamFullPolicy::Flush => {}
        }
    }
}

/// Returns how many events a buffer of so many bytes has space for, beside a START, of lots in this
/// order.
fn held_by_one_buffer<'a>(lots: impl Iterator<Item = &'a (usize, usize)>, bytes: usize) -> u64 {
    const START: usize = 512;
    let mut left = bytes.saturating_sub(START);
    let mut held = 0;
    for (count, size) in lots {
        let fit = (*count).min(left / size);
        held += fit as u64;
        left -= fit * size;
        if fit < *count {
            break;
        }
    }
    held
}

/// A stream sees what all threads of the process emit: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn policy() -> impl Strategy<Value = StreamFullPolicy> {
    prop_oneof![
        2 => Just(StreamFullPolicy::Loop),
        2 => Just(StreamFullPolicy::UntilFull),
        1 => Just(StreamFullPolicy::Flush),
    ]
}

/// Writers of very unequal speed: the first emits most.
fn ops(writers: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        30 => (0..writers, 1_usize..3000, 0_usize..100).prop_map(|(writer, count, length)| {
            let count = (count >> (writer % 12)).max(1);
            Op::Emit { writer, count, length }
        }),
        4 => (0..writers).prop_map(|writer| Op::End { writer }),
        1 => (1_usize..2000).prop_map(|count| Op::Child { count }),
        1 => Just(Op::Status),
        2 => (1_usize..3000).prop_map(|count| Op::Read { count }),
    ];
    prop::collection::vec(op, 20..200)
}

fn run(policy: StreamFullPolicy, bytes: usize, ops: &[Op], is_read: bool, is_asked: bool) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut run = Run::new(policy, bytes, 100);
    for op in ops {
        match op {
            Op::Read { .. } if !is_read => {}
            Op::Status if !is_asked => {}
            op => run.play(op),
        }
    }
    run.end(is_read);
}

/// Returns fewer cases than is usual, each of which takes long; more where `PROPTEST_CASES` asks
/// for more.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases.div_ceil(4),
        ..usual
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_kept_is_contiguous(
        policy in policy(),
        // 4 KiB to 1 MiB.
        (doublings, bytes) in (0_u32..9, 0_usize..4096),
        ops in (1_usize..64).prop_flat_map(ops),
        is_read: bool,
        is_asked: bool,
    ) {
        run(policy, (4096 + bytes) << doublings, &ops, is_read, is_asked);
    }
}

/// Of large streams: what takes longer than a unit's test may, for each policy once.
#[test]
fn what_a_large_stream_keeps_is_contiguous() {
    for policy in [StreamFullPolicy::Loop, StreamFullPolicy::UntilFull] {
        for bytes in [1 << 20, 8 << 20, 64 << 20] {
            let lot = bytes / event_size(8) / 50;
            let ops: Vec<Op> = (0..200)
                .map(|index| Op::Emit {
                    writer: index % 3,
                    count: if index % 3 == 0 { lot * 3 } else { 1 },
                    length: 8,
                })
                .collect();
            run(policy, bytes, &ops, false, false);
        }
    }
}

/// Every row of two steps, or three in full, after the pool is nearly used up: an event or more, of
/// either of two writers, a read, a status, the end of a writer.
#[test]
fn every_order_of_a_few_steps_near_the_edge_keeps_what_is_contiguous() {
    /// Four of these fill a chunk, and two are a portion of reading: so that the stream's own
    /// buffer, which has space for some, is not what is full.
    const LENGTH: usize = 60_000;
    const BYTES: usize = 5 * LENGTH;
    let emit = |writer, count| Op::Emit {
        writer,
        count,
        length: LENGTH,
    };
    let letters = [
        emit(0, 1),
        emit(0, 3),
        emit(1, 1),
        emit(1, 3),
        Op::Read { count: 2 },
        Op::Status,
        Op::End { writer: 0 },
    ];
    let steps: u32 = if std::env::var_os("TRACER_WHOLE").is_some() {
        3
    } else {
        2
    };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // So many the pool has space for.
    let mut full = Run::new(StreamFullPolicy::UntilFull, BYTES, LENGTH);
    full.play(&emit(1, 1));
    full.play(&emit(0, 100));
    full.read(usize::MAX);
    let edge = usize::try_from(full.seen).unwrap() - 1;
    full.end(true);
    assert!(edge < 100, "it is never full");
    for policy in [StreamFullPolicy::Loop, StreamFullPolicy::UntilFull] {
        for before in [edge - 4, edge] {
            for row in 0..letters.len().pow(steps) {
                let mut run = Run::new(policy, BYTES, LENGTH);
                run.play(&emit(1, 1));
                run.play(&emit(0, before));
                let mut is_read = false;
                for step in 0..steps {
                    let letter = row / letters.len().pow(step) % letters.len();
                    is_read |= matches!(letters[letter], Op::Read { .. });
                    run.play(&letters[letter]);
                }
                run.end(is_read);
            }
        }
    }
}

/// A reader that stops at the STOP, and reads the START when more was sent.
#[test]
fn what_is_sent_between_a_stop_and_a_start_that_are_read_apart_is_kept() {
    let emit = |count, length| Op::Emit {
        writer: 0,
        count,
        length,
    };
    let ops = [
        emit(350, 25),
        emit(637, 33),
        Op::Read { count: 988 },
        emit(17, 8),
    ];
    run(StreamFullPolicy::UntilFull, 99_744, &ops, true, false);
}
