//! The command line as a user runs it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::command;
use crate::dist;
use crate::event::{Event, Line, Summary};
use crate::processes::wait_unreaped;

/// Time limit for attaching, and for ending on request.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Name of the file with its events.
const OUTPUT: &str = "out";

/// Runs a program under `tracer-user`, which records these events. Returns what the program
/// printed, and the objects of the events.
///
/// # Errors
///
/// Either did not succeed, or a line is no JSON.
pub fn run_to_end(events: &str, program: &Path) -> anyhow::Result<(String, Vec<Value>)> {
    let folder = tempfile::tempdir()?;
    let shown = folder.path().join(OUTPUT);
    let said = command::text(
        Command::new(dist::tracer_user()?)
            .args(["run", "--events", events, "--format", "json", "-o"])
            .arg(&shown)
            .arg("--")
            .arg(program),
    )?;
    let lines = std::fs::read_to_string(shown)?;
    let events = lines.lines().map(serde_json::from_str);
    Ok((said, events.collect::<Result<_, _>>()?))
}

/// A running `tracer-user` that prints JSON into a file. Killed when dropped.
///
/// The output is a file and not a pipe: a test that reads slowly must not slow the tracer down.
pub struct Tracer {
    child: Child,
    folder: TempDir,
}

impl Tracer {
    /// Starts `tracer-user SUBCOMMAND --format json ARGUMENTS…`.
    ///
    /// # Errors
    ///
    /// It could not be started.
    pub fn start<A: AsRef<OsStr>>(
        subcommand: &str,
        arguments: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(dist::tracer_user()?);
        command.args([subcommand, "--format", "json"]);
        let mut stdout = OUTPUT;
        if subcommand == "run" {
            // The command has the standard output for itself.
            command.arg("--output").arg(folder.path().join(OUTPUT));
            stdout = "said";
        }
        command.args(arguments);
        Self::spawn(&mut command, folder, stdout)
    }

    /// Attaches to a process.
    ///
    /// # Errors
    ///
    /// It could not be started.
    pub fn attach(pid: i32, options: &[&str]) -> anyhow::Result<Self> {
        let pid = pid.to_string();
        Self::start("attach", options.iter().copied().chain([pid.as_str()]))
    }

    /// Starts a command that runs `tracer-user` with JSON output.
    ///
    /// # Errors
    ///
    /// It could not be started.
    pub fn start_command(command: &mut Command) -> anyhow::Result<Self> {
        Self::spawn(command, tempfile::tempdir()?, OUTPUT)
    }

