//! Tests that run as programs for arm64, on this machine.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{bail, ensure};

use super::totals::{self, Totals};
use crate::tasks::arm64;
use crate::workspace;

/// Crates whose unit tests need neither a kernel that knows the machine nor the command line.
const CRATES: [&str; 6] = [
    "--package=tracer-common",
    "--package=tracer-engine",
    "--package=tracer-log",
    "--package=tracer-area",
    "--package=tracer-posix",
    "--package=libposixtrace",
];

/// Modules of the test `standard` that are known to run by emulation. Not those with logs, whose
/// process begins by a `clone()` that the emulator refuses, nor those that exec programs, which
/// this machine's kernel does not start, nor those of busy threads, signals and limits, where the
/// emulator differs from a kernel.
const OF_STANDARD: [&str; 4] = ["attributes::", "policies::", "reading::", "sets::"];

/// Runs these tests.
pub fn run(filter: Option<&str>) -> anyhow::Result<()> {
    arm64::set_up()?;
    let dist = arm64::library()?;
    let mut units = arm64::cargo("test");
    units.args(CRATES).args(["--lib", "--no-fail-fast"]);
    units.args(filter);
    let mut totals = run_tests(&mut units)?;

    // These run here, and start programs for arm64.
    let mut standard = workspace::cargo_for_host("test");
    standard
        .args(["--package=tests", "--test=standard", "--no-fail-fast"])
        .env("TRACER_DIST", dist)
        .env("TRACER_COMPILER", format!("{}gcc", arm64::TOOLS))
        .env("TRACER_RUNNER", OsString::from(arm64::RUNNER.join(" ")));
    standard.arg("--");
    match filter {
        Some(filter) => standard.arg(filter),
        // Another module's name ends like one of these: its logs are of those that cannot run.
        None => standard
            .args(OF_STANDARD)
            .args(["--skip", "log_policies::"]),
    };
    totals.add(run_tests(&mut standard)?);
    println!("\n{totals}");
    ensure!(totals.failed == 0, "{} tests failed", totals.failed);
    Ok(())
}

fn run_tests(command: &mut Command) -> anyhow::Result<Totals> {
    let outcome = totals::run(command)?;
    if !outcome.is_success && outcome.totals.failed == 0 {
        bail!("the tests cannot be built or run");
    }
    let mut totals = outcome.totals;
    totals.ignored = 0;
    Ok(totals)
}
