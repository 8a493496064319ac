//! Tracers: how each is attached to a running process and its children, and what it saw.

mod background;
mod bpftrace;
mod ftrace;
pub mod lttng;
mod ours;
mod paused;
mod perf;
pub mod program_time;
mod strace;

pub use background::{Background, as_float, count_before, size};
pub use bpftrace::Bpftrace;
pub use ftrace::Ftrace;
pub use ours::{Ours, OursIntoLog, OursWhy, attach_with};
pub use paused::{Pinned, run_traced};
pub use perf::{PerfSched, PerfTrace};
pub use strace::Strace;

use super::contest::Run;

/// Which of the kernel's events are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Context switches.
    Switches,
    /// Forks, execs and exits.
    Processes,
    /// All system calls, with what they were given and returned.
    Calls,
}

impl What {
    /// The group that the kernel's tracepoints are in.
    pub fn group(self) -> &'static str {
        match self {
            Self::Switches | Self::Processes => "sched",
            Self::Calls => "raw_syscalls",
        }
    }

    /// The kernel's tracepoints.
    pub fn tracepoints(self) -> &'static [&'static str] {
        match self {
            Self::Switches => &["sched_switch"],
            Self::Processes => &[
                "sched_process_fork",
                "sched_process_exec",
                "sched_process_exit",
            ],
            Self::Calls => &["sys_enter", "sys_exit"],
        }
    }
}

/// What a tracer saw.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Events shown: lines, samples, or what it counted.
    pub events: f64,
    /// Events that it says it has lost.
    pub lost: f64,
    /// Bytes that it wrote.
    pub bytes: f64,
    /// CPU time that it took for itself.
    pub cpu_seconds: f64,
}

impl Seen {
    /// A run with this beside it.
    pub fn beside(self, run: Run) -> Run {
        run.with("events", self.events)
            .with("lost", self.lost)
            .with("bytes", self.bytes)
            .with("tracer's CPU seconds", self.cpu_seconds)
    }
}

/// A tracer that can be attached.
pub trait Tool {
    /// What it is called in the report.
    fn name(&self) -> String;
    /// The program that has to be there.
    fn program(&self) -> &'static str;
    /// Attaches to processes and the children they make from now on; returns when it traces.
    fn attach(&self, pids: &[u32]) -> anyhow::Result<Box<dyn Attached>>;
}

/// A tracer at work.
pub trait Attached {
    /// Ends it and asks what it saw.
    fn finish(self: Box<Self>) -> anyhow::Result<Seen>;
}

/// Pids as one argument.
fn joined(pids: &[u32], between: &str) -> String {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    pids.join(between)
}

/// The resident memory that `/proc/<pid>/status` has, in kilobytes of 1024 bytes.
pub fn resident_kilobytes(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|rest| rest.split_ascii_whitespace().next());
    kilobytes
        .and_then(|kilobytes| kilobytes.parse().ok())
        .unwrap_or(0)
}
