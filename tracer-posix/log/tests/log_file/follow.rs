//! A log that is read while another thread writes it.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;

use tracer_engine::{Ledger, LogFullPolicy};
use tracer_log::{LogReader, LogWriter};

use crate::support::{complete, event, file, log_header, open, options, types};

const EVENTS: u64 = 60_000;

/// Reads what is there; every event has to be just what was written with its index, and later than
/// the one before. Returns how many there were.
fn read_on(reader: &mut LogReader, next: &mut u64) -> u64 {
    let mut count = 0;
    while let Some(record) = reader.next_record().unwrap() {
        let index = u64::from_le_bytes(record.event.data[..8].try_into().unwrap());
        assert!(index >= *next);
        let written = event(index);
        assert_eq!(record.event.header, written.header);
        assert_eq!(record.event.data, written.data);
        assert_eq!(record.comm, written.comm);
        *next = index + 1;
        count += 1;
    }
    count
}

#[test]
fn a_reader_beside_the_writer_never_sees_a_wrong_event() {
    for (policy, max_size) in [
        (LogFullPolicy::Append, 0),
        (LogFullPolicy::Loop, 5_000),
        (LogFullPolicy::Loop, 50_000),
        (LogFullPolicy::Loop, 500_000),
    ] {
        let file = file();
        let mut writer = LogWriter::create(
            file.try_clone().unwrap(),
            &log_header(),
            options(policy, max_size),
        )
        .unwrap();
        let mut reader = open(&file);
        let is_done = AtomicBool::new(false);
        let (mut count, mut next) = (0, 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                let types = types();
                for index in 0..EVENTS {
                    let event = event(index);
                    writer
                        .append(&event.header, &event.data, &event.comm, &types)
                        .unwrap();
                    if index % 37 == 0 {
                        writer.flush(&Ledger::default()).unwrap();
                    }
                }
                complete(writer);
                is_done.store(true, Release);
            });
            while !is_done.load(Acquire) {
                count += read_on(&mut reader, &mut next);
            }
        });
        count += read_on(&mut reader, &mut next);

        // The newest events are there, and what was missed is known to be missing.
        assert_eq!(next, EVENTS);
        assert!(reader.final_status().is_some());
        let damage = reader.damage();
        assert_eq!(
            count < EVENTS,
            damage.packets_missing > 0,
            "{policy:?} {max_size} {damage:?}"
        );
        if policy == LogFullPolicy::Append {
            assert_eq!((count, damage.sites), (EVENTS, 0));
        }
    }
}
