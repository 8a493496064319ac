//! Data that the arguments of system calls point to.
//!
//! Of a program's memory only what is there can be read: what is not, the call brings there, and it
//! is read when the call ends. What was read is what the kernel sees, unless another thread of the
//! program writes to it meanwhile.

use core::mem::offset_of;

use aya_ebpf::helpers::generated::{bpf_probe_read_user, bpf_probe_read_user_str};

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    RecordHeader, SYSCALL_ENTER_TEXTS, SYSCALL_EXIT_TEXTS, SYSCALL_TEXTS, SyscallText,
    SyscallTextsRecord, call_texts, gathered, string_space,
};

use crate::context::Tracepoint;
use crate::cpu_ring::record_call;
use crate::gathered::{bounded, gather, set_arguments, take};
use crate::offsets::{ONLY_NAMES, STRING_BYTES};
use crate::task::Task;

/// A call, and which of its arguments are read.
pub struct Texts<'a> {
    /// The type of the record.
    pub event_type: u16,
    /// Where the program goes on.
    pub program_address: u64,
    /// Values of the registers for arguments.
    pub arguments: &'a [u64; 6],
    /// Where the signals lie that are blocked once a signal handler has ended.
    pub signal_mask: u64,
    /// 16 bits for each that is read: see [`call_texts`].
    pub points_to: u32,
    /// As the call ends: what it has returned.
    pub returned: u64,
    /// 1: it is a call of a 32-bit program.
    pub is_compat: u32,
}

