//! The laws, each over every order that its threads can take.

use loom::sync::Arc;
use loom::thread;

use super::threads::{Reader, Shared, Writer, take_stream_away};

/// The threads' numbers.
const FIRST: i32 = 1;
const SECOND: i32 = 2;

/// Threads are switched at most so often where they did not ask for it: more is days of work.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn joined<T>(handle: thread::JoinHandle<T>) -> T {
    match handle.join() {
        Ok(value) => value,
        Err(_) => panic!("a thread of the model has failed"),
    }
}

fn emit(shared: &Shared, keeps_oldest: bool, count: u64) -> u64 {
    let mut writer = Writer::of(shared, keeps_oldest, FIRST);
    for _ in 0..count {
        writer.emit();
    }
    writer.attempts
}

/// A writer of three records in a ring for two, and a reader who looks beside it and once more when
/// it is done: records are whole, in order, not older than a watermark before them, and what is not
/// read is counted.
///
/// # Panics
///
/// The law does not hold.
pub fn a_reader_beside_a_writer(keeps_oldest: bool) {
    check(move || {
        let shared = Arc::new(Shared::new(FIRST));
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || emit(&shared, keeps_oldest, 3)
        });
        let mut reader = Reader::new(1);
        reader.round(&shared);
        let attempts = joined(writer);
        reader.round(&shared);
        assert_eq!(
            reader.records + reader.lost,
            attempts,
            "lost and not counted"
        );
    });
}

/// As [`a_reader_beside_a_writer`], where the reader looks three times and the ring is never full.
///
/// # Panics
///
/// The law does not hold.
pub fn a_watermark() {
    check(|| {
        let shared = Arc::new(Shared::new(FIRST));
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || emit(&shared, true, 2)
        });
        let mut reader = Reader::new(1);
        reader.round(&shared);
        reader.round(&shared);
        let attempts = joined(writer);
        reader.round(&shared);
        assert_eq!((reader.records, reader.lost), (attempts, 0));
    });
}

/// A thread ends, the reader empties its ring, and another thread of the stream goes on in it: each
/// record is told to be its own thread's, and all are counted.
///
/// # Panics
///
/// The law does not hold.
pub fn a_ring_that_changes_hands() {
    check(|| {
        let shared = Arc::new(Shared::new(FIRST));
        let first = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let mut writer = Writer::of(&shared, false, FIRST);
                writer.emit();
                let attempts = writer.attempts;
                writer.end();
                attempts
            }
        });
        let second = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let Some(mut writer) = Writer::take(&shared, 1, SECOND) else {
                    return 0;
                };
                writer.emit();
                writer.attempts
            }
        });
        let mut reader = Reader::new(1);
        reader.round(&shared);
        reader.round(&shared);
        let attempts = joined(first) + joined(second);
        reader.round(&shared);
        assert_eq!((reader.records, reader.lost), (attempts, 0));
    });
}

/// A stream is taken away from under a thread that emits, and its ring goes to a thread of another
/// stream: whose reader finds that thread's records alone, whole, and all counted.
/// A thread that finds its stream ended has marked the ring by then, and takes its mark back, over
/// that of the thread that has the ring now: nothing comes for that which is older than was vouched for.
///
/// # Panics
///
/// The law does not hold.
pub fn a_stream_taken_away() {
    check(|| {
        let shared = Arc::new(Shared::new(FIRST));
        let mut old = Writer::of(&shared, false, FIRST);
        let new = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let Some(mut writer) = Writer::take(&shared, 2, SECOND) else {
                    // The ring is not free yet, or never: the old thread was between its marks.
                    return 0;
                };
                writer.emit();
                writer.attempts
            }
        });
        let reader = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                take_stream_away(&shared);
                let mut reader = Reader::new(2);
                reader.round(&shared);
                let attempts = joined(new);
                reader.round(&shared);
                (reader, attempts)
            }
        });
        old.emit();
        old.emit();
        let (mut reader, attempts) = joined(reader);
        reader.round(&shared);
        assert_eq!((reader.records, reader.lost), (attempts, 0));
    });
}
