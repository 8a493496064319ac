//! `tracer-user snapshot`: makes a flight recorder write the events it holds.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::pid;
use tracer_live::PidFd;
use tracer_log_view::snapshots;
use tracer_text::escape::harmless_line;
use tracer_text::quantity::time;

/// Interval between two checks for the snapshot.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Have a flight recorder write a snapshot, and wait until it is there
///
/// For one that was started with --snapshots: it is sent SIGUSR1. The name of the snapshot is
/// printed, which is that of the log with .1. The unit tracer-user@.service calls this when it is
/// reloaded.
#[derive(Debug, clap::Args)]
pub struct SnapshotArgs {
    /// The recorder
    #[arg(value_name = "PID")]
    recorder: String,
    /// The log as the recorder was given it
    #[arg(long, value_name = "FILE")]
    log: PathBuf,
    /// Wait at most so long
    #[arg(long, value_name = "TIME", default_value = "30s")]
    timeout: String,
}

/// Requests the snapshot and waits for it.
///
/// # Errors
///
/// There is no such recorder, or it does not write a snapshot.
pub fn run(args: &SnapshotArgs) -> anyhow::Result<ExitCode> {
    let pid = pid(&args.recorder)?;
    let timeout = time("--timeout", &args.timeout)?;
    let newest = snapshots::path(&args.log, 1);
    let process = PidFd::open(pid).with_context(|| format!("there is no recorder {pid}"))?;
    // Any other program would be ended by that signal.
    ensure!(
        is_a_recorder(pid),
        "process {pid} is no tracer-user, or another user's"
    );
    let before = identity(&newest)?;
    ensure!(
        process.signal(libc::SIGUSR1),
        "process {pid} cannot be sent a signal: it is another user's, or has ended"
    );
    let end = Instant::now() + timeout;
    while identity(&newest)? == before {
        if process.has_ended() {
            bail!(
                "process {pid} has ended, and no snapshot of it is at {}",
                newest.display()
            );
        }
        ensure!(
            Instant::now() < end,
            "no snapshot has come to {} in {}; has process {pid} been started with --snapshots and \
             this --log?",
            newest.display(),
            humantime::format_duration(timeout)
        );
        std::thread::sleep(LOOK_EVERY);
    }
    let name = newest.to_string_lossy();
    writeln!(io::stdout().lock(), "{}", harmless_line(&name))?;
    Ok(ExitCode::SUCCESS)
}

/// Tells whether the process runs this program, or one of the same name.
fn is_a_recorder(pid: i32) -> bool {
    let program = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let name = |path: PathBuf| path.file_name().map(std::ffi::OsStr::to_owned);
    let theirs = program(&pid.to_string()).and_then(name);
    let ours = program("self").and_then(name);
    // An upgrade has taken the file away of one that still runs.
    let is_same = |ours: &std::ffi::OsStr, theirs: &std::ffi::OsStr| {
        let theirs = theirs.to_string_lossy();
        let ours = ours.to_string_lossy();
        theirs.trim_end_matches(" (deleted)") == ours.trim_end_matches(" (deleted)")
    };
    matches!((ours, theirs), (Some(ours), Some(theirs)) if is_same(&ours, &theirs))
}

/// Returns the identity of a file. A snapshot has its name only when it is complete.
fn identity(path: &Path) -> anyhow::Result<Option<(u64, u64, i64, i64)>> {
    match fs::metadata(path) {
        Ok(data) => Ok(Some((
            data.dev(),
            data.ino(),
            data.mtime(),
            data.mtime_nsec(),
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot look for {}", path.display())),
    }
}
