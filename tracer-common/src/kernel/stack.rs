//! Stacks: what called what where an event happened, and what is needed to name it.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::RecordHeader;
use crate::event_type::declare::{event_data, event_types};

event_data! {
    /// Data of `LINUX_TRACE_STACK`: the functions that the thread was in. The addresses follow, 64
    /// bits each, the innermost first: those of the kernel, then those of the program. Of these,
    /// one whose upper 16 bits are 0x5079 is no address of memory: it stands for a line of a
    /// function of Python, whose name a `LINUX_TRACE_SYMBOL` has (`--stack python`).
    pub struct StackData {
        /// The type of the event that it belongs to, which is the next one of the thread at that
        /// time; 0: it is an event of its own.
        #[shown(U32)]
        pub event_type: u32,
        /// Addresses of the kernel.
        pub kernel_frames: u16,
        /// Addresses of the program.
        pub user_frames: u16,
        /// For how long the thread has been blocked there, in nanoseconds; 0: it was not.
        #[shown(U64)]
        pub off_cpu_ns: u64,
        /// For how much time on a CPU it is a sample, in nanoseconds; 0: it is none.
        #[shown(U64)]
        pub sampled_ns: u64,
        /// The thread that is woken, where the stack is that of its waker; 0: it is no waker's.
        #[shown(Pid)]
        pub woken_tid: u32,
        /// Why the addresses of the program end where they do: 0: not known; 1: the program, or the
        /// thread, begins there; 2: what follows was not copied; 3: it is in code of which it is
        /// not known how it calls; 4: as many as were asked for; 5: damaged; 7: it is in an
        /// interpreter of which it is not known where its frames are.
        pub ends: u32,
    }

    /// Data of `LINUX_TRACE_SAMPLE`: a thread had a CPU when its clock was looked at (`--sample`).
    pub struct SampleData {
        /// For how much time on a CPU it counts, in nanoseconds.
        #[shown(U64)]
        pub sampled_ns: u64,
    }

    /// Data of `LINUX_TRACE_MAPPING`: code that the process has mapped from a file.
    pub struct MappingData {
        /// Where it begins.
        #[shown(Address)]
        pub start: u64,
        /// The first address behind it.
        #[shown(Address)]
        pub end: u64,
        /// Where in the file it begins.
        #[shown(U64)]
        pub file_offset: u64,
        /// The build identifier of the file; zeroes where it has none.
        pub build_id: [u8; 20],
        /// Bytes of `build_id`.
        pub build_id_bytes: u32,
        /// The path of the file, as the process knows it; `[unmapped]` where there is no code any
        /// more. Behind its null the inode of the file (64 bits), where it has no build identifier.
        #[shown(Text)]
        pub path: [u8; MAPPING_PATH_BYTES],
    }

    /// Data of `LINUX_TRACE_SYMBOL`: the function at an address that a stack has.
    pub struct SymbolData {
        /// The address.
        #[shown(Address)]
        pub address: u64,
        /// Bytes from the beginning of the function to there.
        #[shown(U64)]
        pub offset: u64,
        /// The name of the function; none where it is unknown. Behind its null the time since which
        /// the name counts, in nanoseconds (64 bits), where it does not count always; behind that,
        /// for code that a program has made, the line in its source (32 bits) and that one's file.
        #[shown(Text)]
        pub name: [u8; SYMBOL_NAME_BYTES],
    }
}

/// Bytes of the path of a mapping at most, its null counted.
pub const MAPPING_PATH_BYTES: usize = 1024;

/// Bytes of the name of a function at most, its null counted.
pub const SYMBOL_NAME_BYTES: usize = 1024;

event_types! {
    STACK = 60 {
        about: "the functions that a thread was in (--stack)",
        family: "stack",
        data: StackData,
        recorded_at: [],
        is: [heavy, when_named],
    }
    MAPPING = 61 {
        about: "code of a file in the process's memory, for the names of stacks",
        family: "stack",
        data: MappingData,
        ends_with: path,
        recorded_at: [],
        is: [when_named],
    }
    SYMBOL = 62 {
        about: "the function at an address of a stack",
        family: "stack",
        data: SymbolData,
        ends_with: name,
        recorded_at: [],
        is: [when_named],
    }
    SAMPLE = 63 {
        about: "a thread was on a CPU when that was looked at (--sample)",
        family: "sample",
        data: SampleData,
        recorded_at: [],
        is: [heavy, when_named],
    }
}

