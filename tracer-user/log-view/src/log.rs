//! Access that looking at a log needs, and opening one.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::Context;
use tracer_common::event_type::EventTypeId;
use tracer_engine::EventTypes;
use tracer_engine::event::{Event, MonotonicNs};
use tracer_engine::source::LossCause;
use tracer_log::{Damage, FinalStatus, LogHeader, LogReader, LogRecord, System};

use tracer_syscalls::names;
use tracer_text::escape::push_for_people;
use tracer_text::say;

/// A log, read from its oldest event on. [`LogReader`] explains each of these; tests make logs up.
pub trait Log {
    /// Returns the start of the log.
    fn header(&self) -> &LogHeader;
    /// Returns the system that it was made on.
    fn system(&self) -> &System;
    /// Returns its event types.
    fn event_types(&self) -> &EventTypes;
    /// Returns the status at the end.
    fn final_status(&self) -> Option<FinalStatus>;
    /// Returns the time when the trace ended, as far as the log says.
    fn ended(&self) -> Option<MonotonicNs>;
    /// Goes on to the next event; false where there is none now.
    ///
    /// # Errors
    ///
    /// The file could not be read.
    fn advance(&mut self) -> io::Result<bool>;
    /// Returns the event at hand.
    fn record(&self) -> Option<LogRecord<'_>>;
    /// Returns a number that is another one when losses or damage may be more than before.
    fn losses_version(&self) -> u64;
    /// Skips packets that end before `time`; events before it may still follow.
    fn skip_to(&mut self, time: MonotonicNs);
    /// Returns the damage: what could not be read.
    fn damage(&self) -> Damage;
    /// Returns the number of events that the trace lost for a cause.
    fn lost(&self, cause: LossCause) -> u64;
    /// Returns the time when the losses so far were counted.
    fn losses_counted_by(&self) -> Option<MonotonicNs>;
    /// Returns the number of events that the trace lost for causes that only a later version knows.
    fn lost_for_other_causes(&self) -> u64;
    /// Returns the number of events that the log lost.
    fn lost_in_log(&self) -> u64;
    /// Returns the count of bytes so far, and of the whole log.
    fn progress(&self) -> (u64, u64);
}

impl Log for LogReader {
    fn header(&self) -> &LogHeader {
        self.header()
    }

    fn system(&self) -> &System {
        self.system()
    }

    fn event_types(&self) -> &EventTypes {
        self.event_types()
    }

    fn final_status(&self) -> Option<FinalStatus> {
        self.final_status()
    }

    fn ended(&self) -> Option<MonotonicNs> {
        self.ended()
    }

    #[inline]
    fn advance(&mut self) -> io::Result<bool> {
        self.advance()
    }

    #[inline]
    fn record(&self) -> Option<LogRecord<'_>> {
        self.record()
    }

    #[inline]
    fn losses_version(&self) -> u64 {
        self.losses_version()
    }

    fn skip_to(&mut self, time: MonotonicNs) {
        self.skip_to(time);
    }

    fn damage(&self) -> Damage {
        self.damage()
    }

    fn lost(&self, cause: LossCause) -> u64 {
        self.lost(cause)
    }

    fn losses_counted_by(&self) -> Option<MonotonicNs> {
        self.losses_counted_by()
    }

    fn lost_for_other_causes(&self) -> u64 {
        self.lost_for_other_causes()
    }

    fn lost_in_log(&self) -> u64 {
        self.lost_in_log()
    }

    fn progress(&self) -> (u64, u64) {
        self.progress()
    }
}

/// Opens the log at `path`.
///
/// # Errors
///
/// It cannot be read, or is none.
pub fn open(path: &Path) -> anyhow::Result<LogReader> {
    let what = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(what)?;
    let log = LogReader::open(file).with_context(what)?;
    let machine = &log.system().machine;
    if names::take_as_of(machine) {
        let mut line = path.as_os_str().as_encoded_bytes().to_vec();
        line.extend_from_slice(b" is of another kind of machine: ");
        line.extend_from_slice(machine);
        let mut shown = Vec::new();
        push_for_people(&mut shown, &line);
        say(&format!(
            "{}; its system calls have no names here, and none is left out by name: read it on \
             such a machine",
            String::from_utf8_lossy(&shown)
        ));
    }
    Ok(log)
}

/// Hands over each event that names an address. They are at the end of a log, and asked for before
/// stacks are shown.
pub fn each_symbol(log: &Path, each: &mut dyn FnMut(&Event<'_>)) {
    let Ok(mut log) = open(log) else { return };
    while let Ok(Some(record)) = log.next_record() {
        if record.event.header.event_type == EventTypeId::SYMBOL {
            each(&record.event);
        }
    }
}
