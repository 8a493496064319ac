//! Results of tests, read from the output of libtest.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read};
use std::mem;
use std::ops::AddAssign as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::process;

/// Tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Ran and succeeded.
    pub passed: u64,
    /// Passed tests that had failed at first.
    pub unsteady: u64,
    /// Ran and failed.
    pub failed: u64,
    /// Did not run.
    pub ignored: u64,
}

impl Totals {
    /// Adds the results of other tests.
    pub fn add(&mut self, other: Self) {
        self.passed.add_assign(other.passed);
        self.unsteady.add_assign(other.unsteady);
        self.failed.add_assign(other.failed);
        self.ignored.add_assign(other.ignored);
    }

    /// Parses the results in a line that closes a test executable's output; `None` for another
    /// line.
    pub fn parse_line(line: &str) -> Option<Self> {
        let (_, results) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count_of = |word: &str| {
            let part = results
                .split(';')
                .find_map(|part| part.trim().strip_suffix(word));
            part.and_then(|count| count.trim().parse().ok())
        };
        Some(Self {
            passed: count_of("passed")?,
            unsteady: 0,
            failed: count_of("failed")?,
            ignored: count_of("ignored")?,
        })
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            unsteady,
            failed,
            ignored,
        } = self;
        write!(f, "total: {passed} passed, {failed} failed")?;
        if *unsteady > 0 {
            write!(f, ", {unsteady} unsteady (failed once, then passed)")?;
        }
        match ignored {
            0 => Ok(()),
            ignored => write!(f, ", {ignored} skipped"),
        }
    }
}

/// Time to wait for a command's output after the command has ended: a process that it left behind
/// may hold the output for ever.
const LEFT_BEHIND: Duration = Duration::from_secs(2);

/// Results of a command's tests.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Sum of all results in its output.
    pub totals: Totals,
    /// Tests that failed, as each executable lists them at its end.
    pub failed: Vec<Failure>,
    /// Whether the command succeeded.
    pub is_success: bool,
    /// How long each test took, of tests that run one after the other.
    pub took: Vec<(Duration, String)>,
}

/// Test that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// Its name.
    pub name: String,
    /// Its output, by line.
    pub printed: Vec<String>,
}

/// Last lines of a failed test's output that are shown a second time.
const LINES_SHOWN_AGAIN: usize = 40;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed: {}", self.name)?;
        let first = self.printed.len().saturating_sub(LINES_SHOWN_AGAIN);
        for line in self.printed.iter().skip(first) {
            write!(f, "\n    {line}")?;
        }
        Ok(())
    }
}

/// Runs `command`, shows its output and adds up the results in it.
pub fn run(command: &mut Command) -> anyhow::Result<Outcome> {
    run_shown(command, &mut |line| println!("{line}"))
}