/// The type of the record of a stack. The record of its event follows from the same CPU.
pub const STACK_RECORD: u16 = 0x7ffc;

/// Addresses of a stack at most, of the kernel and of the program each: the kernel's own limit
/// (`kernel.perf_event_max_stack`).
pub const MOST_FRAMES: usize = 127;

/// Addresses that most stacks have at most.
pub const USUAL_FRAMES: usize = 32;

/// A stack as the programs record it. `N` is [`USUAL_FRAMES`] or [`MOST_FRAMES`]; 0 where no
/// addresses are asked for.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct StackRecord<const N: usize> {
    /// Header of its event, with another type.
    pub header: RecordHeader,
    /// The type of its event's record; 0: it has none.
    pub event_type: u32,
    /// Bytes of `kernel`; negative: an error.
    pub kernel_bytes: i32,
    /// Bytes of `user`; negative: an error.
    pub user_bytes: i32,
    /// See [`StackData::woken_tid`].
    pub woken_tid: u32,
    /// See [`StackData::off_cpu_ns`].
    pub off_cpu_ns: u64,
    /// See [`StackData::sampled_ns`].
    pub sampled_ns: u64,
    /// Where the thread is in the kernel, the innermost first.
    pub kernel: [u64; N],
    /// Where it is in the program.
    pub user: [u64; N],
}

/// Values of [`StackData::ends`].
pub mod stack_ends {
    /// Not known: functions were found by frame pointers.
    pub const UNKNOWN: u32 = 0;
    /// The program, or the thread, begins there.
    pub const BEGINNING: u32 = 1;
    /// The rest was not copied.
    pub const MEMORY: u32 = 2;
    /// It is in code of which it is not known how it calls.
    pub const CODE: u32 = 3;
    /// As many as were asked for.
    pub const COUNT: u32 = 4;
    /// The content of the stack, or of a file about it, describes no stack.
    pub const DAMAGED: u32 = 5;
    /// It is still to be found, from the registers and the memory that follow in place of the
    /// program's addresses: so the service gives it to a client, and no event of a stream is so.
    pub const COPIED: u32 = 6;
    /// It is in an interpreter of which it is not known where its frames are.
    pub const INTERPRETER: u32 = 7;
    /// Bit beside one of these: Python frames follow the stack. So the service gives it to a
    /// client, and no event of a stream is so.
    pub const WITH_PYTHON: u32 = 1 << 31;
}

/// The type of the record of a stack whose part of the program is found by the agent.
pub const UNWIND_RECORD: u16 = 0x7ffa;

/// Registers of a program, as the kernel saves them (`struct pt_regs`): at most so many words.
pub const REGISTERS: usize = 34;

/// Bytes of a program's stack that are copied, one of these; a record has space for one of them.
pub const COPIED_BYTES: [usize; 3] = [2048, 8192, 32_768];

/// Bytes of it that are held of a thread that is blocked.
pub const BLOCKED_BYTES: usize = 8192;

/// A stack of which the programs record the registers and the memory. `N` is one of
/// [`COPIED_BYTES`].
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UnwindRecord<const N: usize> {
    /// Header of its event, with another type.
    pub header: RecordHeader,
    /// See [`StackRecord::event_type`].
    pub event_type: u32,
    /// Bytes of `kernel`; negative: an error.
    pub kernel_bytes: i32,
    /// Bytes of `memory` that were read; negative: there are no registers either.
    pub memory_bytes: i32,
    /// See [`StackData::woken_tid`].
    pub woken_tid: u32,
    /// See [`StackData::off_cpu_ns`].
    pub off_cpu_ns: u64,
    /// See [`StackData::sampled_ns`].
    pub sampled_ns: u64,
    /// Where the thread is in the kernel, the innermost first.
    pub kernel: [u64; MOST_FRAMES],
    /// The registers of the program.
    pub registers: [u64; REGISTERS],
    /// Its memory, from where its stack pointer is.
    pub memory: [u8; N],
}

