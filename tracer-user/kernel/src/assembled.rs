//! Assembler for small eBPF programs, by which this process asks the kernel something.

use std::io;
use std::os::fd::OwnedFd;

use super::call::{self, ProgramAttributes};

/// Calls a helper, or a function of the kernel.
pub const CALL: u8 = 0x85;
/// Sets a register.
pub const SET: u8 = 0xb7;
/// Loads 64 bits from an address into a register.
pub const READ: u8 = 0x79;
/// Loads 32 bits from an address into a register.
pub const READ_HALF: u8 = 0x61;
/// Loads a constant of 64 bits; its upper half is in the instruction that follows.
pub const LOAD: u8 = 0x18;
/// Jumps. A jump by 0 does nothing.
pub const JUMP: u8 = 0x05;
/// Ends the program.
pub const EXIT: u8 = 0x95;
/// Copies a register.
pub const COPY: u8 = 0xbf;
/// Adds a constant to a register.
pub const ADD: u8 = 0x07;
/// Adds a register to another one.
pub const ADD_REGISTER: u8 = 0x0f;
/// Shifts a register to the left.
pub const SHIFT: u8 = 0x67;
/// Clears the bits of a register that a constant does not have.
pub const AND: u8 = 0x57;
/// Jumps if a register has the value of a constant.
pub const JUMP_IF: u8 = 0x15;
/// Stores 64 bits of a register at an address.
pub const WRITE: u8 = 0x7b;
/// Jumps unless two registers are equal.
const JUMP_IF_OTHER: u8 = 0x5d;
/// Jumps unless a register has the value of a constant.
const JUMP_IF_NOT: u8 = 0x55;

/// Registers to which the kernel gives a use.
pub mod register {
    pub const RESULT: u8 = 0;
    pub const FIRST: u8 = 1;
    pub const SECOND: u8 = 2;
    pub const THIRD: u8 = 3;
    pub const FRAME: u8 = 10;
}

/// Helpers, as the kernel counts them.
pub mod helper {
    pub const TASK: i32 = 35;
    pub const READ: i32 = 113;
}

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    code: u8,
    /// The target in the lower half, the source in the upper one.
    registers: u8,
    offset: i16,
    immediate: i32,
}

impl Instruction {
    /// Returns an instruction that needs no offset.
    pub const fn new(code: u8, registers: u8, immediate: i32) -> Self {
        Self {
            code,
            registers,
            offset: 0,
            immediate,
        }
    }

    /// Returns the instruction with an offset from an address, or the distance of a jump.
    pub const fn with_offset(self, offset: i16) -> Self {
        Self { offset, ..self }
    }
}

/// Instructions of a program. Some of them may leave the program early: its result is then 0.
#[derive(Default)]
pub struct Assembly {
    instructions: Vec<Instruction>,
    /// Indices of the instructions that jump to the end.
    leaving: Vec<usize>,
}

impl Assembly {
    /// Offset from the frame pointer of the word to which [`read_word`](Self::read_word) reads.
    pub const WORD: i16 = -8;

    pub fn put(&mut self, code: u8, target: u8, source: u8, immediate: i32) {
        self.put_at(code, target, source, 0, immediate);
    }

    pub fn put_at(&mut self, code: u8, target: u8, source: u8, offset: i16, immediate: i32) {
        let registers = target | source << 4;
        let instruction = Instruction::new(code, registers, immediate).with_offset(offset);
        self.instructions.push(instruction);
    }

    pub fn call(&mut self, helper: i32) {
        self.put(CALL, 0, 0, helper);
    }

    /// Loads a constant of 64 bits. With a `kind` other than 0, the constant identifies something,
    /// such as a map, and its address is loaded.
    pub fn load(&mut self, target: u8, kind: u8, low: u32, high: u32) {
        self.put(LOAD, target, kind, low.cast_signed());
        self.put(0, 0, 0, high.cast_signed());
    }

    /// Loads the address of the first entry of a map.
    pub fn load_entry(&mut self, target: u8, map: i32) {
        /// `BPF_PSEUDO_MAP_VALUE`.
        const ENTRY: u8 = 2;
        self.load(target, ENTRY, map.cast_unsigned(), 0);
    }

    /// Leaves the program unless two registers are equal.
    pub fn leave_unless_same(&mut self, one: u8, other: u8) {
        self.leave_where(JUMP_IF_OTHER, one, other, 0);
    }

    /// Leaves the program unless a register has this value.
    pub fn leave_unless(&mut self, register: u8, value: i32) {
        self.leave_where(JUMP_IF_NOT, register, 0, value);
    }

    /// Leaves the program if the jump `code` is taken.
    pub fn leave_where(&mut self, code: u8, target: u8, source: u8, immediate: i32) {
        self.leaving.push(self.instructions.len());
        self.put(code, target, source, immediate);
    }

