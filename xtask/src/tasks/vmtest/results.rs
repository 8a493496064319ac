//! Results of each test on a kernel: a file of the repository, to which every run adds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, bail};

use super::cases::Case;
use crate::workspace;

/// Folder of the files.
const FOLDER: &str = "tests/kernels";

/// Result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Ran and succeeded.
    Passed,
    /// Ran and failed.
    Failed,
    /// Was ended, since it took too long.
    Late,
    /// Was running when the guest ended.
    Died,
}

impl Verdict {
    /// All verdicts, by name.
    pub const NAMES: [(&str, Self); 4] = [
        ("passed", Self::Passed),
        ("failed", Self::Failed),
        ("late", Self::Late),
        ("died", Self::Died),
    ];

    /// Finds the verdict of this name.
    pub fn named(name: &str) -> Option<Self> {
        let mut names = Self::NAMES.iter();
        names.find(|(known, _)| *known == name).map(|(_, it)| *it)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Late => "late",
            Self::Died => "died",
        }
    }
}

/// Result of one test, with a remark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Verdict.
    pub verdict: Verdict,
    /// Duration in seconds.
    pub seconds: u64,
    /// Remark by people on a test that did not pass.
    pub why: String,
}

/// Results of all tests on one kernel.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// Package, clock and processors.
    pub guest: String,
    /// Results by test.
    pub rows: BTreeMap<Case, Row>,
}

impl Results {
    /// Reads the repository's results of this kernel; empty when there are none.
    pub fn load(kernel: &str) -> anyhow::Result<Self> {
        let path = path(kernel);
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// Writes the results back, replacing the whole file.
    pub fn save(&self, kernel: &str) -> anyhow::Result<()> {
        let path = path(kernel);
        let new = path.with_extension("new");
        let write = || -> anyhow::Result<()> {
            fs::create_dir_all(workspace::root().join(FOLDER))?;
            fs::write(&new, self.to_text())?;
            Ok(fs::rename(&new, &path)?)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    /// Stores the result of a test. A remark by people stays as long as the verdict does.
    pub fn note(&mut self, case: Case, verdict: Verdict, seconds: u64) {
        let why = self.rows.get(&case).filter(|row| row.verdict == verdict);
        let why = why.map(|row| row.why.clone()).unwrap_or_default();
        let row = Row {
            verdict,
            seconds,
            why,
        };
        self.rows.insert(case, row);
    }

    /// Tells whether this test is known to pass.
    pub fn has_passed(&self, case: &Case) -> bool {
        let row = self.rows.get(case);
        row.is_some_and(|row| row.verdict == Verdict::Passed)
    }

    fn to_text(&self) -> String {
        let mut text = format!("# {}\n", self.guest);
        for (case, row) in &self.rows {
            let (verdict, seconds, why) = (row.verdict.name(), row.seconds, &row.why);
            let line = format!("{verdict}\t{seconds}\t{}\t{}\t{why}", case.file, case.test);
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut results = Self::default();
        for line in text.lines() {
            if let Some(guest) = line.strip_prefix("# ") {
                results.guest = guest.to_owned();
                continue;
            }
            let mut fields = line.split('\t');
            let mut next = || fields.next().map(str::to_owned);
            let (Some(verdict), Some(seconds), Some(file), Some(test)) =
                (next(), next(), next(), next())
            else {
                bail!("no verdict, seconds, file and test: {line}");
            };
            let row = Row {
                verdict: Verdict::named(&verdict).with_context(|| format!("unknown: {verdict}"))?,
                seconds: seconds.parse().with_context(|| line.to_owned())?,
                why: next().unwrap_or_default(),
            };
            results.rows.insert(Case { file, test }, row);
        }
        Ok(results)
    }
}

fn path(kernel: &str) -> PathBuf {
    workspace::root().join(FOLDER).join(format!("{kernel}.tsv"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(test: &str) -> Case {
        Case {
            file: "tests.x".to_owned(),
            test: test.to_owned(),
        }
    }

    #[test]
    fn results_are_read_as_they_are_written() {
        let mut results = Results {
            guest: "linux-image-6.1.0-1-amd64".to_owned(),
            ..Results::default()
        };
        results.note(case("a"), Verdict::Passed, 3);
        results.note(case("b"), Verdict::Late, 300);
        results.rows.get_mut(&case("b")).unwrap().why = "it waits for ever".to_owned();

        let text = results.to_text();
        assert_eq!(Results::parse(&text).unwrap(), results, "{text}");
        assert!(Results::parse("maybe\t1\tx\ty\n").is_err());
        assert!(Results::parse("passed\t1\tx\n").is_err());
    }

    #[test]
    fn what_was_found_out_stays_until_the_test_goes_otherwise() {
        let mut results = Results::default();
        results.note(case("a"), Verdict::Failed, 3);
        results.rows.get_mut(&case("a")).unwrap().why = "slow".to_owned();
        results.note(case("a"), Verdict::Failed, 4);
        assert_eq!(results.rows[&case("a")].why, "slow");
        assert!(!results.has_passed(&case("a")));
        results.note(case("a"), Verdict::Passed, 4);
        assert_eq!(results.rows[&case("a")].why, "");
        assert!(results.has_passed(&case("a")));
    }

    #[test]
    fn every_verdict_has_the_name_it_is_found_by() {
        for (name, verdict) in Verdict::NAMES {
            assert_eq!(verdict.name(), name);
        }
    }
}
