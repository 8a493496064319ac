//! Running other programs.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// Runs `command` to its end with our own input and output.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = shown(command);
    let status = command
        .status()
        .with_context(|| format!("cannot run: {shown}"))?;
    ensure!(status.success(), "failed ({status}): {shown}");
    Ok(())
}

/// Runs `command` quietly and returns what it printed, its end trimmed.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let shown = shown(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run: {shown}"))?;
    ensure!(
        output.status.success(),
        "failed ({}): {shown}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}

/// Whether `command` can be run and succeeds; what it prints is thrown away.
pub fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The program `name` in the folders of `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// The command as one would type it.
pub fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned()),
    );
    words.join(" ")
}