    /// Reads this many bytes from the address in the third register to the address in the first
    /// one.
    pub fn read(&mut self, bytes: usize) {
        let bytes = i32::try_from(bytes).unwrap_or(0);
        self.put(SET, register::SECOND, 0, bytes);
        self.call(helper::READ);
    }

    /// Reads this many bytes from the address in the third register to [`WORD`](Self::WORD). Bytes
    /// that cannot be read are 0.
    pub fn read_word(&mut self, bytes: usize) {
        self.put(COPY, register::FIRST, register::FRAME, 0);
        self.put(ADD, register::FIRST, 0, Self::WORD.into());
        self.read(bytes);
    }

    /// Replaces the address in the third register by the pointer that is `offset` bytes behind it.
    pub fn follow(&mut self, offset: i32) {
        self.put(ADD, register::THIRD, 0, offset);
        self.read_word(size_of::<u64>());
        self.put_at(READ, register::THIRD, register::FRAME, Self::WORD, 0);
    }

    /// Reads the pointer that is `offset` bytes behind the address in `base` into the third
    /// register.
    pub fn pointer(&mut self, base: u8, offset: i32) {
        self.put(COPY, register::THIRD, base, 0);
        self.follow(offset);
    }

    /// Reads the 32 bits that are `offset` bytes behind the address in `base` into the third
    /// register.
    pub fn half(&mut self, base: u8, offset: i32) {
        self.put(COPY, register::THIRD, base, 0);
        self.put(ADD, register::THIRD, 0, offset);
        self.read_word(size_of::<u32>());
        self.put_at(READ_HALF, register::THIRD, register::FRAME, Self::WORD, 0);
    }

    /// Skips what `rest` puts if the jump `code` is taken.
    pub fn skip_where(
        &mut self,
        code: u8,
        target: u8,
        immediate: i32,
        rest: impl FnOnce(&mut Self),
    ) {
        let at = self.instructions.len();
        self.put(code, target, 0, immediate);
        rest(self);
        let distance = self.instructions.len() - at - 1;
        let distance = i16::try_from(distance).unwrap_or(0);
        if let Some(jump) = self.instructions.get_mut(at) {
            *jump = jump.with_offset(distance);
        }
    }

    /// Ends the program. Its result is the content of the result register.
    pub fn finish(mut self) -> Vec<Instruction> {
        self.instructions.push(Instruction::new(EXIT, 0, 0));
        let end = self.instructions.len();
        for at in self.leaving {
            let distance = i16::try_from(end.saturating_sub(at + 1)).unwrap_or(0);
            if let Some(jump) = self.instructions.get_mut(at) {
                *jump = jump.with_offset(distance);
            }
        }
        self.instructions.push(Instruction::new(SET, 0, 0));
        self.instructions.push(Instruction::new(EXIT, 0, 0));
        self.instructions
    }
}

/// Loads a program of this name, and attaches it to the beginning or the end of a function of the
/// kernel. `function` is the identifier of the function among the kernel's types.
///
/// # Errors
///
/// The kernel does not take it, or does not attach it.
pub fn attach_to_function(
    name: &str,
    program: &[Instruction],
    function: u32,
    is_end: bool,
) -> io::Result<OwnedFd> {
    /// `BPF_PROG_TYPE_TRACING`, `BPF_TRACE_FENTRY`, `BPF_TRACE_FEXIT`.
    const TRACING: u32 = 26;
    const BEGINNING: u32 = 24;
    const END: u32 = 25;
    let program = load_as(
        name,
        program,
        ProgramAttributes {
            kind: TRACING,
            expected_attach_type: if is_end { END } else { BEGINNING },
            function,
            ..ProgramAttributes::default()
        },
    )?;
    call::attach(&program, None)
}

/// Loads a program of this name for raw tracepoints.
///
/// # Errors
///
/// The kernel does not take it.
pub fn load(name: &str, program: &[Instruction]) -> io::Result<OwnedFd> {
    /// `BPF_PROG_TYPE_RAW_TRACEPOINT`.
    const RAW_TRACEPOINT: u32 = 17;
    load_as(
        name,
        program,
        ProgramAttributes {
            kind: RAW_TRACEPOINT,
            ..ProgramAttributes::default()
        },
    )
}

fn load_as(
    name: &str,
    program: &[Instruction],
    attributes: ProgramAttributes,
) -> io::Result<OwnedFd> {
    let mut shown = [0; 16];
    // The last byte stays 0, which ends the name.
    for (shown, byte) in shown.iter_mut().take(15).zip(name.bytes()) {
        *shown = byte;
    }
    let attributes = ProgramAttributes {
        name: shown,
        count: u32::try_from(program.len()).unwrap_or(0),
        instructions: program.as_ptr().expose_provenance() as u64,
        license: c"GPL".as_ptr().expose_provenance() as u64,
        ..attributes
    };
    // SAFETY: what it names lives until after the call.
    unsafe { call::load_program(&attributes) }
}
