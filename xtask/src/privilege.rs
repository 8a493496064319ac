//! Rights of root: checks, and commands that run as root.

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _};
use std::process::Command;

use anyhow::bail;

use crate::process;

/// Tells whether this process runs as root.
pub fn is_root() -> bool {
    // SAFETY: `geteuid` has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Tells whether `sudo` works without a password.
pub fn has_silent_sudo() -> bool {
    process::succeeds(Command::new("sudo").args(["-n", "true"]))
}

/// Fails when root is out of reach, before time is spent on building something that needs it.
///
/// `why` ends the sentence "root is needed to …".
pub fn check(why: &str) -> anyhow::Result<()> {
    if is_root() {
        return Ok(());
    }
    if process::find("sudo").is_none() {
        bail!("root is needed to {why}, and there is no sudo: run this task as root");
    }
    if !has_silent_sudo() && !io::stdin().is_terminal() {
        bail!(
            "root is needed to {why}, and sudo wants a password but there is no terminal: \
             run this task as root, or in a terminal"
        );
    }
    Ok(())
}

/// Returns a command that runs `program` as root: directly for root, else by `sudo`.
///
/// `why` is as for [`check`]; it is printed before `sudo` may ask for a password.
pub fn as_root(program: impl AsRef<OsStr>, why: &str) -> anyhow::Result<Command> {
    check(why)?;
    if is_root() {
        return Ok(Command::new(program));
    }
    if !has_silent_sudo() {
        eprintln!("Root is needed to {why}: sudo may ask for your password.");
    }
    let mut command = Command::new("sudo");
    command.arg("--").arg(program);
    Ok(command)
}
