//! Place in which a blocked thread waits.

use tracer_common::kernel::{SwitchOutData, waits_in};

use super::kernel_words::push_syscall_name;
use tracer_syscalls::names::Table;

/// Place in which a blocked thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsIn {
    /// Unknown place, or a thread that does not block.
    Unknown,
    /// System call, by its index in a table.
    Syscall(Table, i32),
    /// Page fault, or another exception.
    Fault,
    /// Exit of the thread.
    Exit,
    /// Kernel, whose thread it is.
    Kernel,
    /// Runnable thread whose control group has used up its time.
    GroupQuota,
    /// Runnable thread that has used up its budget.
    DeadlineBudget,
}

impl WaitsIn {
    /// Returns the place that a switch names.
    pub fn from_switch_out(data: &SwitchOutData) -> Self {
        Self::from_bits(data.waits_in, data.syscall)
    }

    /// Returns the place by these bits, and the number of a system call.
    pub fn from_bits(bits: u8, syscall: u16) -> Self {
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

    /// Reads the field at the beginning of `untrusted`.
    pub fn read(untrusted: &[u8]) -> Option<Self> {
        let [kind, nr @ ..] = *untrusted.first_chunk::<3>()?;
        Some(Self::from_bits(kind, u16::from_ne_bytes(nr)))
    }
}

/// Appends the place, or nothing where it is unknown.
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
