//! The law of the pool: whichever threads emit, and however they come and go, a stream without a
//! reader holds what one buffer of its size would hold. Against a model that is too simple to be
//! wrong: a list, and a sum of bytes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use proptest::prelude::*;
use tracer_area::{Area, AreaSource, RingMode, StreamRequest};
use tracer_engine::sizes::event_size;
use tracer_engine::source::{Batch, Control, Source};
use tracer_engine::{EventSet, EventTypes};
use tracer_posix::emit::UserEvent;

const WRITERS: usize = 5;

/// Steps of the writers, one after the other.
#[derive(Clone, Debug)]
enum Op {
    Emit {
        writer: usize,
        count: usize,
        length: usize,
    },
    /// The thread ends; the next event of this writer comes from another one.
    End {
        writer: usize,
    },
    Collect,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        20 => (0..WRITERS, 1_usize..200, 0_usize..400)
            .prop_map(|(writer, count, length)| Op::Emit { writer, count, length }),
        3 => (0..WRITERS).prop_map(|writer| Op::End { writer }),
        1 => Just(Op::Collect),
    ];
    prop::collection::vec(op, 1..60)
}

/// Returns small events, of which a chunk has more than a small stream: some writers fill chunk
/// after chunk while others have one open.
fn small_events() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        20 => (0..WRITERS, 1_usize..2000, 0_usize..16)
            .prop_map(|(writer, count, length)| {
                let count = count / (1 + writer * writer);
                Op::Emit { writer, count, length }
            }),
        1 => (0..WRITERS).prop_map(|writer| Op::End { writer }),
    ];
    prop::collection::vec(op, 40..120)
}

/// A thread that emits what it is asked to, event by event.
struct Writer {
    orders: Sender<Vec<Vec<u8>>>,
    done: Receiver<()>,
    thread: JoinHandle<()>,
}

impl Writer {
    fn start(event: UserEvent) -> Self {
        let (orders, to_emit) = channel::<Vec<Vec<u8>>>();
        let (emitted, done) = channel();
        let thread = thread::spawn(move || {
            for events in to_emit {
                events.iter().for_each(|data| event.emit(data));
                emitted.send(()).unwrap();
            }
        });
        Self {
            orders,
            done,
            thread,
        }
    }

    fn emit(&self, events: Vec<Vec<u8>>) {
        self.orders.send(events).unwrap();
        self.done.recv().unwrap();
    }

    fn end(self) {
        drop(self.orders);
        self.thread.join().unwrap();
    }
}

/// A stream, and what was sent to it and came out of it.
struct Run {
    source: AreaSource,
    types: EventTypes,
    event: UserEvent,
    writers: [Option<Writer>; WRITERS],
    /// The data of all events in their order, and that of those which came.
    sent: Vec<Vec<u8>>,
    seen: Vec<Vec<u8>>,
    lost: u64,
}

impl Run {
    fn new(mode: RingMode, bytes: usize) -> Self {
        let request = StreamRequest {
            target: None,
            inherit: false,
            is_only_source: false,
            bytes,
            mode,
            max_data: 400,
            lease: None,
        };
        let mut source = AreaSource::open(Area::own().unwrap(), &request).unwrap();
        source.control(&Control {
            running: true,
            filter: EventSet::EMPTY,
        });
        Self {
            source,
            types: EventTypes::default(),
            event: UserEvent::open("law").unwrap(),
            writers: [const { None }; WRITERS],
            sent: Vec::new(),
            seen: Vec::new(),
            lost: 0,
        }
    }

    fn play(&mut self, op: &Op) {
        match *op {
            Op::Emit {
                writer,
                count,
                length,
            } => {
                let event = self.event;
                let writer = self.writers[writer].get_or_insert_with(|| Writer::start(event));
                let first = self.sent.len();
                for sequence in first..first + count {
                    let mut data = (sequence as u64).to_ne_bytes().to_vec();
                    data.resize(8 + length.saturating_sub(8), 7);
                    self.sent.push(data);
                }
                writer.emit(self.sent[first..].to_vec());
            }
            Op::End { writer } => {
                if let Some(writer) = self.writers[writer].take() {
                    writer.end();
                }
            }
            Op::Collect => self.collect(),
        }
    }

    fn collect(&mut self) {
        let (mut events, mut data, mut losses) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_all = false;
        while !is_all {
            self.source.collect(&mut Batch::new(
                &mut self.types,
                &mut events,
                &mut data,
                &mut losses,
            ));
            is_all = !self.source.has_more();
        }
        events.sort_by_key(|event| event.header.time);
        self.seen
            .extend(events.iter().map(|event| event.data(&data).to_vec()));
        self.lost += losses.iter().map(|loss| loss.count).sum::<u64>();
    }

