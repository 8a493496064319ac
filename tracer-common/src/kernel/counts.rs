//! Counts that programs keep in maps where nothing is recorded: of calls, of what threads do, of
//! page faults, of probes and tracepoints.

use core::mem::size_of;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Ranges of durations: range *n* has those up to 2^n ns and above 2^(n - 1); the last one, what is
/// longer too.
pub const COUNT_RANGES: usize = 40;

/// Key of the map `SUMS`: what is counted, and whose it is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CountKey {
    /// Owner of the sum, as [`counting`] says.
    pub who: [u64; 2],
    /// One of [`counted`].
    pub kind: u32,
    /// System call number; index of a probe or tracepoint; 0 for other kinds.
    pub number: u32,
}

/// Entries of the map `OF_ALL`, where sums are of all together: those of calls of both tables
/// below [`CALLS_OF_ALL`], and behind them those of other kinds. It is found faster than `SUMS`,
/// which has the calls beyond, probes and tracepoints.
pub const SUMS_OF_ALL: u32 = 2 * CALLS_OF_ALL + 8;

/// Calls of a table that have a sum there: more than a table has.
pub const CALLS_OF_ALL: u32 = 512;

/// Value of the maps `SUMS` and `OF_ALL`, for each CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CountSum {
    /// How often it happened.
    pub count: u64,
    /// How often of these in the way that [`counted`] names.
    pub also: u64,
    /// How long it took in all, in nanoseconds, as far as that is known.
    pub total_ns: u64,
    /// How long it took at most, in nanoseconds.
    pub longest_ns: u64,
    /// How often it took so long, by range: see [`COUNT_RANGES`].
    pub ranges: [u64; COUNT_RANGES],
}

/// Kinds of what is counted.
pub mod counted {
    /// Returns of a system call of the machine's table; also: with an error.
    pub const CALL: u32 = 0;
    /// Returns of one of the table for 32-bit programs; also: with an error.
    pub const COMPAT_CALL: u32 = 1;
    /// Switches away of a thread, which had a CPU for so long; also: since it was forced to give
    /// way.
    pub const RUNNING: u32 = 2;
    /// Waits for a CPU that have ended; also: after it was forced to give way.
    pub const RUNNABLE: u32 = 3;
    /// Waits for something else that have ended.
    pub const BLOCKED: u32 = 4;
    /// Times for which a thread was stopped.
    pub const STOPPED: u32 = 5;
    /// Page faults of the program; also: by a write.
    pub const FAULT_USER: u32 = 6;
    /// Page faults of the kernel; also: by a write.
    pub const FAULT_KERNEL: u32 = 7;
    /// Passes of a probe.
    pub const PROBE: u32 = 8;
    /// Passes of a tracepoint that was named.
    pub const TRACEPOINT: u32 = 9;
}

/// Values of the globals `COUNTS` and `COUNTS_BY`.
pub mod counting {
    /// Bit of `COUNTS`: system calls are counted.
    pub const CALLS: u32 = 1;
    /// Bit of `COUNTS`: what threads do.
    pub const SWITCHES: u32 = 2;
    /// Bit of `COUNTS`: page faults.
    pub const FAULTS: u32 = 4;
    /// Bit of `COUNTS`: probes and tracepoints that were named.
    pub const POINTS: u32 = 8;
    /// Bit of `COUNTS`: system calls are counted as they end, and it is not measured how long they
    /// take.
    pub const WITHOUT_TIMES: u32 = 16;

    /// Value of `COUNTS_BY`: all together; [`who`](super::CountKey::who) is 0.
    pub const BY_NONE: u32 = 0;
    /// By process; the pid is in the upper half of the first word.
    pub const BY_PROCESS: u32 = 1;
    /// By thread; the tid is in the lower half.
    pub const BY_THREAD: u32 = 2;
    /// By name of the thread, whose bytes these are.
    pub const BY_COMM: u32 = 3;
}

/// Value of the map `COUNTED_THREADS`: what a thread does now. Its key is the thread in the agent's
/// pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CountedThread {
    /// Since when, in nanoseconds of `CLOCK_MONOTONIC`.
    pub since_ns: u64,
    /// When it entered the call that it is in; 0 where it is in none, or that is known of its CPU.
    pub entered_ns: u64,
    /// Its process.
    pub pid: u32,
    /// Activity of the thread: a kind of [`counted`]; 0 where that is not known.
    pub does: u32,
    /// The kind of the call, of [`counted`].
    pub kind: u32,
    /// Its system call number.
    pub number: u32,
    /// 1: it was made and has made no call yet.
    pub is_new: u32,
    /// 1: it could run since it was forced to give way.
    pub is_forced: u32,
}

/// Value of the map `OPEN_CALLS`, for each CPU: the call that the running thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CallOnCpu {
    /// When it was entered.
    pub entered_ns: u64,
    /// The thread, in the agent's pid namespace; 0: none.
    pub tid: u32,
    /// Its kind, of [`counted`].
    pub kind: u32,
    /// Its system call number.
    pub number: u32,
    /// Zero.
    pub reserved: u32,
}

/// The one entry of the map `NOT_COUNTED`: what found no space.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct NotCounted {
    /// Events that are in no sum, as there are too many sums.
    pub events: u64,
    /// Events of threads whose times are not known, as there are too many threads.
    pub threads: u64,
}

const _: () = {
    assert!(size_of::<CountKey>() == 24);
    assert!(size_of::<CountSum>() == 8 * (4 + COUNT_RANGES));
    assert!(size_of::<CountedThread>() == 40);
    assert!(size_of::<CallOnCpu>() == 24);
};
