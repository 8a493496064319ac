//! Frames of the CPython interpreter: what the programs need to find them in a process, and what
//! they record of them.

use core::mem::size_of;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::RecordHeader;
use crate::event_type::{EventTypeId, FIRST_USER_EVENT};

/// The type of the record of the Python frames of a thread. The record of the stack that they
/// belong to follows from the same CPU.
pub const PYTHON_RECORD: u16 = 0x7ff7;

/// The type of the record of a function of Python, which comes before the first frame in it that a
/// CPU records.
pub const PYTHON_CODE_RECORD: u16 = 0x7ff6;

/// The type of the event by which a service gives such a record to a client: one of the system's,
/// which no stream has.
pub const PYTHON_CODE_EVENT: EventTypeId = EventTypeId(FIRST_USER_EVENT - 1);

/// Frames that are recorded of a thread at most.
pub const MOST_PYTHON_FRAMES: usize = 64;

/// Frames that most threads have at most.
pub const USUAL_PYTHON_FRAMES: usize = 24;

/// Bytes that are recorded of a name or a path at most.
pub const PYTHON_TEXT_BYTES: usize = 256;

/// Bytes that are recorded of the table of a function's lines, one of these.
pub const PYTHON_LINES_BYTES: [usize; 2] = [512, 8192];

/// Processes whose interpreter is known at a time.
pub const MOST_PYTHON_PROCESSES: u32 = 8192;

/// Functions that a CPU remembers. A power of two.
pub const PYTHON_CODES: u32 = 4096;

/// Threads of which it is remembered where their interpreter has its state.
pub const MOST_PYTHON_THREADS: u32 = 8192;

/// Offset of a field that a version of the interpreter does not have.
pub const NO_FIELD: u16 = 0xffff;

/// Bytes of the structures of an interpreter that the programs read at once; each offset of a
/// field in [`PythonLayout`] is within that, but those of the runtime and the interpreter.
pub const PYTHON_WINDOW: usize = 256;

/// Offsets of the fields that are read, in bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct PythonLayout {
    /// `_PyRuntimeState::interpreters.head`: the first interpreter.
    pub interpreters: u16,
    /// `PyInterpreterState::next`.
    pub interpreter_next: u16,
    /// `PyInterpreterState::threads.head`, before 3.11 `tstate_head`.
    pub interpreter_threads: u16,
    /// `PyThreadState::next`. `prev` is right before it.
    pub thread_next: u16,
    /// `PyThreadState::interp`.
    pub thread_interpreter: u16,
    /// `PyThreadState::thread_id`, a `pthread_t`.
    pub thread_id: u16,
    /// `PyThreadState::frame`, `cframe` (3.11, 3.12) or `current_frame`.
    pub thread_frame: u16,
    /// `_PyCFrame::current_frame`; none where the one before is the frame.
    pub c_frame: u16,
    /// `_PyInterpreterFrame::previous`, before 3.11 `PyFrameObject::f_back`.
    pub frame_previous: u16,
    /// `f_code`, since 3.13 `f_executable`.
    pub frame_code: u16,
    /// `f_lasti`, since 3.11 `prev_instr`, since 3.13 `instr_ptr`.
    pub frame_instruction: u16,
    /// The bytes that say what a frame is: `is_entry` and `owner` (3.11), `owner`; none before.
    pub frame_owner: u16,
    /// `PyCodeObject::co_filename`.
    pub code_file: u16,
    /// `co_qualname`, before 3.11 `co_name`.
    pub code_name: u16,
    /// `co_firstlineno`.
    pub code_first_line: u16,
    /// `co_linetable`, before 3.10 `co_lnotab`.
    pub code_lines: u16,
    /// `sizeof(PyASCIIObject)`: where the characters of a text lie that has none but ASCII.
    pub text_ascii: u16,
    /// `sizeof(PyCompactUnicodeObject)`: where they lie of another one.
    pub text_wide: u16,
    /// `PyASCIIObject::length`.
    pub text_length: u16,
    /// `PyASCIIObject::hash`.
    pub text_hash: u16,
    /// `PyASCIIObject::state`.
    pub text_state: u16,
    /// `PyBytesObject::ob_sval`. Its size is 16 bytes before.
    pub bytes: u16,
    /// The least that `owner` has in frames that only say where C has called Python (3.12 and
    /// later); none before.
    pub c_owner: u16,
    /// `PyCodeObject::co_code_adaptive` (3.11 and later); for the agent.
    pub code_instructions: u16,
    /// `PyCodeObject::co_version` (3.12 and later): a number that no other function of the
    /// interpreter has, unless it is 0.
    pub code_version: u16,
    /// `PyThreadState::cframe` (3.10 to 3.12): an address in the stack of the thread that runs it;
    /// none in others.
    pub thread_c_frame: u16,
    /// Bytes of a frame up to the last one that is read.
    pub frame_bytes: u16,
    /// Bytes of a function, `PyCodeObject`, up to the last one that is read.
    pub code_bytes: u16,
}

