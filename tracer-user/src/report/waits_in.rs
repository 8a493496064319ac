//! What a thread is in that blocks.

use tracer_common::kernel::{SwitchOutData, waits_in};

use super::kernel_words::push_syscall_name;
use tracer_syscalls::names::Table;

/// What a thread is in that blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsIn {
    /// It does not block, or it is not known.
    Unknown,
    /// A system call, by its index in a table.
    Syscall(Table, i32),
    /// A page fault, or another exception.
    Fault,
    /// Its exit.
    Exit,
    /// The kernel, whose thread it is.
    Kernel,
    /// It could run: its control group has used up its time.
    GroupQuota,
    /// It could run: it has used up its budget.
    DeadlineBudget,
}

impl WaitsIn {
    /// What a switch says.
    pub fn of(data: &SwitchOutData) -> Self {
        Self::of_bits(data.waits_in, data.syscall)
    }

    /// Reads these bits, and the number of a system call.
    pub fn of_bits(bits: u8, syscall: u16) -> Self {
        let nr = i32::from(syscall);
        match bits & !waits_in::IO {
            waits_in::SYSCALL => Self::Syscall(Table::Native, nr),
            waits_in::COMPAT_SYSCALL => Self::Syscall(Table::Compat, nr),
            waits_in::FAULT => Self::Fault,
            waits_in::EXIT => Self::Exit,
            waits_in::KERNEL => Self::Kernel,
            waits_in::GROUP_QUOTA => Self::GroupQuota,
            waits_in::DEADLINE_BUDGET => Self::DeadlineBudget,
            _ => Self::Unknown,
        }
    }

    /// Reads the field that begins `untrusted`.
    pub fn read(untrusted: &[u8]) -> Option<Self> {
        let [kind, nr @ ..] = *untrusted.first_chunk::<3>()?;
        Some(Self::of_bits(kind, u16::from_ne_bytes(nr)))
    }
}

/// Appends it: nothing where it is not known.
pub fn push_waits_in(out: &mut Vec<u8>, waits_in: WaitsIn) {
    match waits_in {
        WaitsIn::Unknown => {}
        WaitsIn::Syscall(table, nr) => push_syscall_name(out, table, nr),
        WaitsIn::Fault => out.extend_from_slice(b"page fault"),
        WaitsIn::Exit => out.extend_from_slice(b"exit"),
        WaitsIn::Kernel => out.extend_from_slice(b"kernel"),
        WaitsIn::GroupQuota => out.extend_from_slice(b"group quota"),
        WaitsIn::DeadlineBudget => out.extend_from_slice(b"deadline budget"),
    }
}
