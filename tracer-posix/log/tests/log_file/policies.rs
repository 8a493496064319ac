//! Tests of the events that a log retains under each policy.

use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use tracer_log::clocks_now;

use crate::support::{
    Recorded, add, complete, contents, event, file, log_header, open, options, overwrite, rest_of,
    types, write_log,
};
use tracer_common::event_type::EventTypeId;
use tracer_engine::event::MonotonicNs;
use tracer_engine::source::{Loss, LossCause};
use tracer_engine::{LogFullPolicy, StreamCore, StreamFullPolicy};
use tracer_log::{Damage, FinalStatus, LogOptions, LogWriter, OpenError, WriteError};

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
fn a_log_says_when_the_trace_ended_or_when_it_was_full_itself() {
    const END: MonotonicNs = MonotonicNs(u64::MAX / 2);
    let ended = |policy, max_size, to: Option<MonotonicNs>, count| {
        let file = file();
        let mut writer = write_log(&file, options(policy, max_size), &events(count), 100);
        if let Some(to) = to {
            writer.advance(to);
        }
        complete(writer);
        let mut reader = open(&file);
        let last = rest_of(&mut reader).last().map(|last| last.header.time);
        (reader.ended(), last)
    };
    assert_eq!(ended(LogFullPolicy::Append, 0, Some(END), 9).0, Some(END));
    assert_eq!(ended(LogFullPolicy::Append, 0, None, 9).0, None);
    // Events cannot be later than the end.
    let (end, last) = ended(LogFullPolicy::Append, 0, Some(MonotonicNs(0)), 9);
    assert_eq!(end, last);
    assert_eq!(
        ended(LogFullPolicy::Loop, 20_000, Some(END), 5_000).0,
        Some(END)
    );
    let (end, last) = ended(LogFullPolicy::UntilFull, 20_000, Some(END), 5_000);
    assert!(end.is_some() && end == last, "{end:?} {last:?}");

    // A log that is continued has no end until it is completed again.
    let file = file();
    let mut writer = write_log(&file, options(LogFullPolicy::Append, 0), &events(9), 100);
    writer.advance(END);
    complete(writer);
    let (writer, _) = LogWriter::append_to(file.try_clone().unwrap()).unwrap();
    assert_eq!(open(&file).ended(), None);
    complete(writer);
    assert_eq!(open(&file).ended(), None);
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
        assert!(!writer.is_full() && !writer.take_overrun());
        add(&mut writer, &events[20_000..20_100], 10);

        // One that was open, and one that finds the log as a killed writer leaves it.
        for mut reader in [reader, open(&file)] {
            assert!(rest_of(&mut reader) == events[20_000..20_100]);
            assert_eq!(reader.lost_in_log(), 0);
            assert_eq!(reader.damage(), Damage::default());
        }
    }
}

