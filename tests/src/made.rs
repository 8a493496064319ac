//! The beginning of logs that tests write event by event.

use std::fs::File;
use std::path::Path;

use tracer_engine::ClockPair;
use tracer_engine::event::{MonotonicNs, RealtimeNs};
use tracer_engine::{Attributes, LogFullPolicy};
use tracer_log::{LogHeader, LogOptions, LogWriter};

/// Time at which the logs were made, on the monotonic clock.
pub const START_NS: u64 = 5_000_000_000;
/// [`START_NS`] as a date.
const START_DATE_NS: u64 = 1_700_000_000_000_000_000;

/// A new log of a stream of this name.
pub(crate) fn log(path: &Path, name: &str) -> anyhow::Result<LogWriter> {
    let header = LogHeader {
        attributes: Attributes::default().with_name(name),
        anchor: ClockPair {
            monotonic: MonotonicNs(START_NS),
            realtime: RealtimeNs(START_DATE_NS),
        },
    };
    let options = LogOptions {
        policy: LogFullPolicy::Append,
        max_size: 0,
    };
    let mut file = File::options();
    let file = file.read(true).write(true).create_new(true).open(path)?;
    Ok(LogWriter::create(file, &header, options)?)
}
