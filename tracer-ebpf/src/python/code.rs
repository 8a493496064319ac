//! Records of functions: their names and lines, before the first frame in each.
//!
//! Each CPU remembers the marks of functions that it has recorded, each at the place that the mark
//! says. One that takes the place of another costs that a second record, later.

#![expect(clippy::cast_possible_truncation, reason = "words whose size is known")]

use core::mem::offset_of;

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::helpers::generated::bpf_probe_read_user;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, PerCpuArray};

use tracer_common::kernel::{
    MOST_PYTHON_FRAMES, PYTHON_CODE_RECORD, PYTHON_CODES, PYTHON_LINES_BYTES, PYTHON_TEXT_BYTES,
    PythonCodeRecord, PythonFrame, PythonLayout, PythonText, RecordHeader,
};

use super::mark::{KEYS, characters};
use super::{Space, Told, Walk, is_for_others};
use crate::cpu::this_cpu;
use crate::gathered::bounded;
use crate::maps::count_ring_full;
use crate::record::{reserve, submit_flags};

/// The marks of functions that were recorded.
#[map]
static PYTHON_TOLD: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// Epoch of records of functions: in a new one, each function is recorded anew. Written by the
/// agent.
#[map]
static PYTHON_EPOCH: Array<u64> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Notes for which readers the functions of a walk have to be recorded: those of this epoch, and
/// where processes have readers of their own, those of this process.
#[inline(always)]
pub fn begin(walk: Space, pid: u32) {
    let epoch = match PYTHON_EPOCH.get_ptr(0) {
        // SAFETY: it points into the map; the agent writes the word whole.
        Some(epoch) => unsafe { epoch.read_volatile() },
        None => 0,
    };
    let reader = if is_for_others() { u64::from(pid) } else { 0 };
    let told_for = epoch.wrapping_mul(KEYS[1]) ^ reader.wrapping_mul(KEYS[0]);
    walk.set(offset_of!(Walk, told_for), told_for);
}

/// Notes whether a function with this mark was not recorded yet.
#[inline(always)]
pub fn note_if_new(walk: Space, mark: u64) {
    if !is_told(walk, mark) {
        walk.set(offset_of!(Walk, is_new), 1);
    }
}

/// Returns what notes that the function with this mark was recorded for these readers.
#[inline(always)]
fn mixed(walk: Space, mark: u64) -> u64 {
    mark ^ walk.get(offset_of!(Walk, told_for))
}

#[inline(always)]
fn told_at(mixed: u64) -> Option<*mut u64> {
    PYTHON_TOLD.get_ptr_mut(mixed as u32 & (PYTHON_CODES - 1))
}

#[inline(always)]
fn is_told(walk: Space, mark: u64) -> bool {
    let mixed = mixed(walk, mark);
    // SAFETY: it points into the map.
    told_at(mixed).is_some_and(|told| unsafe { told.read_volatile() } == mixed)
}

/// Notes that the function that was recorded last needs not be recorded again. A function of its
/// own, so that what it needs is not on the stack below what records one.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn note_python_code() -> i32 {
    let Some(walk) = Space::current() else {
        return 0;
    };
    let mixed = mixed(
        walk,
        walk.get(offset_of!(Walk, told) + offset_of!(Told, mark)),
    );
    if let Some(told) = told_at(mixed) {
        // SAFETY: it points into the map.
        unsafe { told.write_volatile(mixed) };
    }
    0
}

const SMALL: usize = PYTHON_LINES_BYTES[0];
const LARGE: usize = PYTHON_LINES_BYTES[1];

/// Records the functions of the frames that were found last, as far as they are new.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn tell_python_codes(pid: u32, tid: u32) -> i32 {
    let Some(walk) = Space::current() else {
        return 0;
    };
    let count = walk.get(offset_of!(Walk, count));
    let mut index = 0;
    while index < MOST_PYTHON_FRAMES {
        if index as u64 >= count {
            break;
        }
        let mark = walk.get(offset_of!(Walk, frames) + index * size_of::<PythonFrame>());
        let code = walk.get(offset_of!(Walk, codes) + index * 8);
        if mark != 0
            && !is_told(walk, mark)
            && walk.is_own()
            && tell_python_code(code, mark, pid, tid) != 0
        {
            note_python_code();
        }
        index += 1;
    }
    0
}

