//! Reasons why the kernel's events are not available.

use std::io;

use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;

use super::probes::error::ProbeError;
use super::tracepoints::TracepointError;
use super::unmet::Unmet;

/// Reason why the kernel's events are not available. Each message says what is missing and what to
/// do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Requirement that the machine or this process does not meet.
    #[error("{unmet}; {}", .unmet.remedy())]
    Unmet {
        /// Requirement that is not met.
        unmet: Unmet,
    },

    /// Size that the ring cannot have.
    #[error("a ring of {bytes} bytes is not possible; choose from 1 to 2147483648")]
    RingSize {
        /// The size asked for.
        bytes: u32,
    },

    /// Object, or a map of it, that the kernel refused.
    #[error("the eBPF object was not taken by the kernel")]
    Object {
        /// Error of the loader.
        source: Box<EbpfError>,
    },

    /// Part that the object lacks: it was built from other sources.
    #[error("the eBPF object has no {name}; run: cargo xtask build-ebpf")]
    PartMissing {
        /// The program or map.
        name: &'static str,
    },

    /// Program that the kernel refused, both as BTF tracepoint and as raw tracepoint.
    #[error("the eBPF program {name} was not taken by the kernel{}", advice(name))]
    Program {
        /// The program.
        name: &'static str,
        /// Error of the loader for the BTF tracepoint.
        source: Box<ProgramError>,
    },

    /// Samples that cannot be taken: the thread that has each CPU cannot be recorded.
    #[error(
        "the CPUs cannot be sampled {per_second} times a second (--sample; the kernel allows what is in /proc/sys/kernel/perf_event_max_sample_rate)"
    )]
    Sampling {
        /// Samples per second.
        per_second: u32,
        /// Error of the loader.
        source: Box<ProgramError>,
    },

    /// Kernel that does not give programs the registers of the thread.
    #[error(
        "--unwind dwarf needs a kernel of 5.15 or later (the helper bpf_task_pt_regs); without it, functions are found by frame pointers"
    )]
    NoRegisters,

    /// Registers that are missing as in [`NoRegisters`](Self::NoRegisters), for want of the
    /// kernel's own types.
    #[error(
        "--unwind dwarf needs the kernel's own types, and --btf gives others; without it, functions are found by frame pointers"
    )]
    NoRegistersWithFile,

    /// Map that cannot be used in the way that is needed.
    #[error("the eBPF map {name} cannot be used")]
    Map {
        /// The map.
        name: &'static str,
        /// Error of the loader.
        source: Box<MapError>,
    },

    /// Failed call on a map.
    #[error("{call} on the eBPF map {name} failed")]
    MapCall {
        /// The call.
        call: &'static str,
        /// The map.
        name: &'static str,
        /// Cause.
        source: io::Error,
    },

    /// Tracepoints that cannot be attached to.
    #[error("no tracepoints")]
    Tracepoints {
        /// Cause.
        source: TracepointError,
    },

    /// Probes that cannot be attached.
    #[error("no probes")]
    Probes {
        /// Cause.
        source: ProbeError,
    },

    /// Existing processes that cannot be listed.
    #[error("the processes of this pid namespace cannot be listed by eBPF")]
    Listing {
        /// Cause.
        source: io::Error,
    },

    /// Pid that no process in this process's pid namespace has.
    #[error("no process of this pid namespace has the pid {pid}")]
    NotHere {
        /// The pid.
        pid: i32,
    },

    /// Pid that no process can have.
    #[error("{pid} is not the pid of a process; pids are 1 to {last}")]
    NoSuchPid {
        /// The pid.
        pid: i32,
        /// The highest pid that is possible.
        last: usize,
    },
}

impl LoadError {
    /// Returns the remedy for a requirement that the machine or this process does not meet.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Unmet { unmet } => Some(unmet.remedy()),
            _ => None,
        }
    }

    /// Tells whether the kernel refused a program of system calls.
    pub(super) fn is_for_system_calls(&self) -> bool {
        matches!(
            self,
            Self::Program {
                name: "sys_enter" | "sys_exit",
                ..
            }
        )
    }
}

impl From<Unmet> for LoadError {
    fn from(unmet: Unmet) -> Self {
        Self::Unmet { unmet }
    }
}

/// Returns advice to leave out an option that the kernel may be too old for, in words.
fn advice(program: &str) -> &'static str {
    match program {
        "sys_enter_descriptors" | "sys_exit_descriptors" => "; leave out --descriptors",
        _ => "",
    }
}
