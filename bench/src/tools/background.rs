//! Program that runs beside the measured one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::super::folder;
use xtask::{process, workspace};

/// Greatest time in which a tool has to start or to stop.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Tool whose output goes to files. Killed when dropped.
pub struct Background {
    child: Child,
    shown: String,
    out: PathBuf,
    err: PathBuf,
}

/// Output and CPU time of a tool that has ended.
pub struct Finished {
    /// CPU time of the tool and its children.
    pub cpu_seconds: f64,
    /// Text on its standard error.
    pub err: String,
    /// Path of its output.
    pub out: PathBuf,
}

impl Background {
    /// Starts a tool; `name` names the files of its output.
    pub fn start(command: &mut Command, name: &str) -> anyhow::Result<Self> {
        let (out, err) = (
            folder().join(format!("{name}.out")),
            folder().join(format!("{name}.err")),
        );
        // Failures go into the results, where a folder of this machine says nothing.
        let root = format!("{}/", workspace::root().display());
        let shown = process::shown(command).replace(&root, "");
        let child = command
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?)
            .spawn()
            .with_context(|| format!("cannot start: {shown}"))?;
        Ok(Self {
            child,
            shown,
            out,
            err,
        })
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the path of its output.
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// Waits until it prints `sign`.
    pub fn wait_for(&mut self, sign: &str) -> anyhow::Result<()> {
        let start = Instant::now();
        while start.elapsed() < TIMEOUT {
            let has = |path| fs::read(path).is_ok_and(|text| find(&text, sign.as_bytes()));
            if has(&self.out) || has(&self.err) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("ended ({status}): {}: {}", self.shown, self.errors());
            }
            sleep(Duration::from_millis(20));
        }
        bail!("said no {sign:?} in time: {}", self.shown)
    }

    /// Gives the tool time to start, where it prints no sign of that.
    pub fn wait_a_moment(&mut self) -> anyhow::Result<()> {
        sleep(Duration::from_millis(600));
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("ended ({status}): {}: {}", self.shown, self.errors()),
        }
    }

    /// Stops the tool as Ctrl-C does, if it has not ended by itself, and waits for its end.
    pub fn stop(mut self) -> anyhow::Result<Finished> {
        let pid = libc::pid_t::try_from(self.child.id())?;
        // SAFETY: takes no pointers. The child was not waited for yet, so its pid is its own.
        unsafe { libc::kill(pid, libc::SIGINT) };
        let start = Instant::now();
        loop {
            if let Some(ended) = ended(pid, libc::WNOHANG).with_context(|| self.shown.clone())? {
                return Ok(Finished {
                    cpu_seconds: ended.cpu_seconds,
                    err: self.errors(),
                    out: std::mem::take(&mut self.out),
                });
            }
            if start.elapsed() > TIMEOUT {
                bail!("does not end: {}", self.shown);
            }
            sleep(Duration::from_millis(10));
        }
    }

    fn errors(&self) -> String {
        fs::read(&self.err).map_or_else(
            |_| String::new(),
            |text| String::from_utf8_lossy(&text).into_owned(),
        )
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Of a child that was waited for by `stop`, there is nothing left to kill: its `out` is
        // gone.
        if !self.out.as_os_str().is_empty() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Resource use of a child that has ended.
pub struct Ended {
    /// CPU time of the child and of those of its children that it waited for.
    pub cpu_seconds: f64,
    /// Greatest resident memory that it had, in bytes.
    pub peak_bytes: f64,
    /// Whether it has succeeded.
    pub is_success: bool,
}

/// Reaps a child that was not waited for yet; `None` when it has not ended.
pub fn ended(pid: libc::pid_t, options: libc::c_int) -> io::Result<Option<Ended>> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    let mut status = 0;
    // SAFETY: both are valid for writes.
    let found = unsafe { libc::wait4(pid, &raw mut status, options, usage.as_mut_ptr()) };
    if found < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed, then filled by the kernel: all of it is integers.
    let usage = unsafe { usage.assume_init() };
    Ok((found == pid).then(|| Ended {
        cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        peak_bytes: as_float(usage.ru_maxrss.unsigned_abs()) * 1024.0,
        is_success: status == 0,
    }))
}

impl Finished {
    /// Returns the size of its output in bytes.
    pub fn bytes(&self) -> f64 {
        size(&self.out)
    }
}

/// Returns the size of a file in bytes; 0 when there is none.
pub fn size(path: &std::path::Path) -> f64 {
    fs::metadata(path).map_or(0.0, |file| as_float(file.len()))
}

/// Counts the lines of a file that contain `sign`.
pub fn lines_with(path: &std::path::Path, sign: &str) -> anyhow::Result<f64> {
    use io::BufRead as _;
    let mut reader = io::BufReader::with_capacity(1 << 16, File::open(path)?);
    let (mut count, mut line) = (0_u64, Vec::new());
    while reader.read_until(b'\n', &mut line)? > 0 {
        count += u64::from(find(&line, sign.as_bytes()));
        line.clear();
    }
    Ok(as_float(count))
}

/// Finds how many events our command line has shown, in its last line.
pub fn count_shown(err: &str) -> anyhow::Result<f64> {
    let count = count_before(err, " events in").or_else(|| count_before(err, " event in"));
    count.with_context(|| format!("no count of events in its last line: {err}"))
}

/// Finds the count before the last `sign`: digits, perhaps with commas.
pub fn count_before(text: &str, sign: &str) -> Option<f64> {
    let end = text.rfind(sign)?;
    let before = text.get(..end)?.trim_end();
    let start = before
        .rfind(|letter: char| !letter.is_ascii_digit() && letter != ',')
        .map_or(0, |at| at + 1);
    before.get(start..)?.replace(',', "").parse().ok()
}

/// Converts a count to a number of measurements: exact up to 2^53.
pub fn as_float(count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    let float = count as f64;
    float
}

fn find(text: &[u8], sign: &[u8]) -> bool {
    sign.is_empty() || text.windows(sign.len()).any(|window| window == sign)
}

fn seconds(time: libc::timeval) -> f64 {
    let part = |value: i64| as_float(value.unsigned_abs());
    part(time.tv_sec) + part(time.tv_usec) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_before_a_sign_is_read_with_and_without_commas() {
        assert_eq!(
            count_before("(328035 samples) ]", " samples"),
            Some(328_035.0)
        );
        assert_eq!(count_before("lost 1,204 events", " events"), Some(1204.0));
        assert_eq!(count_before("10 events\n20 events", " events"), Some(20.0));
        assert_eq!(count_before("no count events", " events"), None);
        assert_eq!(count_before("", " events"), None);
    }
}