#[test]
fn a_log_that_goes_round_retains_its_space_when_it_is_cleared() {
    let (file, events) = (file(), events(20_000));
    let mut writer = write_log(&file, options(LogFullPolicy::Loop, 300_000), &events, 1_000);
    let before = file.metadata().unwrap();

    writer.clear().unwrap();
    let after = file.metadata().unwrap();
    assert_eq!(
        (after.len(), after.blocks()),
        (before.len(), before.blocks())
    );

    complete(writer);
    assert!(file.metadata().unwrap().len() < before.len());
    let mut reader = open(&file);
    assert!(rest_of(&mut reader).is_empty());
    assert_eq!(reader.damage(), Damage::default());
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

        let (mut writer, types) = LogWriter::append_to(file.try_clone().unwrap()).unwrap();
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
fn losses_of_the_stream_are_reported() {
    let mut stream = StreamCore::new(StreamFullPolicy::Loop, 10_000);
    stream.feed_loss(Loss {
        cause: LossCause::ThreadRingFull,
        count: 5,
        since: MonotonicNs(0),
        is_marked: false,
    });
    let early = stream.ledger().clone();
    stream.feed_loss(Loss {
        cause: LossCause::Late,
        count: 2,
        since: MonotonicNs(0),
        is_marked: false,
    });
    let file = file();
    let mut writer = write_log(&file, options(LogFullPolicy::Append, 0), &[event(1)], 10);
    writer.flush(&early).unwrap();
    let mut reader = open(&file);
    assert_eq!(rest_of(&mut reader).len(), 1);
    assert_eq!(reader.lost(LossCause::ThreadRingFull), 5);

    // Without an event, too.
    writer.flush(stream.ledger()).unwrap();
    assert_eq!(rest_of(&mut reader).len(), 0);

    assert_eq!(reader.lost(LossCause::ThreadRingFull), 5);
    assert_eq!(reader.lost(LossCause::Late), 2);
    assert_eq!(reader.lost_in_log(), 0);

    // A cleared log counts anew.
    writer.clear().unwrap();
    add(&mut writer, &[event(2)], 10);
    writer.flush(stream.ledger()).unwrap();
    assert_eq!(rest_of(&mut reader).len(), 1);
    assert_eq!(reader.lost(LossCause::Late), 0);
}

#[test]
fn a_looping_log_keeps_its_promise_whatever_the_size_of_packets() {
    let attributes = log_header().attributes;
    let max_size = LogOptions::least_size(&attributes) + 700;
    for length in (0..=1024).step_by(5) {
        let file = file();
        let mut events = events(60);
        for event in &mut events {
            event.data = vec![7; length];
        }
        complete(write_log(
            &file,
            options(LogFullPolicy::Loop, max_size),
            &events,
            1,
        ));

        let mut reader = open(&file);
        let read = rest_of(&mut reader);

        assert!(!read.is_empty() && events.ends_with(&read), "{length}");
        assert_eq!(read.len() as u64 + reader.lost_in_log(), 60);
        assert_eq!(reader.damage(), Damage::default());
    }
}

#[test]
fn a_limit_that_cannot_hold_an_event_and_a_stop_is_refused() {
    let header = log_header();
    let least = LogOptions::least_size(&header.attributes);
    for policy in [LogFullPolicy::Loop, LogFullPolicy::UntilFull] {
        let create = |max_size| LogWriter::create(file(), &header, options(policy, max_size));

        let error = create(least - 1).unwrap_err();

        assert_eq!(error.error_number(), libc::EINVAL);
        assert!(create(least).is_ok());
    }
    let huge = LogWriter::create(file(), &header, options(LogFullPolicy::Loop, u64::MAX));
    assert_eq!(huge.unwrap_err().error_number(), libc::EINVAL);
}

#[test]
fn the_least_log_until_full_holds_the_largest_event() {
    let header = log_header();
    let least = LogOptions::least_size(&header.attributes);
    let file = file();
    let mut large = event(0);
    large.data = vec![9; 1024];
    let events = [large.clone(), large];
    complete(write_log(
        &file,
        options(LogFullPolicy::UntilFull, least),
        &events,
        1,
    ));

    let mut reader = open(&file);
    let read = rest_of(&mut reader);

    assert!(read[0] == events[0]);
    assert_eq!((read.len(), reader.lost_in_log()), (2, 1));
    assert_eq!(read[1].header.event_type, EventTypeId::STOP);
}

#[test]
fn an_event_that_no_packet_holds_is_refused_and_counted() {
    let file = file();
    let mut writer = write_log(&file, options(LogFullPolicy::Append, 0), &[event(1)], 10);
    let long = vec![0; 1 << 20];

    let error = writer.append(&event(2).header, &long, b"", &types());

    assert_eq!(error.unwrap_err().error_number(), libc::EINVAL);
    assert_eq!(writer.lost_in_log(), 1);
    add(&mut writer, &[event(3)], 1);
    complete(writer);
    assert!(rest_of(&mut open(&file)) == [event(1), event(3)]);
}

#[test]
fn an_event_from_the_past_is_refused_and_counted() {
    let file = file();
    let mut writer = write_log(&file, options(LogFullPolicy::Append, 0), &[event(9)], 10);

    let error = writer.append(&event(8).header, b"", b"", &types());

    assert!(error.unwrap_err().to_string().contains("500 ns too late"));
    complete(writer);
    let mut reader = open(&file);
    assert!(rest_of(&mut reader) == [event(9)]);
    assert_eq!(reader.lost_in_log(), 1);
}

#[test]
fn only_a_regular_file_that_is_open_for_writing_anywhere_takes_a_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    File::create(&path).unwrap();
    let errno = |file| {
        let options = options(LogFullPolicy::Append, 0);
        let created = LogWriter::create(file, &log_header(), options);
        created.map_or_else(|error| error.error_number(), |_| 0)
    };

    assert_eq!(errno(File::open(&path).unwrap()), libc::EBADF);
    let appending = OpenOptions::new().append(true).open(&path).unwrap();
    assert_eq!(errno(appending), libc::EINVAL);
    let (_reading, writing) = std::io::pipe().unwrap();
    assert_eq!(errno(File::from(OwnedFd::from(writing))), libc::EINVAL);
    let null = OpenOptions::new().write(true).open("/dev/null").unwrap();
    assert_eq!(errno(null), libc::EINVAL);
    assert_eq!(
        errno(OpenOptions::new().write(true).open(&path).unwrap()),
        0
    );
}

