//! One event of a log, with all that is known of it.

use tracer_common::event_type::SystemEventType;
use tracer_engine::event::{MonotonicNs, RealtimeNs};
use tracer_log::LogRecord;

use crate::report::Line;

/// One event of a log.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// What the reports show of it.
    pub line: Line<'a>,
    /// When it was recorded, on the log's monotonic clock. Never decreases within a log.
    pub at: MonotonicNs,
    /// When it was recorded, as a date. Never decreases within a log.
    pub date: RealtimeNs,
}

impl<'a> Entry<'a> {
    /// The entry of `record`, of whose type `name` and the entry in the table are known.
    #[must_use]
    pub fn new(
        record: &LogRecord<'a>,
        name: &'a [u8],
        entry: Option<&'static SystemEventType>,
    ) -> Self {
        Self {
            line: Line {
                event: record.event,
                entry,
                name,
                comm: (!record.comm.is_empty()).then_some(record.comm),
                realtime: Some(record.realtime),
                inside: None,
                stack: None,
            },
            at: record.event.header.time,
            date: record.realtime,
        }
    }

    /// The entry of a line of which the log had the date.
    #[must_use]
    pub fn of_line(line: Line<'a>) -> Self {
        Self {
            at: line.event.header.time,
            date: line.realtime.unwrap_or_default(),
            line,
        }
    }
}
