//! The emitter of a chunk's events: as the record that names a new writer has it, and as a word of
//! the chunk's header.

use tracer_common::area::{IDENTITY_BYTES, RECORD_HEADER_BYTES, home};

/// Bytes of the record that names a new writer.
pub(super) const IDENTITY_TAKES: usize = IDENTITY_BYTES + RECORD_HEADER_BYTES;

/// Identity of an emitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) thread_id: u64,
    /// Where its pid and tid count: see [`home`]. It is not in the record.
    pub(crate) home: u64,
}

impl Identity {
    pub(super) fn to_bytes(self) -> [u8; IDENTITY_BYTES] {
        let mut bytes = [0; IDENTITY_BYTES];
        bytes[..4].copy_from_slice(&self.pid.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.tid.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.thread_id.to_ne_bytes());
        bytes
    }

    /// Decodes the data of an [`IDENTITY_RECORD`].
    pub(crate) fn from_bytes(untrusted: &[u8]) -> Option<Self> {
        let (pid, rest) = untrusted.split_first_chunk()?;
        let (tid, rest) = rest.split_first_chunk()?;
        Some(Self {
            pid: i32::from_ne_bytes(*pid),
            tid: i32::from_ne_bytes(*tid),
            thread_id: u64::from_ne_bytes(*rest.first_chunk()?),
            home: home::UNKNOWN,
        })
    }

    /// Returns the process and the thread as one word.
    pub(crate) fn thread_word(self) -> u64 {
        u64::from(self.pid.unsigned_abs()) << 32 | u64::from(self.tid.unsigned_abs())
    }

    /// Returns the thread, and where its tid counts, as one word.
    pub(crate) fn entry_word(self) -> u64 {
        u64::from(home::namespace_of(self.home)) << 32 | u64::from(self.tid.unsigned_abs())
    }
}

/// Returns the process and the thread that a word names.
pub(crate) fn thread_of(word: u64) -> (i32, i32) {
    let half = |bits: u64| i32::try_from(bits & 0x7fff_ffff).unwrap_or(0);
    (half(word >> 32), half(word))
}

/// Returns the pid namespace, 0 where it is not known, and the thread that an entry's word names.
pub(crate) fn entered(word: u64) -> (u32, i32) {
    let (namespace, tid) = (word >> 32, word & 0x7fff_ffff);
    (
        u32::try_from(namespace).unwrap_or(0),
        i32::try_from(tid).unwrap_or(0),
    )
}
