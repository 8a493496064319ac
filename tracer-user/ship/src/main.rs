//! Ships slices of a host's flight recorders to where those of all hosts are.
//!
//! A program of its own, which `tracer-user ship` runs: what it needs of the network is not linked
//! into a program that root runs.
//!
//! - `spool` finds slices, `queue` has those that wait, `counts` what was dropped;
//! - `slice` makes tables of one, `store` puts them into an object store, `marker` makes the row
//!   that says so; `otlp` sends its spans;
//! - `shipper` does one after the other, `retry` says when to try again.

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

mod counts;
mod marker;
#[path = "../../src/cli/ship_options.rs"]
mod options;
mod otlp;
mod queue;
mod retry;
mod shipper;
mod slice;
mod spool;
mod store;

use std::process::ExitCode;

use clap::Parser as _;
use tracer_text::say;

/// Options as typed.
#[derive(Debug, clap::Parser)]
#[command(name = "tracer-user ship", bin_name = "tracer-user ship", version)]
struct Cli {
    #[command(flatten)]
    args: options::ShipArgs,
}

/// Returns an error and its causes in one line. Some libraries say the cause in the error too.
fn words(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause);
        }
    }
    text
}

/// Exit code of a failure, as of `tracer-user`.
const FAILED: u8 = 2;

/// Has large pieces of memory go back to the system at once: else the allocator holds as much as
/// was ever asked for.
#[cfg(target_env = "gnu")]
fn hold_little_memory() {
    // SAFETY: there is one thread yet.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 256 << 10) };
    // SAFETY: as above.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 2) };
}

/// Leaves the allocator as it is: it holds little.
#[cfg(not(target_env = "gnu"))]
fn hold_little_memory() {}

fn main() -> ExitCode {
    hold_little_memory();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Who has closed the output wants no help.
            let _ = error.print();
            return if error.use_stderr() {
                FAILED.into()
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match shipper::run(&cli.args) {
        Ok(code) => code,
        Err(error) => {
            say(&words(&error));
            FAILED.into()
        }
    }
}
