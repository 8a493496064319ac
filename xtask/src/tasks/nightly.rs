//! `cargo xtask nightly`: the tests that continuous integration leaves out, since they take hours.
//!
//! Each part is a task of its own, which runs even if others fail.

use std::fmt;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::process;
use crate::tasks::miri;

/// Task, and the reason why it does not run on this machine, if there is one.
struct Part {
    /// Name on the command line.
    name: &'static str,
    /// Arguments of `cargo xtask`.
    words: &'static [&'static str],
    /// Check that names a prerequisite this machine lacks and no task installs.
    missing: fn() -> Option<&'static str>,
}

const fn part(name: &'static str, words: &'static [&'static str]) -> Part {
    Part {
        name,
        words,
        missing: || None,
    }
}

/// Parts: the tests on this machine first, then those that take hours.
const PARTS: [Part; 14] = [
    part("lint", &["lint"]),
    part("object", &["build-ebpf", "--check"]),
    part("python", &["wheel", "--test"]),
    part("fleet", &["fleet"]),
    part("shipper", &["ship", "--test", "--long"]),
    part("whole", &["test", "--whole", "--postgresql", "--ros"]),
    part("coarse-clock", &["test", "--coarse-clock"]),
    part("arm64", &["test", "--arch", "aarch64"]),
    Part {
        name: "miri",
        words: &["miri"],
        missing: || (!miri::is_there()).then_some("no nightly toolchain with Miri"),
    },
    part("crates", &["package", "--crates"]),
    part("packages", &["package", "--test"]),
    part("stress", &["stress"]),
    part("kernels", &["vmtest"]),
    part("kernels-arm64", &["vmtest", "--arch", "aarch64"]),
];

/// Selection of parts.
#[derive(clap::Args)]
pub struct Args {
    /// Only this part; may be given more than once
    #[arg(long, value_name = "PART", value_parser = names())]
    only: Vec<String>,
    /// Not this part; may be given more than once
    #[arg(long, value_name = "PART", value_parser = names(), conflicts_with = "only")]
    skip: Vec<String>,
}

fn names() -> Vec<&'static str> {
    PARTS.iter().map(|part| part.name).collect()
}

impl Args {
    fn has(&self, name: &str) -> bool {
        let is_in = |list: &[String]| list.iter().any(|other| other == name);
        (self.only.is_empty() || is_in(&self.only)) && !is_in(&self.skip)
    }
}

/// Result of a part.
enum Verdict {
    Passed,
    Failed(String),
    LeftOut(&'static str),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed(why) => write!(f, "FAILED: {why}"),
            Self::LeftOut(why) => write!(f, "left out: {why}"),
        }
    }
}

/// Runs the parts one after the other, and sums up at the end.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut verdicts = Vec::new();
    for part in PARTS.iter().filter(|part| args.has(part.name)) {
        let begin = Instant::now();
        verdicts.push((part.name, verdict(part), begin.elapsed()));
    }
    println!("\n{}", summary(&verdicts));
    let failed = verdicts.iter();
    let failed = failed.filter(|(_, verdict, _)| matches!(verdict, Verdict::Failed(_)));
    let failed = failed.count();
    ensure!(failed == 0, "{failed} of {} parts failed", verdicts.len());
    Ok(())
}

fn verdict(part: &Part) -> Verdict {
    println!(
        "\n===== {}: cargo xtask {}",
        part.name,
        part.words.join(" ")
    );
    if let Some(why) = (part.missing)() {
        println!("left out: {why}");
        return Verdict::LeftOut(why);
    }
    match perform(part.words) {
        Ok(()) => Verdict::Passed,
        Err(error) => Verdict::Failed(format!("{error:#}")),
    }
}

/// Runs the task in a process of its own, in which a test that cannot run is a failure, as in
/// continuous integration.
fn perform(words: &[&str]) -> anyhow::Result<()> {
    // By this name it is there though a build has replaced its file meanwhile.
    process::run(Command::new("/proc/self/exe").args(words).env("CI", "true"))
}

/// Formats a line for each part.
fn summary(verdicts: &[(&str, Verdict, Duration)]) -> String {
    let line = |(name, verdict, took): &(&str, Verdict, Duration)| {
        let minutes = took.as_secs().div_ceil(60);
        format!("{name:<14} {minutes:>4} min  {verdict}\n")
    };
    verdicts.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_of_each_part_how_it_went() {
        let text = summary(&[
            (
                "whole",
                Verdict::Failed("2 tests failed".into()),
                Duration::from_secs(61),
            ),
            ("miri", Verdict::LeftOut("no Miri"), Duration::ZERO),
            ("stress", Verdict::Passed, Duration::from_secs(60)),
        ]);
        assert_eq!(
            text,
            "whole             2 min  FAILED: 2 tests failed\n\
             miri              0 min  left out: no Miri\n\
             stress            1 min  passed\n"
        );
    }

    #[test]
    fn parts_are_chosen_by_name() {
        let args = |only: &[&str], skip: &[&str]| Args {
            only: only.iter().map(ToString::to_string).collect(),
            skip: skip.iter().map(ToString::to_string).collect(),
        };
        let chosen = |args: Args| names().into_iter().filter(|name| args.has(name)).count();
        assert_eq!(chosen(args(&[], &[])), PARTS.len());
        assert_eq!(chosen(args(&["miri"], &[])), 1);
        assert_eq!(chosen(args(&[], &["miri", "stress"])), PARTS.len() - 2);
    }

    #[test]
    fn a_part_that_fails_says_by_what() {
        // Not a task of this program, which here is that of the unit tests.
        let error = perform(&["--no-such-option"]).unwrap_err().to_string();
        assert!(error.contains("--no-such-option"), "{error}");
    }
}
