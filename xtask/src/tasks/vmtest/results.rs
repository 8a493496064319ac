//! Results of each test on each kernel: a file of the repository, to which every run adds. A line
//! with a kernel and its guest begins the results of that kernel.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};

use anyhow::{Context as _, bail};

use super::cases::Case;
use crate::workspace;

/// Path of the file.
const FILE: &str = "tests/kernels/results.tsv";

/// Beginning of the line of a kernel.
const KERNEL: &str = "# ";

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// Package, clock and processors.
    pub guest: String,
    /// Results by test.
    pub rows: BTreeMap<Case, Row>,
}

impl Results {
    /// Reads the repository's results of this kernel; empty when there are none.
    pub fn load(kernel: &str) -> anyhow::Result<Self> {
        Ok(load()?.remove(kernel).unwrap_or_default())
    }

    /// Writes the results back. Those of other kernels stay as they are by then.
    pub fn save(&self, kernel: &str) -> anyhow::Result<()> {
        fs::create_dir_all(workspace::target("vm"))?;
        let lock = workspace::target("vm/results.lock");
        let lock = File::create(&lock).with_context(|| lock.display().to_string())?;
        lock.lock()?;
        let mut all = load()?;
        all.insert(kernel.to_owned(), self.clone());
        let path = workspace::root().join(FILE);
        let new = path.with_extension("new");
        let write = || -> anyhow::Result<()> {
            fs::write(&new, to_text(&all))?;
            Ok(fs::rename(&new, &path)?)
        };
        write().with_context(|| format!("cannot write {FILE}"))
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
}

/// Reads the results of all kernels, by name.
pub fn load() -> anyhow::Result<BTreeMap<String, Results>> {
    let text = fs::read_to_string(workspace::root().join(FILE)).context(FILE)?;
    parse(&text).context(FILE)
}

fn to_text(all: &BTreeMap<String, Results>) -> String {
    let mut text = String::new();
    for (kernel, results) in all {
        let _ = writeln!(text, "{KERNEL}{kernel}\t{}", results.guest);
        for (case, row) in &results.rows {
            let (verdict, seconds, why) = (row.verdict.name(), row.seconds, &row.why);
            let line = format!("{verdict}\t{seconds}\t{}\t{}\t{why}", case.file, case.test);
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    text
}

fn parse(text: &str) -> anyhow::Result<BTreeMap<String, Results>> {
    let mut all = BTreeMap::new();
    let mut of_kernel: Option<&mut Results> = None;
    for line in text.lines() {
        if let Some(begin) = line.strip_prefix(KERNEL) {
            let (kernel, guest) = begin.split_once('\t').context("no kernel and guest")?;
            let results = all
                .entry(kernel.to_owned())
                .or_insert_with(Results::default);
            guest.clone_into(&mut results.guest);
            of_kernel = Some(results);
            continue;
        }
        let results = of_kernel.as_mut().context("a result of no kernel")?;
        let (case, row) = parse_row(line)?;
        results.rows.insert(case, row);
    }
    Ok(all)
}

fn parse_row(line: &str) -> anyhow::Result<(Case, Row)> {
    let mut fields = line.split('\t');
    let mut next = || fields.next().map(str::to_owned);
    let (Some(verdict), Some(seconds), Some(file), Some(test)) = (next(), next(), next(), next())
    else {
        bail!("no verdict, seconds, file and test: {line}");
    };
    let row = Row {
        verdict: Verdict::named(&verdict).with_context(|| format!("unknown: {verdict}"))?,
        seconds: seconds.parse().with_context(|| line.to_owned())?,
        why: next().unwrap_or_default(),
    };
    Ok((Case { file, test }, row))
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

        let other = Results {
            guest: "another".to_owned(),
            ..Results::default()
        };
        let all = BTreeMap::from([("6.1".to_owned(), results), ("6.12".to_owned(), other)]);
        let text = to_text(&all);
        assert_eq!(parse(&text).unwrap(), all, "{text}");
        assert!(parse("# 6.1\tx\nmaybe\t1\tx\ty\n").is_err());
        assert!(parse("# 6.1\tx\npassed\t1\tx\n").is_err());
        assert!(parse("passed\t1\tx\ty\n").is_err());
    }

    #[test]
    fn the_repositorys_results_are_in_order() {
        let text = fs::read_to_string(workspace::root().join(FILE)).unwrap();
        assert!(to_text(&load().unwrap()) == text);
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