/// Does the same as [`run`], but passes the output to `show`, line by line.
pub fn run_shown(command: &mut Command, show: &mut dyn FnMut(&str)) -> anyhow::Result<Outcome> {
    let shown = process::shown(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run: {shown}"))?;
    let mut outcome = Outcome::default();
    let mut listed = Failures::default();
    let lines = child.stdout.take().map(lines_of);
    let lines = lines.with_context(|| format!("no output of: {shown}"))?;
    let mut ended = None;
    let mut last = Instant::now();
    loop {
        match lines.recv_timeout(LEFT_BEHIND) {
            Ok(line) => {
                let line = line.with_context(|| format!("cannot read the output of: {shown}"))?;
                let line = String::from_utf8_lossy(&line);
                show(&line);
                listed.add(&line);
                if let Some(name) = ended_test(&line) {
                    outcome.took.push((last.elapsed(), name.to_owned()));
                }
                last = Instant::now();
                if let Some(results) = Totals::parse_line(&line) {
                    outcome.totals.add(results);
                    outcome.failed.append(&mut listed.take());
                }
            }
            Err(RecvTimeoutError::Timeout) if ended.is_some() => {
                show(&format!(
                    "a process that was left behind holds the output of: {shown}"
                ));
                return Ok(outcome);
            }
            Err(RecvTimeoutError::Timeout) => {
                ended = child.try_wait().with_context(|| format!("lost: {shown}"))?;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().with_context(|| format!("lost: {shown}"))?;
    outcome.is_success = status.success();
    Ok(outcome)
}

/// Returns the name of the test that a line says has ended.
fn ended_test(line: &str) -> Option<&str> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    matches!(result, "ok" | "FAILED").then_some(name)
}

/// Tests that failed, collected from the lines of an executable. It lists them twice: first with
/// their output, then by name alone.
#[derive(Default)]
struct Failures {
    is_in_list: bool,
    names: Vec<String>,
    printed: Vec<Failure>,
}

impl Failures {
    fn add(&mut self, line: &str) {
        if line == "failures:" {
            self.is_in_list = true;
            self.names.clear();
        } else if Totals::parse_line(line).is_some() {
            self.is_in_list = false;
        } else if !self.is_in_list {
        } else if let Some(name) = heading(line) {
            self.printed.push(Failure {
                name: name.to_owned(),
                printed: Vec::new(),
            });
        } else {
            if let Some(name) = line.strip_prefix("    ")
                && !name.contains(' ')
            {
                self.names.push(name.to_owned());
            }
            if let Some(last) = self.printed.last_mut() {
                last.printed.push(line.to_owned());
            }
        }
    }

    /// Takes the tests of the list by name, each with its output.
    fn take(&mut self) -> Vec<Failure> {
        let printed = mem::take(&mut self.printed);
        let failure = |name: String| {
            let there = printed.iter().find(|failure| failure.name == name);
            let printed = there.map(|failure| failure.printed.clone());
            Failure {
                name,
                printed: printed.unwrap_or_default(),
            }
        };
        self.names.drain(..).map(failure).collect()
    }
}

/// Returns the test whose output follows this line.
fn heading(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

/// Returns a channel of the lines of an output, until it ends or cannot be read.
fn lines_of(output: impl Read + Send + 'static) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n') {
            let is_last = line.is_err();
            if sender.send(line).is_err() || is_last {
                return;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::Totals;

    #[test]
    fn who_is_left_behind_is_not_waited_for() {
        let start = Instant::now();
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "echo 'test result: ok. 1 passed; 0 failed; 0 ignored;'; sleep 60 &",
        ]);
        let outcome = super::run(&mut command).unwrap();
        assert_eq!((outcome.totals.passed, outcome.is_success), (1, false));
        assert!(start.elapsed() < Duration::from_secs(50));
    }

    #[test]
    fn the_results_are_read_from_the_closing_line() {
        let line = "test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; \
                    4 filtered out; finished in 0.01s";
        let totals = Totals {
            passed: 3,
            failed: 1,
            ignored: 2,
            ..Totals::default()
        };
        assert_eq!(Totals::parse_line(line), Some(totals));
        assert_eq!(Totals::parse_line("test a_test ... ok"), None);
    }

    #[test]
    fn the_last_line_names_skipped_tests_only_where_there_are_some() {
        let mut totals = Totals {
            passed: 3,
            ..Totals::default()
        };
        assert_eq!(totals.to_string(), "total: 3 passed, 0 failed");
        totals.ignored = 2;
        assert_eq!(totals.to_string(), "total: 3 passed, 0 failed, 2 skipped");
        totals.unsteady = 1;
        let unsteady =
            "total: 3 passed, 0 failed, 1 unsteady (failed once, then passed), 2 skipped";
        assert_eq!(totals.to_string(), unsteady);
    }

    #[test]
    fn tests_that_failed_are_known_by_name() {
        let mut command = Command::new("printf");
        command.arg(
            "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\n    said\nstack backtrace:\n   0: b\n             at ./c.rs\n\n\n\
             failures:\n    a\n    d::e\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored;\n    f\n",
        );
        let outcome = super::run(&mut command).unwrap();
        let names = outcome.failed.iter().map(|failure| failure.name.as_str());
        assert!(names.eq(["a", "d::e"]));
        assert_eq!(
            outcome.failed[0].to_string().lines().nth(1),
            Some("        said")
        );
        assert_eq!(outcome.totals.failed, 2);
    }
}
