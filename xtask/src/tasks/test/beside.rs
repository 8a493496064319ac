//! The lint, beside tests that leave processors idle.

use std::fs::{self, File};
use std::process::Command;

use anyhow::Context as _;

use crate::{process, workspace};

/// Runs `cargo xtask lint` in a process of its own, below the tests' priority, and shows its output
/// at its end.
pub fn lint() -> anyhow::Result<()> {
    let path = workspace::target("lint.log");
    let output = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let xtask = workspace::cargo("xtask");
    let outcome = process::run(
        Command::new("nice")
            .arg(xtask.get_program())
            .args(xtask.get_args())
            .arg("lint")
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
