//! Small programs that are assembled here, to ask something of the kernel.

use std::io;
use std::os::fd::OwnedFd;

use super::call::{PROGRAM_LOAD, ProgramAttributes, bpf};

/// Calls a helper, or a function of the kernel's.
pub const CALL: u8 = 0x85;
/// Sets a register.
pub const SET: u8 = 0xb7;
/// Loads 64 bits from an address into a register.
pub const READ: u8 = 0x79;
/// Loads a constant of 64 bits; its upper half is in the instruction that follows.
pub const LOAD: u8 = 0x18;
/// Jumps; by 0 it does nothing.
pub const JUMP: u8 = 0x05;
/// Ends the program.
pub const EXIT: u8 = 0x95;

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

/// Loads a program for raw tracepoints.
///
/// # Errors
///
/// The kernel does not take it.
pub fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    /// `BPF_PROG_TYPE_RAW_TRACEPOINT`.
    const RAW_TRACEPOINT: u32 = 17;
    let attributes = ProgramAttributes {
        kind: RAW_TRACEPOINT,
        count: u32::try_from(program.len()).unwrap_or(0),
        instructions: program.as_ptr().expose_provenance() as u64,
        license: c"GPL".as_ptr().expose_provenance() as u64,
        ..ProgramAttributes::default()
    };
    // SAFETY: what it names lives until after the call.
    unsafe { bpf(PROGRAM_LOAD, &attributes) }
}
