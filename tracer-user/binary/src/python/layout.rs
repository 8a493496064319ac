//! Offsets of the fields of CPython by version, for 64-bit programs. Builds for debugging, and
//! those without the global lock, have others: nothing is found in them, as no function is of the
//! type that is expected.

use tracer_common::kernel::{NO_FIELD, PythonLayout};

/// Layout of a version: 3.11 is 11.
type Row = (u32, PythonLayout);

/// Last word of a function of those that every version begins with: how many arguments it has, and
/// its flags.
const NUMBERS_END: u16 = 40;

const OBJECT_FRAMES: PythonLayout = PythonLayout {
    interpreters: 32,
    interpreter_next: 0,
    interpreter_threads: 8,
    thread_next: 8,
    thread_interpreter: 16,
    thread_id: 176,
    thread_frame: 24,
    c_frame: NO_FIELD,
    frame_previous: 24,
    frame_code: 32,
    frame_instruction: 104,
    frame_owner: NO_FIELD,
    code_file: 104,
    code_name: 112,
    code_first_line: 40,
    code_lines: 120,
    text_ascii: 48,
    text_wide: 72,
    text_length: 16,
    text_hash: 24,
    text_state: 32,
    bytes: 32,
    c_owner: NO_FIELD,
    code_instructions: NO_FIELD,
    code_version: NO_FIELD,
    thread_c_frame: NO_FIELD,
    frame_bytes: 0,
    code_bytes: 0,
};

const OF_3_11: PythonLayout = PythonLayout {
    interpreters: 40,
    interpreter_threads: 16,
    thread_id: 152,
    thread_frame: 56,
    thread_c_frame: 56,
    c_frame: 8,
    frame_previous: 48,
    frame_code: 32,
    frame_instruction: 56,
    frame_owner: 68,
    code_file: 112,
    code_name: 128,
    code_first_line: 72,
    code_lines: 136,
    code_instructions: 184,
    ..OBJECT_FRAMES
};

const OF_3_12: PythonLayout = PythonLayout {
    interpreter_threads: 72,
    thread_id: 136,
    c_frame: 0,
    frame_previous: 8,
    frame_code: 0,
    frame_owner: 70,
    code_first_line: 68,
    text_ascii: 40,
    text_wide: 56,
    c_owner: 3,
    code_instructions: 192,
    code_version: 92,
    ..OF_3_11
};

/// The layouts of versions that do not publish them. A test compares them with the headers of the
/// interpreters that are installed.
pub const LAYOUTS: [Row; 5] = [
    (8, OBJECT_FRAMES),
    (9, OBJECT_FRAMES),
    (
        10,
        PythonLayout {
            frame_instruction: 96,
            thread_c_frame: 48,
            ..OBJECT_FRAMES
        },
    ),
    (11, OF_3_11),
    (12, OF_3_12),
];

/// Offset of a field in what 3.13 and later publish (`_Py_DebugOffsets`).
type Published = (usize, fn(&mut PythonLayout) -> &mut u16);

/// Bytes that are published at least, and where they have their version, and whether there is no
/// global lock.
pub const PUBLISHED_BYTES: usize = 648;
const COOKIE: &[u8; 8] = b"xdebugpy";
const VERSION: usize = 8;
const FREE_THREADED: usize = 16;

const OF_3_13: [Published; 20] = [
    (40, |to| &mut to.interpreters),
    (64, |to| &mut to.interpreter_next),
    (72, |to| &mut to.interpreter_threads),
    (168, |to| &mut to.thread_next),
    (176, |to| &mut to.thread_interpreter),
    (184, |to| &mut to.thread_frame),
    (192, |to| &mut to.thread_id),
    (232, |to| &mut to.frame_previous),
    (240, |to| &mut to.frame_code),
    (248, |to| &mut to.frame_instruction),
    (264, |to| &mut to.frame_owner),
    (280, |to| &mut to.code_file),
    (296, |to| &mut to.code_name),
    (304, |to| &mut to.code_lines),
    (312, |to| &mut to.code_first_line),
    (344, |to| &mut to.code_instructions),
    (544, |to| &mut to.text_state),
    (552, |to| &mut to.text_length),
    (560, |to| &mut to.text_ascii),
    (528, |to| &mut to.bytes),
];

