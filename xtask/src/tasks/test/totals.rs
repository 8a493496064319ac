//! How tests went, read from what libtest prints.

use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::ops::AddAssign as _;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::process;

/// Tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Ran and succeeded.
    pub passed: u64,
    /// Ran and did not.
    pub failed: u64,
    /// Did not run.
    pub ignored: u64,
}

impl Totals {
    /// Adds the results of other tests.
    pub fn add(&mut self, other: Self) {
        self.passed.add_assign(other.passed);
        self.failed.add_assign(other.failed);
        self.ignored.add_assign(other.ignored);
    }

    /// The results in a line that closes a test executable's output, or `None` for another line.
    pub fn of_line(line: &str) -> Option<Self> {
        let (_, results) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let number_of = |word: &str| {
            let part = results
                .split(';')
                .find_map(|part| part.trim().strip_suffix(word));
            part.and_then(|number| number.trim().parse().ok())
        };
        Some(Self {
            passed: number_of("passed")?,
            failed: number_of("failed")?,
            ignored: number_of("ignored")?,
        })
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            ignored,
        } = self;
        write!(f, "total: {passed} passed, {failed} failed")?;
        match ignored {
            0 => Ok(()),
            ignored => write!(f, ", {ignored} skipped"),
        }
    }
}

/// Runs `command`, shows what it prints and adds up the results in it. Also tells whether the
/// command succeeded.
pub fn of(command: &mut Command) -> anyhow::Result<(Totals, bool)> {
    let shown = process::shown(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run: {shown}"))?;
    let mut totals = Totals::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.with_context(|| format!("cannot read the output of: {shown}"))?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            if let Some(results) = Totals::of_line(&line) {
                totals.add(results);
            }
        }
    }
    let status = child.wait().with_context(|| format!("lost: {shown}"))?;
    Ok((totals, status.success()))
}

#[cfg(test)]
mod tests {
    use super::Totals;

    #[test]
    fn the_results_are_read_from_the_closing_line() {
        let line = "test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; \
                    4 filtered out; finished in 0.01s";
        let totals = Totals {
            passed: 3,
            failed: 1,
            ignored: 2,
        };
        assert_eq!(Totals::of_line(line), Some(totals));
        assert_eq!(Totals::of_line("test a_test ... ok"), None);
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
    }
}
