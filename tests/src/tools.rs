//! Tools that are not ours, by which exports are read.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;

/// What has to be run where a tool is missing.
const REMEDY: &str = "run: cargo xtask setup --test";

/// What a script of `tests/python` prints about a file: one JSON object a line.
///
/// # Errors
///
/// The Python packages are missing, or the script fails.
pub fn python(script: &str, file: &Path) -> anyhow::Result<Vec<Value>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let interpreter = env::var_os("TRACER_PYTHON")
        .map_or_else(|| here.join("../target/python/bin/python"), PathBuf::from);
    ensure!(
        interpreter.exists(),
        "no Python with packages to compare with in {}; {REMEDY}",
        interpreter.display()
    );
    let output = succeeded(
        Command::new(interpreter)
            .arg(here.join("python").join(script))
            .arg(file),
    )?;
    let text = String::from_utf8(output.stdout)?;
    text.lines()
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect()
}

/// Runs babeltrace2, and returns what it prints and what it warns of.
///
/// # Errors
///
/// It is missing, or fails.
pub fn babeltrace2(arguments: &[&str], trace: &Path) -> anyhow::Result<(String, String)> {
    let output = succeeded(Command::new("babeltrace2").args(arguments).arg(trace))?;
    Ok((
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    ))
}

fn succeeded(command: &mut Command) -> anyhow::Result<Output> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {command:?}; {REMEDY}"))?;
    ensure!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output)
}
