//! Where a record is put together: how long each entry is decides where the next one begins, and of
//! a ring's space the verifier knows only fixed offsets.

use core::mem::offset_of;

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::helpers::generated::{
    bpf_probe_read_kernel, bpf_probe_read_kernel_str, bpf_ringbuf_output,
};
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::globals::NO_OFFSET;
use tracer_common::kernel::{DESCRIPTORS_RECORD, DescriptorHead, DescriptorsHead, RecordHeader};

use crate::cpu::this_cpu;
use crate::maps::{count_ring_full, ring};
use crate::record::{header, submit_flags};
use crate::subject::Subject;

/// Bytes of a record before what is added last: a mask, so that the verifier sees it.
const BYTES: usize = 8192;

/// Bytes that are added at a time at most: a name with its null.
pub const NAME: usize = 256;

/// [`NAME`], as the helper takes it.
#[expect(clippy::cast_possible_truncation, reason = "256")]
const NAME_SIZE: u32 = NAME as u32;

/// Bytes of the record before its entries.
const HEAD: usize = size_of::<DescriptorsHead>();

#[repr(C)]
struct OfCpu {
    /// The thread whose record it is. Another one on this CPU may come between.
    by: u64,
    /// Bytes that the record has. What the verifier follows as a value, it follows for each way
    /// through a loop.
    at: u64,
    record: [u8; BYTES + NAME],
}

#[map]
static DESCRIBED: PerCpuArray<OfCpu> = PerCpuArray::with_max_entries(1, 0);

/// The record of this CPU.
#[derive(Clone, Copy)]
pub struct Space(*mut OfCpu);

impl Space {
    /// Begins a record of the running thread.
    #[inline(always)]
    pub fn begin() -> Option<Self> {
        let space = Self::current()?;
        space.set(offset_of!(OfCpu, by), bpf_get_current_pid_tgid());
        space.set(offset_of!(OfCpu, at), HEAD as u64);
        Some(space)
    }

    /// Returns the space of the record that has begun.
    #[inline(always)]
    pub fn current() -> Option<Self> {
        DESCRIBED.get_ptr_mut(0).map(Self)
    }

    #[inline(always)]
    fn word(&self, offset: usize) -> u64 {
        let word = self.0.cast::<u8>().wrapping_add(offset).cast::<u64>();
        // SAFETY: inside the entry that the look-up gave.
        unsafe { word.read_volatile() }
    }

    #[inline(always)]
    fn set(&self, offset: usize, value: u64) {
        let word = self.0.cast::<u8>().wrapping_add(offset).cast::<u64>();
        // SAFETY: inside the entry that the look-up gave.
        unsafe { word.write_volatile(value) };
    }

    #[inline(always)]
    fn at(&self) -> u64 {
        self.word(offset_of!(OfCpu, at))
    }

    #[inline(always)]
    fn record_bytes(&self) -> *mut u8 {
        self.0.cast::<u8>().wrapping_add(offset_of!(OfCpu, record))
    }

