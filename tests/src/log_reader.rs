//! `tracer-user read`, `info` and `export` as a user runs them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::{dist, made_log};

/// A log in a folder of its own.
pub struct Log {
    folder: TempDir,
    /// Events that were written into it.
    pub written: u64,
}

impl Log {
    /// Makes a log of a trace that lost `lost` events, with made-up content.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn make(lost: u64) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let written = made_log::write(&folder.path().join("log"), lost)?;
        Ok(Self { folder, written })
    }

    /// A log that `write` writes.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn written_by(write: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        write(&folder.path().join("log"))?;
        Ok(Self { folder, written: 0 })
    }

    /// The log.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.file("log")
    }

    /// A file beside it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a subcommand on it.
    ///
    /// # Errors
    ///
    /// It cannot be run.
    pub fn run(&self, subcommand: &str, options: &[&str]) -> anyhow::Result<Output> {
        run(subcommand, &self.path(), options)
    }

    /// The events that `read --format json` shows.
    ///
    /// # Errors
    ///
    /// It fails, or a line is no JSON.
    pub fn events(&self, options: &[&str]) -> anyhow::Result<Vec<Value>> {
        let output = self.run("read", &[&["--format", "json"], options].concat())?;
        let text = String::from_utf8(output.stdout)?;
        let lines = text.lines().map(serde_json::from_str);
        let mut lines = lines.collect::<Result<Vec<Value>, _>>()?;
        let summary = lines.pop().context("no line at all")?;
        ensure!(summary.get("summary").is_some(), "no summary: {summary}");
        Ok(lines)
    }

    /// Exports it, and returns where to. What it says on the standard error must be the closing
    /// line.
    ///
    /// # Errors
    ///
    /// It fails.
    pub fn export(&self, to: &str, options: &[&str]) -> anyhow::Result<PathBuf> {
        let out = self.file(&format!("out.{to}"));
        let path = out.to_str().context("no text")?;
        let output = self.run(
            "export",
            &[&["--to", to, "--force", "-o", path], options].concat(),
        )?;
        let stderr = String::from_utf8(output.stderr)?;
        ensure!(matches!(output.status.code(), Some(0 | 1)), "{stderr}");
        // A log says which events and calls were chosen; nothing else is amiss.
        let lines = stderr.lines();
        let others = lines.filter(|line| !line.contains(" the log holds only "));
        ensure!(others.count() == 2, "{stderr}");
        Ok(out)
    }
}

/// Runs a subcommand on a file.
///
/// # Errors
///
/// It cannot be run.
pub fn run(subcommand: &str, file: &Path, options: &[&str]) -> anyhow::Result<Output> {
    let mut command = Command::new(dist::tracer_user()?);
    command.arg(subcommand).arg(file).args(options);
    command.stdin(Stdio::null());
    command.output().with_context(|| format!("{command:?}"))
}

/// A name as JSON has it, with U+FFFD for what is not UTF-8, as every other format shows it.
#[must_use]
pub fn shown(json_name: &str) -> String {
    let known: HashMap<String, &str> = made_log::NAMES
        .iter()
        .map(|(name, shown)| (String::from_utf8_lossy(name).into_owned(), *shown))
        .chain([("\u{fffd}w\n".to_owned(), "\\xffw\\n")])
        .collect();
    let shown = known.get(json_name).copied();
    shown.unwrap_or(json_name).to_owned()
}

/// An integer of an event.
#[must_use]
pub fn integer(event: &Value, name: &str) -> i64 {
    event.get(name).and_then(Value::as_i64).unwrap_or(-1)
}

/// A text of an event.
#[must_use]
pub fn text<'a>(event: &'a Value, name: &str) -> &'a str {
    event.get(name).and_then(Value::as_str).unwrap_or("(none)")
}
