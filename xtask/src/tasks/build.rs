//! Builds everything.

use crate::tasks::build_ebpf;
use crate::{process, workspace};

/// Builds the eBPF object and then the workspace, optimised.
pub fn run() -> anyhow::Result<()> {
    build_ebpf::run()?;
    process::run(workspace::cargo_for_host("build").args([
        "--release",
        "--package=tracer-posix",
        "--package=tracer-user",
    ]))
}
