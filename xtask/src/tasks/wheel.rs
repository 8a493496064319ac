//! Python package: a wheel for Python 3.9 and later, and its tests.
//!
//! Tests run in two environments: an empty one, without a network, and one with the packages that
//! take tables.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::tasks::test::binaries::SELECTION;
use crate::{process, python, workspace};

/// Arguments of the task.
#[derive(clap::Args)]
pub struct Args {
    /// As it is shipped: all crates optimized as a whole
    #[arg(long)]
    shipped: bool,
    /// Also run the notebook of the documentation
    #[arg(long)]
    test: bool,
}

/// Folder of the package.
const PACKAGE: &str = "tracer-user/python";

/// Notebook of the documentation.
const NOTEBOOK: &str = "docs/python.ipynb";

/// Makes the wheel; where it is asked for, runs the notebook with it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let wheel = build(if args.shipped { "shipped" } else { "dev" })?;
    println!("{}", wheel.display());
    if args.test {
        environments(&wheel)?;
        run_notebook()?;
    }
    Ok(())
}

/// Builds the wheel by a profile of cargo.
///
/// # Errors
///
/// It cannot be built.
pub fn build(profile: &str) -> anyhow::Result<PathBuf> {
    let out = workspace::target("wheels");
    // Of several the newest would have to be guessed.
    let _ = fs::remove_dir_all(&out);
    let maturin = python::for_wheels()?;
    process::run(
        Command::new(maturin)
            .args(["-m", "maturin", "build", "--quiet", "--locked"])
            .args(["--profile", profile, "--out"])
            .arg(&out)
            .arg("--target-dir")
            .arg(workspace::target(""))
            .arg("--manifest-path")
            .arg(workspace::root().join(PACKAGE).join("Cargo.toml")),
    )?;
    let wheels = fs::read_dir(&out).with_context(|| out.display().to_string())?;
    let mut paths = wheels.filter_map(|entry| Some(entry.ok()?.path()));
    match paths.find(|path| path.extension().is_some_and(|extension| extension == "whl")) {
        Some(wheel) => Ok(wheel),
        None => bail!("maturin has left no wheel in {}", out.display()),
    }
}

/// Builds the wheel as tests have it, and installs it into their environments.
///
/// # Errors
///
/// It cannot be built or installed.
pub fn for_tests() -> anyhow::Result<()> {
    environments(&build("dev")?)
}

/// Installs the wheel into an empty environment, and into the one with packages that take tables.
fn environments(wheel: &Path) -> anyhow::Result<()> {
    let empty = workspace::target("wheel-alone");
    process::run(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&empty),
    )?;
    for python in [empty.join("bin/python"), python::with_frames()?] {
        process::run(
            Command::new(python)
                .args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps"])
                .args(["--force-reinstall", "--disable-pip-version-check"])
                .arg(wheel),
        )?;
    }
    Ok(())
}

/// Runs the notebook of the documentation from its first cell to its last, with the log of a small
/// command, which takes root to record.
fn run_notebook() -> anyhow::Result<()> {
    let folder = workspace::target("notebook");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let log = folder.join("x.log");
    // As the tests have it, so that it is built once.
    process::run(
        workspace::cargo_for_tests("build")
            .args(SELECTION)
            .args(["--quiet", "--bin=tracer-user"]),
    )?;
    process::run(
        Command::new(workspace::target("debug/tracer-user"))
            .args(["run", "--events", RECORDED, "--ring-size", "32M", "--log"])
            .arg(&log)
            .args(["--", "sh", "-c", "ls -lR /usr/lib > /dev/null; sleep 0.05"]),
    )?;
    process::run(
        Command::new(python::with_frames()?)
            .args([
                "-m",
                "nbconvert",
                "--execute",
                "--to",
                "html",
                "--output-dir",
            ])
            .arg(&folder)
            .arg(workspace::root().join(NOTEBOOK))
            .env("LOG", log),
    )
}

/// Families of events that are recorded for the notebook.
const RECORDED: &str = "fork,exec,exit,switch,wakeup,syscall";
