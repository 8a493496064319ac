//! Data of the look at threads when a trace begins.

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::{MOST_FRAMES, REGISTERS, Record};
use crate::event_type::declare::{event_data, event_types};

event_data! {
    /// Data of `LINUX_TRACE_THREAD_STATE`: what a thread did when the trace began. The program
    /// address is where its program goes on, where it is in a system call.
    pub struct ThreadStateData {
        /// The number of the system call that it is in, in the table of the machine or in that for
        /// 32-bit programs; -1: it is in none, or that is not known.
        #[shown(HeldSyscall as "name", I32)]
        pub number: i32,
        /// 1: it is one of the table for 32-bit programs.
        #[shown(Flag)]
        pub compat: u32,
        /// Values of the registers for arguments. The call determines how many of them count.
        #[shown(HeldArguments, NamedHeldArguments as "arguments")]
        pub args: [u64; 6],
        /// State of the thread: 0: not known, 1: it has a CPU, 2: it could run, 3: it waits for
        /// something else, 4: it was stopped by a signal, 5: by its tracer ([`thread_state`]).
        #[shown(ThreadState)]
        pub state: u32,
        /// The kernel's state bits of the thread (`task_struct::__state`).
        #[shown(TaskState)]
        pub kernel_state: u32,
        /// 1: its switches are recorded from then on.
        #[shown(ShortFlag)]
        pub followed: u8,
        /// Context that it waits in, as in `LINUX_TRACE_SWITCH_OUT`.
        #[shown(WaitsIn, IoWait as "io_wait")]
        pub waits_in: u8,
        /// The number of that system call.
        pub syscall: u16,
        /// Zero.
        pub reserved: u32,
    }
}

/// States of a thread that is looked at.
pub mod thread_state {
    /// Not known.
    pub const UNKNOWN: u32 = 0;
    /// It has a CPU.
    pub const RUNNING: u32 = 1;
    /// It could run, and waits for a CPU.
    pub const RUNNABLE: u32 = 2;
    /// It waits for something else.
    pub const BLOCKED: u32 = 3;
    /// It was stopped by a signal.
    pub const STOPPED: u32 = 4;
    /// It was stopped by its tracer.
    pub const TRACED: u32 = 5;
}

/// The record that the eBPF program writes of each thread it looks at. Where no stacks are asked
/// for, all from `registers` on is left out.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LookRecord {
    /// The event.
    pub event: Record<ThreadStateData>,
    /// Bytes of `kernel`; negative: an error.
    pub kernel_bytes: i32,
    /// Bytes of `registers`; 0: those of the program are not known.
    pub registers_bytes: i32,
    /// The registers of the program.
    pub registers: [u64; REGISTERS],
    /// Where the thread is in the kernel, the innermost first.
    pub kernel: [u64; MOST_FRAMES],
}

/// Bytes of a [`LookRecord`] without stacks.
pub const LOOK_BYTES: usize = offset_of!(LookRecord, registers);

event_types! {
    THREAD_STATE = 58 {
        about: "what a thread does when the trace begins",
        family: "switch",
        data: ThreadStateData,
        recorded_at: [],
    }
}

const _: () = {
    assert!(size_of::<ThreadStateData>() == 72);
    assert!(LOOK_BYTES == 120);
    // Behind the byte that says what it is in lies the number of the call.
    assert!(offset_of!(ThreadStateData, syscall) == offset_of!(ThreadStateData, waits_in) + 1);
};
