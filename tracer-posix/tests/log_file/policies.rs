//! What each policy keeps of a log's events.

use crate::support::{
    Recorded, add, complete, event, file, open, options, rest_of, types, write_log,
};
use tracer_common::event_type::EventTypeId;
use tracer_posix::engine::{Ledger, LogFullPolicy};
use tracer_posix::log::{Damage, FinalStatus};

fn events(count: u64) -> Vec<Recorded> {
    (0..count).map(event).collect()
}

#[test]
fn a_log_without_a_limit_holds_every_event() {
    let (file, events) = (file(), events(10_000));
    let writer = write_log(&file, options(LogFullPolicy::Append, 0), &events, 3_000);
    complete(writer);

    let mut reader = open(&file);

    assert!(rest_of(&mut reader) == events);
    assert_eq!(reader.damage(), Damage::default());
    assert_eq!(reader.events_at_end(), Some(10_000));
    assert_eq!(reader.final_status(), Some(FinalStatus::default()));
    assert_eq!(
        reader.event_types().name(EventTypeId(257)),
        Some(&b"request"[..])
    );
    reader.rewind();
    assert!(rest_of(&mut reader) == events);
}

#[test]
fn a_log_that_was_never_completed_holds_what_was_flushed() {
    let (file, events) = (file(), events(1_000));
    let writer = write_log(&file, options(LogFullPolicy::Append, 0), &events, 900);
    drop(writer);

    let mut reader = open(&file);

    assert_eq!(
        reader.event_types().name(EventTypeId(258)),
        Some(&b"answer"[..])
    );
    assert!(rest_of(&mut reader) == events[..900]);
    assert_eq!(reader.final_status(), None);
    assert_eq!(reader.damage(), Damage::default());
}

#[test]
fn a_looping_log_keeps_the_newest_events_and_its_size() {
    for flush_every in [1, 7, 100, 100_000] {
        let (file, events) = (file(), events(20_000));
        let max_size = 200_000;
        let writer = write_log(
            &file,
            options(LogFullPolicy::Loop, max_size),
            &events,
            flush_every,
        );
        assert!(writer.is_full());
        let length = file.metadata().unwrap().len();
        assert!(length <= 8192 + max_size, "{length}");
        complete(writer);

        let mut reader = open(&file);
        let read = rest_of(&mut reader);

        assert!(events.ends_with(&read), "{flush_every}");
        assert_eq!(read.len() as u64 + reader.lost_in_log(), 20_000);
        assert_eq!(reader.events_at_end(), Some(read.len() as u64));
        assert_eq!(reader.damage(), Damage::default());
    }
}

#[test]
fn a_log_until_full_ends_with_a_stop_and_counts_what_it_discarded() {
    let (file, events) = (file(), events(20_000));
    let mut writer = write_log(
        &file,
        options(LogFullPolicy::UntilFull, 200_000),
        &events,
        7,
    );
    assert!(writer.is_full());
    assert!(writer.take_overrun());
    assert!(!writer.take_overrun());
    assert!(file.metadata().unwrap().len() <= 8192 + 200_000);
    complete(writer);

    let mut reader = open(&file);
    let mut read = rest_of(&mut reader);
    let stop = read.pop().unwrap();

    assert_eq!(stop.header.event_type, EventTypeId::STOP);
    assert_eq!((stop.header.pid, stop.header.tid), (0, 0));
    assert_eq!(stop.data, 1_i32.to_ne_bytes());
    assert!(events.starts_with(&read));
    assert!(read.len() > 1_000);
    assert_eq!(read.len() as u64 + reader.lost_in_log(), 20_000);
    assert!(reader.final_status().unwrap().is_log_full);
}

#[test]
fn a_log_can_be_followed_while_it_is_written() {
    for policy in [LogFullPolicy::Append, LogFullPolicy::Loop] {
        let (file, events) = (file(), events(60_000));
        let mut writer = write_log(&file, options(policy, 400_000), &[], 1);
        let mut reader = open(&file);
        let mut read = Vec::new();
        for some in events.chunks(500) {
            add(&mut writer, some, 250);
            read.extend(rest_of(&mut reader));
        }
        complete(writer);
        read.extend(rest_of(&mut reader));

        assert!(read == events);
        assert_eq!(reader.damage(), Damage::default());
        assert!(reader.final_status().is_some());
    }
}

#[test]
fn a_cleared_log_begins_anew() {
    for policy in [
        LogFullPolicy::Append,
        LogFullPolicy::Loop,
        LogFullPolicy::UntilFull,
    ] {
        let (file, events) = (file(), events(30_000));
        let mut writer = write_log(&file, options(policy, 300_000), &events[..20_000], 1_000);
        let mut reader = open(&file);
        assert!(!rest_of(&mut reader).is_empty());
        writer.clear().unwrap();
        assert!(!writer.is_full());
        add(&mut writer, &events[20_000..20_100], 10);

        assert!(rest_of(&mut reader) == events[20_000..20_100]);
        assert_eq!(reader.lost_in_log(), 0);
        assert_eq!(reader.damage(), Damage::default());
    }
}

#[test]
fn a_log_is_continued_after_its_end() {
    for policy in [
        LogFullPolicy::Append,
        LogFullPolicy::Loop,
        LogFullPolicy::UntilFull,
    ] {
        let (file, events) = (file(), events(3_000));
        complete(write_log(
            &file,
            options(policy, 1 << 20),
            &events[..1_000],
            77,
        ));

        let (mut writer, types) =
            tracer_posix::log::LogWriter::append_to(file.try_clone().unwrap()).unwrap();
        assert_eq!(types.name(EventTypeId(257)), Some(&b"request"[..]));
        assert_eq!(open(&file).final_status(), None);
        add(&mut writer, &events[1_000..], 50);
        complete(writer);

        let mut reader = open(&file);
        assert!(rest_of(&mut reader) == events);
        assert_eq!(reader.damage(), Damage::default());
    }
}

#[test]
fn losses_of_the_stream_are_told() {
    let file = file();
    let mut writer = write_log(&file, options(LogFullPolicy::Append, 0), &[event(1)], 1);
    writer.flush(&Ledger::default()).unwrap();
    writer.append(&event(2).header, b"", b"", &types()).unwrap();
    complete(writer);
    let mut reader = open(&file);

    assert_eq!(rest_of(&mut reader).len(), 2);
}
