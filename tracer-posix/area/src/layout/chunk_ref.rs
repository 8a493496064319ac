//! Where a stream's chunks are: how its windows are divided into them.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use tracer_common::area::{ChunkHeader, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES, WINDOW_BYTES};

use super::chunk::{Chunk, FIRST_RECORD};
use super::identity::IDENTITY_TAKES;
use super::record::record_bytes;

/// How a stream's windows are divided into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) chunk_bytes: usize,
    /// Chunks at the start of a window that its headers take up.
    reserved: usize,
    /// Chunks of a window that records lie in.
    in_window: usize,
}

impl Shape {
    /// Returns the shape of chunks of this size; `None` where no chunk has that size.
    pub(crate) fn new(untrusted_chunk_bytes: u32) -> Option<Self> {
        let is_size = untrusted_chunk_bytes.is_power_of_two()
            && (MIN_CHUNK_BYTES..=MAX_CHUNK_BYTES).contains(&untrusted_chunk_bytes);
        let chunk_bytes = usize::try_from(untrusted_chunk_bytes)
            .ok()
            .filter(|_| is_size)?;
        let all = WINDOW_BYTES / chunk_bytes;
        let reserved = (all * size_of::<ChunkHeader>()).div_ceil(chunk_bytes);
        Some(Self {
            chunk_bytes,
            reserved,
            in_window: all - reserved,
        })
    }

    /// Returns the bytes of a chunk of a stream whose largest event has `max_data` bytes of data.
    pub(crate) fn for_data(max_data: u32) -> u32 {
        let largest = u32::try_from(record_bytes(max_data.into())).unwrap_or(MAX_CHUNK_BYTES);
        largest
            .saturating_mul(4)
            .next_power_of_two()
            .clamp(MIN_CHUNK_BYTES, MAX_CHUNK_BYTES)
    }

    /// Returns the number of chunks that a stream's size asks for, beside those of its writers: see
    /// [`pool`](super::pool).
    pub(crate) fn for_size(self, stream_bytes: usize, max_data: u32) -> u32 {
        let lost_at_the_end = usize::try_from(record_bytes(max_data.into())).unwrap_or(0);
        let beginning = usize::try_from(FIRST_RECORD).unwrap_or(0) + IDENTITY_TAKES;
        let used = self.chunk_bytes - beginning - lost_at_the_end.min(self.chunk_bytes / 2);
        u32::try_from(stream_bytes.div_ceil(used.max(1)) + 2).unwrap_or(u32::MAX)
    }

    /// Returns the chunks below `fresh`, window by window: the number of the window in the stream,
    /// and the ordinals of its chunks.
    pub(super) fn by_window(self, fresh: u32) -> impl Iterator<Item = (usize, Range<u32>)> {
        let in_window = u32::try_from(self.in_window).unwrap_or(u32::MAX);
        let starts = (0..fresh).step_by(self.in_window);
        starts
            .enumerate()
            .map(move |(n, start)| (n, start..start.saturating_add(in_window).min(fresh)))
    }

    /// Returns the number of bytes at the start of a window that its chunks' headers lie in.
    pub(crate) fn header_bytes(self) -> usize {
        self.reserved * self.chunk_bytes
    }

    /// Returns the window of the stream that a chunk is in, and the chunk's index there.
    pub(crate) fn window_and_index(self, ordinal: u32) -> (usize, usize) {
        let ordinal = usize::try_from(ordinal).unwrap_or(usize::MAX);
        (
            ordinal / self.in_window,
            self.reserved + ordinal % self.in_window,
        )
    }
}

impl Shape {
    /// Returns the chunk at an address that was a [`ChunkRef::base`] of a pool of this shape. The
    /// address leads to the window, since a window lies at a multiple of its size.
    pub(crate) fn chunk_at<'a>(self, base: NonNull<u8>) -> ChunkRef<'a> {
        let inside = base.addr().get() % WINDOW_BYTES;
        let index = inside / self.chunk_bytes;
        // SAFETY: the window begins there.
        let window = unsafe { base.sub(inside) };
        let mut chunk_ref = self.chunk_within(u32::MAX, window, index);
        chunk_ref.ordinal = chunk_ref.chunk().map_or(u32::MAX, Chunk::untrusted_ordinal);
        chunk_ref
    }

    pub(super) fn chunk_within<'a>(
        self,
        ordinal: u32,
        window: NonNull<u8>,
        index: usize,
    ) -> ChunkRef<'a> {
        // SAFETY: a window has as many headers at its start as it has chunks.
        let header = unsafe { window.add(index * size_of::<ChunkHeader>()) }.cast::<ChunkHeader>();
        ChunkRef {
            ordinal,
            // SAFETY: mapped for as long as the windows are borrowed, aligned, and made of atomics.
            header: unsafe { header.as_ref() },
            // SAFETY: the index is that of a chunk of the window.
            base: unsafe { window.add(index * self.chunk_bytes) },
            bytes: self.chunk_bytes,
        }
    }
}

/// A chunk of a stream: its ordinal there, its header, and where it is.
#[derive(Clone, Copy)]
pub(crate) struct ChunkRef<'a> {
    pub(crate) ordinal: u32,
    pub(crate) header: &'a ChunkHeader,
    pub(crate) base: NonNull<u8>,
    pub(super) bytes: usize,
}

impl<'a> ChunkRef<'a> {
    /// Returns the chunk itself.
    pub(crate) fn chunk(&self) -> Option<Chunk<'a>> {
        let words = self.base.as_ptr().cast::<AtomicU64>();
        // SAFETY: the chunk lies within a window, which stays mapped as long as the header can be
        // borrowed, is page aligned, and is only reached by atomics.
        let words =
            unsafe { std::slice::from_raw_parts(words, self.bytes / size_of::<AtomicU64>()) };
        Chunk::new(words, &self.header.begun)
    }
}
