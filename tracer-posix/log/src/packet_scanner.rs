//! Looking for packets in a file that may hold anything.

#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, reason = "the file may say anything")
)]

use std::io;

use super::bytes::LogBytes;

use super::layout::{
    ALIGNMENT, LogId, MAX_PACKET_BYTES, PACKET_HEADER_BYTES, PACKET_MAGIC, REGION_START,
};
use super::packet_header::PacketHeader;
use super::trailer::{self, TRAILER_HEADER_BYTES};

/// Bytes that a search reads at a time.
const SEARCH_BYTES: usize = 64 * 1024;

/// Reads a log's file, never more than one packet at a time.
#[derive(Debug)]
pub(super) struct PacketScanner<B> {
    bytes: B,
}

/// A packet whose header is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub offset: u64,
    pub header: PacketHeader,
}

impl Found {
    /// Returns the offset just past its last byte.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.header.length as u64)
    }
}

impl<B: LogBytes> PacketScanner<B> {
    pub fn new(bytes: B) -> Self {
        Self { bytes }
    }

    /// Returns the bytes that it reads.
    pub fn into_bytes(self) -> B {
        self.bytes
    }

    /// Returns the number of bytes of the file now.
    pub fn file_length(&self) -> io::Result<u64> {
        self.bytes.length()
    }

    /// Reads as much as there is, up to what fits.
    pub fn read_at<'a>(&self, buffer: &'a mut [u8], offset: u64) -> io::Result<&'a [u8]> {
        let mut length = 0;
        while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
            match self
                .bytes
                .read_at(rest, offset.saturating_add(length as u64))
            {
                Ok(0) => break,
                Ok(read) => length = length.saturating_add(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(buffer.get(..length).unwrap_or_default())
    }

    /// Returns the packet that begins at `offset`, if its header is whole.
    pub fn packet_at(&self, offset: u64, log_id: LogId) -> io::Result<Option<Found>> {
        let mut buffer = [0; PACKET_HEADER_BYTES];
        let untrusted = self.read_at(&mut buffer, offset)?;
        let header = PacketHeader::from_bytes(untrusted, log_id);
        Ok(header.map(|header| Found { offset, header }))
    }

    /// Returns the offset just past the trailer that begins at `offset`, if one does.
    pub fn trailer_end(&self, offset: u64, log_id: LogId) -> io::Result<Option<u64>> {
        let mut buffer = [0; TRAILER_HEADER_BYTES];
        let untrusted = self.read_at(&mut buffer, offset)?;
        let length = trailer::length_of(untrusted, log_id);
        Ok(length.and_then(|length| offset.checked_add(length as u64)))
    }

    /// Returns a whole trailer's bytes, and whatever follows it.
    pub fn trailer_at(&self, offset: u64) -> io::Result<Vec<u8>> {
        if offset < REGION_START {
            return Ok(Vec::new());
        }
        let length = self.file_length()?.saturating_sub(offset);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let mut buffer = vec![0; length.min(MAX_PACKET_BYTES)];
        let read = self.read_at(&mut buffer, offset)?.len();
        buffer.truncate(read);
        Ok(buffer)
    }

    /// Returns the first packet with a whole header that begins in `from..end`, at a multiple of
    /// the alignment.
    pub fn search(&self, from: u64, end: u64, log_id: LogId) -> io::Result<Option<Found>> {
        let mut buffer = vec![0; SEARCH_BYTES];
        let Some(mut offset) = from.checked_next_multiple_of(ALIGNMENT as u64) else {
            return Ok(None);
        };
        while offset < end {
            let untrusted = self.read_at(&mut buffer, offset)?;
            if untrusted.len() < PACKET_HEADER_BYTES {
                return Ok(None);
            }
            let offsets =
                (0..=untrusted.len().saturating_sub(PACKET_HEADER_BYTES)).step_by(ALIGNMENT);
            let last = offsets.clone().last().unwrap_or(0);
            for start in offsets {
                let candidate = untrusted.get(start..).unwrap_or_default();
                if !candidate.starts_with(&PACKET_MAGIC) {
                    continue;
                }
                let offset = offset.saturating_add(start as u64);
                if offset >= end {
                    return Ok(None);
                }
                if let Some(header) = PacketHeader::from_bytes(candidate, log_id) {
                    return Ok(Some(Found { offset, header }));
                }
            }
            offset = offset.saturating_add(last.saturating_add(ALIGNMENT) as u64);
        }
        Ok(None)
    }
}
