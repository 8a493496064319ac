//! Support code that the whole-system tests share.
//!
//! Tests compile small C programs from `tests/programs` with the library as it is distributed, run
//! the command line on them as a user would, and compare what it prints with independent truths:
//! the kernel's own counters, `strace`, what the program itself counted.
//!
//! Those that load eBPF are `#[ignore]`d; `cargo xtask test` runs them as root.

pub mod attacker;
pub mod beside_strace;
pub mod bpf;
pub mod bpftrace;
pub mod btf;
pub mod call_lines;
pub mod cgroup;
pub mod comes_and_goes;
pub mod command;
pub mod dist;
pub mod event;
pub mod ftrace;
pub mod log_reader;
pub mod lttng;
pub mod made;
pub mod made_calls;
pub mod made_elf;
pub mod made_ends;
pub mod made_hostile;
pub mod made_log;
pub mod made_many;
pub mod made_slices;
pub mod made_stacks;
pub mod made_storm;
pub mod mount;
pub mod namespace;
pub mod processes;
pub mod python_says;
pub mod rights;
pub mod sequence_log;
pub mod standard;
#[cfg(target_arch = "x86_64")]
pub mod steps;
pub mod strace;
pub mod target;
pub mod terminal;
pub mod tools;
pub mod tracer;
pub mod works_for;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;

/// Multiplies `time` by `TRACER_TEST_SLOWNESS`, if that is set: an emulated machine is no measure
/// of how long something may take.
#[must_use]
pub fn timeout(time: Duration) -> Duration {
    time * slowness()
}

/// Tells whether this machine is emulated: its host takes CPUs away for milliseconds, in which a
/// thread runs for all that the kernel here knows.
#[must_use]
pub fn is_emulated() -> bool {
    slowness() > 1
}

fn slowness() -> u32 {
    let slowness = std::env::var("TRACER_TEST_SLOWNESS").ok();
    slowness.and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// Tells whether tests run in full, with the parts that take long and seldom find more
/// (`TRACER_WHOLE`).
#[must_use]
pub fn is_whole() -> bool {
    std::env::var_os("TRACER_WHOLE").is_some()
}

/// The kernel's monotonic clock, as events show it.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a `timespec` to write to; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    // It begins at 0 when the machine starts.
    let part = |part: i64| u64::try_from(part).unwrap_or(0);
    part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
}

/// Looks again and again until `look` finds something, for at most `time`, on a machine of usual
/// speed.
///
/// # Errors
///
/// `look` fails, or finds nothing in time; `what` says what was waited for.
pub fn wait_until<T>(
    what: &str,
    time: Duration,
    mut look: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let time = timeout(time);
    let deadline = Instant::now() + time;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            bail!("waited {time:?} in vain: {what}");
        }
        thread::sleep(Duration::from_millis(10));
    }
}
