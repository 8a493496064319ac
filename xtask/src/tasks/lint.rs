//! Formatting and lints, for the host's crates and for the eBPF crate with its own target.

use crate::tasks::build_ebpf::cargo_for_ebpf;
use crate::tasks::{conformance, man, setup, vmtest};
use crate::{process, workspace};

/// Fails on anything that is not clean.
pub fn run() -> anyhow::Result<()> {
    setup::for_linting()?;
    conformance::run(&conformance::Args { check: true })?;
    man::run(&man::Args { check: true })?;
    vmtest::table::check()?;
    process::run(workspace::cargo("fmt").args(["--all", "--", "--check"]))?;
    process::run(
        workspace::cargo_for_host("clippy")
            .args(["--workspace", "--exclude=tracer-ebpf", "--all-targets"])
            .args(["--", "-D", "warnings"]),
    )?;
    process::run(cargo_for_ebpf("clippy", None).args(["--", "-D", "warnings"]))
}