    /// Returns space for what is added next, a name at most; `None` where there is none.
    #[inline(always)]
    pub fn next(&self) -> Option<*mut u8> {
        let at = self.at();
        if at >= BYTES as u64 {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "smaller than the record")]
        let at = at as usize & (BYTES - 1);
        Some(self.record_bytes().wrapping_add(at))
    }

    /// Moves the end on by `bytes`, which have been added.
    #[inline(always)]
    pub fn add(&self, bytes: u64) {
        self.set(offset_of!(OfCpu, at), self.at() + bytes);
    }

    /// Begins an entry: where that is.
    #[inline(always)]
    pub fn begin_entry(&self) -> u64 {
        let entry = self.at();
        self.add(size_of::<DescriptorHead>() as u64);
        entry
    }

    /// Ends the entry that begins there.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "small, and below the size of a record"
    )]
    pub fn end_entry(&self, entry: u64, at: u32, kind: i32, descriptor: u32) {
        let end = self.at();
        if entry >= BYTES as u64 {
            return self.drop_entry(entry);
        }
        let length = end - entry - size_of::<DescriptorHead>() as u64;
        let head = self
            .record_bytes()
            .wrapping_add(entry as usize & (BYTES - 1) & !7);
        let word = u64::from(at & 0xff)
            | u64::from(kind.cast_unsigned() & 0xff) << 8
            | (length & 0xffff) << 16
            | u64::from(descriptor) << 32;
        // SAFETY: inside the record, and aligned.
        unsafe { head.cast::<u64>().write(word.to_le()) };
        self.set(offset_of!(OfCpu, at), end.next_multiple_of(8));
    }

    /// Takes back the entry that begins there.
    #[inline(always)]
    pub fn drop_entry(&self, entry: u64) {
        self.set(offset_of!(OfCpu, at), entry);
    }

    /// Adds a word.
    #[inline(always)]
    pub fn add_word(&self, word: u64) -> bool {
        let Some(to) = self.next() else {
            return false;
        };
        // SAFETY: there is space for it.
        unsafe { to.cast::<u64>().write_unaligned(word) };
        self.add(8);
        true
    }

    /// Sends what has been described, if anything has.
    #[inline(always)]
    pub fn record(&self, subject: &impl Subject, event_type: EventTypeId, call: u32) {
        let bytes = self.at();
        if bytes <= HEAD as u64 || self.word(offset_of!(OfCpu, by)) != bpf_get_current_pid_tgid() {
            return;
        }
        let cpu = this_cpu();
        let Some(ring) = ring(cpu) else {
            return;
        };
        // SAFETY: the helper takes no argument and only reads the clock.
        let time_ns = unsafe { aya_ebpf::helpers::bpf_ktime_get_ns() };
        let id = EventTypeId(u32::from(DESCRIPTORS_RECORD));
        let record = self.record_bytes();
        let header = header(subject, id, time_ns, cpu);
        // SAFETY: the record begins with it.
        unsafe { record.cast::<RecordHeader>().write(header) };
        let words = record.wrapping_add(offset_of!(DescriptorsHead, event_type));
        // SAFETY: inside the record: both words.
        unsafe { words.cast::<[u32; 2]>().write([event_type.0, call]) };
        let ring_at = core::ptr::from_ref(ring).cast_mut().cast();
        let size = bytes.min((BYTES + NAME) as u64);
        let flags = submit_flags(ring, time_ns);
        // SAFETY: the helper reads so many bytes of the record.
        if unsafe { bpf_ringbuf_output(ring_at, record.cast(), size, flags) } < 0 {
            count_ring_full(cpu, 1);
        }
    }
}

/// Adds the text at an address in the kernel, with its null: whether that is done.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn add_kernel_text(address: u64) -> i32 {
    let Some(space) = Space::current() else {
        return 0;
    };
    let Some(to) = space.next() else {
        return 0;
    };
    // SAFETY: the helper writes at most so many bytes, for which there is space, and checks the
    // address.
    let read = unsafe { bpf_probe_read_kernel_str(to.cast(), NAME_SIZE, address as *const _) };
    if read <= 0 {
        return 0;
    }
    space.add(read.cast_unsigned() & 0x1ff);
    1
}

/// Reads a value in the kernel; zero where it cannot be read.
#[inline(always)]
pub fn read<T: Copy + Default>(address: u64) -> T {
    let mut value = T::default();
    #[expect(clippy::cast_possible_truncation, reason = "some bytes")]
    let bytes = size_of::<T>() as u32;
    // SAFETY: the helper writes at most the bytes of `value`, and checks the address.
    let read =
        unsafe { bpf_probe_read_kernel((&raw mut value).cast(), bytes, address as *const _) };
    if read < 0 { T::default() } else { value }
}

/// Reads the word in a struct of the kernel; zero where the kernel has no such field.
#[inline(always)]
pub fn word_at(base: u64, offset: u32) -> u64 {
    field(base, offset)
}

/// Reads 32 bits in a struct of the kernel; zero where the kernel has no such field.
#[inline(always)]
pub fn half_at(base: u64, offset: u32) -> u32 {
    field(base, offset)
}

/// Reads a field of any type in a struct of the kernel; its default where the kernel has no such
/// field.
#[inline(always)]
pub fn field<T: Copy + Default>(base: u64, offset: u32) -> T {
    if offset == NO_OFFSET || base == 0 {
        return T::default();
    }
    read(base + u64::from(offset))
}
