//! `perf sched record` and `perf trace`.

use std::path::PathBuf;
use std::process::Command;

use super::background::{Background, count_before, lines_with, size};
use super::{Attached, Seen, Tool, What, joined};
use crate::folder;

/// `perf sched record`: everything the scheduler does, of all processes, to a file.
#[derive(Clone, Copy)]
pub struct PerfSched;

impl Tool for PerfSched {
    fn name(&self) -> String {
        "perf sched record".to_owned()
    }

    fn program(&self) -> &'static str {
        "perf"
    }

    fn attach(&self, _pids: &[u32]) -> anyhow::Result<Box<dyn Attached>> {
        let output = folder().join("perf.data");
        let mut command = Command::new("perf");
        command.args(["sched", "record", "-o"]).arg(&output);
        let mut running = Background::start(&mut command, "perf-sched")?;
        running.wait_a_moment()?;
        Ok(Box::new(Recording { running, output }))
    }
}

struct Recording {
    running: Background,
    output: PathBuf,
}

impl Attached for Recording {
    fn finish(self: Box<Self>) -> anyhow::Result<Seen> {
        let finished = self.running.stop()?;
        Ok(Seen {
            events: count_before(&finished.err, " samples").unwrap_or(0.0),
            lost: count_before(&finished.err, " chunks").unwrap_or(0.0),
            bytes: size(&self.output),
            cpu_seconds: finished.cpu_seconds,
        })
    }
}

/// `perf trace`, which prints text.
#[derive(Clone, Copy)]
pub enum PerfTrace {
    /// Some tracepoints, of all processes.
    Of(What),
    /// All system calls of one process, as `perf trace` does by default.
    Syscalls,
}

impl Tool for PerfTrace {
    fn name(&self) -> String {
        "perf trace".to_owned()
    }

    fn program(&self) -> &'static str {
        "perf"
    }

    fn attach(&self, pids: &[u32]) -> anyhow::Result<Box<dyn Attached>> {
        let output = folder().join("perf-trace.txt");
        let mut command = Command::new("perf");
        command.args(["trace", "-o"]).arg(&output);
        match self {
            // With a pid it would not follow its children.
            Self::Of(what) => {
                command.arg("-a");
                for name in what.tracepoints() {
                    command.args(["-e", &format!("{}:{name}", what.group())]);
                }
            }
            Self::Syscalls => {
                command.args(["-p", &joined(pids, ",")]);
            }
        }
        let mut running = Background::start(&mut command, "perf-trace")?;
        running.wait_a_moment()?;
        let sign = match self {
            Self::Of(what) => what.group(),
            Self::Syscalls => "(",
        };
        Ok(Box::new(Printing {
            running,
            output,
            sign,
        }))
    }
}

struct Printing {
    running: Background,
    output: PathBuf,
    sign: &'static str,
}

impl Attached for Printing {
    fn finish(self: Box<Self>) -> anyhow::Result<Seen> {
        let finished = self.running.stop()?;
        Ok(Seen {
            events: lines_with(&self.output, self.sign)?,
            lost: lost(&finished.err) + lost(&std::fs::read_to_string(&self.output)?),
            bytes: size(&self.output),
            cpu_seconds: finished.cpu_seconds,
        })
    }
}

/// Sums all lines "LOST 12 events!".
fn lost(text: &str) -> f64 {
    let count = |line: &str| {
        let (_, rest) = line.split_once("LOST ")?;
        rest.split_once(' ')?.0.parse::<f64>().ok()
    };
    text.lines()
        .filter_map(count)
        .fold(0.0, |sum, lost| sum + lost)
}
