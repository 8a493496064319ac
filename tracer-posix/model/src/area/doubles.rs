//! Doubles of the memory that the pool lies in: a few words of each kind, instead of mapped memory.

use std::ptr::NonNull;

use crate::layout::atomics::{AtomicU32, AtomicU64};
use crate::layout::chunk::Chunk;
use crate::layout::links;
use crate::layout::pool::{Pool, Windows};

/// The only stream's generation, and its slot in the area.
pub(crate) const GENERATION: u32 = 1;
const SLOT: usize = 0;

/// The pid namespace of all.
pub(crate) const HERE: u32 = 7;

/// A chunk has space for its beginning (8 words), for the records that name two writers, and for
/// one with 48 bytes of data.
const WORDS: usize = 8 + 5 + 9 + 1;
const CHAINS: usize = 4;
/// Threads have tids below.
const ENTRIES: usize = 4;

/// `tracer_common::area::StreamControl`, as far as the pool needs it.
pub(crate) struct StreamControl {
    pub(crate) generation: AtomicU32,
    pub(crate) refused_no_chunk: AtomicU64,
    pub(crate) chunks_for_size: AtomicU32,
    pub(crate) mode: AtomicU32,
    pub(crate) writers: AtomicU32,
    pub(crate) fresh: AtomicU32,
    pub(crate) changes: AtomicU64,
    pub(crate) oldest: AtomicU64,
    pub(crate) newest: AtomicU64,
    pub(crate) consumed: AtomicU64,
    pub(crate) ended: AtomicU64,
    pub(crate) free_chains: AtomicU64,
    pub(crate) released: AtomicU64,
}

/// `tracer_common::area::AreaHeader`.
pub(crate) struct AreaHeader {
    pub(crate) chain_count: AtomicU32,
    pub(crate) window_count: AtomicU32,
    /// Constant: no step of the model changes it.
    pub(crate) prepared: std::sync::atomic::AtomicU32,
}

/// `tracer_common::area::EnteringEntry`.
pub(crate) struct EnteringEntry {
    pub(crate) thread: AtomicU64,
    pub(crate) times: AtomicU64,
}

/// `tracer_common::area::ChainEntry`.
pub(crate) struct ChainEntry {
    pub(crate) generation: AtomicU32,
    pub(crate) link: AtomicU64,
    pub(crate) closed: AtomicU64,
}

/// `tracer_common::area::ChunkHeader`.
pub(crate) struct ChunkHeader {
    pub(crate) state: AtomicU64,
    pub(crate) chain: AtomicU32,
    pub(crate) restartable: AtomicU32,
    pub(crate) first: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) next: AtomicU64,
    pub(crate) closing: AtomicU64,
    pub(crate) begun: AtomicU64,
    pub(crate) thread: AtomicU64,
}

struct ChunkOfModel {
    header: ChunkHeader,
    words: Vec<AtomicU64>,
}

/// An area with one stream, which overwrites its oldest events and has one window.
pub(crate) struct World {
    header: AreaHeader,
    control: StreamControl,
    window: AtomicU64,
    stream_window: AtomicU32,
    entries: Vec<EnteringEntry>,
    chains: Vec<ChainEntry>,
    chunks: Vec<ChunkOfModel>,
}

impl World {
    /// Makes the pool of a stream that has just been made (`Slot::take`), with so many chunks.
    pub(crate) fn new(chunks: usize) -> Self {
        let (zero, zero_64) = (|| AtomicU32::new(0), || AtomicU64::new(0));
        Self {
            header: AreaHeader {
                chain_count: zero(),
                window_count: AtomicU32::new(1),
                prepared: std::sync::atomic::AtomicU32::new(0),
            },
            control: StreamControl {
                generation: AtomicU32::new(GENERATION),
                refused_no_chunk: zero_64(),
                chunks_for_size: AtomicU32::new(u32::MAX),
                mode: AtomicU32::new(tracer_common::area::pool_mode::OVERWRITE_OLDEST),
                // So many that it is asked who they are.
                writers: AtomicU32::new(16),
                fresh: AtomicU32::new(1),
                changes: zero_64(),
                oldest: AtomicU64::new(links::word(0)),
                newest: AtomicU64::new(links::word(0)),
                consumed: zero_64(),
                ended: zero_64(),
                free_chains: zero_64(),
                released: zero_64(),
            },
            window: AtomicU64::new(tracer_common::area::window::word(GENERATION)),
            stream_window: AtomicU32::new(1),
            entries: (0..ENTRIES)
                .map(|_| EnteringEntry {
                    thread: zero_64(),
                    times: zero_64(),
                })
                .collect(),
            chains: (0..CHAINS)
                .map(|_| ChainEntry {
                    generation: zero(),
                    link: zero_64(),
                    closed: zero_64(),
                })
                .collect(),
            chunks: (0..chunks)
                .map(|_| ChunkOfModel {
                    header: ChunkHeader {
                        state: zero_64(),
                        chain: zero(),
                        restartable: zero(),
                        first: zero_64(),
                        refused: zero_64(),
                        next: zero_64(),
                        closing: zero_64(),
                        begun: zero_64(),
                        thread: zero_64(),
                    },
                    words: (0..WORDS).map(|_| zero_64()).collect(),
                })
                .collect(),
        }
    }