impl Texts<'_> {
    /// Records the call: a bit for each argument that could not be read.
    #[inline(always)]
    pub fn record<C: Tracepoint, D: Copy + 'static>(&self, task: &Task<C>, data: &D) -> u32 {
        let is_second = is_gathered(self.points_to >> call_texts::BITS);
        if is_second || is_gathered(self.points_to) {
            // Before the record begins: below it, the stack has no space for all who gather.
            let gathered = self.gather(is_second);
            // Of texts there is most, and one may be before them; of parts there may be as much.
            let is_much = gathered > space_of::<{ string_space::WIDE }>().cast_signed();
            return if is_much || is_wide(self.points_to) {
                self.record_in::<C, D, { string_space::LARGE }, true>(task, data, gathered)
            } else {
                self.record_in::<C, D, { string_space::WIDE }, false>(task, data, gathered)
            };
        }
        if self.has_wide() {
            // Most paths are short, and a short record costs less: the lines of the ring are cold.
            if self.may_be_short::<C>() {
                let unread = self.record_in::<C, D, { string_space::SMALL }, true>(task, data, 0);
                if unread & TOO_LONG == 0 {
                    return unread;
                }
            }
            return if text_bytes() == string_space::LEAST_TEXT {
                self.record_in::<C, D, { string_space::MIDDLE }, true>(task, data, 0)
            } else {
                self.record_in::<C, D, { string_space::LARGE }, true>(task, data, 0)
            };
        }
        let space = STRING_BYTES.load() as usize + string_space::MORE;
        if space <= string_space::SMALL {
            self.record_in::<C, D, { string_space::SMALL }, false>(task, data, 0)
        } else if space <= string_space::MIDDLE {
            self.record_in::<C, D, { string_space::MIDDLE }, false>(task, data, 0)
        } else {
            self.record_in::<C, D, { string_space::LARGE }, false>(task, data, 0)
        }
    }

    /// Tells whether one of the arguments that are read may need much space. Where only names are
    /// read, none does as a call ends.
    #[inline(always)]
    fn has_wide(&self) -> bool {
        let may_be = ONLY_NAMES.load() == 0 || self.event_type != SYSCALL_EXIT_TEXTS;
        may_be && (is_wide(self.points_to) || is_wide(self.points_to >> call_texts::BITS))
    }

    /// Tells whether there may be enough space in the least: nothing is asked for but text, and
    /// what fits in any case. As a call ends text is rarely read, and the verifier has enough to
    /// walk; old ones, to which the other kind of program goes, walk each space anew.
    #[inline(always)]
    fn may_be_short<C: Tracepoint>(&self) -> bool {
        let fits =
            |points_to| !is_wide(points_to) || points_to & call_texts::KIND == call_texts::TEXT;
        C::IS_DIRECT
            && self.event_type == SYSCALL_ENTER_TEXTS
            && STRING_BYTES.load() as usize + string_space::MORE <= string_space::SMALL
            && fits(self.points_to)
            && fits(self.points_to >> call_texts::BITS)
    }

    /// Records the call in this space; where `IS_WIDE` is false, none of them may need
    /// more. Where text needs more than the least space, nothing is recorded, and that is said by
    /// [`TOO_LONG`].
    #[inline(always)]
    fn record_in<C: Tracepoint, D: Copy + 'static, const N: usize, const IS_WIDE: bool>(
        &self,
        task: &Task<C>,
        data: &D,
        gathered: i32,
    ) -> u32 {
        let mut unread = 0;
        let id = EventTypeId(u32::from(self.event_type));
        record_call::<C, SyscallTextsRecord<D, N>>(task, id, |space, mut header| {
            header.program_address = self.program_address;
            header.truncated = all_of::<N>() << RecordHeader::SPACE_AT;
            let record = space.as_mut_ptr().cast::<u8>();
            // SAFETY: it is where the record begins.
            unsafe { record.cast::<RecordHeader>().write(header) };
            let data_at = record.wrapping_add(offset_of!(SyscallTextsRecord<D, N>, data));
            // SAFETY: inside the record.
            unsafe { data_at.cast::<D>().write(*data) };
            let scratch = record.wrapping_add(offset_of!(SyscallTextsRecord<D, N>, bytes));
            self.write_arguments(scratch);
            let first = Pointed::read(scratch, self.points_to);
            let second = Pointed::read(scratch, self.points_to >> call_texts::BITS);
            self.read_into::<D, N, IS_WIDE>(record, 0, &first, gathered);
            self.read_into::<D, N, IS_WIDE>(record, 1, &second, gathered);
            let first = self.outcome::<D, N, IS_WIDE>(record, 0);
            let second = self.outcome::<D, N, IS_WIDE>(record, 1);
            unread = first.unread | second.unread << 1;
            let front = offset_of!(SyscallTextsRecord<D, N>, bytes);
            // What counts ends where the last of what was read does.
            let used = match second.used {
                0 => first.used,
                used => all_of::<N>() + used,
            };
            (unread & TOO_LONG == 0).then_some(front + used as usize)
        });
        unread
    }

    /// Writes the arguments, with nothing before and behind them, to where what is read first will
    /// be: of an index that it does not know, the verifier follows each value but in memory. What
    /// is read last is mostly nothing, and a line of the ring that is not written to costs nothing.
    #[inline(always)]
    fn write_arguments(&self, to: *mut u8) {
        // SAFETY: there is space for more.
        unsafe { to.cast::<[u64; 8]>().write(self.entries()) };
    }

    /// Returns the arguments, with nothing before them and the mask of signals behind them.
    #[inline(always)]
    fn entries(&self) -> [u64; 8] {
        let [first, second, third, mut fourth, fifth, sixth] = *self.arguments;
        // It has no fourth argument.
        if has_command(self.points_to) || has_command(self.points_to >> call_texts::BITS) {
            fourth = bytes_of_command(second);
        }
        [
            0,
            first,
            second,
            third,
            fourth,
            fifth,
            sixth,
            self.signal_mask,
        ]
    }

    /// Reads what one of them points to, into the record. Nothing is returned: the verifier tracks
    /// no values in memory, so that it walks the paths of the second call once, and not once for
    /// each path of the first.
    #[inline(always)]
    fn read_into<D, const N: usize, const IS_WIDE: bool>(
        &self,
        record: *mut u8,
        nth: usize,
        &Pointed { address, next }: &Pointed,
        gathered: i32,
    ) {
        let points_to = self.points_to >> (nth * call_texts::BITS as usize);
        let is_text = Self::is_text::<IS_WIDE>(points_to);
        let bytes = record.wrapping_add(offset_of!(SyscallTextsRecord<D, N>, bytes) + nth * N);
        let mut wanted = text_bytes();
        // Others are read with it, whatever it is.
        let is_first = N >= string_space::WIDE
            && is_gathered(points_to)
            && gathered::is_of_several(points_to >> call_texts::SIZE_AT & call_texts::SIZE);
        let is_there = address != 0 || is_first;
        let length = if points_to & call_texts::ARGUMENT == 0 || !is_there {
            0
        } else if N >= string_space::WIDE && is_gathered(points_to) {
            wanted = space_of::<N>();
            take(bytes, gathered, wanted)
        } else if is_text {
            read_text(bytes, address, most_of_text::<N>())
        } else {
            let (count, most) = self.count::<IS_WIDE>(points_to, next);
            wanted = most;
            read_bytes(bytes, address, count, most.min(space_of::<N>()))
        };
        let argument = if is_there {
            points_to & call_texts::ARGUMENT
        } else {
            0
        };
        let shape = if is_gathered(points_to) {
            points_to >> call_texts::SIZE_AT & call_texts::SIZE
        } else {
            0
        };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "three bits, some shapes, and 4096"
        )]
        let text = SyscallText {
            argument: argument as u8,
            is_bytes: u8::from(!is_text) | (shape as u8) << 1,
            wanted: wanted as u16,
            length,
        };
        // SAFETY: inside the record.
        unsafe { Self::head::<D, N>(record, nth).write(text) };
    }

    /// Returns what has become of what was read.
    #[inline(always)]
    fn outcome<D, const N: usize, const IS_WIDE: bool>(&self, record: *mut u8, nth: usize) -> Read {
        let head = Self::head::<D, N>(record, nth).cast::<u8>();
        let length = head.wrapping_add(offset_of!(SyscallText, length));
        // SAFETY: inside the record, and written.
        let length = unsafe { length.cast::<i32>().read_volatile() };
        let points_to = self.points_to >> (nth * call_texts::BITS as usize);
        let is_too_long = N == string_space::SMALL
            && Self::is_text::<IS_WIDE>(points_to)
            && length == most_of_text::<N>().cast_signed();
        Read {
            unread: u32::from(length < 0) | u32::from(is_too_long) << 2,
            used: if length < 0 {
                0
            } else {
                length.cast_unsigned().min(all_of::<N>())
            },
        }
    }

    /// Tells whether an argument points to text that needs space of its own.
    #[inline(always)]
    fn is_text<const IS_WIDE: bool>(points_to: u32) -> bool {
        IS_WIDE && points_to & call_texts::KIND == call_texts::TEXT
    }

    /// Returns where a record says what was read first, or second.
    #[inline(always)]
    fn head<D, const N: usize>(record: *mut u8, nth: usize) -> *mut SyscallText {
        let at = offset_of!(SyscallTextsRecord<D, N>, texts) + nth * size_of::<SyscallText>();
        record.wrapping_add(at).cast()
    }

    /// Gathers what the first or second argument leads to: how many bytes that are, or an error.
    /// Of a call only one is gathered at a time.
    #[inline(always)]
    fn gather(&self, is_second: bool) -> i32 {
        let points_to = if is_second {
            self.points_to >> call_texts::BITS
        } else {
            self.points_to
        };
        set_arguments(&self.entries());
        gather(points_to, self.returned, self.is_compat)
    }

    /// Returns how many bytes there are where an argument points to, by its bits and the next
    /// argument, and how many of them are wanted.
    #[inline(always)]
    fn count<const IS_WIDE: bool>(&self, points_to: u32, next: u64) -> (u64, u32) {
        let size = points_to >> call_texts::SIZE_AT & call_texts::SIZE;
        let of_data = if IS_WIDE {
            call_texts::MOST
        } else {
            space_of::<{ string_space::SMALL }>()
        };
        if ONLY_NAMES.load() != 0 && self.event_type == SYSCALL_EXIT_TEXTS {
            // Of what calls fill in, nothing else is read then.
            return (u64::from(size), of_data);
        }
        match points_to & call_texts::KIND {
            // A call may return how much there is, and not only how much it has filled in.
            call_texts::RETURNED => (self.returned.min(next), STRING_BYTES.load()),
            call_texts::FIXED => (u64::from(size), of_data),
            call_texts::ARRAY => (small(next) * u64::from(size), of_data),
            call_texts::RETURNED_ARRAY => (small(self.returned) * u64::from(size), of_data),
            call_texts::COUNTED => (u64::from(int_at(next)).min(u64::from(size)), of_data),
            _ => (next, STRING_BYTES.load()),
        }
    }
}

