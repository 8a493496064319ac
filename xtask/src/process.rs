//! Running other programs.

use std::env;
use std::io;
use std::os::unix::process::CommandExt as _;
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

/// Runs `command` quietly and returns its output without trailing white space.
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

/// Tells whether `command` can be run and succeeds; its output is discarded.
pub fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Makes a program end when this thread ends, even by a signal.
pub fn end_with_us(command: &mut Command) {
    // SAFETY: takes no pointers.
    let us = unsafe { libc::getpid() };
    let end_with_parent = move || {
        // SAFETY: takes no pointers.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: takes no pointers.
        if unsafe { libc::getppid() } != us {
            // We ended before that.
            return Err(io::Error::from_raw_os_error(libc::ECHILD));
        }
        Ok(())
    };
    // SAFETY: two system calls, which a child of a program with threads may make.
    unsafe { command.pre_exec(end_with_parent) };
}

/// Finds the program `name` in the folders of `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// Formats the command as a user would type it.
pub fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned()),
    );
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::thread;

    use super::*;

    #[test]
    fn a_program_that_ends_with_us_is_killed_when_the_thread_that_started_it_ends() {
        let started = thread::spawn(|| {
            let mut command = Command::new("sleep");
            end_with_us(command.arg("1000"));
            command.spawn().unwrap()
        });
        let mut program = started.join().unwrap();

        assert_eq!(program.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
}