/// The interpreter of a process. Written by the agent; by the programs for a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PythonProcess {
    /// Where it has `_PyRuntime`.
    pub runtime: u64,
    /// Where it has `PyCode_Type`, the type of every function.
    pub code_type: u64,
    /// Where it has `PyUnicode_Type`, the type of every text.
    pub text_type: u64,
    /// Where it has the address of its dictionary of interned texts (up to 3.11); 0: not known, as
    /// in files without all of their symbols.
    pub interned: u64,
    /// Its version: 3.11 is 11; 0: it is not known what its structures are.
    pub minor: u32,
    /// Number that the agent gives it, by which it knows what its frames were found by. A child has
    /// that of its parent. Not 0.
    pub number: u32,
    /// Offsets of the fields of its structures.
    pub layout: PythonLayout,
}

/// Words of a [`PythonProcess`].
pub const PYTHON_PROCESS_WORDS: usize = size_of::<PythonProcess>() / size_of::<u64>();

impl PythonProcess {
    /// Returns its words.
    #[must_use]
    pub fn words(self) -> [u64; PYTHON_PROCESS_WORDS] {
        zerocopy::transmute!(self)
    }

    /// Returns the one with these words.
    #[must_use]
    pub fn from_words(words: [u64; PYTHON_PROCESS_WORDS]) -> Self {
        zerocopy::transmute!(words)
    }
}

/// A Python frame.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PythonFrame {
    /// Mark of the function: differs where its address has another function by then. 0: the frame
    /// only says where C has called Python.
    pub mark: u64,
    /// The instruction, see [`PythonLayout::frame_instruction`]: before 3.11 `f_lasti`, since then
    /// the bytes that it lies behind the beginning of the function's object (`PyCodeObject`), of
    /// which there are at most [`i32::MAX`].
    pub instruction: u32,
    /// The bytes of [`PythonLayout::frame_owner`].
    pub owner: u32,
}

/// The Python frames of a thread. `N` is [`USUAL_PYTHON_FRAMES`] or [`MOST_PYTHON_FRAMES`].
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PythonRecord<const N: usize> {
    /// Header of the stack, with another type.
    pub header: RecordHeader,
    /// The type of the record of the event that the stack belongs to.
    pub event_type: u32,
    /// Frames.
    pub count: u32,
    /// Why they end where they do: one of [`stack_ends`](super::stack_ends).
    pub ends: u32,
    /// The version of the interpreter: see [`PythonProcess::minor`].
    pub minor: u32,
    /// The interpreter: see [`PythonProcess::number`].
    pub number: u32,
    /// Zero.
    pub reserved: u32,
    /// The frames, the innermost first.
    pub frames: [PythonFrame; N],
}

/// The Python frames of a thread that has left its CPU because it blocks. Written as it leaves,
/// read as it gets a CPU again, both by the programs.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BlockedPython {
    /// Frames, and one more; 0: the process has no interpreter.
    pub found: u32,
    /// See [`PythonRecord::ends`].
    pub ends: u32,
    /// See [`PythonRecord::minor`].
    pub minor: u32,
    /// See [`PythonRecord::number`].
    pub number: u32,
    /// The frames.
    pub frames: [PythonFrame; MOST_PYTHON_FRAMES],
}

/// A text of Python, as far as it is recorded.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PythonText {
    /// Characters that it has.
    pub length: u64,
    /// Its `state`: how many bytes each character has.
    pub state: u32,
    /// Bytes of `text`; negative: it could not be read.
    pub bytes: i32,
    /// The characters.
    pub text: [u8; PYTHON_TEXT_BYTES],
}

/// A function of Python. `N` is one of [`PYTHON_LINES_BYTES`].
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PythonCodeRecord<const N: usize> {
    /// Header of the thread that runs it.
    pub header: RecordHeader,
    /// See [`PythonFrame::mark`].
    pub mark: u64,
    /// The line at which it begins.
    pub first_line: i32,
    /// The version of the interpreter: see [`PythonProcess::minor`].
    pub minor: u32,
    /// Bytes that its table of lines has.
    pub lines_size: u64,
    /// Bytes of `lines`; negative: they could not be read.
    pub lines_bytes: i32,
    /// See [`PythonLayout::code_instructions`].
    pub instructions: u32,
    /// Its name.
    pub name: PythonText,
    /// The path of its file.
    pub file: PythonText,
    /// The table of its lines.
    pub lines: [u8; N],
}

const _: () = {
    assert!(size_of::<PythonLayout>() == 56);
    assert!(size_of::<PythonProcess>() == 96);
    assert!(size_of::<PythonFrame>() == 16);
    assert!(size_of::<PythonText>() == 16 + PYTHON_TEXT_BYTES);
    assert!(size_of::<PythonRecord<0>>() == 64);
    assert!(size_of::<PythonCodeRecord<0>>() == 72 + 2 * size_of::<PythonText>());
    assert!(PYTHON_CODES.is_power_of_two());
};
