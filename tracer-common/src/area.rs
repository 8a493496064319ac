//! The trace area: shared memory through which a target gives its controllers its user events.
//!
//! One area serves a process family: a process that loads the library, its children by `fork()`,
//! and what they exec if it inherits the descriptor. It is a sparse memfd that is sealed at its
//! size: it neither shrinks nor grows. (A process that can have no memfd has anonymous shared
//! memory of the same layout, which only its children share.) It has fixed parts, at fixed offsets,
//! and behind them *windows* of [`WINDOW_BYTES`]: each belongs to one stream at a time and is
//! divided into that stream's *chunks*, which hold the records.
//!
//! Writers of each part:
//!
//! | part | target | controller |
//! |---|---|---|
//! | [`AreaHeader`] | all but `active` and `clock` | `active`, `clock`, `generations`, `prepared` |
//! | [`StreamControl`] | `refused_*`, `emitters`, `full_since`, `lost_*`, the pool's words | everything else, `consumed` |
//! | [`NameEntry`], the name buckets | yes | yes, by the same rules |
//! | filters | no | yes |
//! | [`ProcessEntry`] | yes | no |
//! | [`EnteringEntry`] | yes | clears those of threads that are no more |
//! | window table, [`ChainEntry`] | yes | when a stream ends |
//! | [`ChunkHeader`], [`ChunkStart`], records | yes | ends the chunks of threads that are no more |
//!
//! Both sides check what they read: either may be hostile to the other, or damaged.

use core::ffi::CStr;
use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64};

use crate::event_type::TRACE_EVENT_NAME_MAX;

/// First eight bytes of an area: "LNXTRACE" in little-endian order.
pub const MAGIC: u64 = u64::from_le_bytes(*b"LNXTRACE");
/// Version of this layout.
pub const VERSION: u32 = 10;

/// The name of an area's file, as a literal.
macro_rules! memfd_name {
    () => {
        "posix_trace_area"
    };
}

/// Name given to `memfd_create()`.
pub const MEMFD_NAME: &CStr =
    match CStr::from_bytes_with_nul(concat!(memfd_name!(), "\0").as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("one null, at the end"),
    };
/// Name that `/proc/<pid>/fd` and `/proc/<pid>/maps` show for such a file.
pub const MEMFD_LINK: &str = concat!("/memfd:", memfd_name!(), " (deleted)");

/// Streams that one area can serve at once: as many as the bits of [`AreaHeader::active`].
pub const STREAM_SLOTS: usize = 32;
/// Names of user event types in one area: those of all processes that were ever in its family. A
/// name that several have is there once. (How many a process may open is another matter:
/// `{TRACE_USER_EVENT_MAX}`.)
pub const NAME_SLOTS: usize = TYPE_NUMBERS - type_number::FIRST_NAMED as usize;
/// Lists that the names are in, each by its hash.
pub const NAME_BUCKETS: usize = 8192;
/// Type numbers of one area, see [`type_number`].
pub const TYPE_NUMBERS: usize = 1 << 15;
/// Words of a stream's filter: a bit for each type number.
pub const FILTER_WORDS: usize = TYPE_NUMBERS / 64;
/// Processes of one family that are known to the area at once.
pub const PROCESS_SLOTS: usize = 1024;
/// Windows of one area.
pub const WINDOW_SLOTS: usize = 4096;
/// Bytes of a window. Each is mapped where its address is a multiple of this, so that a chunk's
/// address leads to its window and to its header.
pub const WINDOW_BYTES: usize = 4 << 20;
/// Chains of one area: the chunks that can be open at once, in all of its streams.
pub const CHAIN_SLOTS: usize = 65_536;
/// Threads that can change a stream's pool at the same moment.
pub const ENTERING_SLOTS: usize = 1024;

/// Offset of the array of [`StreamControl`].
pub const STREAMS_OFFSET: usize = 4096;
/// Offset of the array of [`ProcessEntry`].
pub const PROCESSES_OFFSET: usize =
    page_up(STREAMS_OFFSET + STREAM_SLOTS * size_of::<StreamControl>());
