//! What the pool lies in: a few words of each kind, in place of mapped memory.

use std::ptr::NonNull;

use super::atomics::{AtomicU32, AtomicU64};
use super::chunk::Chunk;
use super::links;
use super::pool::{Pool, Windows};

/// The only stream's generation, and its place in the area.
pub(super) const GENERATION: u32 = 1;
const SLOT: usize = 0;

/// A chunk has room for its beginning (8 words), for the records that name two writers, and for one with 48 bytes of data.
const WORDS: usize = 8 + 5 + 9 + 1;
const CHAINS: usize = 4;
/// Threads have numbers below.
const ENTRIES: usize = 4;

/// `tracer_common::area::StreamControl`, as far as the pool needs it.
pub(super) struct StreamControl {
    pub(super) generation: AtomicU32,
    pub(super) refused_no_chunk: AtomicU64,
    pub(super) chunks_for_size: AtomicU32,
    pub(super) mode: AtomicU32,
    pub(super) writers: AtomicU32,
    pub(super) fresh: AtomicU32,
    pub(super) changes: AtomicU64,
    pub(super) oldest: AtomicU64,
    pub(super) newest: AtomicU64,
    pub(super) consumed: AtomicU64,
    pub(super) ended: AtomicU64,
    pub(super) free_chains: AtomicU64,
    pub(super) released: AtomicU64,
}

/// `tracer_common::area::AreaHeader`.
pub(super) struct AreaHeader {
    pub(super) chain_count: AtomicU32,
    pub(super) window_count: AtomicU32,
}

/// `tracer_common::area::EnteringEntry`.
pub(super) struct EnteringEntry {
    pub(super) thread: AtomicU64,
    pub(super) times: AtomicU64,
}

/// `tracer_common::area::ChainEntry`.
pub(super) struct ChainEntry {
    pub(super) generation: AtomicU32,
    pub(super) link: AtomicU64,
    pub(super) closed: AtomicU64,
}

/// `tracer_common::area::ChunkHeader`.
pub(super) struct ChunkHeader {
    pub(super) state: AtomicU64,
    pub(super) chain: AtomicU32,
    pub(super) restartable: AtomicU32,
    pub(super) first: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) next: AtomicU64,
    pub(super) closing: AtomicU64,
    pub(super) begun: AtomicU64,
    pub(super) thread: AtomicU64,
}

struct ChunkOfModel {
    header: ChunkHeader,
    words: Vec<AtomicU64>,
}

/// An area with one stream, which overwrites its oldest events and has one window.
pub(super) struct World {
    header: AreaHeader,
    control: StreamControl,
    window: AtomicU64,
    stream_window: AtomicU32,
    entries: Vec<EnteringEntry>,
    chains: Vec<ChainEntry>,
    chunks: Vec<ChunkOfModel>,
}

impl World {
    /// The stream has just been made (`Slot::take`), with so many chunks.
    pub(super) fn new(chunks: usize) -> Self {
        let (zero, zero_64) = (|| AtomicU32::new(0), || AtomicU64::new(0));
        Self {
            header: AreaHeader {
                chain_count: zero(),
                window_count: AtomicU32::new(1),
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

    /// The stream's pool.
    pub(super) fn pool(&self) -> Pool<'_, AreaWindows<'_>> {
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
pub(super) struct Parts<'a>(&'a World);

impl<'a> Parts<'a> {
    pub(super) fn header(self) -> &'a AreaHeader {
        &self.0.header
    }

    pub(super) fn window(self, index: usize) -> Option<&'a AtomicU64> {
        (index == 0).then_some(&self.0.window)
    }

    pub(super) fn stream_window(self, slot: usize, n: usize) -> Option<&'a AtomicU32> {
        (slot == SLOT && n == 0).then_some(&self.0.stream_window)
    }

    pub(super) fn entering(self, slot: usize, index: usize) -> Option<&'a EnteringEntry> {
        self.0.entries.get(index).filter(|_| slot == SLOT)
    }

    pub(super) fn chain(self, index: u32) -> Option<&'a ChainEntry> {
        self.0.chains.get(usize::try_from(index).ok()?)
    }
}

/// `mapping::release`: nobody reads the chunk any more.
pub(super) fn release(_base: NonNull<u8>, _bytes: usize) {}

/// `reader_windows::AreaWindows`.
#[derive(Clone, Copy)]
pub(super) struct AreaWindows<'a>(&'a World);

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
pub(super) struct Shape {
    in_window: usize,
}

impl Shape {
    pub(super) fn window_and_index(self, ordinal: u32) -> (usize, usize) {
        let ordinal = usize::try_from(ordinal).unwrap_or(usize::MAX);
        (ordinal / self.in_window, ordinal % self.in_window)
    }

    pub(super) fn by_window(
        self,
        fresh: u32,
    ) -> impl Iterator<Item = (usize, std::ops::Range<u32>)> {
        std::iter::once((0, 0..fresh))
    }

    pub(super) fn chunk_within<'a>(
        self,
        ordinal: u32,
        window: NonNull<u8>,
        index: usize,
    ) -> ChunkRef<'a> {
        assert!(index < self.in_window, "there is no such chunk");
        // SAFETY: a window is the slice of the world's chunks, and has more than `index` of them.
        let chunk = unsafe { window.cast::<ChunkOfModel>().add(index) };
        // SAFETY: the world is borrowed for as long as places are used.
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
pub(super) struct ChunkRef<'a> {
    pub(super) ordinal: u32,
    pub(super) header: &'a ChunkHeader,
    pub(super) base: NonNull<u8>,
    pub(super) bytes: usize,
    words: &'a [AtomicU64],
}

impl<'a> ChunkRef<'a> {
    pub(super) fn chunk(&self) -> Option<Chunk<'a>> {
        Chunk::new(self.words, &self.header.begun)
    }
}

/// `look::Slice`: there is time for all.
pub(super) struct Slice;

impl Slice {
    #[expect(clippy::unused_self, reason = "the library's has something to look at")]
    pub(super) fn is_spent(&self) -> bool {
        false
    }
}
