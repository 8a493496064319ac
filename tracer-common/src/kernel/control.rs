//! Data that the agent and the programs give each other: values of maps, and constants set before
//! loading.

use core::mem::size_of;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Processes in one page of the map `TRACED`: the map is an array of pages of bytes, a byte a
/// process, found by `page = pid / 4096`, `byte = pid % 4096`.
///
/// The agent maps it and writes single bytes: replacing a page as a whole would undo what a fork
/// on another CPU has just written into it.
pub const TRACED_PAGE: u32 = 4096;

/// Pids are below this: what a 64-bit kernel gives at most (`PID_MAX_LIMIT`), however
/// `kernel.pid_max` is set.
pub const PID_LIMIT: u32 = 4 * 1024 * 1024;

/// Processes and threads in one page of the map `PIDS`: 4 bytes each.
pub const PIDS_PAGE: u32 = 1024;

/// Identifiers of each thread in the listing of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct TaskIds {
    /// Its process, in the first pid namespace.
    pub pid: u32,
    /// The thread, in the first pid namespace.
    pub tid: u32,
    /// Its process, in the agent's pid namespace; 0 when that has just ended.
    pub own_pid: u32,
    /// The thread, in the agent's pid namespace.
    pub own_tid: u32,
}

/// State of one process in the map `TRACED`: bits.
///
/// The byte is written by the agent for the processes it is asked to trace, and by the fork
/// program for every new process, before that process runs for the first time: what an earlier
/// process of the same pid has left there never counts.
pub mod traced {
    /// The process is traced.
    pub const TRACED: u8 = 1;
    /// A child that it makes is traced too.
    pub const INHERIT: u8 = 2;
    /// Its last thread has exited: what follows is only the last switch away.
    pub const DYING: u8 = 4;
    /// Its events are recorded only while `ptrace` may look into it, as its credentials and its
    /// memory say at that moment. What is not recorded is counted ([`withheld`]). A child that is
    /// traced too is guarded too.
    ///
    /// [`withheld`]: super::LostOnCpu::withheld
    pub const GUARDED: u8 = 8;
    /// Where it is guarded: all who are given its events may look into whatever is in user
    /// namespaces that its user has made, as they are in the first one. A child that is traced too
    /// has this too.
    pub const OWNED: u8 = 32;
    /// Nothing that it does is counted before its next exec: it is a command that runs the tracer's
    /// code. A child that it makes does not have this.
    pub const UNSTARTED: u8 = 16;
}

/// Slots of the map `VISIBLE`: of each guarded process whose events were recorded when it was last
/// judged, its pid, in the slot `pid % VISIBLE_SLOTS`.
///
/// A thread that exits has given its memory up, and with it what says whether that may be dumped:
/// then this counts. A process whose slot another one has taken counts as one that may not be
/// looked into.
pub const VISIBLE_SLOTS: u32 = 16384;

/// Slots of the map `WITHHELD`, two words each: a guarded process, by its pid, and how many of its
/// events were not recorded. It has the slot `pid % WITHHELD_SLOTS`, unless another one has taken
/// that; then they are counted in [`LostOnCpu::withheld`](super::LostOnCpu::withheld) alone, which
/// has all.
pub const WITHHELD_SLOTS: u32 = 4096;

/// Choice of processes by what they are, and not by their pid: the one entry of the map `CHOICE`.
/// Written by the agent before the programs are attached.
///
/// The programs that see processes begin, run another program, be renamed or be moved look whether
/// such a process is chosen, and write its byte of `TRACED`. Nothing is asked on any other event.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Choice {
    /// The control group (version 2) whose processes are chosen, those of groups within it
    /// included; 0 for none.
    pub cgroup: u64,
    /// The [`traced`] bits that a chosen process gets.
    pub bits: u64,
    /// 1: processes are chosen that come into the agent's pid namespace from outside.
    pub newcomers: u64,
    /// The pattern of the names that are chosen, as positions that each match one byte of a name.
    /// Bit *n* of an entry says that this byte fits position *n*.
    pub fits: [u32; 256],
    /// Bit *n*: any bytes may come before position *n*.
    pub stars: u32,
    /// The bit of the position after the last; 0 where processes are not chosen by name.
    pub end: u32,
}

/// The map `WANTED`: two words. In the first, bit *n* is that of the event type *n*. The second is
/// the time since which switches have been recorded without a pause.
///
/// Written by the agent, also while the programs run. The types of
/// [`LIFECYCLE`](wanted::LIFECYCLE) are not looked up in it.
pub mod wanted {
    use crate::event_type::{EventOrigin, EventTypeId, SYSTEM_EVENT_TYPES};

    /// Returns the bit of a system event type; 0 for a user event type, which has none.
    #[must_use]
    pub const fn bit(id: EventTypeId) -> u64 {
        match 1_u64.checked_shl(id.0) {
            Some(bit) => bit,
            None => 0,
        }
    }

    /// Words of the map.
    pub const WORDS: usize = 2;

    /// Bit that says which system calls are in force: see [`syscalls`](crate::kernel::syscalls). No
    /// event type has the code 0.
    pub const GENERATION: u64 = 1;