/// Offset of the window table: a word for each window, see [`window`].
pub const WINDOWS_OFFSET: usize =
    page_up(PROCESSES_OFFSET + PROCESS_SLOTS * size_of::<ProcessEntry>());
/// Offset of the streams' lists of windows: for each stream, in order, the index of each of its
/// windows plus one.
pub const STREAM_WINDOWS_OFFSET: usize = page_up(WINDOWS_OFFSET + WINDOW_SLOTS * 8);
/// Offset of the streams' arrays of [`EnteringEntry`].
pub const ENTERING_OFFSET: usize = page_up(STREAM_WINDOWS_OFFSET + STREAM_SLOTS * WINDOW_SLOTS * 4);
/// Offset of the array of [`ChainEntry`].
pub const CHAINS_OFFSET: usize =
    page_up(ENTERING_OFFSET + STREAM_SLOTS * ENTERING_SLOTS * size_of::<EnteringEntry>());
/// Offset of the streams' filters, [`FILTER_WORDS`] each. Bit *n* is set when events of the type
/// with the number *n* are not wanted.
pub const FILTERS_OFFSET: usize = page_up(CHAINS_OFFSET + CHAIN_SLOTS * size_of::<ChainEntry>());
/// Offset of the name buckets: for each the index of the first [`NameEntry`] in it plus one, or 0.
pub const NAME_BUCKETS_OFFSET: usize = page_up(FILTERS_OFFSET + STREAM_SLOTS * FILTER_WORDS * 8);
/// Offset of the array of [`NameEntry`].
pub const NAMES_OFFSET: usize = page_up(NAME_BUCKETS_OFFSET + NAME_BUCKETS * 4);
/// Where the windows start: the bytes of the fixed parts.
pub const DATA_OFFSET: usize = page_up(NAMES_OFFSET + NAME_SLOTS * size_of::<NameEntry>());

const fn page_up(bytes: usize) -> usize {
    bytes.next_multiple_of(4096)
}

/// Clocks that the ticks of an area may come from.
pub mod clock {
    /// Not decided yet: no controller has opened the area to trace.
    pub const UNDECIDED: u32 = 0;
    /// The processor's cycle counter, which the kernel's clocks are made from too.
    pub const CYCLE_COUNTER: u32 = 1;
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub const MONOTONIC: u32 = 2;
}

/// Head of an area. Written when the area is made, `magic` last; until then it is 0, and a process
/// that finds the area before then treats it as missing.
#[repr(C)]
pub struct AreaHeader {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// One of [`clock`]. The first controller decides, before it opens a stream; it never changes
    /// after that. A process that is not traced need not know.
    pub clock: AtomicU32,
    /// When the area was made, on `CLOCK_MONOTONIC` in nanoseconds.
    pub created: AtomicU64,
    /// Windows in use so far: those beyond were never used.
    pub window_count: AtomicU32,
    /// Chains in use so far: those beyond were never used.
    pub chain_count: AtomicU32,
    /// Entries for names that were handed out so far: those beyond were never used. It may count
    /// on where no entry is left.
    pub name_count: AtomicU32,
    /// Generations handed out so far.
    pub generations: AtomicU32,
    /// Programs that took the area over from another one by exec so far.
    pub programs: AtomicU32,
    /// 1: memory is provided before it is touched, since the kernel may refuse it
    /// (`vm.overcommit_memory=2`). Set by the process that makes the area or opens a stream, read
    /// by the thread that takes a chunk.
    pub provides: AtomicU32,
    /// Windows below this one hold their memory, whatever is read and whichever stream ends:
    /// processes that [have prepared themselves](ProcessEntry::prepared) count on it. Raised by
    /// these; lowered by the process that finds that they have ended.
    pub prepared: AtomicU32,
    /// How often a process was given no name because no entry was left.
    pub names_refused: AtomicU32,
    /// Unused. Zero. Keeps `active` on a cache line of its own, as it is read by every emission.
    pub reserved: [AtomicU32; 2],
    /// Bit *n* is set while the stream in slot *n* runs. All that a trace point looks at when
    /// nothing is traced.
    pub active: AtomicU32,
}

