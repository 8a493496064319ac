//! The trace log: events of a stream in a file (option TRL).
//!
//! `docs/log-format.md` describes the file byte by byte. From below:
//!
//! - `layout`: the fixed parts, as they lie in the file; `varint`, `losses`, `preamble`: the variable ones.
//! - `encode`, `decode`: events to the bytes of a packet, and back.
//! - `region`: where the next packet goes, and what gives way, for each policy.
//! - `bytes`: what a log is read from.
//! - `writer`: `LogWriter`, on Linux; all its effects go through `medium`.
//! - `probe`, `line`, `ring`: finding packets in a file that may hold anything; `reader`: [`LogReader`].

#![deny(unsafe_code)]
#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "logs are written on Linux, and read everywhere")
)]

mod bytes;
mod decode;
mod dictionary;
mod encode;
mod error;
#[cfg(test)]
mod example;
mod file_header;
mod info;
mod layout;
mod line;
mod losses;
#[cfg(target_os = "linux")]
mod medium;
mod packet_header;
mod preamble;
mod probe;
mod reader;
mod region;
mod ring;
#[cfg(test)]
mod switches;
#[cfg(target_os = "linux")]
mod sys;
mod track;
mod trailer;
mod varint;
#[cfg(target_os = "linux")]
mod writer;

pub use bytes::LogBytes;
pub use error::{OpenError, WriteError};
pub use info::{ClockAnchor, FinalStatus, LogHeader, LogOptions, System};
pub use reader::{LogReader, LogRecord};
pub use track::Damage;
#[cfg(target_os = "linux")]
pub use writer::LogWriter;
