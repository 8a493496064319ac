//! Tests of order on programs that are built with a coarse clock: see the feature of that name.

use std::fs;

use anyhow::{Context as _, ensure};

use super::binaries::{self, Setting};
use super::environment;
use crate::tasks::{build_ebpf, for_c, recorder};
use crate::{privilege, process, workspace};

/// Folder of `tests/tests` that has them.
const EXECUTABLE: &str = "kernel";

/// Its files that test the order of events.
const FILES: [&str; 5] = ["order", "forks", "wakers", "switches", "signals"];

/// Folder of these builds: separate from the shipped programs.
const FOLDER: &str = "coarse-clock";

/// Builds, and runs the tests.
pub fn run(filter: Option<&str>) -> anyhow::Result<()> {
    privilege::check("run the tests that load eBPF")?;
    let dist = build()?;
    let variables = environment(&dist, false);

    let mut test = workspace::cargo_for_host("test");
    test.args(["--package=tests", "--test", EXECUTABLE]);
    let here = Setting::default();
    let mut totals = super::totals::Totals::default();
    for binary in binaries::build_by(&mut test)? {
        let mut names = binary.privileged()?;
        names.retain(|name| {
            let file = binary.file_of(name);
            FILES.contains(&file) && name.contains(filter.unwrap_or_default())
        });
        if !names.is_empty() {
            let outcome = binary.run_privileged(&names, &variables, &here, &mut |line| {
                println!("{line}");
            })?;
            totals.add(outcome.totals);
        }
    }
    println!("\n{totals}");
    ensure!(totals.passed > 0, "no test of order has such a name");
    ensure!(totals.failed == 0, "{} tests failed", totals.failed);
    Ok(())
}

/// Lays out the files that C programs and the tests need.
fn build() -> anyhow::Result<std::path::PathBuf> {
    build_ebpf::run()?;
    recorder::run()?;
    let folder = workspace::target(FOLDER);
    process::run(
        workspace::cargo("rustc")
            .args([
                "--package=libposixtrace",
                "--lib",
                "--features=coarse-clock",
            ])
            .arg("--crate-type=cdylib,staticlib")
            .arg("--target-dir")
            .arg(&folder),
    )?;
    process::run(
        workspace::cargo("build")
            .args(["--package=tracer-user", "--features=coarse-clock"])
            .arg("--target-dir")
            .arg(&folder),
    )?;
    let dist = folder.join("dist");
    for_c::lay_out(&format!("target/{FOLDER}/debug"), "", &dist)?;
    let program = folder.join("debug/tracer-user");
    fs::copy(&program, dist.join("bin/tracer-user"))
        .with_context(|| program.display().to_string())?;
    Ok(dist)
}
