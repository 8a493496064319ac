//! Marks of functions: made of what their names and lines are, as far as it is cheap to read.
//!
//! A text of Python has a hash of all of it, once anything has asked for that; names always have.
//! Where there is none the text itself counts, as far as it is recorded. Since 3.12 each function
//! has a number of its own.

#![expect(clippy::cast_possible_truncation, reason = "words whose size is known")]

use core::mem::offset_of;

use aya_ebpf::helpers::generated::bpf_probe_read_user;

use tracer_common::kernel::{NO_FIELD, PYTHON_TEXT_BYTES, PythonLayout, PythonProcess};

use super::{CODE_BYTES, FILES, Marked, Space, Walk, word_of_program};

/// Bytes of a text before its characters, that are read of every text.
const TEXT_HEAD: u32 = 40;

/// Bytes of a text with its first characters: in each version they lie before the last eight.
const TEXT_WITH_CHARACTERS: u32 = 80;

/// Bytes that count of the table of lines, with what is before it.
const LINES_BYTES: u32 = 64;

/// Hash of a text that nothing has asked for.
const NO_HASH: u64 = u64::MAX;

/// Bit of what is made of a file: it is none (`<string>`), so that another function may have its
/// name, and begin at its first line, at any time. Only then the lines themselves count.
const IS_GENERATED: u64 = 1;
const LESS: u64 = b'<' as u64;

/// Where every text has its length; its type is right before, and its hash right behind.
const TEXT_LENGTH: u16 = 16;

/// Odd numbers, by which the words of a function are multiplied: each of them apart from the
/// others, so that the processor needs not wait for one after the other.
const KEYS: [u64; 9] = [
    0x9e37_79b9_7f4a_7c15,
    0xbf58_476d_1ce4_e5b9,
    0x94d0_49bb_1331_11eb,
    0xff51_afd7_ed55_8ccd,
    0xc4ce_b9fe_1a85_ec53,
    0xd6e8_feb8_6659_fd93,
    0xa076_1d64_78bd_642f,
    0xe703_7ed1_a0b4_28db,
    0x8ebc_6af0_9c88_c6e3,
];

#[inline(always)]
fn mix(mark: u64, word: u64) -> u64 {
    let mixed = (mark ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// Returns the mark of the function at an address; 0 where there is none. Each step is a function
/// of its own, so that none has the stack of another one below it; what most functions need is read
/// in the first one, since a call costs as much as reading a word of the program.
#[inline(always)]
pub fn python_mark(walk: Space, code: u64) -> u64 {
    let sum = python_numbers_mark(code);
    let noted = |at| walk.get(offset_of!(Walk, marked) + at);
    if sum == 0 || noted(offset_of!(Marked, is_whole)) != 0 {
        return sum;
    }
    let mut mark = sum;
    if noted(offset_of!(Marked, is_named)) == 0 {
        mark = mix(mark, python_text_mark(noted(offset_of!(Marked, name))));
    }
    let file = noted(offset_of!(Marked, file));
    let slot = slot_of(file);
    let of_file = if walk.get(slot) == file {
        walk.get(slot + 8)
    } else {
        python_file_mark(file)
    };
    mark = mix(mark, of_file);
    if of_file & IS_GENERATED != 0 {
        mark = mix(mark, python_lines_mark(noted(offset_of!(Marked, lines))));
    }
    mark | 1
}

/// Returns what is made of the numbers of a function, and of its name where that has a hash; notes
/// its name, file and lines, and whether that is its mark already. 0 where it is none.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn python_numbers_mark(code: u64) -> u64 {
    let Some(walk) = Space::current() else {
        return 0;
    };
    if !walk.read(code, CODE_BYTES) {
        return 0;
    }
    let of_process = offset_of!(Walk, process);
    if walk.word(8) != walk.get(of_process + offset_of!(PythonProcess, code_type)) {
        return 0;
    }
    let name = walk.word(walk.field(offset_of!(PythonLayout, code_name)));
    let file = walk.word(walk.field(offset_of!(PythonLayout, code_file)));
    let lines = walk.word(walk.field(offset_of!(PythonLayout, code_lines)));
    let first_line = walk.half(walk.field(offset_of!(PythonLayout, code_first_line)));
    let product = |word: u64, nth: usize| word.wrapping_mul(KEYS[nth]);
    let sum = product(code, 0)
        .wrapping_add(product(walk.get(offset_of!(Walk, by)) >> 32, 1))
        .wrapping_add(product(name, 2))
        .wrapping_add(product(file, 3))
        .wrapping_add(product(lines, 4))
        .wrapping_add(product(first_line.into(), 5))
        .wrapping_add(product(walk.word(24), 6))
        .wrapping_add(product(walk.word(32), 7))
        .wrapping_add(product(walk.word(40), 8));
    let note = |at, value| walk.set(offset_of!(Walk, marked) + at, value);
    note(offset_of!(Marked, name), name);
    note(offset_of!(Marked, file), file);
    note(offset_of!(Marked, lines), lines);
    let version_at = walk.field(offset_of!(PythonLayout, code_version));
    let version = walk.half(version_at);
    let is_whole = version_at != NO_FIELD && version != 0;
    note(offset_of!(Marked, is_whole), is_whole.into());
    if version_at != NO_FIELD && version != 0 {
        let mark = mix(sum, walk.get(offset_of!(Walk, interpreter)));
        return mix(mark, version.into()) | 1;
    }
    let (of_name, is_named) = name_mark(walk, name);
    note(offset_of!(Marked, is_named), is_named.into());
    mix(sum, of_name) | 1
}

/// Returns what distinguishes a name from another one, as [`python_text_mark`] does, and whether it
/// has a hash, as most have: only what it has before its characters is read.
#[inline(always)]
fn name_mark(walk: Space, name: u64) -> (u64, bool) {
    let of_head = offset_of!(Walk, marked) + offset_of!(Marked, head);
    let from = name.wrapping_add(u64::from(TEXT_LENGTH) - 8) as *const _;
    // SAFETY: the helper writes three words, for which there is space, and checks the address.
    let failed = unsafe { bpf_probe_read_user(walk.at(of_head).cast(), 24, from) };
    let [text_type, length, hash] = [0, 8, 16].map(|at| walk.get(of_head + at));
    let of_process = offset_of!(Walk, process);
    let is_text = text_type == walk.get(of_process + offset_of!(PythonProcess, text_type));
    let is_there = walk.field(offset_of!(PythonLayout, text_length)) == TEXT_LENGTH;
    if failed == 0 && is_text && is_there && hash != NO_HASH {
        (mix(length, hash), true)
    } else {
        (0, false)
    }
}

/// Returns where it is remembered what was made of a file.
#[inline(always)]
fn slot_of(file: u64) -> usize {
    let index = (mix(0, file) >> 40) as usize & (FILES - 1);
    offset_of!(Walk, files) + index * 16
}

/// Returns what distinguishes the path of a file from another one, and remembers it.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn python_file_mark(file: u64) -> u64 {
    let Some(walk) = Space::current() else {
        return 0;
    };
    // With its first characters, wherever they lie. A short one may end where the memory does.
    let has_characters = walk.read(file, TEXT_WITH_CHARACTERS);
    let first = |at: u16| {
        let word = if has_characters {
            walk.word(at)
        } else {
            word_of_program(file.wrapping_add(at.into()))
        };
        word & 0xff
    };
    let is_generated = first(walk.field(offset_of!(PythonLayout, text_ascii))) == LESS
        || first(walk.field(offset_of!(PythonLayout, text_wide))) == LESS;
    let mark = if has_characters {
        head_mark(walk, file)
    } else {
        python_text_mark(file)
    };
    let mark = if is_generated {
        mark | IS_GENERATED
    } else {
        mark & !IS_GENERATED
    };
    let slot = slot_of(file);
    walk.set(slot, file);
    walk.set(slot + 8, mark);
    mark
}

