//! Command that waits until its tracer is attached.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::super::contest::Run;
use super::{Seen, Tool};
use xtask::process;

/// Shell that waits for a line and then becomes the command, in the same process.
pub struct Paused {
    child: Child,
    shown: String,
    has_ended: bool,
}

/// CPUs that a command may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// The last CPU alone.
    ToOneCpu,
    /// Any CPU.
    No,
}

impl Paused {
    /// Starts the shell. The command gets its arguments and environment, nothing else.
    pub fn start(command: &Command, pinned: Pinned) -> anyhow::Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", "read -r go; exec \"$@\"", "sh"]);
        if pinned == Pinned::ToOneCpu {
            let last = std::thread::available_parallelism()?.get() - 1;
            shell.args(["taskset", "-c", &last.to_string()]);
        }
        shell.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                shell.env(name, value);
            }
        }
        let shown = process::shown(&shell);
        let child = shell
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start: {shown}"))?;
        Ok(Self {
            child,
            shown,
            has_ended: false,
        })
    }

    /// Returns the id of the process that will be the command.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets the command run and waits for its end.
    pub fn go(&mut self) -> anyhow::Result<()> {
        let mut input = self.child.stdin.take().context("it was let go already")?;
        input.write_all(b"go\n")?;
        drop(input);
        let status = self.child.wait()?;
        self.has_ended = true;
        ensure!(status.success(), "failed: {}", self.shown);
        Ok(())
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        if !self.has_ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Command that has run.
pub struct Traced {
    /// Seconds from its release to its end.
    pub seconds: f64,
    /// Figures of its tracer, if it had one.
    pub seen: Option<Seen>,
}

/// Runs a command under a tracer, or without one.
pub fn run_traced(
    tool: Option<&dyn Tool>,
    command: &Command,
    pinned: Pinned,
) -> anyhow::Result<Traced> {
    let mut paused = Paused::start(command, pinned)?;
    let attached = tool.map(|tool| tool.attach(&[paused.pid()])).transpose()?;
    let start = Instant::now();
    paused.go()?;
    let seconds = start.elapsed().as_secs_f64();
    let seen = attached.map(|attached| attached.finish()).transpose()?;
    if let Some(seen) = seen {
        ensure!(seen.events > 0.0, "the tracer saw nothing at all");
    }
    Ok(Traced { seconds, seen })
}

impl Traced {
    /// Creates a run with the tracer's figures, whose value is `value`.
    pub fn run(&self, value: f64) -> Run {
        let run = Run::new(value);
        match self.seen {
            Some(seen) => seen.beside(run),
            None => run,
        }
    }
}