/// As in [`OF_3_13`], of 3.14.
const OF_3_14: [Published; 20] = [
    (40, |to| &mut to.interpreters),
    (64, |to| &mut to.interpreter_next),
    (72, |to| &mut to.interpreter_threads),
    (192, |to| &mut to.thread_next),
    (200, |to| &mut to.thread_interpreter),
    (208, |to| &mut to.thread_frame),
    (216, |to| &mut to.thread_id),
    (256, |to| &mut to.frame_previous),
    (264, |to| &mut to.frame_code),
    (272, |to| &mut to.frame_instruction),
    (288, |to| &mut to.frame_owner),
    (320, |to| &mut to.code_file),
    (336, |to| &mut to.code_name),
    (344, |to| &mut to.code_lines),
    (352, |to| &mut to.code_first_line),
    (384, |to| &mut to.code_instructions),
    (608, |to| &mut to.bytes),
    (624, |to| &mut to.text_state),
    (632, |to| &mut to.text_length),
    (640, |to| &mut to.text_ascii),
];

/// Returns the layout of a version from the table; `None` where it is not there.
#[must_use]
pub fn layout_of(minor: u32) -> Option<PythonLayout> {
    let row = LAYOUTS.iter().find(|(of, _)| *of == minor);
    row.map(|(_, layout)| with_sizes(*layout))
}

/// Returns a layout with how much is read of a frame and of a function: up to the end of the last
/// field.
fn with_sizes(layout: PythonLayout) -> PythonLayout {
    let end = |fields: &[u16], bytes: u16| {
        let there = fields.iter().filter(|field| **field != NO_FIELD);
        there.map(|field| field.saturating_add(bytes)).max()
    };
    let frame = [
        layout.frame_previous,
        layout.frame_code,
        layout.frame_instruction,
    ];
    let code = [
        NUMBERS_END,
        layout.code_file,
        layout.code_name,
        layout.code_lines,
    ];
    let halves = [layout.code_first_line, layout.code_version];
    // Read as the half of a word that it is in.
    let owner = match layout.frame_owner {
        NO_FIELD => NO_FIELD,
        owner => owner & !3,
    };
    PythonLayout {
        frame_bytes: end(&frame, 8).max(end(&[owner], 4)).unwrap_or(0),
        code_bytes: end(&code, 8).max(end(&halves, 4)).unwrap_or(0),
        ..layout
    }
}

/// Returns version and layout that an interpreter publishes; `None` where it publishes none, or one
/// that is not known here.
pub(super) fn published(untrusted: &[u8]) -> Option<Row> {
    let word = |at: usize| {
        let bytes = untrusted.get(at..)?.first_chunk()?;
        Some(u64::from_ne_bytes(*bytes))
    };
    if !untrusted.starts_with(COOKIE) || word(FREE_THREADED)? != 0 {
        return None;
    }
    // 0x030d00f0 is 3.13.0.
    let (minor, fields) = match word(VERSION)? >> 16 {
        0x030d => (13, OF_3_13),
        0x030e => (14, OF_3_14),
        _ => return None,
    };
    let mut layout = PythonLayout {
        c_frame: NO_FIELD,
        thread_c_frame: NO_FIELD,
        text_wide: 56,
        ..OF_3_12
    };
    for (at, field) in fields {
        // What is further away is not there.
        *field(&mut layout) = u16::try_from(word(at)?).ok()?;
    }
    // It is not published; where its neighbours are elsewhere, it may be too.
    let neighbours = (layout.code_first_line, layout.code_file, layout.code_lines);
    if neighbours != (68, 112, 136) {
        layout.code_version = NO_FIELD;
    }
    // Right before `next`.
    (layout.thread_next >= 8).then_some((minor, with_sizes(layout)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_of_frames_and_functions_ends_with_their_last_field() {
        let sizes = |minor| {
            let layout = layout_of(minor).unwrap();
            (layout.frame_bytes, layout.code_bytes)
        };
        let expected = [(112, 128), (104, 128), (72, 144), (72, 144)];
        assert_eq!([8, 10, 11, 12].map(sizes), expected);
    }

    #[test]
    fn what_is_published_is_read_where_it_is_known() {
        let mut bytes = vec![0; PUBLISHED_BYTES];
        bytes[..8].copy_from_slice(COOKIE);
        bytes[8..16].copy_from_slice(&0x030d_00f0_u64.to_ne_bytes());
        for (at, _) in OF_3_13 {
            bytes[at..at + 8].copy_from_slice(&(at as u64).to_ne_bytes());
        }
        let (minor, layout) = published(&bytes).unwrap();
        assert_eq!((minor, layout.interpreters, layout.bytes), (13, 40, 528));
        for length in 0..bytes.len() {
            let _ = published(&bytes[..length]);
        }
        let with = |at: usize, value: u64| {
            let mut bytes = bytes.clone();
            bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
            published(&bytes)
        };
        assert_eq!(with(8, 0x030f_00f0), None);
        assert_eq!(with(8, 0x030e_00f0).unwrap().0, 14);
        assert_eq!(with(16, 1), None);
        assert_eq!(with(40, 1 << 20), None);
        assert_eq!(with(168, 0), None);
        assert_eq!(with(0, 0), None);
    }
}