    fn spawn(command: &mut Command, folder: TempDir, stdout: &str) -> anyhow::Result<Self> {
        File::create(folder.path().join(OUTPUT))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(File::create(folder.path().join(stdout))?)
            .stderr(File::create(folder.path().join("err"))?)
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self { child, folder })
    }

    /// Returns the pid of its process.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(-1)
    }

    /// Waits until it has printed an event of which `is_wanted` is true.
    ///
    /// # Errors
    ///
    /// It ends, or prints none in time.
    pub fn wait_for(&mut self, is_wanted: impl Fn(&Event) -> bool) -> anyhow::Result<Event> {
        let events = self.wait_for_some(1, "", is_wanted)?;
        events.into_iter().next().context("no event")
    }

    /// Waits until it has printed `count` events of which `is_wanted` is true. Their lines have
    /// `text` in them: where there are many others it takes too long to look at all of those.
    ///
    /// # Errors
    ///
    /// It ends, or does not print them in time.
    pub fn wait_for_some(
        &mut self,
        count: usize,
        text: &str,
        mut is_wanted: impl FnMut(&Event) -> bool,
    ) -> anyhow::Result<Vec<Event>> {
        let mut found = Vec::new();
        let mut output = File::open(self.output())?;
        let mut pending = String::new();
        let errors = self.errors();
        super::wait_until("an event of the tracer", TIMEOUT, || {
            let status = self.child.try_wait()?;
            output.read_to_string(&mut pending)?;
            let whole = pending.rfind('\n').map_or(0, |end| end + 1);
            for line in pending[..whole].lines().filter(|line| line.contains(text)) {
                if let Line::Event(event) = Line::parse(line)?
                    && is_wanted(&event)
                {
                    found.push(event);
                    if found.len() == count {
                        return Ok(Some(std::mem::take(&mut found)));
                    }
                }
            }
            pending.drain(..whole);
            match status {
                None => Ok(None),
                Some(status) => bail!(
                    "the tracer ended ({status}): {}",
                    std::fs::read_to_string(&errors)?
                ),
            }
        })
    }

    /// The events that it has printed so far.
    ///
    /// # Errors
    ///
    /// A line is not as documented.
    pub fn so_far(&self) -> anyhow::Result<Vec<Event>> {
        let text = std::fs::read_to_string(self.output())?;
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut events = Vec::new();
        for line in whole.lines() {
            if let Line::Event(event) = Line::parse(line)? {
                events.push(event);
            }
        }
        Ok(events)
    }

    /// Ends it as Ctrl-C does, and returns what it printed.
    ///
    /// # Errors
    ///
    /// It does not end.
    pub fn stop(self) -> anyhow::Result<Trace> {
        self.signal(libc::SIGINT)?;
        self.finish()
    }

    /// Ends it as [`stop`](Self::stop) does; returns also how long that took.
    ///
    /// # Errors
    ///
    /// It does not end.
    pub fn stop_timed(self) -> anyhow::Result<(Trace, Ending)> {
        let (waited_before, taken_before) = (waited_for_a_cpu(self.pid()), taken_by_the_host());
        let start = Instant::now();
        self.signal(libc::SIGINT)?;
        wait_unreaped(self.pid())?;
        let in_all = start.elapsed();
        let waited = waited_for_a_cpu(self.pid()).saturating_sub(waited_before);
        let taken = taken_by_the_host().saturating_sub(taken_before);
        let ending = Ending {
            in_all,
            own: in_all.saturating_sub(waited + taken),
        };
        Ok((self.finish()?, ending))
    }

    /// Sends it a signal.
    ///
    /// # Errors
    ///
    /// It is gone.
    pub fn signal(&self, signal: i32) -> anyhow::Result<()> {
        // SAFETY: `kill` takes integers only; the process is our child and not reaped.
        let result = unsafe { libc::kill(self.pid(), signal) };
        ensure!(result == 0, "the tracer is gone");
        Ok(())
    }

    /// Waits until it is dead, without reading its output.
    ///
    /// # Errors
    ///
    /// It lives on.
    pub fn wait_for_death(mut self) -> anyhow::Result<ExitStatus> {
        super::wait_until("the tracer's end", TIMEOUT, || Ok(self.child.try_wait()?))
    }

    /// Waits for its end, and returns what it printed.
    ///
    /// # Errors
    ///
    /// It does not end.
    pub fn finish(mut self) -> anyhow::Result<Trace> {
        let status = super::wait_until("the tracer's end", 2 * TIMEOUT, || {
            Ok(self.child.try_wait()?)
        })?;
        let stderr = std::fs::read_to_string(self.errors())?;
        let summary = summary_of(&self.output())?;
        Ok(Trace {
            status,
            stderr,
            summary,
            tracer: self,
        })
    }

    fn output(&self) -> PathBuf {
        self.folder.path().join(OUTPUT)
    }

    fn errors(&self) -> PathBuf {
        self.folder.path().join("err")
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Time that a tracer took to end.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// Time from the signal on.
    pub in_all: Duration,
    /// Part of `in_all`, without the time in which other processes or other guests of the host had
    /// the CPU.
    pub own: Duration,
}

/// Returns how long a process's first thread was runnable while others had the CPUs, as the kernel
/// counts. The process may have ended, if it is not reaped yet.
fn waited_for_a_cpu(pid: i32) -> Duration {
    let counts = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let waited = counts.split_ascii_whitespace().nth(1);
    Duration::from_nanos(waited.and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

/// Returns how long the host has given this machine's CPUs to other guests, summed over all CPUs.
fn taken_by_the_host() -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    let counts = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let of_all = counts.lines().next().unwrap_or_default();
    // "cpu", user nice system idle iowait irq softirq steal
    let steal = of_all.split_ascii_whitespace().nth(8);
    TICK * steal.and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// Output of a tracer that has ended.
pub struct Trace {
    /// Exit status.
    pub status: ExitStatus,
    /// Its messages beside the events.
    pub stderr: String,
    summary: Option<Summary>,
    tracer: Tracer,
}

impl Trace {
    /// Returns its last line.
    ///
    /// # Errors
    ///
    /// It printed none.
    pub fn summary(&self) -> anyhow::Result<&Summary> {
        let no_summary = || format!("no summary ({}): {}", self.status, self.stderr);
        self.summary.as_ref().with_context(no_summary)
    }

    /// Returns all events.
    ///
    /// # Errors
    ///
    /// A line is not as documented.
    pub fn events(&self) -> anyhow::Result<Vec<Event>> {
        let mut events = Vec::new();
        for line in self.lines()? {
            if let Line::Event(event) = Line::parse(&line?)? {
                events.push(event);
            }
        }
        Ok(events)
    }

    /// Returns every line, to be looked at one by one where there are millions.
    ///
    /// # Errors
    ///
    /// The output is gone.
    pub fn lines(&self) -> anyhow::Result<impl Iterator<Item = std::io::Result<String>> + use<>> {
        let file = File::open(self.tracer.output())?;
        Ok(BufReader::with_capacity(1 << 20, file).lines())
    }
}

/// Reads the summary, from the end of the output.
fn summary_of(path: &Path) -> anyhow::Result<Option<Summary>> {
    /// Bytes that are more than the summary's line can have.
    const TAIL: u64 = 4 << 20;
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let tail = String::from_utf8_lossy(&tail);
    match tail.lines().next_back() {
        Some(line) if line.starts_with("{\"summary\"") => match Line::parse(line)? {
            Line::Summary(summary) => Ok(Some(summary)),
            Line::Event(_) => Ok(None),
        },
        _ => Ok(None),
    }
}
