//! A program in a real terminal: that of tmux, or one without a screen.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

/// Longest time until something appears on the screen.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Time without a change after which a screen counts as completely drawn.
const STILL: Duration = Duration::from_millis(300);

/// A terminal with a shell in it. It ends when dropped.
pub struct Terminal {
    folder: TempDir,
}

impl Terminal {
    /// Starts a terminal of this width and height, with a shell that has these variables.
    ///
    /// # Errors
    ///
    /// There is no tmux.
    pub fn start((width, height): (u16, u16), variables: &[(&str, &str)]) -> anyhow::Result<Self> {
        let terminal = Self {
            folder: tempfile::tempdir()?,
        };
        let mut command = terminal.tmux();
        command.args(["-f", "/dev/null", "new-session", "-d", "-s", "a"]);
        command.args(["-x", &width.to_string(), "-y", &height.to_string()]);
        for (name, value) in [("LC_ALL", "C.UTF-8")].iter().chain(variables) {
            command.args(["-e", &format!("{name}={value}")]);
        }
        command.arg("exec env 'PS1=$ ' bash --norc --noprofile");
        run(&mut command)?;
        run(terminal.tmux().args(["set", "-g", "window-size", "manual"]))?;
        terminal.wait_for("a shell", |screen| screen.contains('$'))?;
        Ok(terminal)
    }

    fn tmux(&self) -> Command {
        let mut command = Command::new("tmux");
        command.env_remove("TMUX").env_remove("NO_COLOR");
        command
            .arg("-u")
            .arg("-S")
            .arg(self.folder.path().join("tmux"));
        command
    }

    /// Presses keys, by their names.
    ///
    /// # Errors
    ///
    /// The terminal is gone.
    pub fn keys(&self, keys: &[&str]) -> anyhow::Result<()> {
        run(self.tmux().args(["send-keys", "-t", "a"]).args(keys)).map(|_| ())
    }

    /// Types a text.
    ///
    /// # Errors
    ///
    /// The terminal is gone.
    pub fn text(&self, text: &str) -> anyhow::Result<()> {
        run(self.tmux().args(["send-keys", "-t", "a", "-l", text])).map(|_| ())
    }

    /// Types a command into the shell, and runs it.
    ///
    /// # Errors
    ///
    /// The terminal is gone.
    pub fn command(&self, program: &Path, words: &[&str]) -> anyhow::Result<()> {
        let program = program.to_str().context("no text")?;
        self.text(&format!("{program} {}", words.join(" ")))?;
        self.keys(&["Enter"])
    }

    /// Sets the width and the height of the terminal.
    ///
    /// # Errors
    ///
    /// The terminal is gone.
    pub fn resize(&self, (width, height): (u16, u16)) -> anyhow::Result<()> {
        let mut command = self.tmux();
        command.args(["resize-window", "-t", "a", "-x", &width.to_string()]);
        run(command.args(["-y", &height.to_string()])).map(|_| ())
    }

    /// Returns the text that the terminal shows now.
    ///
    /// # Errors
    ///
    /// The terminal is gone.
    pub fn screen(&self) -> anyhow::Result<String> {
        let output = run(self.tmux().args(["capture-pane", "-p", "-t", "a"]))?;
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Returns the text that the terminal shows now, with the escape sequences of colours.
    ///
    /// # Errors
    ///
    /// The terminal is gone.
    pub fn coloured(&self) -> anyhow::Result<String> {
        let output = run(self.tmux().args(["capture-pane", "-e", "-p", "-t", "a"]))?;
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Tells whether a program has taken the alternate screen or the mouse.
    ///
    /// # Errors
    ///
    /// The terminal is gone.
    pub fn is_taken(&self) -> anyhow::Result<bool> {
        let mut command = self.tmux();
        command.args([
            "display",
            "-p",
            "-t",
            "a",
            "#{alternate_on} #{mouse_any_flag}",
        ]);
        let output = run(&mut command)?;
        Ok(output.stdout.contains(&b'1'))
    }

    /// Waits until something is seen and the screen has stopped changing: all of it is drawn.
    ///
    /// # Errors
    ///
    /// It is not seen in time, or the screen changes all the time.
    pub fn wait_for_all(
        &self,
        what: &str,
        is_seen: impl Fn(&str) -> bool,
    ) -> anyhow::Result<String> {
        let mut before = String::new();
        let seen = super::wait_until(what, TIMEOUT, || {
            let screen = self.screen()?;
            let is_still = screen == before;
            before = screen;
            std::thread::sleep(STILL);
            Ok((is_still && is_seen(&before)).then(|| before.clone()))
        });
        seen.with_context(|| format!("on the screen: {before}"))
    }

    /// Waits until something is seen.
    ///
    /// # Errors
    ///
    /// It is not seen in time.
    pub fn wait_for(&self, what: &str, is_seen: impl Fn(&str) -> bool) -> anyhow::Result<String> {
        let mut screen = String::new();
        let seen = super::wait_until(what, TIMEOUT, || {
            screen = self.screen()?;
            Ok(is_seen(&screen).then(|| screen.clone()))
        });
        seen.with_context(|| format!("on the screen: {screen}"))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux().arg("kill-server").output();
    }
}

/// Runs a command whose output and messages go to a terminal of this width and height, without
/// colours. Returns what it writes there.
///
/// # Errors
///
/// There is no terminal, or the command cannot be run.
pub fn written_to(mut command: Command, size: (u16, u16)) -> anyhow::Result<String> {
    let (mut ours, theirs) = new_terminal(size)?;
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command.stdout(theirs.try_clone()?).stderr(theirs);
    let mut child = command.spawn().context("the command cannot be run")?;
    drop(command);
    let mut written = Vec::new();
    // Reading from a terminal fails once all programs have closed their end: what was read before
    // is complete.
    let _ = ours.read_to_end(&mut written);
    child.wait()?;
    Ok(String::from_utf8(written)?.replace("\r\n", "\n"))
}

/// Returns how many rows a text without colours takes on a terminal of this width.
#[must_use]
pub fn rows_of(text: &str, columns: u16) -> usize {
    let rows = |line: &str| line.chars().count().div_ceil(columns.into()).max(1);
    text.lines().map(rows).sum()
}

/// Opens a terminal. Returns the end for the test, and the end for programs.
fn new_terminal((width, height): (u16, u16)) -> anyhow::Result<(File, OwnedFd)> {
    let (mut ours, mut theirs) = (-1, -1);
    let size = libc::winsize {
        ws_row: height,
        ws_col: width,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let (name, termios) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: both descriptors and the size are valid; null is allowed for the rest.
    let made = unsafe { libc::openpty(&mut ours, &mut theirs, name, termios, &size) };
    ensure!(
        made == 0,
        "no terminal: {}",
        std::io::Error::last_os_error()
    );
    // SAFETY: the descriptor is new, and no other value owns it.
    let ours = unsafe { File::from_raw_fd(ours) };
    // SAFETY: the descriptor is new, and no other value owns it.
    let theirs = unsafe { OwnedFd::from_raw_fd(theirs) };
    Ok((ours, theirs))
}

fn run(command: &mut Command) -> anyhow::Result<Output> {
    let output = command.output();
    let output = output.context("cannot run tmux; run: cargo xtask setup --test")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {said}");
    Ok(output)
}
