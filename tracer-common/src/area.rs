//! The trace area: a memfd through which a target tells its controllers its user events.
//!
//! One area serves a process family: a process that loads the library, its children by `fork()`,
//! and what they exec if it inherits the descriptor. It has fixed parts, at fixed offsets, and ring
//! data behind them. The file is sparse, and sealed at its
//! size: it neither shrinks nor grows.
//!
//! Who writes what:
//!
//! | part | target | controller |
//! |---|---|---|
//! | [`AreaHeader`] | all but `active` and `clock` | `active`, `clock`, `generations` |
//! | [`StreamControl`] | `refused_*` | everything else |
//! | [`NameEntry`] | yes | yes, by the same rules |
//! | [`ProcessEntry`] | yes | no |
//! | [`RingEntry`] | everything but `consumed` | `consumed`, and `state` once the thread is gone |
//!
//! Both sides check what they read: either may be hostile to the other, or damaged.

use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64};

use crate::event_type::{EVENT_SET_WORDS, TRACE_EVENT_NAME_MAX, TRACE_USER_EVENT_MAX};

/// First eight bytes of an area: "LNXTRACE" in little-endian order.
pub const MAGIC: u64 = u64::from_le_bytes(*b"LNXTRACE");
/// Version of this layout.
pub const VERSION: u32 = 4;
/// Name given to `memfd_create()`; `/proc/<pid>/fd` shows `/memfd:posix_trace_area (deleted)`.
pub const MEMFD_NAME: &str = "posix_trace_area";

/// Streams that one area can serve at once: as many as the bits of [`AreaHeader::active`].
pub const STREAM_SLOTS: usize = 32;
/// Named user event types of one area, the unnamed one not counted.
pub const NAME_SLOTS: usize = (TRACE_USER_EVENT_MAX - 1) as usize;
/// Processes of one family that are known to the area at once.
pub const PROCESS_SLOTS: usize = 1024;
/// Rings of one area.
pub const RING_SLOTS: usize = 8192;
/// Signal-nesting levels of a thread that have a ring of their own: the thread itself, a handler
/// that interrupted it while it was emitting, and a handler that interrupted that one.
pub const NESTING_LEVELS: usize = 3;

/// Offset of the array of [`StreamControl`].
pub const STREAMS_OFFSET: usize = 4096;
/// Offset of the array of [`NameEntry`].
pub const NAMES_OFFSET: usize = STREAMS_OFFSET + STREAM_SLOTS * size_of::<StreamControl>();
/// Offset of the array of [`ProcessEntry`].
pub const PROCESSES_OFFSET: usize = page_up(NAMES_OFFSET + NAME_SLOTS * size_of::<NameEntry>());
/// Offset of the array of [`RingEntry`].
pub const RINGS_OFFSET: usize =
    page_up(PROCESSES_OFFSET + PROCESS_SLOTS * size_of::<ProcessEntry>());
/// Where ring data starts: the bytes of the fixed parts.
pub const DATA_OFFSET: usize = page_up(RINGS_OFFSET + RING_SLOTS * size_of::<RingEntry>());

const fn page_up(bytes: usize) -> usize {
    bytes.next_multiple_of(4096)
}

/// What the ticks of an area are.
pub mod clock {
    /// Nobody has opened the area yet to trace.
    pub const UNDECIDED: u32 = 0;
    /// The processor's cycle counter, which the kernel's clocks are made from too.
    pub const CYCLE_COUNTER: u32 = 1;
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub const MONOTONIC: u32 = 2;
}

/// Head of an area. Written when the area is made, `magic` last; until then it is 0, and whoever
/// finds the area already takes it for one that is not there yet.
#[repr(C)]
pub struct AreaHeader {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// One of [`clock`]. The first controller decides, before it opens a stream; it never changes after
    /// that. A process that nobody traces need not know.
    pub clock: AtomicU32,
    /// When the area was made, on `CLOCK_MONOTONIC` in nanoseconds.
    pub created: AtomicU64,
    /// End of the ring data handed out so far, as an offset in the file.
    pub data_end: AtomicU64,
    /// Ring entries in use so far: those beyond were never used.
    pub ring_count: AtomicU32,
    /// User event types defined so far: entries beyond were never used.
    pub name_count: AtomicU32,
    /// Generations handed out so far.
    pub generations: AtomicU32,
    /// Unused. Zero.
    pub reserved: AtomicU32,
    /// Keeps `active` on a cache line of its own, as it is read by every emission.
    pub reserved_too: [AtomicU64; 2],
    /// Bit *n* is set while the stream in slot *n* runs. All that a trace point looks at when
    /// nothing is traced.
    pub active: AtomicU32,
}

