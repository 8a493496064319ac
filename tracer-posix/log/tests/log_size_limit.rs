//! A process that may not make large files: its log ends there, and the process does not. Alone in
//! its file, for the limit is the whole process's.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "log_file/support.rs"]
#[expect(dead_code, reason = "this test uses a part of it")]
mod support;

use support::{event, file, log_header, open, options, rest_of, types};
use tracer_engine::{Ledger, LogFullPolicy};
use tracer_log::{Damage, FinalStatus, LogWriter};

#[test]
fn beyond_the_limit_events_are_counted_and_the_error_is_efbig() {
    let limit = libc::rlimit {
        rlim_cur: 50_000,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `limit` is a valid object.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
    assert_eq!(result, 0);
    let (file, types, ledger) = (file(), types(), Ledger::default());
    let append = options(LogFullPolicy::Append, 0);
    let mut writer = LogWriter::create(file.try_clone().unwrap(), &log_header(), append).unwrap();
    let mut errors = Vec::new();
    let events: Vec<_> = (0..5_000).map(event).collect();
    for event in &events {
        let added = writer.append(&event.header, &event.data, &event.comm, &types);
        let flushed = writer.flush(&ledger);
        errors.extend(added.and(flushed).err().map(|error| error.error_number()));
    }
    let completed = writer.complete(&types, &ledger, FinalStatus::default());

    assert_eq!(completed.unwrap_err().error_number(), libc::EFBIG);
    assert!(!errors.is_empty() && errors.iter().all(|errno| *errno == libc::EFBIG));
    let mut reader = open(&file);
    let read = rest_of(&mut reader);
    assert!(read.len() > 100 && events.starts_with(&read));
    assert_eq!(read.len() as u64 + reader.lost_in_log(), 5_000);
    assert_eq!(reader.damage(), Damage::default());
    assert_eq!(reader.final_status().unwrap().flush_error, libc::EFBIG);
    assert!(reader.final_status().unwrap().is_log_overrun);
}