/// States of a [`StreamControl`].
pub mod stream_state {
    /// No stream.
    pub const FREE: u32 = 0;
    /// A thread is filling the slot in, or frees it. The word names the thread, see [`claimed`].
    pub const CLAIMED: u32 = 1;
    /// A stream lives here.
    pub const LIVE: u32 = 2;
    /// The stream has ended, and a thread may still be in its pool: the slot cannot be reused yet.
    pub const ENDING: u32 = 3;

    /// Bits below the thread of a claimed slot.
    const THREAD_SHIFT: u32 = 8;

    /// Returns the word of a slot that this thread has claimed: its tid (high 24 bits; 0 where the
    /// pid namespace of the area's processes is another), state (8 bits).
    #[must_use]
    pub const fn claimed(tid: u32) -> u32 {
        tid << THREAD_SHIFT | CLAIMED
    }

    /// Returns the thread that has claimed the slot with this word; `None` where it is not claimed,
    /// or the thread is not known.
    #[must_use]
    pub const fn claimer(word: u32) -> Option<u32> {
        let tid = word >> THREAD_SHIFT;
        if word & 0xFF == CLAIMED && tid != 0 {
            Some(tid)
        } else {
            None
        }
    }
}

/// Policy of a stream's pool that has no free chunk.
pub mod pool_mode {
    /// The chunk that was closed first is taken again.
    pub const OVERWRITE_OLDEST: u32 = 0;
    /// The event is refused and counted.
    pub const KEEP_OLDEST: u32 = 1;
}

/// Whether a stream's trace points wait until earlier loads have their values before they read the
/// clock ([`StreamControl::emitters`]).
pub mod emitters {
    /// They wait: a load may have seen what another source, process or thread did.
    pub const MANY: u32 = 0;
    /// No thread has emitted yet, and all that the stream records comes from this area.
    pub const NONE: u32 = 1;
    /// A single thread has emitted so far. It need not wait: there is no other event that it
    /// could have seen the effect of.
    pub const ONE: u32 = 2;
}

