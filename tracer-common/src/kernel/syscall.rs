//! Data of the events of system calls.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{RecordHeader, records};

/// Data of `LINUX_TRACE_SYSCALL_ENTER`. The program address is that of the call.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SyscallEnterData {
    /// Its number, in the table of the machine or in that for 32-bit programs.
    pub number: i32,
    /// 1: the number is one of the table for 32-bit programs.
    pub compat: u32,
    /// What the registers for arguments hold. How many of them count is the call's matter.
    pub args: [u64; 6],
}

/// Data of `LINUX_TRACE_SYSCALL_EXIT`. The program address is where the program goes on.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SyscallExitData {
    /// As on entry. -1: the call has that number, or it is a return from a signal handler, of which
    /// the kernel no longer knows, and whose entry was before the trace.
    pub number: i32,
    /// As on entry.
    pub compat: u32,
    /// What it returned; -4095 to -1 are error numbers.
    pub ret: i64,
}

records! {
    /// Record of the start of a system call.
    SyscallEnterRecord: SyscallEnterData,
    /// Record of the end of a system call.
    SyscallExitRecord: SyscallExitData,
}

/// The map `SYSCALLS`: which system calls are wanted.
///
/// An entry a generation: two sets of bits, *n* for the call *n*, of the machine's table of numbers
/// and of that for 32-bit programs. One entry is in force, the other is there to write the next
/// choice to. Which one is in force says a bit of the word in the map `WANTED`, so that one store
/// changes types and calls together.
pub mod syscalls {
    /// Words of a set.
    pub const WORDS: usize = 16;
    /// The last bit of a set stands for every number from here on, negative ones included.
    pub const OTHERS: u32 = 64 * 16 - 1;
    /// Entries of the map.
    pub const GENERATIONS: u32 = 2;
    /// Sets in the map.
    pub const SETS: u32 = 2 * GENERATIONS;

    /// Where the set of a table of numbers lies in the map, in sets.
    #[must_use]
    pub const fn set(generation: u32, compat: u32) -> u32 {
        (generation & 1) << 1 | (compat & 1)
    }

    const _: () = assert!(OTHERS as usize == 64 * WORDS - 1);
}
