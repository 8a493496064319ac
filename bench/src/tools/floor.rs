//! Programs that do nothing, at the same tracepoints: what any tracer by eBPF costs at least.

use super::super::programs;
use super::background::Background;
use super::{Attached, Seen, Tool, What};

/// Name in the report of programs that do nothing.
pub const EMPTY: &str = "empty programs";

/// Name of those that read the clock.
pub const READING_CLOCK: &str = "programs that read the clock";

/// Programs that do nothing or read the clock.
#[derive(Clone, Copy)]
pub struct Floor {
    /// The tracepoints.
    pub of: What,
    /// Whether they read the clock.
    pub reads_clock: bool,
}

impl Tool for Floor {
    fn name(&self) -> String {
        match (self.of, self.reads_clock) {
            (What::Results, false) => "an empty program at the end",
            (What::Results, true) => "a program at the end that reads the clock",
            (_, false) => EMPTY,
            (_, true) => READING_CLOCK,
        }
        .to_owned()
    }

    fn program(&self) -> &'static str {
        "sh"
    }

    fn attach(&self, _: &[u32]) -> anyhow::Result<Box<dyn Attached>> {
        let mut command = programs::command("floor", &[]);
        command.arg(if self.reads_clock { "clock" } else { "nothing" });
        command.args(self.of.tracepoints());
        let mut running = Background::start(&mut command, "floor")?;
        running.wait_for("ready")?;
        Ok(Box::new(Running(running)))
    }
}

struct Running(Background);

impl Attached for Running {
    fn finish(self: Box<Self>) -> anyhow::Result<Seen> {
        self.0.stop()?;
        // It sees every event, and notes none.
        Ok(Seen {
            events: f64::MIN_POSITIVE,
            ..Seen::default()
        })
    }
}
