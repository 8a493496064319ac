//! Data of the events of system calls.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::RecordHeader;
use crate::event_type::declare::{event_data, event_types};

event_data! {
    /// Data of `LINUX_TRACE_SYSCALL_ENTER`. The program address is that of the call. What the call
    /// was given in memory, as far as it was read, follows: for each such argument its index from
    /// 0, a byte of bits (1: there is more of it, 2: it could not be read, 4: bytes, and not text),
    /// 2 bytes that say how many follow, and these. An index of 64 and more says what a descriptor
    /// is (--descriptors): that argument, 70 what the call returned, from 72 on those of a list.
    pub struct SyscallEnterData {
        /// The system call number, in the table of the machine or in that for 32-bit programs.
        #[shown(Syscall as "name", I32)]
        pub number: i32,
        /// 1: it is one of the table for 32-bit programs.
        #[shown(Flag)]
        pub compat: u32,
        /// Values of the registers for arguments. The call determines how many of them count.
        #[shown(Arguments, NamedArguments as "arguments")]
        pub args: [u64; 6],
    }
}

event_data! {
    /// Data of `LINUX_TRACE_SYSCALL_EXIT`. The program address is where the program goes on. What
    /// the call has filled in, and what could not be read on entry, follows as on entry. Where
    /// calls are recorded only as they end (--calls exit), so does what it was given, as far as it
    /// is known then, and with the index 255 the values of the registers for arguments.
    pub struct SyscallExitData {
        /// As on entry. -1: the call has that system call number, or it is a return from a signal
        /// handler, of which the kernel no longer knows, and whose entry was before the trace.
        #[shown(Syscall as "name", I32)]
        pub number: i32,
        /// As on entry.
        #[shown(Flag)]
        pub compat: u32,
        /// Return value; -4095 to -1 are error numbers.
        #[shown(SyscallResult, ShownResult as "result", FilledArguments as "filled")]
        pub ret: i64,
    }
}

/// The event type of a [`SyscallTextsRecord`] of an entry: no event has it.
pub const SYSCALL_ENTER_TEXTS: u16 = 0x7ffe;

/// The event type of a [`SyscallTextsRecord`] of an exit: no event has it.
pub const SYSCALL_EXIT_TEXTS: u16 = 0x7ffd;

/// The event type of a [`SyscallTextsRecord`] of a call that is recorded only as it ends: no event
/// has it.
pub const SYSCALL_CALL_TEXTS: u16 = 0x7ff8;

/// Data of a call that is recorded only as it ends.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SyscallCallData {
    /// Data of its event.
    pub exit: SyscallExitData,
    /// Values of the registers for arguments.
    pub args: [u64; 6],
    /// 1: these are those of the call. 0: it has replaced them, as an exec does.
    pub are_known: u64,
}

/// Description of the data that was read at the address in an argument of a system call.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SyscallText {
    /// Index of the argument, from 1; 0 for none.
    pub argument: u8,
    /// 1: bytes, as many as `length` says, and not text that a null ends. The bits above: the shape
    /// of what was gathered.
    pub is_bytes: u8,
    /// Bytes that were asked for.
    pub wanted: u16,
    /// Bytes that are there, of text with its null, or one more than were asked for; an error is
    /// negative.
    pub length: i32,
}

/// Arguments that a record has at most.
pub const SYSCALL_TEXTS: usize = 2;

/// Record of a system call with what its arguments point to. `D` is the data of the event, and `N`
/// the space for each of them.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SyscallTextsRecord<D, const N: usize> {
    /// Header of every record.
    pub header: RecordHeader,
    /// Data of every event of this type.
    pub data: D,
    /// Descriptions of the data that was read.
    pub texts: [SyscallText; SYSCALL_TEXTS],
    /// The data that was read.
    pub bytes: [[u8; N]; SYSCALL_TEXTS],
}

/// How much is read of what arguments point to: one of these, by what was asked for.
pub mod string_space {
    /// Bytes of text, which is mostly a path, that are read at least, whatever was asked for.
    pub const LEAST_TEXT: u32 = 256;
    /// Bytes beyond those that were asked for: to see whether there is more, and its null.
    pub const MORE: usize = 8;
    /// Space for 64 bytes.
    pub const SMALL: usize = 64 + MORE;
    /// Space for 256 bytes.
    pub const MIDDLE: usize = 256 + MORE;
    /// Space for 1024 bytes.
    pub const WIDE: usize = 1024 + MORE;
    /// Space for 4096 bytes.
    pub const LARGE: usize = 4096 + MORE;
}

