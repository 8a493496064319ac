//! Parts of the library that make no system calls, in an interpreter that finds undefined
//! behaviour.
//!
//! Not a part of CI: it needs a nightly toolchain, which the rest of the project does without, and
//! the interpreter's standard library has to be built. Run it after a change of unsafe code.

use std::process::Command;

use crate::{process, workspace};

/// Toolchain that has Miri.
const TOOLCHAIN: &str = "nightly";

/// Tests that run there: of code that is unsafe and makes no system calls. The trace area needs
/// shared memory, the recorder other processes: those parts have tests of their own against real
/// ones. The engine forbids unsafe code.
const PARTS: [&str; 3] = ["in_hand::", "thread::", "errno::"];

/// Cases of each property: the interpreter is a thousand times slower.
const CASES: &str = "1";

/// Selection of tests.
#[derive(clap::Args)]
pub struct Args {
    /// Only tests whose name contains this, instead of all that can run there
    filter: Option<String>,
}

/// Tells whether the toolchain with Miri is installed.
pub fn is_there() -> bool {
    let words = ["run", TOOLCHAIN, "cargo", "miri", "--version"];
    process::succeeds(Command::new("rustup").args(words))
}

/// Installs the toolchain where it is missing, and runs the tests.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if !is_there() {
        process::run(Command::new("rustup").args([
            "toolchain",
            "install",
            TOOLCHAIN,
            "--profile=minimal",
            "--component=miri,rust-src",
        ]))?;
    }
    let filters: Vec<&str> = match &args.filter {
        Some(filter) => vec![filter],
        None => PARTS.to_vec(),
    };
    process::run(
        Command::new("rustup")
            .args(["run", TOOLCHAIN, "cargo", "miri", "test"])
            .args(["--package=tracer-area", "--lib"])
            .arg("--target-dir")
            .arg(workspace::target("miri"))
            .arg("--")
            .args(filters)
            .current_dir(workspace::root())
            // Properties keep the seeds of failures in files.
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .env("PROPTEST_CASES", CASES)
            // Of the pinned toolchain, which runs this task.
            .env_remove("CARGO")
            .env_remove("RUSTUP_TOOLCHAIN"),
    )
}
