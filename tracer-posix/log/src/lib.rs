//! The trace log: events of a stream in a file (option TRL).
//!
//! # Reading events
//!
//! The reader lends an event until the next call. The event comes with the name of its type:
//!
//! ```
//! use std::fs::File;
//! use tracer_log::LogReader;
//! # use std::path::Path;
//! # use tracer_engine::event::{EventHeader, EventTypeId, MonotonicNs, Truncation};
//! # use tracer_engine::{Attributes, EventTypes, Ledger, LogFullPolicy};
//! # use tracer_log::{clocks_now, FinalStatus, LogHeader, LogOptions, LogWriter};
//! #
//! # fn write(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
//! #     let file = File::options().read(true).write(true).create(true).open(path)?;
//! #     let anchor = clocks_now();
//! #     let header = LogHeader { attributes: Attributes::default(), anchor };
//! #     let options = LogOptions { policy: LogFullPolicy::Append, max_size: 0 };
//! #     let mut log = LogWriter::create(file, &header, options)?;
//! #     let mut types = EventTypes::default();
//! #     let event = EventHeader {
//! #         time: MonotonicNs(anchor.monotonic.0 + 1),
//! #         event_type: types.define_user(b"request", None),
//! #         pid: 1,
//! #         tid: 1,
//! #         cpu: None,
//! #         thread_id: 0,
//! #         program_address: 0,
//! #         truncation: Truncation::None,
//! #     };
//! #     log.append(&event, b"hello", b"server", &types)?;
//! #     log.complete(&types, &Ledger::default(), FinalStatus::default())?;
//! #     Ok(())
//! # }
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("log");
//! # write(&path)?;
//!
//! let mut log = LogReader::open(File::open(path)?)?;
//! # let mut names = Vec::new();
//! while let Some(record) = log.next_record()? {
//!     let header = record.event.header;
//!     println!("{} of thread {}: {:?}", record.name(), header.tid, record.event.data);
//!     # names.push(record.name().into_owned());
//! }
//! # assert_eq!(names, ["request"]);
//!
//! // From the start again, with events that own their data.
//! log.rewind();
//! let events = log.records().collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(events[0].name, "request");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The reader never waits for a log: at the current end [`next_record`](LogReader::next_record)
//! returns `None`, and a later call continues with what was written since. So a program can follow
//! a log that is being written. An asynchronous function reads a log like any other file: on a
//! thread that may block. With the feature `serde`, events can be converted to and from other
//! formats.
//!
//! The program that emits an event decides what its data is; events of the crate `tracing` have
//! [fields](LogRecord::fields).
//!
//! # How it is made
//!
//! `docs/log-format.md` describes the file byte by byte. From the bottom up:
//!
//! - `layout`: the fixed parts, as they lie in the file; `varint`, `losses`, `preamble`: the
//!   variable ones.
//! - `encode`, `decode`: events to the bytes of a packet, and back.
//! - `region`: where the next packet goes, and what it overwrites, for each policy.
//! - `bytes`: the trait of what a log is read from.
//! - `writer`: `LogWriter`, on Linux; all its effects go through `medium`.
//! - `packet_scanner`, `packet_cursor` (`sequential_cursor`, `circular_cursor`): finding packets in
//!   a file that may hold anything; `reader`: [`LogReader`].

#![deny(unsafe_code)]
#![deny(missing_debug_implementations)]
// Nothing that comes from outside may end the program.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stderr,
        clippy::print_stdout,
        clippy::wildcard_enum_match_arm
    )
)]
#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "logs are written on Linux, and read everywhere")
)]

mod bytes;
mod circular_cursor;
mod decode;
mod dictionary;
mod encode;
mod error;
#[cfg(test)]
mod example;
mod file_header;
mod info;
mod layout;
mod losses;
#[cfg(target_os = "linux")]
mod medium;
mod packet_cursor;
mod packet_header;
mod packet_scanner;
mod preamble;
mod reader;
mod region;
mod sequential_cursor;
#[cfg(test)]
mod switches;
#[cfg(target_os = "linux")]
mod sys;
mod trailer;
mod varint;
#[cfg(target_os = "linux")]
mod writer;

pub use bytes::LogBytes;
pub use error::{OpenError, WriteError};
pub use info::{FinalStatus, LogHeader, LogOptions, System};
pub use packet_cursor::Damage;
pub use reader::{LogReader, LogRecord, Records};
#[cfg(target_os = "linux")]
pub use sys::clocks_now;
#[cfg(target_os = "linux")]
pub use writer::LogWriter;
