//! bpftrace, counting or printing. It cannot select a process's children: it traces all processes.

use std::process::Command;

use super::background::{Background, lines_with};
use super::{Attached, Seen, Tool, What, joined};

/// One-line program.
#[derive(Clone, Copy)]
pub enum Bpftrace {
    /// Counts.
    Counting(What),
    /// Prints a line for each event.
    Printing(What),
    /// Counts only the events of one process, other than the measured one.
    CountingAnother,
}

impl Tool for Bpftrace {
    fn name(&self) -> String {
        match self {
            Self::Counting(What::Results) => "bpftrace counting, one tracepoint",
            Self::Counting(_) => "bpftrace counting",
            Self::Printing(_) => "bpftrace printing",
            Self::CountingAnother => "bpftrace counting, by a filter",
        }
        .to_owned()
    }

    fn program(&self) -> &'static str {
        "bpftrace"
    }

    fn attach(&self, pids: &[u32]) -> anyhow::Result<Box<dyn Attached>> {
        let mut script = "BEGIN { printf(\"ready\\n\"); }".to_owned();
        let group = match self {
            Self::Counting(what) | Self::Printing(what) => what.group(),
            Self::CountingAnother => What::Switches.group(),
        };
        let mut add = |name: &str, filter: &str, action: &str| {
            script += &format!(" tracepoint:{group}:{name} {filter} {{ {action} }}");
        };
        match self {
            Self::Counting(what) => {
                for name in what.tracepoints() {
                    add(name, "", "@ = count();");
                }
            }
            Self::CountingAnother => add(
                "sched_switch",
                &format!("/pid == {}/", joined(pids, " || pid == ")),
                "@ = count();",
            ),
            Self::Printing(What::Switches) => add(
                "sched_switch",
                "",
                "printf(\"%llu %d event %s %d -> %s %d\\n\", nsecs, cpu, args->prev_comm, \
                 args->prev_pid, args->next_comm, args->next_pid);",
            ),
            Self::Printing(what @ (What::Processes | What::Calls | What::Results)) => {
                for name in what.tracepoints() {
                    add(
                        name,
                        "",
                        "printf(\"%llu %d event %s %d\\n\", nsecs, cpu, comm, pid);",
                    );
                }
            }
        }
        let mut command = Command::new("bpftrace");
        command.args(["-e", &script]);
        let mut running = Background::start(&mut command, "bpftrace")?;
        running.wait_for("ready")?;
        running.wait_a_moment()?;
        Ok(Box::new(Running {
            running,
            is_printing: matches!(self, Self::Printing(_)),
        }))
    }
}

struct Running {
    running: Background,
    is_printing: bool,
}

impl Attached for Running {
    fn finish(self: Box<Self>) -> anyhow::Result<Seen> {
        let finished = self.running.stop()?;
        let bytes = finished.bytes();
        let text = |path| std::fs::read_to_string(path).unwrap_or_default();
        let (events, lost) = if self.is_printing {
            (lines_with(&finished.out, " event ")?, lost(&finished)?)
        } else {
            (counted(&text(&finished.out)).unwrap_or(0.0), 0.0)
        };
        Ok(Seen {
            events,
            lost,
            bytes,
            cpu_seconds: finished.cpu_seconds,
        })
    }
}

/// Finds the count in the last line, "@: 1121".
fn counted(text: &str) -> Option<f64> {
    let (_, count) = text.rsplit_once("@: ")?;
    count.trim().parse().ok()
}

/// Sums the lines "Lost 12 events", which may be on either output.
fn lost(finished: &super::background::Finished) -> anyhow::Result<f64> {
    use std::io::BufRead as _;
    let mut lost = 0.0;
    let lines = std::io::BufReader::new(std::fs::File::open(&finished.out)?).lines();
    for line in lines.chain(finished.err.lines().map(|line| Ok(line.to_owned()))) {
        let line = line?;
        if let Some(rest) = line.strip_prefix("Lost ")
            && let Some((count, _)) = rest.split_once(" events")
        {
            lost += count.parse().unwrap_or(0.0);
        }
    }
    Ok(lost)
}
