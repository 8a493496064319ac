//! Data of the events of system calls.

use crate::event_type::declare::{event_data, event_types};

event_data! {
    /// Data of `LINUX_TRACE_SYSCALL_ENTER`. The program address is that of the call.
    pub struct SyscallEnterData {
        /// The system call number, in the table of the machine or in that for 32-bit programs.
        #[shown(Syscall as "name", I32)]
        pub number: i32,
        /// 1: it is one of the table for 32-bit programs.
        #[shown(Flag)]
        pub compat: u32,
        /// What the registers for arguments hold. How many of them count is the call's matter.
        #[shown(Arguments, NamedArguments as "arguments")]
        pub args: [u64; 6],
    }
}

event_data! {
    /// Data of `LINUX_TRACE_SYSCALL_EXIT`. The program address is where the program goes on.
    pub struct SyscallExitData {
        /// As on entry. -1: the call has that system call number, or it is a return from a signal
        /// handler, of which the kernel no longer knows, and whose entry was before the trace.
        #[shown(Syscall as "name", I32)]
        pub number: i32,
        /// As on entry.
        #[shown(Flag)]
        pub compat: u32,
        /// What it returned; -4095 to -1 are error numbers.
        #[shown(SyscallResult, ShownResult as "result")]
        pub ret: i64,
    }
}

event_types! {
    SYSCALL_ENTER = 43 {
        about: "a thread entered a system call",
        family: "syscall",
        data: SyscallEnterData,
        recorded_at: [sys_enter],
        is: [heavy, when_named],
    }
    SYSCALL_EXIT = 44 {
        about: "a thread left a system call",
        family: "syscall",
        data: SyscallExitData,
        recorded_at: [sys_enter, sys_exit],
        is: [heavy, when_named],
    }
}

/// The map `SYSCALLS`: which system calls are wanted.
///
/// An entry a generation: two sets of bits, *n* for the call *n*, of the machine's table of calls
/// and of that for 32-bit programs. One entry is in force, the other is there to write the next
/// choice to. Which one is in force says a bit of the word in the map `WANTED`, so that one store
/// changes types and calls together.
pub mod syscalls {
    /// Words of a set.
    pub const WORDS: usize = 16;
    /// The last bit of a set is that of every call from here on, negative ones included.
    pub const OTHERS: u32 = 64 * 16 - 1;
    /// Entries of the map.
    pub const GENERATIONS: u32 = 2;
    /// Sets in the map.
    pub const SETS: u32 = 2 * GENERATIONS;

    /// Where the set of a table of calls lies in the map, in sets.
    #[must_use]
    pub const fn set(generation: u32, compat: u32) -> u32 {
        (generation & 1) << 1 | (compat & 1)
    }

    const _: () = assert!(OTHERS as usize == 64 * WORDS - 1);
}
