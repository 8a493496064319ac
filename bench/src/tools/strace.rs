//! `strace -f`, of all system calls or of those that concern processes.

use std::path::PathBuf;
use std::process::Command;

use super::background::{Background, lines_with, size};
use super::{Attached, Seen, Tool, joined};
use crate::folder;

/// strace, following children.
#[derive(Clone, Copy)]
pub enum Strace {
    /// All system calls.
    Everything,
    /// Fork, exec, exit and wait.
    Processes,
}

impl Tool for Strace {
    fn name(&self) -> String {
        match self {
            Self::Everything => "strace -f".to_owned(),
            Self::Processes => "strace -f -e trace=%process".to_owned(),
        }
    }

    fn program(&self) -> &'static str {
        "strace"
    }

    fn attach(&self, pids: &[u32]) -> anyhow::Result<Box<dyn Attached>> {
        let output = folder().join("strace.txt");
        let mut command = Command::new("strace");
        command
            .args(["-f", "-p", &joined(pids, ","), "-o"])
            .arg(&output);
        if matches!(self, Self::Processes) {
            command.args(["-e", "trace=%process"]);
        }
        let mut running = Background::start(&mut command, "strace")?;
        running.wait_for("attached")?;
        Ok(Box::new(Running { running, output }))
    }
}

struct Running {
    running: Background,
    output: PathBuf,
}

impl Attached for Running {
    fn finish(self: Box<Self>) -> anyhow::Result<Seen> {
        let finished = self.running.stop()?;
        Ok(Seen {
            events: lines_with(&self.output, "")?,
            lost: 0.0,
            bytes: size(&self.output),
            cpu_seconds: finished.cpu_seconds,
        })
    }
}