/// The map `CALL_TEXTS`: what the arguments of each system call point to. A word a call: those of
/// the machine's table, and as many of that for 32-bit programs.
///
/// From the lowest bits on, 16 bits for each argument that is read: two at most as the call begins,
/// and two as it ends.
pub mod call_texts {
    /// Calls of a table.
    pub const CALLS: u32 = 512;
    /// Bits: which argument, from 1; 0 for none, and [`SIGNAL_MASK`].
    pub const ARGUMENT: u32 = 0x7;
    /// Instead of an argument: the signals that are blocked once a signal handler has ended, which
    /// lie on the stack.
    pub const SIGNAL_MASK: u32 = 0x7;
    /// Bits: what is there, one of the following.
    pub const KIND: u32 = 0x38;
    /// Text that a null ends.
    pub const TEXT: u32 = 0;
    /// As many bytes as the next argument says.
    pub const BYTES: u32 = 0x08;
    /// As many bytes as the call returns, and the next argument says at most.
    pub const RETURNED: u32 = 0x10;
    /// As many bytes as its size says.
    pub const FIXED: u32 = 0x18;
    /// As many entries of its size as the next argument says. Where it may not have more than 64
    /// bytes: as many bytes as the argument before needs, which is a command of `ioctl`.
    pub const ARRAY: u32 = 0x20;
    /// As many entries of its size as the call returns.
    pub const RETURNED_ARRAY: u32 = 0x28;
    /// As many bytes as are said where the next argument points to, at most its size.
    pub const COUNTED: u32 = 0x30;
    /// Data gathered from several addresses: see [`gathered`](super::gathered). Its size says which
    /// shape it has.
    pub const GATHERED: u32 = 0x38;
    /// Where its size begins.
    pub const SIZE_AT: u32 = 6;
    /// Bits of its size.
    pub const SIZE: u32 = 0x1ff;
    /// Bit: it may have more than 64 bytes, whatever was asked for.
    pub const WIDE: u32 = 0x8000;
    /// Bits of one argument.
    pub const BITS: u32 = 16;
    /// Most bytes that are read of what has a size.
    pub const MOST: u32 = 256;
    /// Where the bits begin of what is read as the call ends.
    pub const FILLED_AT: u32 = 32;

    /// Returns a word with those of its arguments that say what a call is about: names, addresses
    /// and other data that lies in one piece, as the call begins, and what it fills in where that
    /// has a size of 64 bytes at most, as the descriptors of a pipe.
    #[must_use]
    pub const fn names(word: u64) -> u64 {
        let (mut names, mut at) = (0, 0);
        while at < u64::BITS {
            let argument = word & ((1 << BITS) - 1) << at;
            let bits = argument >> at;
            let kind = bits & KIND as u64;
            let is_name = if at < FILLED_AT {
                kind != GATHERED as u64
            } else {
                kind == FIXED as u64 && bits & WIDE as u64 == 0
            };
            if is_name {
                names |= argument;
            }
            at += BITS;
        }
        names
    }
}

/// Data gathered from several addresses that one argument leads to.
///
/// It begins with two words of 16 bits: [`MORE`](gathered::MORE) or 0, and how many variables the
/// environment has that the next argument points to. What follows depends on the shape.
pub mod gathered {
    /// Addresses of texts, up to one that is null, as `execve` is given them. Of each: a word of 16
    /// bits, its length with [`TRUNCATED`] or [`UNREAD`], and the bytes.
    pub const STRINGS: u32 = 0;
    /// Addresses and lengths, as `writev` is given them, as many as the next argument says. Of
    /// each: its address, its length (64 bits each), a word of 16 bits, as above, and the bytes.
    pub const PARTS: u32 = 1;
    /// Addresses and lengths, as `readv` fills them in: only as many bytes are read as the call
    /// returns.
    pub const FILLED_PARTS: u32 = 2;
    /// A `struct msghdr`, as `sendmsg` is given it: itself, of its name and of its control messages
    /// a word of 16 bits and the bytes, and its parts.
    pub const MESSAGE: u32 = 3;
    /// A `struct msghdr`, as `recvmsg` fills it in.
    pub const FILLED_MESSAGE: u32 = 4;
    /// Data that several arguments point to, from here on: of each a word of 16 bits, as above, and
    /// the bytes. Readers have it as if each had been read by itself.
    ///
    /// Of `pselect6`: three sets of descriptors, of as many bytes as the first argument says, a
    /// time, the address and the size of a set of signals, and that set.
    pub const SETS: u32 = 5;
    /// Of `mount`: the texts of all arguments but the fourth.
    pub const MOUNTED: u32 = 6;
    /// Entries of a folder, as many as lie in the bytes that the call returns: how many there are
    /// is said where the variables are in others.
    pub const ENTRIES: u32 = 7;
    /// A time, and the set of signals that the next argument points to.
    pub const TIME_AND_SIGNALS: u32 = 8;
    /// The integers that the first three arguments point to.
    pub const THREE_INTEGERS: u32 = 9;
    /// Of `select`: the same as of `pselect6`, without signals.
    pub const SETS_AND_TIME: u32 = 10;
    /// As many integers as the first argument says, which the second one points to.
    pub const COUNTED_INTEGERS: u32 = 11;
    /// As many bytes as the second argument says, which the third one points to.
    pub const COUNTED_BYTES: u32 = 12;
    /// The signals that are blocked once a signal handler of a 32-bit program has ended that was
    /// entered without more than its signal: they lie in two halves.
    pub const OLD_SIGNAL_MASK: u32 = 13;
    /// Of `setxattr`: two texts, and as many bytes as the fourth argument says.
    pub const ATTRIBUTE: u32 = 14;
    /// Several of `struct mmsghdr`, as `sendmmsg` is given them: as many as the next argument says,
    /// and as many as the call returns as it ends. Each begins at a multiple of eight bytes: its
    /// `struct msghdr`, its length (32 bits), how many parts of it follow (16 bits) and two bytes;
    /// of its name and of its control messages a word of 16 bits and the bytes, and its parts.
    pub const MESSAGES: u32 = 15;
    /// Several of `struct mmsghdr`, as `recvmmsg` fills them in: of each only as many bytes are
    /// read as its length says.
    pub const FILLED_MESSAGES: u32 = 16;

