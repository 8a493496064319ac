//! The laws of a chunk, each over every order that its threads can take.

use loom::sync::Arc;
use loom::thread;

use super::threads::{Reader, Shared, Writer, take_stream_away};

/// The threads' tids.
const FIRST: u64 = 1;
const SECOND: u64 = 2;

/// Threads are switched at most so often where they did not ask for it: more is days of work.
pub(super) fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Returns the thread's result.
pub(super) fn joined<T>(handle: thread::JoinHandle<T>) -> T {
    match handle.join() {
        Ok(value) => value,
        Err(_) => panic!("a thread of the model has failed"),
    }
}

/// A writer of three records in a chunk for two, and a reader who looks beside it and once more
/// when it is done: records are whole, in order, not older than a watermark before them, and what
/// is not there is counted.
///
/// # Panics
///
/// The law does not hold.
pub fn a_reader_beside_a_writer() {
    check(|| {
        let shared = Arc::new(Shared::new());
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let mut writer = Writer::for_owner(&shared, FIRST);
                (0..3).for_each(|_| writer.emit());
                writer.attempts
            }
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

/// As [`a_reader_beside_a_writer`], where the reader looks three times and the chunk is never full.
///
/// # Panics
///
/// The law does not hold.
pub fn a_watermark() {
    check(|| {
        let shared = Arc::new(Shared::new());
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let mut writer = Writer::for_owner(&shared, FIRST);
                (0..2).for_each(|_| writer.emit());
                writer.attempts
            }
        });
        let mut reader = Reader::new(1);
        reader.round(&shared);
        reader.round(&shared);
        let attempts = joined(writer);
        reader.round(&shared);
        assert_eq!((reader.records, reader.lost), (attempts, 0));
    });
}

/// A writer fills the chunk, and takes it again for itself, as the oldest: whatever the reader has
/// read by then, records are whole, and what it has not is counted.
///
/// # Panics
///
/// The law does not hold.
pub fn a_chunk_that_is_taken_again() {
    check(|| {
        let shared = Arc::new(Shared::new());
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let mut writer = Writer::for_owner(&shared, FIRST);
                writer.emit();
                writer.emit();
                let before = writer.attempts;
                writer.close();
                let Some(mut writer) = Writer::take(&shared, 1, SECOND) else {
                    panic!("it is free");
                };
                writer.emit();
                before + writer.attempts
            }
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

/// A stream is taken away from under a thread that emits, and its chunk goes to a thread of another
/// stream: whose reader finds that thread's records alone, whole, and all counted.
///
/// # Panics
///
/// The law does not hold.
pub fn a_stream_taken_away() {
    check(|| {
        let shared = Arc::new(Shared::new());
        let mut old = Writer::for_owner(&shared, FIRST);
        let new = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let Some(mut writer) = Writer::take(&shared, 2, SECOND) else {
                    // The chunk is not free yet, or never: the old thread was amid a record.
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