/// Control words of one stream. Read by every emission.
#[repr(C, align(512))]
pub struct StreamControl {
    /// One of [`stream_state`].
    pub state: AtomicU32,
    /// Names the stream: unique in the area. 0 while no stream lives here.
    pub generation: AtomicU32,
    /// One of [`emitters`]. Set by the controller to begin with, and by each thread before its
    /// first event; it never goes back from `MANY`.
    pub emitters: AtomicU32,
    /// Bit 0: the reader sleeps on this word, or is about to. A thread that has recorded an event
    /// and finds it set clears it, counts one more waking in the other bits, and wakes the reader.
    pub waiting: AtomicU32,
    /// Past this time, in ticks, events are refused and counted: the stream was full then
    /// ([`full_since`](Self::full_since)), or its controller gave no sign of life
    /// ([`lease_until`](Self::lease_until)). `u64::MAX` where neither holds. Lowered by the target,
    /// raised by the controller.
    pub accepts_until: AtomicU64,
    /// One of [`pool_mode`].
    pub mode: AtomicU32,
    /// Bytes of each chunk: a power of two, from [`MIN_CHUNK_BYTES`] to [`MAX_CHUNK_BYTES`].
    pub chunk_bytes: AtomicU32,
    /// Most bytes of data that are recorded of one event, at most [`MAX_DATA_BYTES`].
    pub max_data: AtomicU32,
    /// The process that is traced, or 0 for every process of the area.
    pub target_pid: AtomicI32,
    /// 1: children that the target makes from now on are traced too.
    pub inherit: AtomicU32,
    /// The controller's process, so that a dead one's slot can be taken back.
    pub controller_pid: AtomicI32,
    /// The pid namespace in which that pid counts (inode of `/proc/self/ns/pid`).
    pub controller_namespace: AtomicU64,
    /// When the stream first had no space for an event, in ticks; `u64::MAX`: it has had, since the
    /// controller looked last. Set by the target, taken back by the controller.
    pub full_since: AtomicU64,
    /// Events refused because a thread that has no chunk could have none. Counted by the target.
    pub refused_no_chunk: AtomicU64,
    /// Events refused because they interrupted another one of their thread, where that cannot be
    /// begun again. Counted by the target.
    pub refused_nested: AtomicU64,
    /// Chunks that the stream's size asks for. What writers need comes on top of it.
    pub chunks_for_size: AtomicU32,
    /// Chunks that are open and have a writer.
    pub writers: AtomicU32,
    /// Chunks that were handed out so far: those beyond were never used.
    pub fresh: AtomicU32,
    /// The generation of the stream that has ended here last.
    pub ended_generation: AtomicU32,
    /// Counts the chunks that were opened, continued or closed: while it stays, the same chunks are
    /// open.
    pub changes: AtomicU64,
    /// The chunk that was closed first, its ordinal plus one (low half), and a count of changes
    /// (high half).
    pub oldest: AtomicU64,
    /// The chunk that was closed last (low half), or one before it, and a count of changes (high
    /// half).
    pub newest: AtomicU64,
    /// The reader has read all chunks with a lower [`ChunkHeader::closing`]. Written by the
    /// controller.
    pub consumed: AtomicU64,
    /// The last one of the open chunks whose threads have ended plus one (low half), and a count of
    /// changes (high half).
    pub ended: AtomicU64,
    /// The last one of the stream's chains without a chunk plus one (low half), and a count of
    /// changes (high half).
    pub free_chains: AtomicU64,
    /// The last one of the chunks whose memory the reader has given back plus one (low half), and a
    /// count of changes (high half).
    pub released: AtomicU64,
    /// The pid namespace in which the target's own pid counts (as
    /// [`controller_namespace`](Self::controller_namespace)), or 0 where the controller does not
    /// know.
    pub target_namespace: AtomicU64,
    /// Until this time, in ticks, the controller counts as alive. `u64::MAX` for a stream that
    /// needs no such signs. Written by the controller.
    pub lease_until: AtomicU64,
    /// When the controller's process was started (field 22 of `/proc/<pid>/stat`).
    pub controller_start: AtomicU64,
    /// Where the stack of the controller's program begins (field 28 there), which another program
    /// in that process has elsewhere; 0 where the controller does not say it. Written by the
    /// controller.
    pub controller_stack: AtomicU64,
    /// When the chunk was closed, in ticks, that was closed last of those which were taken again
    /// and may have had unread events: none of these is newer. Raised by the target.
    pub lost_until: AtomicU64,
    /// The time of the oldest event, in ticks, of the chunks that were taken again since the
    /// controller looked last; `u64::MAX`: there were none. Lowered by the target, set back by the
    /// controller.
    pub lost_since: AtomicU64,
}

/// Most data of one event.
pub const MAX_DATA_BYTES: u32 = 65_528;
/// Least bytes of a chunk.
pub const MIN_CHUNK_BYTES: u32 = 16 << 10;
/// Most bytes of a chunk.
pub const MAX_CHUNK_BYTES: u32 = 256 << 10;
/// The largest stream.
pub const MAX_STREAM_BYTES: u32 = 1 << 30;

/// The numbers of user event types in an area. A process knows its types by identifiers of its own
/// (`EventTypeId`), which a child has from its parent; the numbers are the same in all of them.
pub mod type_number {
    /// No type. Its bit is set in every filter: no stream wants events of this type.
    pub const NONE: u32 = 0;
    /// The predefined type without a name of its own.
    pub const UNNAMED: u32 = 1;
    /// The number of the first [`NameEntry`](super::NameEntry).
    pub const FIRST_NAMED: u32 = 2;
}

/// States of a [`NameEntry`].
pub mod name_state {
    /// Nothing here, or nothing yet.
    pub const FREE: u32 = 0;
    /// Readable, for ever.
    pub const READY: u32 = 1;
}

/// A name of a user event type. Entry *n* has the number [`type_number::FIRST_NAMED`] + *n*. It is
/// written before it comes into the list of its bucket. One that lost its place there to the same
/// name stays unused, and one whose writer was killed too.
#[repr(C)]
pub struct NameEntry {
    /// One of [`name_state`].
    pub state: AtomicU32,
    /// The next entry of the bucket, its index plus one, or 0.
    pub next: AtomicU32,
    /// Bytes of the name.
    pub length: AtomicU32,
    /// The identifier that the process has given it that opened it first, or 0: where others are
    /// likely to have the same.
    pub first_id: AtomicU32,
    /// The name, without a terminating null.
    pub bytes: [AtomicU8; TRACE_EVENT_NAME_MAX],
}

