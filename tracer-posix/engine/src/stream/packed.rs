//! The entries of a stream's buffer as bytes.
//!
//! An entry takes no more than it counts for, and hardly more than it took in the chunk that it
//! came from. A block has a thread's identifiers once, where the thread is first seen; the writer
//! and the reader of the block remember them from there on.

use tracer_common::event_type::EventTypeId;

use crate::event::{EventHeader, MonotonicNs, Truncation};

/// An entry of a buffer.
pub(super) enum Entry {
    Event(Event),
    /// Events are missing, since then.
    Gap(MonotonicNs),
}

/// An event.
pub(super) struct Event {
    pub(super) header: EventHeader,
    /// Bytes before its data.
    pub(super) head: usize,
    pub(super) data_length: usize,
    pub(super) is_accounted: bool,
}

impl Entry {
    /// Returns the number of bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Event(event) => event.head + event.data_length,
            Self::Gap(_) => GAP,
        }
    }

    pub(super) fn time(&self) -> MonotonicNs {
        match self {
            Self::Event(event) => event.header.time,
            Self::Gap(since) => *since,
        }
    }
}

/// Bit of the first word, beside the length of the data.
const IS_GAP: u32 = 1 << 31;
const IS_ACCOUNTED: u32 = 1 << 30;
const IS_TRUNCATED: u32 = 1 << 29;
/// The thread's identifiers follow: they are not remembered.
const DESCRIBES_THREAD: u32 = 1 << 28;
const LENGTH: u32 = DESCRIBES_THREAD - 1;

/// Bytes of a gap, of the head of an event, and of a thread's identifiers.
const GAP: usize = 16;
const HEAD: usize = 32;
const WHO: usize = 16;
/// Most bytes before an event's data.
pub(super) const MOST_HEAD: usize = HEAD + WHO;

/// Tells whether the first entry of these bytes is a gap.
pub(super) fn is_gap(bytes: &[u8]) -> bool {
    let word = bytes.first_chunk();
    word.is_some_and(|word| u32::from_ne_bytes(*word) & IS_GAP != 0)
}

/// A thread.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Who {
    pid: i32,
    tid: i32,
    thread_id: u64,
}

/// Some of the threads that a block has described so far.
#[derive(Clone)]
pub(super) struct Remembered([Who; Self::ENTRIES]);

impl Default for Remembered {
    fn default() -> Self {
        Self([Who::default(); Self::ENTRIES])
    }
}

impl Remembered {
    const ENTRIES: usize = 64;

    /// Returns where a thread would be remembered.
    #[inline]
    fn index_of(tid: i32) -> u8 {
        // The remainder is below the count of entries.
        (tid.unsigned_abs() % 64) as u8
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "an index below the array's length")]
    fn at(&mut self, index: u8) -> &mut Who {
        &mut self.0[usize::from(index) % Self::ENTRIES]
    }

    /// Forgets all: a block begins.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Appends a gap.
    pub(super) fn pack_gap(since: MonotonicNs, to: &mut Vec<u8>) {
        to.extend_from_slice(&IS_GAP.to_ne_bytes());
        to.extend_from_slice(&[0; 4]);
        to.extend_from_slice(&since.0.to_ne_bytes());
    }

    /// Appends an event.
    #[inline(always)]
    pub(super) fn pack(
        &mut self,
        header: &EventHeader,
        data: &[u8],
        is_accounted: bool,
        to: &mut Vec<u8>,
    ) {
        let who = Who {
            pid: header.pid,
            tid: header.tid,
            thread_id: header.thread_id,
        };
        let index = Self::index_of(who.tid);
        let is_new = std::mem::replace(self.at(index), who) != who;
        // No event has a quarter of a gigabyte of data.
        let mut word = u32::try_from(data.len()).unwrap_or(u32::MAX) & LENGTH;
        for (flag, is_set) in [
            (IS_ACCOUNTED, is_accounted),
            (IS_TRUNCATED, header.truncation == Truncation::Record),
            (DESCRIBES_THREAD, is_new),
        ] {
            word |= if is_set { flag } else { 0 };
        }
        let cpu_plus_one = header.cpu.map_or(0, |cpu| cpu.wrapping_add(1));
        let mut head = [0; MOST_HEAD];
        head[..4].copy_from_slice(&word.to_ne_bytes());
        head[8..16].copy_from_slice(&header.time.0.to_ne_bytes());
        head[4..8].copy_from_slice(&header.event_type.0.to_ne_bytes());
        head[24..28].copy_from_slice(&cpu_plus_one.to_ne_bytes());
        head[16..24].copy_from_slice(&header.program_address.to_ne_bytes());
        head[28] = index;
        if is_new {
            head[32..36].copy_from_slice(&who.pid.to_ne_bytes());
            head[36..40].copy_from_slice(&who.tid.to_ne_bytes());
            head[40..].copy_from_slice(&who.thread_id.to_ne_bytes());
            to.extend_from_slice(&head);
        } else {
            to.extend_from_slice(&head[..HEAD]);
        }
        to.extend_from_slice(data);
    }

    /// Returns the first entry of these bytes, which follow those that were unpacked before; `None`
    /// where there is none.
    #[inline(always)]
    pub(super) fn unpack(&mut self, bytes: &[u8]) -> Option<Entry> {
        let gap: &[u8; GAP] = bytes.first_chunk()?;
        let word = u32_at(gap, 0);
        let time = MonotonicNs(u64_at(gap, 8));
        if word & IS_GAP != 0 {
            return Some(Entry::Gap(time));
        }
        let head: &[u8; HEAD] = bytes.first_chunk()?;
        let index = head[28];
        let is_described = word & DESCRIBES_THREAD != 0;
        if is_described {
            *self.at(index) = Self::described(bytes.get(HEAD..)?)?;
        }
        let who = *self.at(index);
        Some(Entry::Event(Event {
            header: EventHeader {
                time,
                event_type: EventTypeId(u32_at(head, 4)),
                pid: who.pid,
                tid: who.tid,
                cpu: u32_at(head, 24).checked_sub(1),
                thread_id: who.thread_id,
                program_address: u64_at(head, 16),
                truncation: if word & IS_TRUNCATED == 0 {
                    Truncation::None
                } else {
                    Truncation::Record
                },
            },
            head: if is_described { MOST_HEAD } else { HEAD },
            data_length: usize::try_from(word & LENGTH).ok()?,
            is_accounted: word & IS_ACCOUNTED != 0,
        }))
    }

    fn described(bytes: &[u8]) -> Option<Who> {
        let (pid, rest) = bytes.split_first_chunk()?;
        let (tid, rest) = rest.split_first_chunk()?;
        Some(Who {
            pid: i32::from_ne_bytes(*pid),
            tid: i32::from_ne_bytes(*tid),
            thread_id: u64::from_ne_bytes(*rest.first_chunk()?),
        })
    }
}

#[inline(always)]
fn u32_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(value)
}

#[inline(always)]
fn u64_at<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(value)
}
