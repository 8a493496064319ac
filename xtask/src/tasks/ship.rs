//! The shipper: a program of its own, which no other build compiles, and its tests with
//! servers of S3 and OTLP.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tasks::dist;
use crate::{node, packages, privilege, process, python, workspace};

/// Arguments of the task.
#[derive(clap::Args)]
pub struct Args {
    /// As it is shipped: all crates optimized as a whole
    #[arg(long)]
    shipped: bool,
    /// Also run its tests
    #[arg(long)]
    test: bool,
    /// With --test, have the server be away for ten minutes
    #[arg(long, requires = "test")]
    long: bool,
}

/// Crate of the shipper.
const CRATE: &str = "--package=tracer-ship";

/// Test with servers.
const TEST: &str = "tests/python/ship.py";

/// Builds the shipper; where it is asked for, tests it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let program = build(if args.shipped { "shipped" } else { "dev" })?;
    println!("{}", program.display());
    if args.test {
        process::run(workspace::cargo_for_tests("test").args([CRATE, "--quiet"]))?;
        run_with_servers(&program, args.long)?;
    }
    Ok(())
}

/// Builds the shipper by a profile of cargo.
///
/// # Errors
///
/// It cannot be built.
pub fn build(profile: &str) -> anyhow::Result<PathBuf> {
    process::run(workspace::cargo_for_tests("build").args([
        CRATE,
        "--quiet",
        "--profile",
        profile,
    ]))?;
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(workspace::target(folder).join("tracer-ship"))
}

/// Ships slices of real programs, one of which takes several parts to upload.
fn run_with_servers(program: &Path, is_long: bool) -> anyhow::Result<()> {
    packages::install_missing(packages::TO_TEST_SHIPPING.iter().chain(packages::FOR_NODE))?;
    let folder = workspace::target("ship");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let dist = dist::run_for_tests()?;
    let (tool, library) = (dist.join("bin/tracer-user"), dist.join("lib"));
    let traced = folder.join("spans");
    process::run(
        Command::new("cc")
            .arg("-I")
            .arg(dist.join("include"))
            .arg(workspace::root().join("tests/programs/causes.c"))
            .arg("-o")
            .arg(&traced)
            .arg(library.join("libposixtrace.so"))
            .arg(format!("-Wl,-rpath,{}", library.display()))
            .arg("-lpthread"),
    )?;
    let logs = [folder.join("spans.log"), folder.join("calls.log")];
    let [spans, calls] = &logs;
    let files = folder.join("files");
    fs::create_dir(&files)?;
    let record = || privilege::as_root(&tool, "record what is shipped");
    process::run(
        record()?
            .args(["run", "--log"])
            .arg(spans)
            .arg("--")
            .arg(&traced)
            .args(["30", "1"])
            .arg(files),
    )?;
    process::run(
        record()?
            .args(["run", "--events", RECORDED])
            .args(["--ring-size", "32M", "--stream-size", "64M", "--log"])
            .arg(calls)
            .args(["--", "sh", "-c", MANY_CALLS]),
    )?;
    let mut test = privilege::as_root("env", "fill a small disk")?;
    test.arg(format!("AZURITE={}", node::azurite()?.display()));
    if is_long {
        test.arg("AWAY_SECONDS=600");
    }
    test.arg(python::for_fleets()?);
    process::run(
        test.arg(workspace::root().join(TEST))
            .arg(program)
            .arg(&tool)
            .args(&logs),
    )
}

/// Command of the large slice. It looks at as many files on any machine that has them.
const MANY_CALLS: &str = "find /usr | head -n 50000 | xargs -d '\\n' ls -ld > /dev/null";

/// Families of events of the large slice.
const RECORDED: &str = "fork,exec,exit,switch,wakeup,syscall";
