//! A traced program.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

/// Time that a program may be silent.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running program that uses `handshake.h` to talk to the test. Killed when dropped.
pub struct Target {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Target {
    /// Starts the program and waits until it says that it is ready. Returns also what it said
    /// before that.
    ///
    /// # Errors
    ///
    /// It could not be started, ended, or was silent for too long.
    pub fn start(command: &mut Command) -> anyhow::Result<(Self, Vec<String>)> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("no output")?;
        let target = Self {
            child,
            input,
            lines: lines_of(output),
        };
        let said = target.wait_for("ready")?;
        Ok((target, said))
    }

    /// Starts a program that works until its input ends, and waits until it says "done".
    ///
    /// # Errors
    ///
    /// It could not be started, ended, or was silent for too long.
    pub fn start_neighbour(command: &mut Command) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("no output")?;
        let target = Self {
            child,
            input,
            lines: lines_of(output),
        };
        target.wait_for("done")?;
        Ok(target)
    }

    /// Returns the pid of its process.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(-1)
    }

    /// Lets the program begin its work.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub fn go(&mut self) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("its input is closed")?;
        input.write_all(b"g").context("the program is gone")
    }

    /// Has a program do what a line says, and waits until it is ready again. Returns what it said
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// It has ended, ends before that, or is silent for too long.
    pub fn ask(&mut self, line: &str) -> anyhow::Result<Vec<String>> {
        let input = self.input.as_mut().context("its input is closed")?;
        let said = writeln!(input, "{line}");
        said.context("the program is gone")?;
        self.wait_for("ready").with_context(|| line.to_owned())
    }

    /// Waits until it has done everything, and returns what it said meanwhile.
    ///
    /// # Errors
    ///
    /// It ends before that, or is silent for too long.
    pub fn wait_until_done(&self) -> anyhow::Result<Vec<String>> {
        self.wait_for("done")
    }

    /// Closes the program's input, which lets it end, and waits for its end.
    ///
    /// # Errors
    ///
    /// It does not end.
    pub fn end(mut self) -> anyhow::Result<ExitStatus> {
        self.input = None;
        super::wait_until("the program's end", TIMEOUT, || {
            Ok(self.child.try_wait()?)
        })
    }

    /// Ends a program as [`end`](Self::end) does, where it says "done" only after its input is
    /// closed. Returns what the program said before that word.
    ///
    /// # Errors
    ///
    /// It does not end, or ends without that word.
    pub fn end_saying(mut self) -> anyhow::Result<Vec<String>> {
        self.input = None;
        let said = self.wait_until_done()?;
        self.end()?;
        Ok(said)
    }

    /// Tells whether it still runs.
    ///
    /// # Errors
    ///
    /// It cannot be looked at.
    pub fn is_running(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits until it says `word`, and returns what it said before.
    ///
    /// # Errors
    ///
    /// It ends before that, or is silent for too long.
    pub fn wait_for(&self, word: &str) -> anyhow::Result<Vec<String>> {
        let mut said = Vec::new();
        loop {
            match self.lines.recv_timeout(super::timeout(TIMEOUT)) {
                Ok(line) if line == word => return Ok(said),
                Ok(line) => said.push(line),
                Err(_) => bail!("the program did not say {word}, only {said:?}"),
            }
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        // Ends with the program's output, or when the receiver is gone.
        lines
            .take_while(|line| sender.send(line.clone()).is_ok())
            .for_each(drop);
    });
    receiver
}

/// Returns the values that follow `word` in lines such as "sent 3 500".
///
/// # Errors
///
/// There is no such line, or something else than integers follows the word.
pub fn values_after(said: &[String], word: &str) -> anyhow::Result<Vec<Vec<u64>>> {
    let mut all = Vec::new();
    for line in said {
        let mut words = line.split_whitespace();
        if words.next() == Some(word) {
            let values: Result<Vec<u64>, _> = words.map(str::parse).collect();
            all.push(values.with_context(|| line.clone())?);
        }
    }
    ensure!(!all.is_empty(), "no line begins with {word} in {said:?}");
    Ok(all)
}