/// Outcome of a reading.
struct Read {
    /// 1 where it could not be read, and 4 where it is too long.
    unread: u32,
    /// Bytes of the space that were used.
    used: u32,
}

/// Bits, beside those of what could not be read: one of both is too long.
const TOO_LONG: u32 = 0b1100;

/// Returns how many bytes such a space has, of which some are [`string_space::MORE`].
const fn all_of<const N: usize>() -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "4104 at most")]
    let all = N as u32;
    all
}

/// Returns how many bytes may be wanted where there is space for `N`.
const fn space_of<const N: usize>() -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "4096 at most")]
    let space = (N - string_space::MORE) as u32;
    space
}

/// Limits a count, so that it can be multiplied by a size.
#[inline(always)]
fn small(count: u64) -> u64 {
    count.min(0xffff)
}

/// Returns the integer at an address of the program; 0 where it cannot be read.
#[inline(always)]
fn int_at(address: u64) -> u32 {
    let mut int = 0_u32;
    // SAFETY: the helper writes the 4 bytes of `int`, and checks the address.
    unsafe { bpf_probe_read_user((&raw mut int).cast(), 4, address as *const _) };
    int
}

/// Tells whether the lowest bits of `points_to` name an argument that leads to several addresses.
#[inline(always)]
fn is_gathered(points_to: u32) -> bool {
    ONLY_NAMES.load() == 0 && points_to & call_texts::KIND == call_texts::GATHERED
}

