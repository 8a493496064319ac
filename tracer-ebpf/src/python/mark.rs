//! Marks of functions: made of what their names and lines are, as far as it is cheap to read.
//!
//! A text of Python has a hash of all of it, once anything has asked for that; names always have.
//! Where there is none the text itself counts, as far as it is recorded. Since 3.12 each function
//! has a number of its own.

#![expect(clippy::cast_possible_truncation, reason = "words whose size is known")]

use core::mem::offset_of;

use aya_ebpf::helpers::generated::bpf_probe_read_user;
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;

use tracer_common::kernel::{
    MOST_PYTHON_FRAMES, NO_FIELD, PYTHON_CODES, PYTHON_TEXT_BYTES, PYTHON_WINDOW, PythonFrame,
    PythonLayout, PythonProcess,
};

use super::code::note_if_new;
use super::{FILES, MARKS, MarkOfWalk, Marked, Space, Walk, word_of_program};

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

/// Bits of a text's `state`, right behind its hash: it is interned, so that no other one has these
/// characters.
const INTERNED: u64 = 3;

/// `PyDictObject::ma_version_tag`.
const DICTIONARY_VERSION: u64 = 24;

/// Where every text has its length; its type is right before, and its hash right behind.
const TEXT_LENGTH: u16 = 16;

/// Odd numbers, by which the words of a function are multiplied: each of them apart from the
/// others, so that the processor needs not wait for one after the other.
pub const KEYS: [u64; 9] = [
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

/// Returns the mark of the function at an address, or what [`finish_python_mark`] makes it from,
/// where [`Walk::is_open`] says so; 0 where there is none. What few functions need is a function of
/// its own, so that none has the stack of another one below it.
#[inline(always)]
pub fn python_mark(walk: Space, code: u64) -> u64 {
    // What runs a function keeps it: in one walk, one at the same address is the same one.
    let slot = slot_of_mark(code);
    let is_seen = walk.get(slot + offset_of!(MarkOfWalk, code)) == code
        && walk.get(slot + offset_of!(MarkOfWalk, number)) == walk.get(offset_of!(Walk, number));
    if is_seen {
        return walk.get(slot + offset_of!(MarkOfWalk, mark));
    }
    let mark = numbers_mark(walk, code);
    if mark != 0 && walk.get(offset_of!(Walk, is_open)) == 0 {
        note_mark(walk, code, mark);
    }
    mark
}

#[inline(always)]
fn slot_of_mark(code: u64) -> usize {
    let slot = (code.wrapping_mul(KEYS[0]) >> 40) as usize & (MARKS - 1);
    offset_of!(Walk, marks) + slot * size_of::<MarkOfWalk>()
}

#[inline(always)]
fn note_mark(walk: Space, code: u64, mark: u64) {
    let slot = slot_of_mark(code);
    walk.set(slot + offset_of!(MarkOfWalk, code), code);
    let number = walk.get(offset_of!(Walk, number));
    walk.set(slot + offset_of!(MarkOfWalk, number), number);
    walk.set(slot + offset_of!(MarkOfWalk, mark), mark);
    note_if_new(walk, mark);
}

/// Makes the mark of a frame's function from what was made of its numbers, and from its file.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn finish_python_mark(index: u64) -> i32 {
    let Some(walk) = Space::current() else {
        return 0;
    };
    let noted = |at| walk.get(offset_of!(Walk, marked) + at);
    let index = index as usize & (MOST_PYTHON_FRAMES - 1);
    let of_frame = offset_of!(Walk, frames) + index * size_of::<PythonFrame>();
    let mut mark = walk.get(of_frame);
    walk.set(offset_of!(Walk, is_open), 0);
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
    mark |= 1;
    walk.set(of_frame, mark);
    note_mark(walk, walk.get(offset_of!(Walk, codes) + index * 8), mark);
    0
}

/// Returns what is made of the numbers of a function, and of its name where that has a hash; notes
/// its name, file and lines, and whether that is not its mark yet. 0 where it is none.
#[inline(always)]
fn numbers_mark(walk: Space, code: u64) -> u64 {
    if !walk.read(
        code,
        walk.field(offset_of!(PythonLayout, code_bytes)).into(),
    ) {
        return 0;
    }
    let of_process = offset_of!(Walk, process);
    if walk.word(8) != walk.get(of_process + offset_of!(PythonProcess, code_type)) {
        return 0;
    }
    let note = |at, value| walk.set(offset_of!(Walk, marked) + at, value);
    let product = |word: u64, nth: usize| word.wrapping_mul(KEYS[nth]);
    let own = product(code, 0).wrapping_add(product(walk.get(offset_of!(Walk, by)) >> 32, 1));
    let version_at = walk.field(offset_of!(PythonLayout, code_version));
    let version = if version_at == NO_FIELD {
        0
    } else {
        walk.half(version_at)
    };
    let name = walk.word(walk.field(offset_of!(PythonLayout, code_name)));
    let file = walk.word(walk.field(offset_of!(PythonLayout, code_file)));
    let lines = walk.word(walk.field(offset_of!(PythonLayout, code_lines)));
    let first_line = walk.half(walk.field(offset_of!(PythonLayout, code_first_line)));
    let sum = own
        .wrapping_add(product(name, 2))
        .wrapping_add(product(file, 3))
        .wrapping_add(product(lines, 4))
        .wrapping_add(product(first_line.into(), 5))
        .wrapping_add(product(walk.word(24), 6))
        .wrapping_add(product(walk.word(32), 7))
        .wrapping_add(product(walk.word(40), 8));
    if version != 0 {
        let mark = mix(sum, walk.get(offset_of!(Walk, interpreter)));
        return mix(mark, version.into()) | 1;
    }
    note(offset_of!(Marked, name), name);
    note(offset_of!(Marked, file), file);
    note(offset_of!(Marked, lines), lines);
    let (of_name, is_named) = name_mark(walk, name, sum);
    note(offset_of!(Marked, is_named), is_named.into());
    walk.set(offset_of!(Walk, is_open), 1);
    mix(sum, of_name) | 1
}

