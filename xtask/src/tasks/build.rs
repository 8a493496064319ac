//! Builds what is shipped.

use crate::tasks::{build_ebpf, recorder};
use crate::{process, workspace};

/// The profile of what is shipped, and the folder in `target` that it is left in.
pub const PROFILE: &str = "--profile=shipped";

/// Builds the eBPF object and the program that records, and then the library and the command line,
/// which take them in.
pub fn run() -> anyhow::Result<()> {
    build_ebpf::run()?;
    recorder::run()?;
    // For C alone: what a Rust program could name is reached by a longer way.
    process::run(
        workspace::cargo_for_host("rustc")
            .args([PROFILE, "--package=libposixtrace", "--lib"])
            .arg("--crate-type=cdylib,staticlib"),
    )?;
    process::run(workspace::cargo_for_host("build").args([PROFILE, "--package=tracer-user"]))
}
