//! The trace log: events of a stream in a file (option TRL).
//!
//! `docs/log-format.md` describes the file byte by byte. From below:
//!
//! - `layout`: the fixed parts, as they lie in the file; `varint`, `losses`, `preamble`: the
//!   variable ones.
//! - `encode`, `decode`: events to the bytes of a packet, and back.
//! - `region`: where the next packet goes, and what gives way, for each policy.
//! - `bytes`: what a log is read from.
//! - `writer`: `LogWriter`, on Linux; all its effects go through `medium`.
//! - `packet_scanner`, `packet_cursor` (`sequential_cursor`, `circular_cursor`): finding packets in
//!   a file that may hold anything; `reader`: [`LogReader`].

#![deny(unsafe_code)]
#![deny(missing_debug_implementations)]
// Whatever comes from outside is no reason to end the program.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
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
pub use reader::{LogReader, LogRecord};
#[cfg(target_os = "linux")]
pub use sys::clocks_now;
#[cfg(target_os = "linux")]
pub use writer::LogWriter;
