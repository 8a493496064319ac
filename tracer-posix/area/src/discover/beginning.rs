//! Waiting for the area of a process that has just been started.
//!
//! A controller that starts a program and traces it at once may look before the program has its
//! area. Between the exec and the library's first instruction the process has no area, and for a
//! moment it still has the descriptors that the exec is about to close, among them that of its
//! parent's area. So the controller looks for the area again, until the process has mapped one, or
//! has evidently begun without one.

use std::fs;
use std::time::{Duration, Instant};

use super::find::Area;
use super::liveness;
use crate::system::{proc_stat, thread};

/// Age up to which a process may still be at its beginning.
const YOUNG: Duration = Duration::from_secs(2);

/// Longest time for which a beginning is waited for, however little of the CPU the process gets.
const LONGEST: Duration = Duration::from_secs(1);

/// Time after which a process is looked at again.
const AGAIN: Duration = Duration::from_micros(500);

/// Time on the CPU after which a program is no longer at its beginning. The dynamic loader takes a
/// millisecond or two for a small program, and some ten for one with hundreds of libraries.
const MOST_RUN_NS: u64 = 50_000_000;

/// Looks in a row that find a process asleep, after which it is no longer at its beginning: the
/// loader does not sleep. It waits at most for the disk, which is another state.
const ASLEEP: u32 = 3;

/// Waits until process `pid` has an area, where the process is at its beginning. It waits for a
/// second at most, and no longer than the process takes to run for 50 ms or to fall asleep.
///
/// The caller finds the area itself after this call: two searches at a time would take more stack
/// than some threads have.
#[inline(never)]
pub(crate) fn wait(pid: i32) {
    if !is_young(pid) {
        return;
    }
    let (begin, mut asleep) = (Instant::now(), 0);
    while !has_its_own(pid) {
        asleep = match state(pid) {
            State::Begins => 0,
            State::Sleeps => asleep + 1,
            State::Other => ASLEEP,
        };
        if asleep >= ASLEEP || begin.elapsed() >= LONGEST {
            return;
        }
        thread::pause(AGAIN);
    }
}

/// Tells whether waiting ends: the process has mapped its area, or looking for one fails.
#[inline(never)]
fn has_its_own(pid: i32) -> bool {
    match Area::find(pid) {
        Ok(Some(area)) => area.is_own() || Area::is_used_by(area.id(), pid),
        Ok(None) => false,
        Err(_) => true,
    }
}

/// Tells whether a process was started a short time ago.
fn is_young(pid: i32) -> bool {
    // SAFETY: takes no pointers.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let started = proc_stat::shown_of(pid).map(|shown| shown.start);
    let (Ok(ticks), Some(started), Some(now)) = (u64::try_from(ticks), started, since_boot())
    else {
        return false;
    };
    let Some(started_ms) = started.saturating_mul(1000).checked_div(ticks) else {
        return false;
    };
    now.saturating_sub(Duration::from_millis(started_ms)) < YOUNG
}

/// Returns the time since the machine was started.
fn since_boot() -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    let (seconds, nanoseconds) = (time.tv_sec.try_into().ok()?, time.tv_nsec.try_into().ok()?);
    (result == 0).then(|| Duration::new(seconds, nanoseconds))
}

enum State {
    /// It runs, or waits for a CPU or the disk, and has not run for long.
    Begins,
    Sleeps,
    /// It has run for long, is stopped, or has ended, or the kernel does not say.
    Other,
}

fn state(pid: i32) -> State {
    match liveness::state_of(pid, pid) {
        Some(b'R' | b'D') if ran_ns(pid).is_some_and(|ran| ran < MOST_RUN_NS) => State::Begins,
        Some(b'S') => State::Sleeps,
        _ => State::Other,
    }
}

/// Returns the time that a process's first thread has spent on a CPU, in nanoseconds; `None` where
/// the kernel does not count it.
fn ran_ns(pid: i32) -> Option<u64> {
    let line = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Returns how long [`wait`] takes for a command that never has an area.
    fn waits_for(command: &mut Command) -> Duration {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let begin = Instant::now();
        wait(child.id().cast_signed());
        let elapsed = begin.elapsed();
        child.kill().unwrap();
        child.wait().unwrap();
        elapsed
    }

    #[test]
    fn a_program_that_sleeps_or_computes_without_an_area_is_not_waited_for_to_the_end() {
        assert!(waits_for(Command::new("sleep").arg("60")) < LONGEST);
        let busy = r#"while :; do :; done"#;
        assert!(waits_for(Command::new("sh").args(["-c", busy])) < LONGEST);
    }

    #[test]
    fn this_process_is_young_only_at_its_beginning_and_init_is_not() {
        assert!(!is_young(i32::MAX), "there is none");
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(is_young(child.id().cast_signed()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
