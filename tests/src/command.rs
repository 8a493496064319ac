//! Commands that have to succeed.

use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// What a command has printed.
///
/// # Errors
///
/// It cannot be started, or fails; what it has said is in the error.
pub fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = command.stderr(Stdio::piped()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {said}");
    Ok(output.stdout)
}

/// The same, as text.
///
/// # Errors
///
/// As above, and where that is no text.
pub fn text(command: &mut Command) -> anyhow::Result<String> {
    String::from_utf8(output(command)?).with_context(|| format!("{command:?} prints no text"))
}