#[test]
fn what_cannot_be_continued_is_reported() {
    let again = |file: &File| LogWriter::append_to(file.try_clone().unwrap());
    let text = file();
    overwrite(&text, b"some text that is no log");
    assert!(matches!(
        again(&text),
        Err(WriteError::Unreadable(OpenError::NotALog))
    ));

    let (wrapped, events) = (file(), events(3_000));
    complete(write_log(
        &wrapped,
        options(LogFullPolicy::Loop, 20_000),
        &events,
        10,
    ));
    let before = contents(&wrapped);
    assert!(matches!(again(&wrapped), Err(WriteError::Overwritten)));
    assert!(contents(&wrapped) == before);

    let full = file();
    complete(write_log(
        &full,
        options(LogFullPolicy::UntilFull, 20_000),
        &events,
        10,
    ));
    let before = contents(&full);
    assert!(matches!(again(&full), Err(WriteError::Full)));
    assert!(contents(&full) == before);
}

#[test]
fn a_log_that_was_truncated_is_continued_after_its_last_whole_packet() {
    let (file, events) = (file(), events(1_000));
    drop(write_log(
        &file,
        options(LogFullPolicy::Append, 0),
        &events[..500],
        100,
    ));
    let length = file.metadata().unwrap().len();
    file.set_len(length - 1).unwrap();

    let (mut writer, _) = LogWriter::append_to(file.try_clone().unwrap()).unwrap();
    add(&mut writer, &events[500..], 100);
    complete(writer);

    let mut reader = open(&file);
    let read = rest_of(&mut reader);
    assert!(read[..400] == events[..400] && read[400..] == events[500..]);
    assert_eq!(reader.damage(), Damage::default());
}

#[test]
fn a_log_from_before_a_restart_of_the_machine_goes_on_in_time() {
    let file = file();
    let mut late = event(0);
    late.header.time = MonotonicNs(u64::MAX / 4);
    drop(write_log(
        &file,
        options(LogFullPolicy::Append, 0),
        &[late.clone()],
        1,
    ));
    let (mut writer, _) = LogWriter::append_to(file.try_clone().unwrap()).unwrap();
    let mut now = event(1);
    let clocks = clocks_now();
    now.header.time = clocks.monotonic;
    add(&mut writer, &[now], 1);
    complete(writer);

    let mut reader = open(&file);
    let first = reader.next_record().unwrap().unwrap().realtime;
    let second = reader.next_record().unwrap().unwrap();

    assert!(second.event.header.time >= late.header.time);
    assert!(second.realtime >= first && second.realtime >= clocks.realtime);
}

#[test]
fn packets_before_a_time_are_skipped() {
    let (file, events) = (file(), events(1_000));
    complete(write_log(
        &file,
        options(LogFullPolicy::Append, 0),
        &events,
        10,
    ));
    let mut reader = open(&file);

    reader.skip_to(events[505].header.time);

    assert!(rest_of(&mut reader) == events[500..]);
    assert_eq!(reader.damage(), Damage::default());
    // From the beginning again, that is all.
    reader.rewind();
    assert!(rest_of(&mut reader) == events);
}

#[test]
fn progress_goes_from_nothing_to_all() {
    for policy in [LogFullPolicy::Append, LogFullPolicy::Loop] {
        let (file, events) = (file(), events(5_000));
        drop(write_log(&file, options(policy, 50_000), &events, 10));
        let mut reader = open(&file);
        let (start, _) = reader.progress();
        rest_of(&mut reader);
        let (end, all) = reader.progress();

        assert_eq!(start, 0);
        assert!(end > all / 2 && end <= all);
    }
}