/// States of a [`StreamControl`].
pub mod stream_state {
    /// No stream.
    pub const FREE: u32 = 0;
    /// A controller is filling the slot in.
    pub const CLAIMED: u32 = 1;
    /// A stream lives here.
    pub const LIVE: u32 = 2;
}

/// What a ring does when it has no room.
pub mod ring_mode {
    /// The oldest records make room.
    pub const OVERWRITE_OLDEST: u32 = 0;
    /// The new record is refused and counted.
    pub const KEEP_OLDEST: u32 = 1;
}

/// Whether a stream's trace points wait until earlier loads have their values before they read the
/// clock ([`StreamControl::emitters`]).
pub mod emitters {
    /// They wait: a load may have seen what another source, process or thread did.
    pub const MANY: u32 = 0;
    /// Nobody has emitted yet, and all that the stream records comes from this area.
    pub const NONE: u32 = 1;
    /// A single ring was ever opened. Whose it is need not wait: there is no other event that it
    /// could have seen the effect of.
    pub const ONE: u32 = 2;
}

/// Control words of one stream. Written by its controller, read by every emission.
#[repr(C, align(256))]
pub struct StreamControl {
    /// One of [`stream_state`].
    pub state: AtomicU32,
    /// Names the stream: unique in the area. 0 while no stream lives here.
    pub generation: AtomicU32,
    /// One of [`ring_mode`].
    pub mode: AtomicU32,
    /// Bytes of each ring's data: a power of two, from [`MIN_RING_BYTES`] to [`MAX_RING_BYTES`].
    pub ring_bytes: AtomicU32,
    /// Most bytes of data that are kept of one event, at most [`MAX_DATA_BYTES`].
    pub max_data: AtomicU32,
    /// The process that is traced, or 0 for every process of the area.
    pub target_pid: AtomicI32,
    /// 1: children that the target makes from now on are traced too.
    pub inherit: AtomicU32,
    /// The controller's process, so that a dead one's slot can be taken back.
    pub controller_pid: AtomicI32,
    /// The pid namespace in which that number counts (inode of `/proc/self/ns/pid`).
    pub controller_namespace: AtomicU64,
    /// When the controller's process was started (field 22 of `/proc/<pid>/stat`).
    pub controller_start: AtomicU64,
    /// Past this time, in ticks, events are refused and counted: the controller gave no sign of
    /// life. `u64::MAX` for a stream that needs no such signs.
    pub lease_until: AtomicU64,
    /// Events refused because no ring could be had. Counted by the target.
    pub refused_no_ring: AtomicU64,
    /// Events refused because signal handlers were nested too deeply. Counted by the target.
    pub refused_nesting: AtomicU64,
    /// Bit *n* is set when events of type *n* are not wanted.
    pub filter: [AtomicU64; EVENT_SET_WORDS],
    /// One of [`emitters`]. Set by the controller to begin with, and by each thread before it opens a
    /// ring; it never goes back from `MANY`.
    pub emitters: AtomicU32,
}

/// Least data bytes of a ring.
pub const MIN_RING_BYTES: u32 = 4096;
/// Most data bytes of a ring.
pub const MAX_RING_BYTES: u32 = 1 << 30;
/// Most data of one event.
pub const MAX_DATA_BYTES: u32 = 65_528;

/// States of a [`NameEntry`].
pub mod name_state {
    /// Nothing here.
    pub const FREE: u32 = 0;
    /// Being written by the process in `writer`.
    pub const CLAIMED: u32 = 1;
    /// Readable, for ever.
    pub const READY: u32 = 2;
}