    /// Returns the stream's pool.
    pub(crate) fn pool(&self) -> Pool<'_, AreaWindows<'_>> {
        Pool {
            parts: Parts(self),
            slot: SLOT,
            control: &self.control,
            generation: GENERATION,
            shape: Shape {
                in_window: self.chunks.len(),
            },
            windows: AreaWindows(self),
        }
    }
}

/// `mapping::Parts`.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a>(&'a World);

impl<'a> Parts<'a> {
    pub(crate) fn header(self) -> &'a AreaHeader {
        &self.0.header
    }

    pub(crate) fn window(self, index: usize) -> Option<&'a AtomicU64> {
        (index == 0).then_some(&self.0.window)
    }

    pub(crate) fn stream_window(self, slot: usize, n: usize) -> Option<&'a AtomicU32> {
        (slot == SLOT && n == 0).then_some(&self.0.stream_window)
    }

    pub(crate) fn entering(self, slot: usize, index: usize) -> Option<&'a EnteringEntry> {
        self.0.entries.get(index).filter(|_| slot == SLOT)
    }

    pub(crate) fn chain(self, index: u32) -> Option<&'a ChainEntry> {
        self.0.chains.get(usize::try_from(index).ok()?)
    }
}

/// Stands for `mapping::release`: the chunk is read no more.
pub(crate) fn release(_base: NonNull<u8>, _bytes: usize) {}

/// `reader_windows::AreaWindows`.
#[derive(Clone, Copy)]
pub(crate) struct AreaWindows<'a>(&'a World);

impl Windows for AreaWindows<'_> {
    fn count(&self) -> usize {
        1
    }

    fn base(&self, index: usize) -> Option<NonNull<u8>> {
        (index == 0).then(|| NonNull::from(&*self.0.chunks).cast())
    }
}

/// `chunk_ref::Shape`.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    in_window: usize,
}

impl Shape {
    pub(crate) fn window_and_index(self, ordinal: u32) -> (usize, usize) {
        let ordinal = usize::try_from(ordinal).unwrap_or(usize::MAX);
        (ordinal / self.in_window, ordinal % self.in_window)
    }

    /// Returns 0: the model's headers are anywhere.
    pub(crate) fn header_bytes(self) -> usize {
        0
    }

    pub(crate) fn by_window(
        self,
        fresh: u32,
    ) -> impl Iterator<Item = (usize, std::ops::Range<u32>)> {
        std::iter::once((0, 0..fresh))
    }

    pub(crate) fn chunk_within<'a>(
        self,
        ordinal: u32,
        window: NonNull<u8>,
        index: usize,
    ) -> ChunkRef<'a> {
        assert!(index < self.in_window, "there is no such chunk");
        // SAFETY: a window is the slice of the world's chunks, and has more than `index` of them.
        let chunk = unsafe { window.cast::<ChunkOfModel>().add(index) };
        // SAFETY: the world is borrowed for as long as chunks are used.
        let ChunkOfModel { header, words } = unsafe { chunk.as_ref() };
        ChunkRef {
            ordinal,
            header,
            base: chunk.cast(),
            bytes: size_of_val(&**words),
            words,
        }
    }
}

/// `chunk_ref::ChunkRef`.
#[derive(Clone, Copy)]
pub(crate) struct ChunkRef<'a> {
    pub(crate) ordinal: u32,
    pub(crate) header: &'a ChunkHeader,
    pub(crate) base: NonNull<u8>,
    pub(crate) bytes: usize,
    words: &'a [AtomicU64],
}

impl<'a> ChunkRef<'a> {
    pub(crate) fn chunk(&self) -> Option<Chunk<'a>> {
        Chunk::new(self.words, &self.header.begun)
    }
}

/// `look::Slice`: there is time for all.
pub(crate) struct Slice;

impl Slice {
    #[expect(clippy::unused_self, reason = "the library's has something to look at")]
    pub(crate) fn is_spent(&self) -> bool {
        false
    }
}