/// Tells whether the call is `ioctl`: its third argument points to what its command takes.
#[inline(always)]
fn has_command(points_to: u32) -> bool {
    const COMMAND: u32 = 3 | call_texts::ARRAY | 1 << call_texts::SIZE_AT;
    points_to & ((1 << call_texts::BITS) - 1) == COMMAND
}

/// Returns how many bytes a command of `ioctl` takes. Most say it themselves; of old ones, those of
/// networks take a `struct ifreq`, some of terminals their settings, and others no more than a
/// word.
#[inline(always)]
fn bytes_of_command(command: u64) -> u64 {
    const MOST: u64 = 32;
    const SETTINGS: u64 = 36;
    let (size, kind) = (command >> 16 & 0x3fff, command >> 8 & 0xff);
    if size != 0 {
        size.min(MOST)
    } else if kind == 0x89 {
        MOST
    } else if (0x5401..=0x5404).contains(&(command & 0xffff)) {
        SETTINGS
    } else {
        8
    }
}

/// Tells whether the lowest bits of `points_to` name an argument that may need much space.
#[inline(always)]
fn is_wide(points_to: u32) -> bool {
    points_to & call_texts::WIDE != 0
}

/// Returns how many bytes are read of text.
#[inline(always)]
fn text_bytes() -> u32 {
    STRING_BYTES.load().max(string_space::LEAST_TEXT)
}

/// Returns how many bytes of text are read into space for `N`, with its null: one more than wanted,
/// so that the agent sees whether there is more.
#[inline(always)]
fn most_of_text<const N: usize>() -> u32 {
    (text_bytes() + 2).min(all_of::<N>())
}

/// The value of an argument, and of the one behind it.
struct Pointed {
    address: u64,
    next: u64,
}

impl Pointed {
    /// Reads the values of the argument that the lowest bits of `points_to` name, and of the one
    /// behind it.
    #[inline(always)]
    fn read(arguments: *mut u8, points_to: u32) -> Self {
        Self {
            address: argument(arguments, points_to),
            next: argument(arguments, points_to + 1),
        }
    }
}

/// Returns the value of the argument that the lowest bits of `points_to` name, from 1; 0 for none.
#[inline(always)]
fn argument(arguments: *mut u8, points_to: u32) -> u64 {
    let index = points_to & call_texts::ARGUMENT;
    let entry = arguments.cast::<u64>().wrapping_add(index as usize);
    // SAFETY: eight were written there.
    unsafe { entry.read_volatile() }
}

/// Reads text, so many bytes with its null at most: how many bytes are there with it, or an error.
#[inline(always)]
fn read_text(to: *mut u8, from: u64, most: u32) -> i32 {
    // SAFETY: the helper writes at most `most` bytes, for which there is space, and checks the
    // address.
    let read = unsafe { bpf_probe_read_user_str(to.cast(), most, from as *const _) };
    #[expect(clippy::cast_possible_truncation, reason = "a size or an error")]
    let read = read as i32;
    read
}

/// Reads bytes: how many there are, or an error.
#[inline(always)]
fn read_bytes(to: *mut u8, from: u64, count: u64, most: u32) -> i32 {
    let most = u64::from(most);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most what was asked for"
    )]
    let size = bounded(count, most) as u32;
    // SAFETY: as in `read_text`.
    let read = unsafe { bpf_probe_read_user(to.cast(), size, from as *const _) };
    if read < 0 {
        return -1;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most one more than was asked for"
    )]
    let length = count.min(most + 1) as i32;
    length
}

const _: () = assert!(SYSCALL_TEXTS == 2 && string_space::SMALL >= 64);