/// A process of the family, so that what it execs can find out which streams trace it, and others
/// which memory it counts on.
#[repr(C, align(64))]
pub struct ProcessEntry {
    /// The process, in its own pid namespace; 0: the entry is free; -1: being written.
    pub pid: AtomicI32,
    /// Windows that the process has mapped and filled with memory, so that its threads emit without
    /// a page fault; 0 where it has not.
    pub prepared: AtomicU32,
    /// For each slot the generation of the stream that traces this process and its children, or 0.
    pub traced_by: [AtomicU32; STREAM_SLOTS],
}

/// A thread that is changing a stream's pool. A stream's memory is given to no other stream while
/// one of its entries is set by a thread that lives.
#[repr(C)]
pub struct EnteringEntry {
    /// The tid (low half) and the pid namespace of that, 0 where it is not known (high half). 0
    /// where there is no thread, [`LEFT_FOR_GOOD`] where it lives and never comes back.
    pub thread: AtomicU64,
    /// How many threads have left it, each before it took its tid away.
    pub times: AtomicU64,
}

/// See [`EnteringEntry::thread`]: a handler has jumped out of what the thread was doing. No thread
/// has this tid.
pub const LEFT_FOR_GOOD: u64 = 0x7fff_ffff;

/// A chain: a row of chunks, one opened after the other, whose events are counted together. At any
/// time one writer at most has it.
#[repr(C)]
pub struct ChainEntry {
    /// Generation of the stream that it belongs to, or 0.
    pub generation: AtomicU32,
    /// Unused. Zero.
    pub reserved: AtomicU32,
    /// The next one in the list that it is in.
    pub link: AtomicU64,
    /// Events of all its chunks that are closed, those refused included.
    pub closed: AtomicU64,
}

/// The windows' table has a word for each window.
pub mod window {
    /// Returns the word of a window that belongs to the stream of this generation. That of a free
    /// one is 0.
    #[must_use]
    pub const fn word(generation: u32) -> u64 {
        (generation as u64) << 32 | 1
    }
}

/// States of a chunk.
pub mod chunk_state {
    /// Never used in this stream.
    pub const UNUSED: u32 = 0;
    /// A thread is filling its header in.
    pub const CLAIMED: u32 = 1;
    /// A thread emits here.
    pub const OPEN: u32 = 2;
    /// Its thread has ended; another one may go on here.
    pub const ENDED: u32 = 3;
    /// Closed: no thread writes here any more.
    pub const CLOSED: u32 = 4;

    /// Returns a chunk's state word: generation of the stream (high half), how often the chunk was
    /// opened (24 bits), state (8 bits).
    #[must_use]
    pub const fn word(generation: u32, turn: u32, state: u32) -> u64 {
        (generation as u64) << 32 | ((turn & 0xff_ffff) as u64) << 8 | state as u64
    }

    /// Returns the state in a chunk's word.
    #[must_use]
    pub const fn state_of(word: u64) -> u32 {
        (word & 0xff) as u32
    }

    /// Returns how often the chunk was opened.
    #[must_use]
    pub const fn turn_of(word: u64) -> u32 {
        (word >> 8 & 0xff_ffff) as u32
    }

    /// Returns the generation of its stream.
    #[must_use]
    pub const fn generation_of(word: u64) -> u32 {
        (word >> 32) as u32
    }
}

