//! A command that waits until its tracer is attached.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::super::contest::Run;
use super::{Seen, Tool};
use xtask::process;

/// A shell that waits for a line and then becomes the command, in the same process.
pub struct Paused {
    child: Child,
    shown: String,
    has_ended: bool,
}

/// Where a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// On the last CPU alone.
    ToOneCpu,
    /// On any.
    No,
}

impl Paused {
    /// Starts the shell. The command keeps its arguments and environment, nothing else.
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

    /// The process that will be the command.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it go and waits for its end.
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

/// A command that has run.
pub struct Traced {
    /// From being let go to its end.
    pub seconds: f64,
    /// What its tracer saw, if it had one.
    pub seen: Option<Seen>,
}

/// Runs a command under a tracer, or under none.
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
    /// A run of this, whose value is `value`.
    pub fn run(&self, value: f64) -> Run {
        let run = Run::new(value);
        match self.seen {
            Some(seen) => seen.beside(run),
            None => run,
        }
    }
}