/// Records the function at an address: 0 where there is no space.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn tell_python_code(code: u64, mark: u64, pid: u32, tid: u32) -> i32 {
    let Some(walk) = Space::current() else {
        return 0;
    };
    if !walk.read(
        code,
        walk.field(offset_of!(PythonLayout, code_bytes)).into(),
    ) {
        return 0;
    }
    let note = |at, value| walk.set(offset_of!(Walk, told) + at, value);
    let word = |field| walk.word(walk.field(field));
    note(offset_of!(Told, mark), mark);
    note(
        offset_of!(Told, name),
        word(offset_of!(PythonLayout, code_name)),
    );
    note(
        offset_of!(Told, file),
        word(offset_of!(PythonLayout, code_file)),
    );
    let first_line = walk.half(walk.field(offset_of!(PythonLayout, code_first_line)));
    note(offset_of!(Told, first_line), first_line.into());
    let lines = word(offset_of!(PythonLayout, code_lines));
    note(offset_of!(Told, lines), lines);
    let lines_size = if walk.read(lines, 24) {
        walk.word(16)
    } else {
        0
    };
    note(offset_of!(Told, lines_size), lines_size);
    if lines_size <= SMALL as u64 {
        tell::<SMALL>(walk, [pid, tid])
    } else {
        tell::<LARGE>(walk, [pid, tid])
    }
}

#[inline(always)]
fn tell<const N: usize>(walk: Space, [pid, tid]: [u32; 2]) -> i32 {
    let told = |at| walk.get(offset_of!(Walk, told) + at);
    let cpu = this_cpu();
    let Some((ring, mut space)) = reserve::<PythonCodeRecord<N>>(cpu) else {
        count_ring_full(cpu, 1);
        return 0;
    };
    // SAFETY: the helper takes no argument and only reads the clock.
    let time_ns = unsafe { bpf_ktime_get_ns() };
    let record = space.as_mut_ptr().cast::<u8>();
    let header = RecordHeader {
        time_ns,
        // Two zeroes that the compiler knows would be cleared by a call.
        thread_id: bounded(0, 0),
        program_address: 0,
        pid,
        tid,
        event_type: PYTHON_CODE_RECORD,
        cpu: cpu as u16,
        truncated: 0,
    };
    // SAFETY: it is where the record begins.
    unsafe { record.cast::<RecordHeader>().write(header) };
    let at = |offset| record.wrapping_add(offset);
    let bytes_at = walk.field(offset_of!(PythonLayout, bytes));
    let size = bounded(told(offset_of!(Told, lines_size)), N as u64) as u32;
    let to = at(offset_of!(PythonCodeRecord<N>, lines));
    let from = told(offset_of!(Told, lines)).wrapping_add(bytes_at.into());
    // SAFETY: the helper writes that many bytes, for which there is space, and checks the address.
    let failed = unsafe { bpf_probe_read_user(to.cast(), size, from as *const _) };
    let lines_bytes = if failed == 0 { size } else { u32::MAX };
    let instructions = walk.field(offset_of!(PythonLayout, code_instructions));
    let words = at(offset_of!(PythonCodeRecord<N>, mark)).cast::<u64>();
    let words_of_record = [
        told(offset_of!(Told, mark)),
        u64::from(super::minor(walk)) << 32 | told(offset_of!(Told, first_line)),
        told(offset_of!(Told, lines_size)),
        u64::from(instructions) << 32 | u64::from(lines_bytes),
    ];
    for (word, value) in words_of_record.into_iter().enumerate() {
        // SAFETY: inside the record: four words.
        unsafe { words.wrapping_add(word).write(value) };
    }
    let name = told(offset_of!(Told, name));
    write_text(walk, at(offset_of!(PythonCodeRecord<N>, name)), name);
    let file = told(offset_of!(Told, file));
    write_text(walk, at(offset_of!(PythonCodeRecord<N>, file)), file);
    space.submit(submit_flags(ring, time_ns));
    1
}

/// Writes a text, of which its head is written in any case.
#[inline(always)]
fn write_text(walk: Space, to: *mut u8, text: u64) {
    let is_read = walk.read(text, 40);
    let length = walk.word(walk.field(offset_of!(PythonLayout, text_length)));
    let state = walk.half(walk.field(offset_of!(PythonLayout, text_state)));
    let (at, bytes) = characters(walk, length, state);
    let bytes = bytes.min(PYTHON_TEXT_BYTES as u32);
    let from = text.wrapping_add(at.into());
    let space = to.wrapping_add(offset_of!(PythonText, text));
    // SAFETY: the helper writes that many bytes, for which there is space, and checks the address.
    let failed = unsafe { bpf_probe_read_user(space.cast(), bytes, from as *const _) };
    let bytes = if is_read && failed == 0 {
        bytes
    } else {
        u32::MAX
    };
    let words = [length, u64::from(bytes) << 32 | u64::from(state)];
    // SAFETY: inside the record: two words.
    unsafe { to.cast::<[u64; 2]>().write(words) };
}
