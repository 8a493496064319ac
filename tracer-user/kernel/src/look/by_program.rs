//! Looks at threads by an eBPF program, which the kernel runs for each thread that there is.

use std::io;
use std::mem::size_of;

use aya::programs::{Iter, ProgramError};
use aya::{Btf, Ebpf};
use tracer_common::kernel::{
    LOOK_BYTES, LookRecord, REGISTERS, Record, RecordHeader, ThreadStateData,
};
use zerocopy::FromBytes as _;

use super::super::call;
use super::super::namespace::read;

/// The program.
const PROGRAM: &str = "look_at_tasks";

/// Findings of the look at one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The record of its event.
    pub event: Vec<u8>,
    /// Addresses in the kernel, the innermost first.
    pub kernel: Vec<u64>,
    /// The registers of its program, where these are known.
    pub registers: Option<[u64; REGISTERS]>,
}

impl Looked {
    /// Reads the record that the eBPF program has written of a thread; `None` for other bytes.
    fn parse(untrusted: &[u8]) -> Option<Self> {
        let event = untrusted.get(..Record::<ThreadStateData>::BYTES)?.to_vec();
        let mut looked = Self {
            event,
            kernel: Vec::new(),
            registers: None,
        };
        if let Ok(record) = LookRecord::ref_from_bytes(untrusted) {
            let bytes = usize::try_from(record.kernel_bytes).unwrap_or(0);
            let frames = record.kernel.get(..bytes / size_of::<u64>())?;
            looked.kernel = frames.to_vec();
            looked.registers = (record.registers_bytes > 0).then_some(record.registers);
        }
        Some(looked)
    }

    /// Returns the header of its event.
    pub fn header(&self) -> Option<RecordHeader> {
        let (header, _) = RecordHeader::read_from_prefix(&self.event).ok()?;
        Some(header)
    }
}

/// Loads the program.
pub fn load(ebpf: &mut Ebpf, btf: &Btf) -> Result<(), ProgramError> {
    let program = program(ebpf)?;
    call::load(|| program.load("task", btf))
}

fn program(ebpf: &mut Ebpf) -> Result<&mut Iter, ProgramError> {
    ebpf.program_mut(PROGRAM)
        .ok_or(ProgramError::NotLoaded)?
        .try_into()
}

/// Runs the program. Returns the look at each traced thread, with its stack where `are_stacked`.
pub fn look(ebpf: &mut Ebpf, are_stacked: bool) -> io::Result<Vec<Looked>> {
    let bytes = read(program(ebpf).map_err(io::Error::other)?)?;
    let each = if are_stacked {
        size_of::<LookRecord>()
    } else {
        LOOK_BYTES
    };
    Ok(bytes.chunks_exact(each).filter_map(Looked::parse).collect())
}
