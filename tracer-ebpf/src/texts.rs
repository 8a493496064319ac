//! What the arguments of system calls point to.
//!
//! Of a program's memory only what is there can be read: what is not, the call brings there, and it
//! is read when the call ends. What was read is what the kernel sees, unless another thread of the
//! program writes to it meanwhile.

use core::mem::offset_of;

use aya_ebpf::helpers::generated::{bpf_probe_read_user, bpf_probe_read_user_str};

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    RecordHeader, SYSCALL_TEXTS, SyscallText, SyscallTextsRecord, call_texts, string_space,
};

use crate::context::Tracepoint;
use crate::offsets::STRING_BYTES;
use crate::record::{Wake, record_by};
use crate::task::Task;

/// A call, and which of its arguments are read.
pub struct Texts {
    /// The type of the record.
    pub event_type: u16,
    /// Where the program goes on.
    pub program_address: u64,
    /// What the registers for arguments hold.
    pub arguments: [u64; 6],
    /// A byte for each that is read: see [`call_texts`].
    pub points_to: u32,
    /// As the call ends: what it has returned.
    pub returned: u64,
}

impl Texts {
    /// Records the call: a bit for each argument that could not be read.
    #[inline(always)]
    pub fn record<C: Tracepoint, D: Copy + 'static>(&self, task: &Task<C>, data: D) -> u32 {
        let (first, second) = (self.points_to, self.points_to >> 8);
        if is_text(first) || is_text(second) {
            return if text_bytes() == string_space::LEAST_TEXT {
                self.record_in::<C, D, { string_space::MIDDLE }, true>(task, data)
            } else {
                self.record_in::<C, D, { string_space::LARGE }, true>(task, data)
            };
        }
        let space = STRING_BYTES.load() as usize + string_space::MORE;
        if space <= string_space::SMALL {
            self.record_in::<C, D, { string_space::SMALL }, false>(task, data)
        } else if space <= string_space::MIDDLE {
            self.record_in::<C, D, { string_space::MIDDLE }, false>(task, data)
        } else {
            self.record_in::<C, D, { string_space::LARGE }, false>(task, data)
        }
    }

    /// Records the call in this space; where `HAS_TEXT` is false, none of them is text.
    #[inline(always)]
    fn record_in<C: Tracepoint, D: Copy + 'static, const N: usize, const HAS_TEXT: bool>(
        &self,
        task: &Task<C>,
        data: D,
    ) -> u32 {
        let mut unread = 0;
        let id = EventTypeId(u32::from(self.event_type));
        record_by::<SyscallTextsRecord<D, N>>(task, id, Wake::InTime, |space, mut header| {
            header.program_address = self.program_address;
            let record = space.as_mut_ptr().cast::<u8>();
            // SAFETY: it is where the record begins.
            unsafe { record.cast::<RecordHeader>().write(header) };
            let data_at = record.wrapping_add(offset_of!(SyscallTextsRecord<D, N>, data));
            // SAFETY: inside the record.
            unsafe { data_at.cast::<D>().write(data) };
            self.write_arguments(record.wrapping_add(last_bytes_at::<D, N>()));
            unread = self.read_into::<D, N, HAS_TEXT>(record, 0)
                | self.read_into::<D, N, HAS_TEXT>(record, 1) << 1;
        });
        unread
    }

    /// Writes the arguments, with nothing before and behind them, to where what is read last will
    /// be: of an index that it does not know, the verifier follows each value but in memory.
    #[inline(always)]
    fn write_arguments(&self, to: *mut u8) {
        let [first, second, third, fourth, fifth, sixth] = self.arguments;
        let entries = [0, first, second, third, fourth, fifth, sixth, 0];
        // SAFETY: there is space for more.
        unsafe { to.cast::<[u64; 8]>().write(entries) };
    }

    /// Reads what one of them points to: 1 where that could not be read.
    #[inline(always)]
    fn read_into<D, const N: usize, const HAS_TEXT: bool>(
        &self,
        record: *mut u8,
        nth: usize,
    ) -> u32 {
        let points_to = self.points_to >> (nth * 8);
        let arguments = record.wrapping_add(last_bytes_at::<D, N>());
        let address = argument(arguments, points_to);
        let is_bytes = !HAS_TEXT || !is_text(points_to);
        let head = record.wrapping_add(
            offset_of!(SyscallTextsRecord<D, N>, texts) + nth * size_of::<SyscallText>(),
        );
        let bytes = record.wrapping_add(offset_of!(SyscallTextsRecord<D, N>, bytes) + nth * N);
        let length = if points_to & call_texts::ARGUMENT == 0 || address == 0 {
            0
        } else if is_bytes {
            let space = argument(arguments, points_to + 1);
            // A call may return how much there is, and not only how much it has filled in.
            let count = if points_to & call_texts::RETURNED != 0 {
                self.returned.min(space)
            } else {
                space
            };
            read_bytes(bytes, address, count)
        } else {
            read_text(bytes, address)
        };
        let wanted = if is_bytes {
            STRING_BYTES.load()
        } else {
            text_bytes()
        };
        let argument = if address == 0 {
            0
        } else {
            points_to & call_texts::ARGUMENT
        };
        #[expect(clippy::cast_possible_truncation, reason = "three bits, and 4096")]
        let text = SyscallText {
            argument: argument as u8,
            is_bytes: u8::from(is_bytes),
            wanted: wanted as u16,
            length,
        };
        // SAFETY: inside the record.
        unsafe { head.cast::<SyscallText>().write(text) };
        u32::from(length < 0)
    }
}

/// Whether the lowest bits of `points_to` name an argument that is text.
#[inline(always)]
fn is_text(points_to: u32) -> bool {
    points_to & call_texts::ARGUMENT != 0
        && points_to & (call_texts::BYTES | call_texts::RETURNED) == 0
}

/// Bytes that are read of text.
#[inline(always)]
fn text_bytes() -> u32 {
    STRING_BYTES.load().max(string_space::LEAST_TEXT)
}

/// Where the space lies for what is read last.
const fn last_bytes_at<D, const N: usize>() -> usize {
    offset_of!(SyscallTextsRecord<D, N>, bytes) + N * (SYSCALL_TEXTS - 1)
}

/// The value of the argument that the lowest bits of `points_to` name, from 1; 0 for none.
#[inline(always)]
fn argument(arguments: *mut u8, points_to: u32) -> u64 {
    let index = points_to & call_texts::ARGUMENT;
    let entry = arguments.cast::<u64>().wrapping_add(index as usize);
    // SAFETY: eight were written there.
    unsafe { entry.read_volatile() }
}

/// Reads text: how many bytes are there with its null, or an error.
#[inline(always)]
fn read_text(to: *mut u8, from: u64) -> i32 {
    // One more than wanted, and a null: so the agent sees whether there is more.
    let size = text_bytes() + 2;
    // SAFETY: the helper writes at most `size` bytes, for which there is space, and checks the
    // address.
    let read = unsafe { bpf_probe_read_user_str(to.cast(), size, from as *const _) };
    #[expect(clippy::cast_possible_truncation, reason = "a size or an error")]
    let read = read as i32;
    read
}

/// Reads bytes: how many there are, or an error.
#[inline(always)]
fn read_bytes(to: *mut u8, from: u64, count: u64) -> i32 {
    let most = u64::from(STRING_BYTES.load());
    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most what was asked for"
    )]
    let size = count.min(most) as u32;
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
