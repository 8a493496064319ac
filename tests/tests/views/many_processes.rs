//! Memory for a log of a million processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Stdio};

use tests::{dist, is_whole, made_storm};

/// Processes of the log in a whole test run, and the most memory that looking through it takes at
/// any time, in megabytes; and the same in others.
const WHOLE: (usize, i64) = (1_000_000, 500);
const PART: (usize, i64) = (60_000, 250);

/// Runs a command of `tracer-user`, and returns how much memory it took at most, in megabytes.
#[expect(
    clippy::zombie_processes,
    reason = "it is waited for, with what it used"
)]
fn megabytes(arguments: &[&str]) -> i64 {
    let mut command = Command::new(dist::tracer_user().unwrap());
    command.args(arguments).stdout(Stdio::null());
    let child = command.spawn().unwrap();
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    let mut status = 0;
    // SAFETY: both are valid for writes, and the child was not waited for yet.
    let found = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
    assert_eq!((found, status), (pid, 0), "{arguments:?}");
    // SAFETY: zeroed, then filled by the kernel: all of it is integers.
    let usage = unsafe { usage.assume_init() };
    usage.ru_maxrss / 1024
}

#[test]
fn a_million_short_processes_are_summed_up_in_half_a_gigabyte() {
    let (processes, most) = if is_whole() { WHOLE } else { PART };
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    made_storm::write_short(&log, processes).unwrap();
    let log = log.to_str().unwrap();
    let page = folder.path().join("page.html");
    let commands: [&[&str]; 3] = [
        &["stat", log],
        &["why", "--whole", log],
        &["report", log, "-o", page.to_str().unwrap()],
    ];
    for arguments in commands {
        let taken = megabytes(arguments);
        println!("{}: {taken} MB", arguments[0]);
        assert!(taken < most, "{arguments:?}: {taken} MB");
    }
}
