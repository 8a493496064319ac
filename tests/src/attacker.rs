//! Users that exist for a test alone, and the programs that they run.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use crate::dist;
use crate::target::Target;
use crate::tracer::Tracer;

/// The user that attacks.
pub const ATTACKER: u32 = 61_001;

/// The user that is attacked, where that is not root.
pub const VICTIM: u32 = 61_002;

/// Returns the longest time for which a hostile process or file may delay another user.
#[must_use]
pub fn delay_limit() -> Duration {
    crate::timeout(Duration::from_secs(5))
}

/// Longest time until a trace ends, independent of what its targets do, but for the time that
/// others have the CPUs.
pub const END_LIMIT: Duration = Duration::from_secs(1);

/// Memory that an attack may cost its victim, in KiB.
pub const MOST_MEMORY_KIB: u64 = 200 * 1024;

/// A command that runs `program` as this user, without any group or capability of the test.
#[must_use]
pub fn command_as(user: u32, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={user}"));
    command.arg(format!("--regid={user}"));
    command.args(["--clear-groups", "--inh-caps=-all", "--"]);
    command.arg(program);
    command
}

/// Makes a folder that all users may read, with a distribution that all may run, and these
/// programs.
///
/// # Errors
///
/// The disk is full, or one of them cannot be made.
pub fn stage(programs: &[&str]) -> anyhow::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    dist::copy_for_everyone(folder.path())?;
    for program in programs {
        dist::compile(program, folder.path())?;
    }
    Ok(folder)
}

/// `program` of the stage as this user.
#[must_use]
pub fn as_user(user: u32, stage: &Path, program: &str) -> Command {
    let mut command = command_as(user, stage.join(program));
    command.env("LD_LIBRARY_PATH", stage.join("dist/lib"));
    command
}

/// Measures how long an undisturbed trace takes to end on this machine, but for the time that
/// others have the CPUs.
///
/// # Errors
///
/// There is no such trace.
pub fn usual_end() -> anyhow::Result<Duration> {
    let stage = stage(&["flood"])?;
    let (target, _) =
        Target::start(as_user(VICTIM, stage.path(), "flood").args(["1", "500", "1"]))?;
    let mut tracer = Tracer::attach(target.pid(), &[])?;
    tracer.wait_for(|event| event.is_user("marker"))?;
    let (_, ending) = tracer.stop_timed()?;
    Ok(ending.own)
}

/// Gives a file or folder to this user.
///
/// # Errors
///
/// The system does not let us.
pub fn give(path: &Path, user: u32) -> anyhow::Result<()> {
    std::os::unix::fs::chown(path, Some(user), Some(user))
        .with_context(|| path.display().to_string())
}

/// Lets all users enter a folder and read what is in it.
///
/// # Errors
///
/// The system does not let us.
pub fn open_to_all(folder: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// The most memory that a process has had so far, in KiB.
///
/// # Errors
///
/// It is gone.
pub fn peak_kib(pid: i32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let line = line.context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
