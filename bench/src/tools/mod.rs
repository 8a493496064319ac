//! Tracers: how each is attached to a running process and its children, and the figures it reports.

mod background;
mod bpftrace;
mod floor;
mod ftrace;
pub mod lttng;
mod ours;
mod paused;
mod perf;
pub mod program_time;
mod service;
mod strace;

pub use background::{Background, as_float, count_before, ended, size};
pub use bpftrace::Bpftrace;
pub use floor::{EMPTY, Floor, READING_CLOCK};
pub use ftrace::Ftrace;
pub use ours::{
    BESIDE, Beside, COUNT, COUNT_WITHOUT_TIMES, EXPLAIN, LOG, LOG_OF_RESULTS, LOG_WITHOUT_TEXTS,
    Ours, OursCounting, OursExplain, OursIntoLog, OursWhy, attach_with,
};
pub use paused::{Paused, Pinned, run_traced};
pub use perf::{PerfSched, PerfTrace};
pub use service::{OursByService, as_user};
pub use strace::Strace;

use super::contest::Run;

/// Kernel events that are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Context switches.
    Switches,
    /// Forks, execs and exits.
    Processes,
    /// All system calls, with their arguments and results.
    Calls,
    /// System calls as they end, without how long they take.
    Results,
}

impl What {
    /// Returns the types of events, as our command line takes them.
    pub fn events(self) -> &'static str {
        match self {
            Self::Switches => "switch",
            Self::Processes => "fork,exec,exit",
            Self::Calls | Self::Results => "syscall",
        }
    }

    /// Returns the group of the kernel's tracepoints.
    pub fn group(self) -> &'static str {
        match self {
            Self::Switches | Self::Processes => "sched",
            Self::Calls | Self::Results => "raw_syscalls",
        }
    }

    /// Returns the names of the kernel's tracepoints.
    pub fn tracepoints(self) -> &'static [&'static str] {
        match self {
            Self::Switches => &["sched_switch"],
            Self::Processes => &[
                "sched_process_fork",
                "sched_process_exec",
                "sched_process_exit",
            ],
            Self::Calls => &["sys_enter", "sys_exit"],
            Self::Results => &["sys_exit"],
        }
    }
}

/// Figures that a tracer reported.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Events shown: lines, samples, or its own count.
    pub events: f64,
    /// Events that it reports as lost.
    pub lost: f64,
    /// Bytes that it wrote.
    pub bytes: f64,
    /// Its own CPU time.
    pub cpu_seconds: f64,
}

impl Seen {
    /// Adds these figures to a run.
    pub fn beside(self, run: Run) -> Run {
        run.with("events", self.events)
            .with("lost", self.lost)
            .with("bytes", self.bytes)
            .with("tracer's CPU seconds", self.cpu_seconds)
    }
}

/// Tracer that can be attached.
pub trait Tool {
    /// Returns its name in the report. That of two of one question is not the same.
    fn name(&self) -> String;
    /// Returns the program that has to be installed.
    fn program(&self) -> &'static str;
    /// Attaches to processes and the children they make from now on; returns when it traces.
    fn attach(&self, pids: &[u32]) -> anyhow::Result<Box<dyn Attached>>;
}

/// Tracer at work.
pub trait Attached {
    /// Stops it and returns the figures it reports.
    fn finish(self: Box<Self>) -> anyhow::Result<Seen>;
}

/// Joins pids into one argument.
fn joined(pids: &[u32], between: &str) -> String {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    pids.join(between)
}

/// Returns the resident memory that `/proc/<pid>/status` has, in kilobytes of 1024 bytes.
pub fn resident_kilobytes(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|rest| rest.split_ascii_whitespace().next());
    kilobytes
        .and_then(|kilobytes| kilobytes.parse().ok())
        .unwrap_or(0)
}
