//! Why the kernel's events are not available.

use std::io;

use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;

use super::probes::error::ProbeError;
use super::tracepoints::TracepointError;
use super::unmet::Unmet;

/// Why the kernel's events are not available. Each message says what is missing and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The machine or this process lacks something that is needed.
    #[error("{unmet}; {}", .unmet.remedy())]
    Unmet {
        /// What is lacking.
        unmet: Unmet,
    },

    /// The ring cannot have this size.
    #[error("a ring of {bytes} bytes is not possible; choose from 1 to 2147483648")]
    RingSize {
        /// The size asked for.
        bytes: u32,
    },

    /// The kernel did not take the object, or a map of it.
    #[error("the eBPF object was not taken by the kernel")]
    Object {
        /// What the loader says.
        source: Box<EbpfError>,
    },

    /// The object has no such part: it was built from other sources.
    #[error("the eBPF object has no {name}; run: cargo xtask build-ebpf")]
    PartMissing {
        /// The program or map.
        name: &'static str,
    },

    /// The kernel did not take a program, neither as BTF tracepoint nor as raw tracepoint.
    #[error("the eBPF program {name} was not taken by the kernel{}", advice(name))]
    Program {
        /// The program.
        name: &'static str,
        /// What the loader says of the BTF tracepoint.
        source: Box<ProgramError>,
    },

    /// Who has the CPUs cannot be sampled.
    #[error(
        "the CPUs cannot be sampled {per_second} times a second (--sample; the kernel allows what is in /proc/sys/kernel/perf_event_max_sample_rate)"
    )]
    Sampling {
        /// How often.
        per_second: u32,
        /// What the loader says of it.
        source: Box<ProgramError>,
    },

    /// The kernel does not give programs the registers of the thread.
    #[error(
        "--unwind dwarf needs a kernel of 5.15 or later (the helper bpf_task_pt_regs); without it, functions are found by frame pointers"
    )]
    NoRegisters,

    /// As [`NoRegisters`](Self::NoRegisters), for want of the kernel's own types.
    #[error(
        "--unwind dwarf needs the kernel's own types, and --btf gives others; without it, functions are found by frame pointers"
    )]
    NoRegistersWithFile,

    /// A map cannot be used as it must be.
    #[error("the eBPF map {name} cannot be used")]
    Map {
        /// The map.
        name: &'static str,
        /// What the loader says.
        source: Box<MapError>,
    },

    /// A call on a map failed.
    #[error("{call} on the eBPF map {name} failed")]
    MapCall {
        /// The call.
        call: &'static str,
        /// The map.
        name: &'static str,
        /// Why.
        source: io::Error,
    },

    /// Tracepoints cannot be attached to.
    #[error("no tracepoints")]
    Tracepoints {
        /// Why.
        source: TracepointError,
    },

    /// Probes cannot be attached.
    #[error("no probes")]
    Probes {
        /// Why.
        source: ProbeError,
    },

    /// The processes that are there cannot be listed.
    #[error("the processes of this pid namespace cannot be listed by eBPF")]
    Listing {
        /// Why.
        source: io::Error,
    },

    /// No process of our pid namespace has this pid.
    #[error("no process of this pid namespace has the pid {pid}")]
    NotHere {
        /// The pid.
        pid: i32,
    },

    /// No process can have this pid.
    #[error("{pid} is not the pid of a process; pids are 1 to {last}")]
    NoSuchPid {
        /// The pid.
        pid: i32,
        /// The last one possible.
        last: usize,
    },
}

impl LoadError {
    /// What to do about what the machine or this process lacks.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Unmet { unmet } => Some(unmet.remedy()),
            _ => None,
        }
    }

    /// Whether it is a program of system calls that the kernel did not take.
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

/// What can be left out, so that an older kernel takes the others.
fn advice(program: &str) -> &'static str {
    match program {
        "sys_enter_descriptors" | "sys_exit_descriptors" => "; leave out --descriptors",
        _ => "",
    }
}
