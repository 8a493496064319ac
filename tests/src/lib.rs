//! What the whole-system tests share.
//!
//! Tests compile small C programs from `tests/programs` with the library as it is distributed, run
//! the command line on them as a user would, and compare what it prints with truths that are not
//! ours: the kernel's own counters, `strace`, what the program itself counted.
//!
//! Those that load eBPF are `#[ignore]`d; `cargo xtask test` runs them as root.

pub mod bpf;
pub mod dist;
pub mod event;
pub mod processes;
pub mod rights;
pub mod strace;
pub mod target;
pub mod tracer;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;

/// Looks again and again until `look` finds something, for at most `patience`.
///
/// # Errors
///
/// What `look` said, or that it found nothing in time; `what` says what was waited for.
pub fn wait_until<T>(
    what: &str,
    patience: Duration,
    mut look: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            bail!("waited {patience:?} in vain: {what}");
        }
        thread::sleep(Duration::from_millis(10));
    }
}