/// Returns what distinguishes a text from another one; 0 where there is none.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn python_text_mark(text: u64) -> u64 {
    let Some(walk) = Space::current() else {
        return 0;
    };
    if walk.read(text, TEXT_HEAD) {
        head_mark(walk, text)
    } else {
        0
    }
}

/// Returns what distinguishes a text from another one, of which the first bytes were read.
#[inline(always)]
fn head_mark(walk: Space, text: u64) -> u64 {
    let of_process = offset_of!(Walk, process);
    if walk.word(8) != walk.get(of_process + offset_of!(PythonProcess, text_type)) {
        return 0;
    }
    let length = walk.word(walk.field(offset_of!(PythonLayout, text_length)));
    let hash = walk.word(walk.field(offset_of!(PythonLayout, text_hash)));
    if hash != NO_HASH {
        return mix(length, hash);
    }
    let state = walk.half(walk.field(offset_of!(PythonLayout, text_state)));
    let (at, bytes) = characters(walk, length, state);
    if bytes == 0 || !walk.read(text.wrapping_add(at.into()), bytes) {
        return mix(length, 1);
    }
    hash_window(walk, length, bytes)
}

/// Returns where in a text its characters lie, and how many bytes of them are recorded; 0 bytes
/// where it is not known where they lie.
#[inline(always)]
pub fn characters(walk: Space, length: u64, state: u32) -> (u16, u32) {
    // `interned` has two bits, `kind` three, then come `compact` and `ascii`.
    let (kind, is_compact, is_ascii) = (state >> 2 & 7, state >> 5 & 1 != 0, state >> 6 & 1 != 0);
    let at = if is_ascii {
        walk.field(offset_of!(PythonLayout, text_ascii))
    } else {
        walk.field(offset_of!(PythonLayout, text_wide))
    };
    let most = PYTHON_TEXT_BYTES as u64;
    let bytes = length.min(most) * u64::from(kind);
    let bytes = if is_compact { bytes.min(most) } else { 0 };
    (at, bytes as u32)
}

#[inline(always)]
fn hash_window(walk: Space, seed: u64, bytes: u32) -> u64 {
    let mut mark = seed;
    let mut at = 0_u16;
    while at < PYTHON_TEXT_BYTES as u16 {
        let left = bytes.wrapping_sub(u32::from(at));
        if left as i32 <= 0 {
            break;
        }
        let mut word = walk.word(at);
        if left < 8 {
            word &= (1 << ((left * 8) & 63)) - 1;
        }
        mark = mix(mark, word);
        at += 8;
    }
    mark
}

/// Returns what distinguishes a table of lines from another one: its size and its first bytes.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn python_lines_mark(lines: u64) -> u64 {
    let Some(walk) = Space::current() else {
        return 0;
    };
    // One that is shorter may end where the memory does.
    if !walk.read(lines, LINES_BYTES) && !walk.read(lines, LINES_BYTES / 2) {
        return 0;
    }
    let size = walk.word(16);
    hash_lines(walk, size)
}

#[inline(always)]
fn hash_lines(walk: Space, size: u64) -> u64 {
    let mut mark = size;
    let mut at = 0_u64;
    while at < u64::from(LINES_BYTES - 32) {
        if at >= size {
            break;
        }
        let mut word = walk.word(32 + at as u16);
        let left = size - at;
        if left < 8 {
            word &= (1 << ((left * 8) & 63)) - 1;
        }
        mark = mix(mark, word);
        at += 8;
    }
    mark
}