    fn end(&mut self) {
        self.collect();
        for writer in self.writers.iter_mut().filter_map(Option::take) {
            writer.end();
        }
        assert_eq!(
            self.seen.len() as u64 + self.lost,
            self.sent.len() as u64,
            "seen and lost"
        );
        let sequence = |data: &Vec<u8>| u64::from_ne_bytes(data[..8].try_into().unwrap());
        assert!(self.seen.is_sorted_by_key(sequence), "out of order");
        for data in &self.seen {
            assert_eq!(data, &self.sent[usize::try_from(sequence(data)).unwrap()]);
        }
    }
}

/// A stream sees what all threads of the process emit: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Returns, of the events in this order, those that a buffer of so many bytes has space for.
fn that_fit<'a>(events: impl Iterator<Item = &'a Vec<u8>>, bytes: usize) -> Vec<&'a Vec<u8>> {
    let mut used = 0;
    events
        .take_while(|data| {
            used += event_size(data.len());
            used <= bytes
        })
        .collect()
}

/// Returns fewer cases than is usual, each of which takes long; more where `PROPTEST_CASES` asks
/// for more.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases.div_ceil(10),
        ..usual
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_stream_that_keeps_its_newest_events_holds_those_of_one_buffer(
        ops in ops(),
        bytes in 4096_usize..200_000,
        is_all_handed_over: bool,
    ) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut run = Run::new(RingMode::OverwriteOldest, bytes);
        run.source.keep_newest((!is_all_handed_over).then_some(bytes));
        let is_unread = |op: &&Op| !matches!(op, Op::Collect);
        ops.iter().filter(is_unread).for_each(|op| run.play(op));
        run.end();

        let held = that_fit(run.sent.iter().rev(), bytes);
        let newest: Vec<_> = run.seen.iter().rev().take(held.len()).collect();
        prop_assert_eq!(newest, held);
    }

    #[test]
    fn of_small_events_the_newest_are_held_as_well(ops in small_events(), bytes in 4096_usize..600_000) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut run = Run::new(RingMode::OverwriteOldest, bytes);
        run.source.keep_newest(Some(bytes));
        ops.iter().for_each(|op| run.play(op));
        run.end();

        let held = that_fit(run.sent.iter().rev(), bytes);
        let newest: Vec<_> = run.seen.iter().rev().take(held.len()).collect();
        prop_assert_eq!(newest, held);
    }

    #[test]
    fn a_stream_that_keeps_its_oldest_events_holds_those_of_one_buffer(
        ops in ops(),
        bytes in 4096_usize..200_000,
    ) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut run = Run::new(RingMode::KeepOldest, bytes);
        let is_unread = |op: &&Op| !matches!(op, Op::Collect);
        ops.iter().filter(is_unread).for_each(|op| run.play(op));
        run.end();

        let held = that_fit(run.sent.iter(), bytes);
        let oldest: Vec<_> = run.seen.iter().take(held.len()).collect();
        prop_assert_eq!(oldest, held);
    }

    #[test]
    fn a_stream_that_is_read_now_and_then_loses_nothing_uncounted(
        ops in ops(),
        bytes in 4096_usize..200_000,
        keeps_oldest: bool,
    ) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mode = if keeps_oldest { RingMode::KeepOldest } else { RingMode::OverwriteOldest };
        let mut run = Run::new(mode, bytes);
        run.source.keep_newest((!keeps_oldest).then_some(bytes));
        ops.iter().for_each(|op| run.play(op));
        run.end();
    }
}

#[test]
fn what_others_push_out_at_once_is_not_handed_over() {
    const BYTES: usize = 1 << 20;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let handed_over = [None, Some(BYTES)].map(|keeps| {
        let mut run = Run::new(RingMode::OverwriteOldest, BYTES);
        run.source.keep_newest(keeps);
        for writer in (0..WRITERS).cycle().take(WRITERS * 20) {
            run.play(&Op::Emit {
                writer,
                count: 1_000,
                length: 8,
            });
        }
        run.end();
        run.seen.len() * event_size(8)
    });

    let [all, newest] = handed_over;
    // Events take 72 bytes of the stream's space and 32 of a chunk's; a chunk or two of 16 KiB a
    // writer are read in any case.
    assert!(all > BYTES * 2, "{all}");
    assert!((BYTES..BYTES * 3 / 2).contains(&newest), "{newest}");
}
