//! Document with the result of each test on each kernel.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, ensure};

use super::arm64;
use super::cases::Case;
use super::kernels::{KERNELS, WITHOUT_PACKAGE};
use super::machine::Processors;
use super::results::{self, Results, Verdict};
use super::selection;
use crate::workspace;

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
    let mut all = results::load()?;
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
