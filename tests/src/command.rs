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
    let status = output.status;
    ensure!(status.success(), "{command:?}: {status}: {said}");
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

/// Returns a `perf record` that is right beside tracers: options may follow.
///
/// Where a tracer has asked the kernel for build identifiers of what is mapped, as it does to name
/// stacks, the kernel marks the reports to others as if they had them too (6.18: a bit of the
/// header is left from one reader to the next). A perf that has not asked for them takes the
/// numbers of the device for the size of one, and `perf script` writes over its own stack.
#[must_use]
pub fn perf_record() -> Command {
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "--buildid-mmap"]);
    perf
}