/// Names of functions that were read. A CPU has its own.
#[map]
static PYTHON_NAMES: PerCpuArray<ReadName> = PerCpuArray::with_max_entries(1, 0);

/// A name that was read.
#[repr(C)]
struct ReadName {
    /// Sum of the function's numbers, with its name's address among them.
    sum: u64,
    /// The interpreter's interned texts then: see [`Walk::interned`].
    interned: u64,
    /// Part of the mark that was made of the name.
    of_name: u64,
    reserved: u64,
}

/// Notes the version of the interpreter's interned texts, where it is known where it has them: as
/// long as it is the same, none of these was freed or made, so that each name is what it was.
/// Dictionaries have versions, no two of them the same one, up to 3.11.
#[inline(always)]
pub fn note_interned(walk: Space) {
    let at = offset_of!(Walk, process) + offset_of!(PythonProcess, interned);
    let mut version = 0;
    let interned = walk.get(at);
    if interned != 0 {
        let dictionary = word_of_program(interned);
        if dictionary != 0 {
            version = word_of_program(dictionary.wrapping_add(DICTIONARY_VERSION));
        }
    }
    if version != 0 {
        // Another interpreter in a process of this number has versions of its own.
        version = mix(version, super::number(walk).into());
    }
    walk.set(offset_of!(Walk, interned), version);
}

/// Returns what distinguishes a name from another one, as [`python_text_mark`] does, and whether it
/// has a hash, as most have: only what it has before its characters is read, unless that was read
/// of this function before, and is the same still.
#[inline(always)]
fn name_mark(walk: Space, name: u64, sum: u64) -> (u64, bool) {
    let interned = walk.get(offset_of!(Walk, interned));
    if interned == 0 {
        return read_name_mark(walk, name);
    }
    let Some(known) = PYTHON_NAMES.get_ptr_mut((sum >> 40) as u32 & (PYTHON_CODES - 1)) else {
        return (0, false);
    };
    let known = known.cast::<[u64; 3]>();
    // SAFETY: it points into the map, to so many words.
    let [of, version, of_name] = unsafe { known.read_volatile() };
    if of == sum && version == interned {
        return (of_name, true);
    }
    let (of_name, is_named) = read_name_mark(walk, name);
    let of_head = offset_of!(Walk, marked) + offset_of!(Marked, head);
    if is_named && walk.get(of_head + 24) & INTERNED != 0 {
        // SAFETY: as above.
        unsafe { known.write_volatile([sum, interned, of_name]) };
    }
    (of_name, is_named)
}

#[inline(always)]
fn read_name_mark(walk: Space, name: u64) -> (u64, bool) {
    let of_head = offset_of!(Walk, marked) + offset_of!(Marked, head);
    let from = name.wrapping_add(u64::from(TEXT_LENGTH) - 8) as *const _;
    // SAFETY: the helper writes four words, for which there is space, and checks the address.
    let failed = unsafe { bpf_probe_read_user(walk.at(of_head).cast(), 32, from) };
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
    // With all of its characters, or with the first ones, wherever they lie. A short one may end
    // where the memory does.
    let bytes = if walk.read(file, PYTHON_WINDOW as u32) {
        PYTHON_WINDOW as u32
    } else if walk.read(file, TEXT_WITH_CHARACTERS) {
        TEXT_WITH_CHARACTERS
    } else {
        0
    };
    let first = |at: u16| {
        let word = if bytes > 0 {
            walk.word(at)
        } else {
            word_of_program(file.wrapping_add(at.into()))
        };
        word & 0xff
    };
    let is_generated = first(walk.field(offset_of!(PythonLayout, text_ascii))) == LESS
        || first(walk.field(offset_of!(PythonLayout, text_wide))) == LESS;
    let mark = if bytes > 0 {
        head_mark(walk, file, bytes)
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
        head_mark(walk, text, TEXT_HEAD)
    } else {
        0
    }
}

/// Returns what distinguishes a text from another one, of which so many bytes were read.
#[inline(always)]
fn head_mark(walk: Space, text: u64, read: u32) -> u64 {
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
    if bytes == 0 {
        return mix(length, 1);
    }
    let from = if u32::from(at) + bytes <= read {
        at
    } else if walk.read(text.wrapping_add(at.into()), bytes) {
        0
    } else {
        return mix(length, 1);
    };
    hash_window(walk, length, (from, bytes))
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
fn hash_window(walk: Space, seed: u64, (from, bytes): (u16, u32)) -> u64 {
    let mut mark = seed;
    let mut at = 0_u16;
    while at < PYTHON_TEXT_BYTES as u16 {
        let left = bytes.wrapping_sub(u32::from(at));
        if left as i32 <= 0 {
            break;
        }
        let mut word = walk.word(from.wrapping_add(at));
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
