//! Answers from events, of a running trace or of a log.
//!
//! - [`queries`] is what all of them share: how events come to them, which spans are meant,
//!   critical paths, and their words;
//! - [`stat`] sums events up, and [`why`] finds the causes of the durations of spans;
//! - [`compare`] says what takes longer in some logs than in others, and why;
//! - [`budget`] holds answers to a number of bytes;
//! - [`explain`] says on one screen why a program is slow;
//! - [`counting`] shows what the kernel counts where nothing is recorded;
//! - [`now`] says what threads wait for at this moment, without a trace;
//! - [`flame`] shows where time went, by stacks; [`html_report`] shows a trace as a page that is
//!   one file;
//! - [`trigger`] waits for a condition, with the newest events in memory.

// Whatever comes from outside is no reason to end the program.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stdout
    )
)]

pub mod budget;
pub mod compare;
pub mod counting;
mod damage;
pub mod explain;
pub mod flame;
pub mod html_report;
pub mod now;
pub mod queries;
pub mod stat;
pub mod trigger;
pub mod why;

use tracer_analysis::layouts::LockOwner;
use tracer_analysis::recorded_lock;

/// Reads what is recorded of a wait for a lock. For fuzzing: a thread that has it has a number.
#[doc(hidden)]
pub fn look_at_lock_wait(untrusted: &[u8]) {
    if let Some(lock) = recorded_lock(untrusted)
        && let LockOwner::Thread(tid) = lock.owner
    {
        assert!(tid > 0);
    }
}
