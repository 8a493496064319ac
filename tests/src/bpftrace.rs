//! `bpftrace`, which counts at the probes and tracepoints that the tracer records.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

use crate::target::Target;

/// A program that talks by `handshake.h`, started by bpftrace once its probes are attached.
pub struct Counted {
    bpftrace: Target,
    folder: TempDir,
    pid: i32,
}

impl Counted {
    /// Starts `program` with one argument, and counts by `script`.
    ///
    /// # Errors
    ///
    /// bpftrace is not there, or does not take the script.
    pub fn start(program: &Path, argument: &str, script: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new("bpftrace");
        command
            .args(["-q", "-o"])
            .arg(report(&folder))
            .args(["-e", script, "-c"])
            .arg(format!("{} {argument}", program.display()));
        // The program says that it is ready, and bpftrace starts it only with the probes attached.
        let (bpftrace, _) = Target::start(&mut command).context("bpftrace")?;
        let pid = child_of(bpftrace.pid())?;
        Ok(Self {
            bpftrace,
            folder,
            pid,
        })
    }

    /// Counts by `script` what other programs do, from now on until the [end](Self::end).
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn others(script: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let waits = folder.path().join("waits");
        fs::write(&waits, "echo ready; read -r _\n")?;
        Self::start(Path::new("/bin/sh"), &waits.display().to_string(), script)
    }

    /// The program's process.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Access to the program's input and output, which are those of bpftrace.
    pub fn target(&mut self) -> &mut Target {
        &mut self.bpftrace
    }

    /// Lets the program and bpftrace end, and returns the values of the script by name.
    ///
    /// # Errors
    ///
    /// bpftrace fails.
    pub fn end(self) -> anyhow::Result<BTreeMap<String, i64>> {
        let status = self.bpftrace.end()?;
        ensure!(status.success(), "bpftrace failed: {status}");
        let report = fs::read_to_string(report(&self.folder))?;
        let values = report.lines().filter_map(|line| {
            let (name, value) = line.strip_prefix('@')?.split_once(": ")?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Ok(values.collect())
    }
}

fn report(folder: &TempDir) -> PathBuf {
    folder.path().join("report")
}

/// The one process that `pid` has made.
fn child_of(pid: i32) -> anyhow::Result<i32> {
    let mut children = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(entry?.path().join("children"))?;
        children.extend(text.split_whitespace().map(str::to_owned));
    }
    ensure!(
        children.len() == 1,
        "bpftrace has the children {children:?}"
    );
    Ok(children.concat().parse()?)
}