/// Header of a chunk. Those of a window's chunks are at its start.
#[repr(C, align(64))]
pub struct ChunkHeader {
    /// See [`chunk_state::word`].
    pub state: AtomicU64,
    /// The chain whose chunk it is.
    pub chain: AtomicU32,
    /// 1: its thread begins an emission again that was preempted or interrupted, so that a reader
    /// of the same process need not look at `begun`.
    pub restartable: AtomicU32,
    /// Events of its chain before it, those refused included.
    pub first: AtomicU64,
    /// Events that were refused while it was open.
    pub refused: AtomicU64,
    /// The ordinal plus one of the next chunk in the list that it is in (low half), and a count of
    /// changes (high half).
    pub next: AtomicU64,
    /// A count that is higher the later the chunk was closed.
    pub closing: AtomicU64,
    /// Value that [`ChunkStart::head`] will have after the record that is being written: set before
    /// the clock is read. While it differs from the head, an event older than now may still come.
    /// It is here, and not in the chunk, since a thread that finds its stream ended has set it by
    /// then: whatever the window is divided into now, headers are at its start.
    pub begun: AtomicU64,
    /// The thread that emits here, in its own pid namespace: its tid (low half) and its pid (high
    /// half).
    pub thread: AtomicU64,
}

/// Where a thread is at home: what its tid means, and which program it runs.
pub mod home {
    /// Nothing is known of it.
    pub const UNKNOWN: u64 = 0;

    /// Returns the pid namespace of its tid (inode of `/proc/self/ns/pid`), and which of the
    /// programs of its area it runs ([`AreaHeader::programs`](super::AreaHeader::programs)).
    #[must_use]
    pub const fn word(namespace: u32, program: u32) -> u64 {
        (namespace as u64) << 32 | program as u64
    }

    /// Returns the pid namespace; 0 where it is not known.
    #[must_use]
    pub const fn namespace_of(word: u64) -> u32 {
        (word >> 32) as u32
    }

    /// Returns the program. Two of one process have different counts.
    #[must_use]
    pub const fn program_of(word: u64) -> u32 {
        (word & 0xffff_ffff) as u32
    }
}

/// Head of the chunk itself.
#[repr(C, align(64))]
pub struct ChunkStart {
    /// Where the next record will start, in bytes from the chunk's beginning (low half), and the
    /// events before it (high half).
    pub head: AtomicU64,
    /// The chunk's ordinal in its stream. It never changes while the stream lives.
    pub ordinal: AtomicU64,
    /// Value of [`StreamControl::changes`] when the chunk was opened. A reader that has looked at
    /// it then has seen every chunk that was opened in the chain before.
    pub opened: AtomicU64,
    /// Where its thread is at home: see [`home`].
    pub home: AtomicU64,
    /// Value of [`StreamControl::changes`] when its thread was named. Of two threads the later one
    /// has the higher count.
    pub named: AtomicU64,
    /// When the chunk was closed, in ticks. None of its events is newer.
    pub closed_at: AtomicU64,
}

/// Type number of a record that is no event: the thread that emits from here on. The first record
/// of a chunk is one. Its data is the process and the thread in their own pid namespace (32 bits
/// each), and the thread's `pthread_t` (64 bits).
pub const IDENTITY_RECORD: u32 = 0x7fff;
/// Bytes of data of such a record.
pub const IDENTITY_BYTES: usize = 16;

/// Head of a record, as three words of 64 bits. The data follows, filled up to a multiple of eight
/// bytes.
///
/// - word 0: time in ticks.
/// - word 1: bits 0-47 address of the trace point; bits 48-63 the CPU plus one, 0 when not known.
/// - word 2: bits 0-31 the type's number in the area (see [`type_number`]); bits 32-46 the
///   identifier that the emitting process has for it, or that of the unnamed type where it has
///   none; bit 47 set when the data was truncated; bits 48-63 bytes of data.
pub const RECORD_HEADER_BYTES: usize = 24;

const _: () = {
    assert!(offset_of!(AreaHeader, active) == 64);
    assert!(size_of::<AreaHeader>() <= STREAMS_OFFSET);
    assert!(size_of::<StreamControl>() == 512);
    assert!(size_of::<NameEntry>() == 80);
    assert!(size_of::<ProcessEntry>() == 192);
    assert!(size_of::<EnteringEntry>() == 16);
    assert!(size_of::<ChainEntry>() == 24);
    assert!(size_of::<ChunkHeader>() == 64);
    assert!(size_of::<ChunkStart>() == 64);
    assert!(CHAINS_OFFSET.is_multiple_of(4096));
};
