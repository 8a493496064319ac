//! State in which a thread left its CPU, as a letter and a word, and the place in which it waits.

use tracer_analysis::is_frozen;
use tracer_common::kernel::{SwitchOutData, waits_in};

use super::kernel_words::push_syscall_name;
use tracer_syscalls::names::Table;

/// Returns the meaning of the kernel's state bits: the letter that `ps` shows, and a word.
///
/// The bits are those of `include/linux/sched.h` since Linux 4.14.
pub fn task_state(bits: u32, is_preempted: bool) -> (&'static str, &'static str) {
    const UNINTERRUPTIBLE: u32 = 0x2;
    const NO_LOAD: u32 = 0x400;
    // The lowest bit that is set decides, except for idle, which has two bits.
    const STATES: [(u32, &str, &str); 10] = [
        (0x1, "S", "sleeping"),
        (UNINTERRUPTIBLE, "D", "uninterruptible"),
        (0x4, "T", "stopped"),
        (0x8, "t", "stopped by a debugger"),
        (0x10, "X", "dead"),
        (0x20, "Z", "zombie"),
        (0x40, "P", "parked"),
        (0x80, "X", "dead"),
        // Waiting for a spinlock of a real-time kernel.
        (0x1000, "D", "waiting for a lock"),
        (0x8000, "D", "frozen"),
    ];
    if is_preempted {
        return ("R", "preempted");
    }
    if bits & (UNINTERRUPTIBLE | NO_LOAD) == UNINTERRUPTIBLE | NO_LOAD {
        return ("I", "idle");
    }
    if bits == 0 {
        return ("R", "gave way");
    }
    STATES
        .iter()
        .find(|(bit, ..)| bits & bit != 0)
        .map_or(("?", "in an unknown state"), |(_, letter, word)| {
            (letter, word)
        })
}

/// Place in which a blocked thread waits, or the reason why a runnable one has to wait for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsIn {
    /// Unknown place, or a thread that waits in none of these.
    Unknown,
    /// System call, by its index in a table.
    Syscall(Table, i32),
    /// Page fault, or another exception.
    Fault,
    /// Exit of the thread.
    Exit,
    /// Kernel: the thread is one of its own.
    Kernel,
    /// Runnable thread whose control group has used up its time.
    GroupQuota,
    /// Runnable thread that has used up its budget.
    DeadlineBudget,
    /// Runnable thread, where real-time threads have used up their time.
    RealTimeLimit,
    /// Runnable thread that has to give way to one of a higher real-time priority.
    HigherPriority,
}

impl WaitsIn {
    /// Returns the place that a switch names. A thread that is frozen on its way back to the
    /// program waits in no page fault.
    pub fn from_switch_out(data: &SwitchOutData) -> Self {
        let waits_in = Self::from_bits(data.waits_in, data.syscall);
        if waits_in == Self::Fault && is_frozen(data) {
            return Self::Unknown;
        }
        waits_in
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
            waits_in::REAL_TIME_LIMIT => Self::RealTimeLimit,
            waits_in::HIGHER_PRIORITY => Self::HigherPriority,
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
        WaitsIn::RealTimeLimit => out.extend_from_slice(b"real-time limit"),
        WaitsIn::HigherPriority => out.extend_from_slice(b"higher priority"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_read_as_in_ps() {
        assert_eq!(task_state(0, false), ("R", "gave way"));
        assert_eq!(task_state(0, true), ("R", "preempted"));
        assert_eq!(task_state(1, true), ("R", "preempted"));
        assert_eq!(task_state(1, false).0, "S");
        assert_eq!(task_state(0x102, false).0, "D");
        assert_eq!(task_state(0x402, false).0, "I");
        assert_eq!(task_state(0x80, false).0, "X");
        assert_eq!(task_state(0x4000_0000, false).0, "?");
    }
}
