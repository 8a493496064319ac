//! Commands that have to succeed.

use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// Runs a command and returns its standard output.
///
/// # Errors
///
/// It cannot be started, or fails; the error has what it wrote to its standard error.
pub fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = command.stderr(Stdio::piped()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {said}");
    Ok(output.stdout)
}

/// Runs a command and returns its standard output as text.
///
/// # Errors
///
/// As for [`output`], and if the output is not UTF-8.
pub fn text(command: &mut Command) -> anyhow::Result<String> {
    String::from_utf8(output(command)?).with_context(|| format!("{command:?} prints no text"))
}
