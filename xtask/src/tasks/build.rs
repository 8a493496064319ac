//! Builds everything.

use crate::tasks::{build_ebpf, recorder};
use crate::{process, workspace};

/// Builds the eBPF object and the program that records, and then the workspace, which takes both in, optimised.
pub fn run() -> anyhow::Result<()> {
    build_ebpf::run()?;
    recorder::run()?;
    process::run(workspace::cargo_for_host("build").args([
        "--release",
        "--package=tracer-posix",
        "--package=tracer-user",
    ]))
}
