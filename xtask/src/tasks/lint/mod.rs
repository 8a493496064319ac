//! Formatting and lints, for the host's crates and for the eBPF crate with its own target;
//! directions of dependencies between crates, and their licences.

mod actors;
mod beginnings;
mod columns;
mod dependencies;
mod directions;
mod doctests;
mod names;

use std::env;
use std::fs::{self, File};
use std::panic::resume_unwind;
use std::process::Command;
use std::thread;

use anyhow::{Context as _, ensure};

use crate::tasks::{build_ebpf, conformance, header, interface, json, man, setup, vmtest};
use crate::{node, process, workspace};

/// Selection of checks.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only what takes seconds: long lines, wrong beginnings, unnamed actors, names, formatting
    #[arg(long)]
    text: bool,
    /// Neither clippy, by which the tests are compiled then, nor the pages of the crates'
    /// documentation, nor the lists of what is public
    #[arg(long)]
    beside_tests: bool,
}

/// Fails on every finding.
pub fn run(args: &Args) -> anyhow::Result<()> {
    text()?;
    if args.text {
        return Ok(());
    }
    setup::for_linting()?;
    conformance::run(&conformance::Args { check: true })?;
    man::run(&man::Args { check: true })?;
    header::run(&header::Args { check: true })?;
    json::run(&json::Args { check: true })?;
    vmtest::results::check()?;
    directions::check()?;
    dependencies::check()?;
    process::run(&mut page())?;
    if !args.beside_tests {
        interface::run(&interface::Args { check: true })?;
        process::run(
            workspace::cargo_for_host("clippy")
                .args(["--workspace", "--exclude=tracer-ebpf", "--all-targets"])
                .args(["--", "-D", "warnings"]),
        )?;
        process::run(
            workspace::cargo_for_host("doc")
                .args([
                    "--quiet",
                    "--no-deps",
                    "--workspace",
                    "--exclude=tracer-ebpf",
                ])
                .env("RUSTDOCFLAGS", "-D warnings"),
        )?;
    }
    if !build_ebpf::is_noted()? {
        build_ebpf::lint()?;
    }
    without_shared_memory()
}

/// Runs `cargo xtask lint --beside-tests` in a process of its own, where the tests leave processors
/// idle, and shows its output at its end.
pub fn run_beside() -> anyhow::Result<()> {
    let path = workspace::target("lint.log");
    let output = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let this = env::current_exe().context("this program has no path")?;
    let outcome = process::run(
        Command::new("chrt")
            .args(["--idle", "0"])
            .arg(this)
            .args(["lint", "--beside-tests"])
            .current_dir(workspace::root())
            .stdout(output.try_clone()?)
            .stderr(output),
    );
    let said = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    println!(
        "\n     cargo xtask lint\n{}",
        String::from_utf8_lossy(&said)
    );
    outcome.context("the lint has findings: they are above")
}

/// Runs the checks that need no compiler, and reports all their findings at once.
fn text() -> anyhow::Result<()> {
    let format = || process::run(workspace::cargo("fmt").args(["--all", "--", "--check"]));
    let checks: [fn() -> anyhow::Result<()>; 6] = [
        format,
        columns::check,
        beginnings::check,
        actors::check,
        names::check,
        doctests::check,
    ];
    let failures: Vec<String> = thread::scope(|scope| {
        let checks = checks.map(|check| scope.spawn(check));
        let outcomes =
            checks.map(|check| check.join().unwrap_or_else(|panic| resume_unwind(panic)));
        let failures = outcomes.into_iter().filter_map(Result::err);
        failures.map(|error| error.to_string()).collect()
    });
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// Returns the command that checks the types of the modules of a report's page.
fn page() -> Command {
    let mut command = Command::new(node::modules().join(".bin/tsc"));
    command
        .arg("--project")
        .arg(workspace::root().join("tracer-user/answers/page"));
    command
}

/// Target that has neither shared memory nor processes.
const PLAIN_TARGET: &str = "wasm32-wasip1";

/// Checks that the crate that reads logs compiles for that target.
fn without_shared_memory() -> anyhow::Result<()> {
    setup::add_target(PLAIN_TARGET)?;
    process::run(workspace::cargo_for_host("check").args([
        "--quiet",
        "--package=tracer-log",
        "--target",
        PLAIN_TARGET,
    ]))
}