    /// The types that say which processes and threads exist. They are always recorded.
    pub const LIFECYCLE: u64 = bit(EventTypeId::FORK)
        | bit(EventTypeId::THREAD_CREATE)
        | bit(EventTypeId::EXEC)
        | bit(EventTypeId::EXIT)
        | bit(EventTypeId::THREAD_EXIT)
        | bit(EventTypeId::RENAME);

    /// The types that are recorded only when they are wanted.
    pub const OPTIONAL: u64 = collect_kernel_bits() & !LIFECYCLE;

    #[expect(clippy::indexing_slicing, reason = "the compiler runs it")]
    const fn collect_kernel_bits() -> u64 {
        let mut bits = 0;
        let mut i = 0;
        while i < SYSTEM_EVENT_TYPES.len() {
            if matches!(SYSTEM_EVENT_TYPES[i].origin, EventOrigin::Kernel) {
                // A type without a bit is recorded where an option asks for it.
                bits |= bit(SYSTEM_EVENT_TYPES[i].id);
            }
            i += 1;
        }
        bits
    }
}

/// Most rings: slots in the map `RINGS`.
///
/// A CPU writes to the ring whose slot is the CPU's index modulo the number of rings, which is a
/// power of two. A ring takes one record at a time from all its CPUs.
pub const MAX_RINGS: u32 = 8;

/// Count of events that one CPU could not record: an entry of the map `LOST`, which the agent maps.
///
/// As long as a cache line, so that CPUs do not disturb each other.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LostOnCpu {
    /// Events for which the ring had no space. Only grows; written by the programs.
    pub ring_full: u64,
    /// When the first of those was that were not reported yet; written by the programs, after they
    /// have counted it.
    pub first_ns: u64,
    /// How many were reported; written by the agent.
    pub reported: u64,
    /// Events of guarded processes ([`traced::GUARDED`]) that could not be looked into. Only grows;
    /// written by the programs. They are no loss of a ring's.
    pub withheld: u64,
    /// Zero.
    pub reserved: [u64; 4],
}

const _: () = assert!(size_of::<LostOnCpu>() == 64);

/// Variables of the kernel that it keeps for each CPU, and a function of its own. What represents
/// each in the object is a 64-bit constant: the agent makes the instruction that loads it one that
/// names the kernel's variable, or calls the function, which the loader cannot.
pub mod cpu_variable {
    /// Where the kernel counts how deep it is in interrupts: `__preempt_count`, from 6.2 to 6.14
    /// in `pcpu_hot`.
    pub const PREEMPT_COUNT: u64 = 0x6b73_796d_7063_7501;
    /// `hrtimer_bases`: which high-resolution timers run.
    pub const HRTIMER_BASES: u64 = 0x6b73_796d_7063_7502;
    /// `timer_bases`: which other timers run.
    pub const TIMER_BASES: u64 = 0x6b73_796d_7063_7503;
    /// `bpf_rdonly_cast()`: makes an address one that may be read from. The verifier drops the
    /// call: it costs nothing.
    pub const READABLE: u64 = 0x6b73_796d_7063_7504;
}

/// Selection of records as a sample of them all.
pub mod sample {
    /// One in so many, as a power of two.
    const ONE_IN_LOG2: u32 = 5;

    /// Tells whether the record of this time is one of the sample.
    ///
    /// The lowest bits of the time do not decide: of a clock that goes in steps of 10 ns they may
    /// never all be zero. The highest bits of a product with 2^64 divided by the golden ratio vary
    /// whatever the steps are.
    #[must_use]
    pub const fn has(time_ns: u64) -> bool {
        time_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - ONE_IN_LOG2) == 0
    }
}

/// Values that the read-only globals of the eBPF object may hold, beside offsets in bytes. They are
/// set before loading, so that the verifier knows them as constants and drops the branches that
/// this kernel does not need.
pub mod globals {
    /// The kernel has no such field.
    pub const NO_OFFSET: u32 = u32::MAX;

    /// Values of the global `GUARDS`.
    pub mod guards {
        /// No process is guarded.
        pub const NONE: u32 = 0;
        /// Processes may be guarded, and of what is withheld all is counted.
        pub const COUNTS_LIFE: u32 = 1;
        /// Processes may be guarded; what is withheld of their forks, ends and names another
        /// recording counts.
        pub const IS_BESIDE: u32 = 2;
    }

    /// No system call has this code.
    pub const NO_CALL: u32 = u32::MAX;

    /// Arguments of `sched_switch`: `preempt, prev, next`; the state is read from the task.
    pub const SWITCH_WITHOUT_STATE: u32 = 0;
    /// Arguments of `sched_switch`: `preempt, prev, next, prev_state`.
    pub const SWITCH_STATE_LAST: u32 = 1;
    /// Arguments of `sched_switch`: `preempt, prev_state, prev, next`, as in early 5.18.
    pub const SWITCH_STATE_SECOND: u32 = 2;
}

#[cfg(test)]
mod tests {
    use super::sample;

    #[test]
    fn one_in_thirty_two_is_in_the_sample_whatever_the_steps_of_the_clock() {
        for step in [1, 2, 3, 10, 32, 40, 64, 69, 100, 280, 1000, 1024] {
            for start in [0, 1, 7, 12_684_865_803_705] {
                let times = (0..32_000).map(|step_index| start + step_index * step);
                let count = times.filter(|time| sample::has(*time)).count();
                assert!((700..1300).contains(&count), "{count}, {start} {step}");
            }
        }
    }
}
