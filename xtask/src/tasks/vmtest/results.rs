//! Results of each test on each kernel: a file of the repository, to which every run adds, and a
//! document that is made of it. A line with a kernel and its guest begins the results of that
//! kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};

use anyhow::{Context as _, bail, ensure};

use super::kernels::{KERNELS, WITHOUT_PACKAGE};
use super::machine::Processors;
use super::selection::Case;
use super::{arm64, selection};
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

/// Path of the document.
const TABLE: &str = "docs/kernel-tests.md";

/// Writes the document.
pub fn write() -> anyhow::Result<()> {
    let path = workspace::root().join(TABLE);
    fs::write(&path, made()?).with_context(|| path.display().to_string())
}

/// Fails when the document does not match the results.
pub fn check() -> anyhow::Result<()> {
    let path = workspace::root().join(TABLE);
    let there = fs::read_to_string(&path).with_context(|| TABLE.to_owned())?;
    ensure!(
        there == made()?,
        "{TABLE} is not up to date; run: cargo xtask vmtest --table"
    );
    Ok(())
}

fn made() -> anyhow::Result<String> {
    let mut all = load()?;
    let mut kernels = Vec::new();
    let names = KERNELS.iter().map(|(name, _)| *name);
    let names = names.chain([WITHOUT_PACKAGE]);
    for name in names.chain(arm64::KERNELS.iter().map(|(name, _)| *name)) {
        kernels.push((name, all.remove(name).unwrap_or_default()));
    }
    let impossible: Vec<_> = selection::impossible(Processors::Software).collect();
    Ok(render(&kernels, &impossible))
}

const HEAD: &str = "# The tests that load eBPF, on each kernel

Made by `cargo xtask vmtest` from `tests/kernels/results.tsv`, which it adds to and which has each test; do not edit.
[kernel-support.md](kernel-support.md) describes the guests.
";

fn render(kernels: &[(&str, Results)], impossible: &[(&str, &str)]) -> String {
    let mut text = format!(
        "{HEAD}\n| kernel | guest | passed | did not pass | not run |\n|---|---|---|---|---|\n"
    );
    let cases: BTreeSet<&Case> = kernels.iter().flat_map(|(_, of)| of.rows.keys()).collect();
    for (name, results) in kernels {
        let rows = results.rows.values();
        let passed = rows.filter(|row| row.verdict == Verdict::Passed).count();
        let (all, ran) = (cases.len(), results.rows.len());
        let guest = &results.guest;
        let (failed, missing) = (ran - passed, all - ran);
        let _ = writeln!(
            text,
            "| {name} | {guest} | {passed} | {failed} | {missing} |"
        );
    }
    text.push_str("\n## What did not pass\n\n");
    for (name, results) in kernels {
        for (case, row) in &results.rows {
            if row.verdict != Verdict::Passed {
                let why = if row.why.is_empty() {
                    "not known yet"
                } else {
                    &row.why
                };
                let _ = writeln!(
                    text,
                    "- {name}, `{}`: {}: {why}",
                    case.test,
                    row.verdict.name()
                );
            }
        }
    }
    text.push_str("\n## What cannot run in a guest with processors in software\n\n");
    for (test, why) in impossible {
        let _ = writeln!(text, "- `{test}`: {why}");
    }
    text
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

    #[test]
    fn every_kernel_has_a_row_and_every_failure_its_reason() {
        let case = Case::parse("tests.x a::b").unwrap();
        let (mut one, two) = (Results::default(), Results::default());
        one.note(case.clone(), Verdict::Late, 3);
        one.rows.get_mut(&case).unwrap().why = "slow".to_owned();
        let text = render(&[("6.1", one), ("6.12", two)], &[("c", "no disk")]);

        assert!(text.contains("- 6.1, `a::b`: late: slow\n"), "{text}");
        assert!(text.contains("- `c`: no disk\n"), "{text}");
        assert!(text.contains("| 6.1 |  | 0 | 1 | 0 |\n"), "{text}");
        assert!(text.contains("| 6.12 |  | 0 | 0 | 1 |\n"), "{text}");
    }
}