/// A user event type. Entry *n* has the identifier `FIRST_USER_EVENT + 1 + n`.
#[repr(C)]
pub struct NameEntry {
    /// One of [`name_state`].
    pub state: AtomicU32,
    /// The process that claimed the entry.
    pub writer: AtomicI32,
    /// Bytes of the name.
    pub length: AtomicU32,
    /// Unused. Zero.
    pub reserved: AtomicU32,
    /// The name, without a terminating null.
    pub bytes: [AtomicU8; TRACE_EVENT_NAME_MAX],
}

/// A process of the family, so that what it execs can find out which streams trace it.
#[repr(C, align(64))]
pub struct ProcessEntry {
    /// The process, in its own pid namespace; 0: the entry is free; -1: being written.
    pub pid: AtomicI32,
    /// Unused. Zero.
    pub reserved: AtomicU32,
    /// For each slot the generation of the stream that traces this process and its children, or 0.
    pub traced_by: [AtomicU32; STREAM_SLOTS],
}

/// States of a [`RingEntry`].
pub mod ring_state {
    /// Can be claimed; `data_bytes`, when not 0, is what it already has.
    pub const FREE: u32 = 0;
    /// A thread is filling it in.
    pub const CLAIMED: u32 = 1;
    /// A thread emits here.
    pub const LIVE: u32 = 2;
    /// Its thread has ended; what it holds is still to be read.
    pub const ENDED: u32 = 3;

    /// The word of a ring entry that says both its state and the generation of its stream.
    #[must_use]
    pub const fn word(generation: u32, state: u32) -> u64 {
        (generation as u64) << 32 | state as u64
    }
}

/// One ring: a single thread, stream and nesting level emits here.
///
/// Positions count bytes since the ring was made and never go back; the place in the data is the
/// position modulo `data_bytes`. The ring holds the records from `tail` to `head`.
#[repr(C, align(128))]
pub struct RingEntry {
    /// Records begun. The upper half is the stream's generation to begin with, so that no mark is taken for
    /// that of another stream's thread. Set before the clock is read: while it differs from `ended`, an event older
    /// than now may still come.
    pub begun: AtomicU64,
    /// Records finished or refused: the attempts to record here, counted from where `begun` begins.
    pub ended: AtomicU64,
    /// Where the next record will start.
    pub head: AtomicU64,
    /// Where the oldest whole record starts.
    pub tail: AtomicU64,
    /// The emitting thread's `pthread_t`.
    pub thread_id: AtomicU64,
    /// Where the data is, as an offset in the file.
    pub data_offset: AtomicU64,
    /// One of [`ring_state`] (low 32 bits) and the generation of the stream (high 32 bits): one
    /// word, so that nobody ends or frees a ring that has changed hands meanwhile.
    pub state: AtomicU64,
    /// Bytes of the data: a power of two.
    pub data_bytes: AtomicU32,
    /// Slot of the stream (low 16 bits) and nesting level (high 16 bits).
    pub slot_level: AtomicU32,
    /// How far the controller has read. On a cache line apart from what the target writes.
    pub consumed: AtomicU64,
    /// The emitting process, in its own pid namespace.
    pub pid: AtomicI32,
    /// The emitting thread, in its own pid namespace.
    pub tid: AtomicI32,
}

/// Head of a record in a ring, as three words of 64 bits. The data follows, filled up to a multiple
/// of eight bytes; a record that reaches the end of the ring goes on at its start.
///
/// - word 0: time in ticks.
/// - word 1: bits 0-47 address of the trace point; bits 48-63 the CPU plus one, 0 when not known.
/// - word 2: bits 0-31 low half of the attempt's number; bits 32-46 event type; bit 47 set when
///   the data was cut; bits 48-63 bytes of data.
pub const RECORD_HEADER_BYTES: usize = 24;

const _: () = {
    assert!(offset_of!(AreaHeader, active) == 64);
    assert!(size_of::<AreaHeader>() <= STREAMS_OFFSET);
    assert!(size_of::<StreamControl>() == 256);
    assert!(offset_of!(StreamControl, filter) == 72);
    assert!(size_of::<NameEntry>() == 80);
    assert!(size_of::<ProcessEntry>() == 192);
    assert!(size_of::<RingEntry>() == 128);
    assert!(offset_of!(RingEntry, consumed) == 64);
};