    /// Tells whether this shape is of several arguments.
    #[must_use]
    pub const fn is_of_several(shape: u32) -> bool {
        shape >= SETS && shape <= ATTRIBUTE && shape != ENTRIES
    }

    /// Bytes before the first of them.
    pub const HEAD: usize = 4;
    /// Of the head: there are more.
    pub const MORE: u16 = 1;
    /// Of the environment: it is not known.
    pub const UNKNOWN: u16 = 0xffff;
    /// Variables that are counted at most.
    pub const VARIABLES: u16 = 256;
    /// Of a length: there is more of it.
    pub const TRUNCATED: u16 = 0x8000;
    /// Instead of a length: it could not be read.
    pub const UNREAD: u16 = 0xffff;
    /// Texts or parts at most.
    pub const MOST: u32 = 64;
    /// Bytes of each at most.
    pub const EACH: u32 = 1000;
    /// Bytes from one half of [`OLD_SIGNAL_MASK`] to the other.
    pub const OLD_MASK_STEP: u64 = 632;
    /// Bytes of an address and a length.
    pub const PART: usize = 16;
    /// Bytes of a `struct msghdr`.
    pub const HEADER: usize = 56;
    /// Bytes before the name of one of several messages.
    pub const MESSAGE_HEAD: usize = HEADER + 8;
    /// Messages at most.
    pub const MOST_MESSAGES: u32 = 32;
    /// Bytes of a name, of control messages and of a set at most.
    pub const NAME: usize = 256;
    /// Bytes of a set of descriptors at most.
    pub const SET: u32 = 128;
    /// Entries of a folder that are counted at most.
    pub const ENTRIES_AT_MOST: u32 = 1536;
}

/// Calls that 32-bit programs ask `socketcall` for; each is recorded as that call.
pub mod socket_calls {
    /// Instead of a system call number, which these have not: `accept`.
    pub const ACCEPT: u32 = 509;
    /// `send`.
    pub const SEND: u32 = 510;
    /// `recv`.
    pub const RECV: u32 = 511;

    /// Bits of a system call number.
    pub const CODE: u32 = 0xffff;
    /// Where the number of its arguments begins.
    pub const ARGUMENTS_AT: u32 = 16;

    /// By what `socketcall` is asked for: the system call number of that call, and how many
    /// arguments it has.
    pub const CALLS: [u32; 21] = [
        0,
        encode(359, 3),
        encode(361, 3),
        encode(362, 3),
        encode(363, 2),
        encode(ACCEPT, 3),
        encode(367, 3),
        encode(368, 3),
        encode(360, 4),
        encode(SEND, 4),
        encode(RECV, 4),
        encode(369, 6),
        encode(371, 6),
        encode(373, 2),
        encode(366, 5),
        encode(365, 5),
        encode(370, 3),
        encode(372, 3),
        encode(364, 4),
        encode(337, 5),
        encode(345, 4),
    ];

    const fn encode(code: u32, arguments: u32) -> u32 {
        code | arguments << ARGUMENTS_AT
    }
}

/// Data that follows the data of a system call's events: [`SyscallEnterData`] describes it.
pub mod text_item {
    /// Bytes before what was read.
    pub const HEAD: usize = 4;
    /// Bit: there is more of it.
    pub const MORE: u8 = 1;
    /// Bit: it could not be read.
    pub const UNREADABLE: u8 = 2;
    /// Bit: it is no text.
    pub const BYTES: u8 = 4;
    /// Bit of the index of an argument: what follows says what a descriptor is.
    pub const DESCRIPTOR: u8 = 0x40;
    /// Instead of the index of an argument: the values of all registers for arguments, where the
    /// call is recorded only as it ends.
    pub const REGISTERS: u8 = 0xff;
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

    /// Returns where the set of a table of calls lies in the map, in sets.
    #[must_use]
    pub const fn set(generation: u32, compat: u32) -> u32 {
        (generation & 1) << 1 | (compat & 1)
    }

    const _: () = assert!(OTHERS as usize == 64 * WORDS - 1);
}