/// Bytes of an [`UnwindRecord`] before its memory.
pub const UNWIND_HEAD_BYTES: usize = 72 + 8 * (MOST_FRAMES + REGISTERS);

/// The registers and the memory of a thread that has left its CPU because it blocks, beside its
/// [`BlockedStack`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BlockedMemory {
    /// See [`UnwindRecord::memory_bytes`].
    pub memory_bytes: i32,
    /// How often `end` was believed.
    pub beliefs: u32,
    /// From where on nothing of its stack could be read last; 0: not known.
    pub end: u64,
    /// See [`UnwindRecord::registers`].
    pub registers: [u64; REGISTERS],
    /// See [`UnwindRecord::memory`].
    pub memory: [u8; BLOCKED_BYTES],
}

/// Threads whose memory is held while they are blocked.
pub const MOST_BLOCKED_MEMORY: u32 = 4096;

/// The stack of a thread that has left its CPU because it blocks. Written as it leaves, read as it
/// gets a CPU again, both by the programs.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BlockedStack {
    /// Since when it is blocked; 0: it is not.
    pub since_ns: u64,
    /// Bytes of `kernel`; negative: an error.
    pub kernel_bytes: i32,
    /// Bytes of `user`; negative: an error.
    pub user_bytes: i32,
    /// See [`StackRecord::kernel`].
    pub kernel: [u64; MOST_FRAMES],
    /// See [`StackRecord::user`].
    pub user: [u64; MOST_FRAMES],
}

/// Threads whose stacks are held while they are blocked. Of those beyond, the stack of the one that
/// blocked first is forgotten.
pub const MOST_BLOCKED: u32 = 16_384;

/// Bits of the types whose events can have stacks: what happens where the thread is that they are
/// about. Probes have [`PROBES`](stacks::PROBES), tracepoints by name
/// [`TRACEPOINTS`](stacks::TRACEPOINTS).
pub mod stacks {
    use crate::event_type::EventTypeId;
    use crate::kernel::wanted::bit;

    /// The bit of probes. No type has the code 0.
    pub const PROBES: u64 = 1;
    /// The bit of tracepoints by name, which is that of a type of the standard.
    pub const TRACEPOINTS: u64 = bit(EventTypeId::ERROR);
    /// Those of the kernel's types that can have stacks.
    pub const TYPES: u64 = bit(EventTypeId::SYSCALL_ENTER)
        | bit(EventTypeId::SYSCALL_EXIT)
        | bit(EventTypeId::FAULT_USER)
        | bit(EventTypeId::FAULT_KERNEL)
        | bit(EventTypeId::SWITCH_OUT)
        | bit(EventTypeId::SIGNAL_GENERATE)
        | bit(EventTypeId::SIGNAL_DELIVER)
        | bit(EventTypeId::WAKEUP)
        | bit(EventTypeId::THREAD_STATE);
    /// Types that have stacks unless others are chosen. The stack of a waker slows that thread
    /// down, whichever it is.
    pub const USUAL: u64 = TYPES & !bit(EventTypeId::WAKEUP);
    /// The bit of samples, which are recorded for their stacks.
    pub const SAMPLES: u64 = bit(EventTypeId::SAMPLE);
}

const _: () = {
    assert!(size_of::<StackData>() == 32);
    assert!(core::mem::offset_of!(MappingData, path) == 48);
    assert!(core::mem::offset_of!(StackRecord<USUAL_FRAMES>, kernel) == 72);
    // Both begin alike, and the memory is right behind the registers.
    assert!(core::mem::offset_of!(UnwindRecord<8>, kernel) == 72);
    assert!(core::mem::offset_of!(UnwindRecord<8>, memory_bytes) == 48);
    assert!(core::mem::offset_of!(StackRecord<USUAL_FRAMES>, user_bytes) == 48);
    assert!(core::mem::offset_of!(UnwindRecord<8>, memory) == UNWIND_HEAD_BYTES);
    assert!(core::mem::offset_of!(BlockedMemory, memory) == 16 + 8 * REGISTERS);
};
