//! Messages between processes of this project, and events in them.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use tracer_common::event_type::EventTypeId;

use tracer_engine::event::{Event, EventHeader, MonotonicNs, Truncation};

/// Most bytes of a message.
const MOST_BYTES: usize = 4 << 20;

/// An event as sent.
#[derive(Debug, Serialize, Deserialize)]
pub struct SentEvent {
    time: u64,
    event_type: u32,
    pid: i32,
    tid: i32,
    cpu: Option<u32>,
    thread_id: u64,
    program_address: u64,
    is_truncated: bool,
    /// Its data.
    pub data: Vec<u8>,
}

impl SentEvent {
    /// Returns the event, to be sent.
    #[must_use]
    pub fn new(event: &Event<'_>) -> Self {
        let header = &event.header;
        Self {
            time: header.time.0,
            event_type: header.event_type.0,
            pid: header.pid,
            tid: header.tid,
            cpu: header.cpu,
            thread_id: header.thread_id,
            program_address: header.program_address,
            is_truncated: header.truncation == Truncation::Record,
            data: event.data.to_vec(),
        }
    }

    /// Returns everything but its data.
    #[must_use]
    pub fn header(&self) -> EventHeader {
        EventHeader {
            time: MonotonicNs(self.time),
            event_type: EventTypeId(self.event_type),
            pid: self.pid,
            tid: self.tid,
            cpu: self.cpu,
            thread_id: self.thread_id,
            program_address: self.program_address,
            truncation: if self.is_truncated {
                Truncation::Record
            } else {
                Truncation::None
            },
        }
    }
}

/// Returns a message as it goes over a stream of bytes: its length, then the message.
///
/// # Errors
///
/// The message is longer than messages may be.
pub fn framed<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let body = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let length = u32::try_from(body.len()).ok();
    let length = length.filter(|_| body.len() <= MOST_BYTES);
    let length = length.ok_or(io::ErrorKind::InvalidInput)?;
    Ok([&length.to_le_bytes(), &body[..]].concat())
}

/// Writes a message.
///
/// # Errors
///
/// The error of the other side, or of the system.
pub fn write_message<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    to.write_all(&framed(message)?)
}

/// Reads a message.
///
/// # Errors
///
/// The system's error; `InvalidData` for bytes that are no such message.
pub fn read_message<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut body = vec![0; checked_length(length)?];
    from.read_exact(&mut body)?;
    parsed(&body)
}

/// Returns the length of the message that follows these four bytes.
///
/// # Errors
///
/// `InvalidData`: no message is so long.
pub fn checked_length(untrusted: [u8; 4]) -> io::Result<usize> {
    let length = usize::try_from(u32::from_le_bytes(untrusted)).ok();
    let length = length.filter(|length| *length <= MOST_BYTES);
    length.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Decodes a message.
///
/// # Errors
///
/// `InvalidData`: the bytes are no such message.
pub fn parsed<T: DeserializeOwned>(untrusted: &[u8]) -> io::Result<T> {
    postcard::from_bytes(untrusted)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_memory_is_taken_for_a_message_that_is_said_to_be_too_long() {
        let said = |length: usize| u32::try_from(length).unwrap().to_le_bytes();
        assert_eq!(checked_length(said(MOST_BYTES)).unwrap(), MOST_BYTES);
        for length in [said(MOST_BYTES + 1), [0xff; 4]] {
            let refused = read_message::<u32>(&mut &length[..]).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        }
    }
}
