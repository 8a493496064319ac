//! Builds the shipped programs, and the programs that are tested in their place.

use std::process::Command;

use crate::tasks::test::binaries;
use crate::tasks::{build_ebpf, recorder};
use crate::{process, workspace};

/// Profile of shipped programs; its name is also that of their folder in `target`.
pub const PROFILE: &str = "--profile=shipped";

/// Build of the command line. The library is always the shipped one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Linked as a whole, which takes minutes.
    Shipped,
    /// Built with the tests, and as they are, with checks of overflows: for them and for the
    /// demonstration.
    Tested,
}

impl Tool {
    /// Returns the path of the program, from the top folder.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Shipped => "target/shipped/tracer-user",
            Self::Tested => "target/debug/tracer-user",
        }
    }

    /// Returns the cargo command that builds it.
    fn build(self) -> Command {
        let mut build = match self {
            Self::Shipped => workspace::cargo_for_host("build"),
            Self::Tested => workspace::cargo_for_tests("build"),
        };
        match self {
            Self::Shipped => build.args([PROFILE, "--package=tracer-user"]),
            // Features are those of all selected packages, and with an example also those that
            // tests ask for: so it is not compiled once for itself and once for them.
            Self::Tested => build.args(binaries::SELECTION).arg("--example=manual"),
        };
        build.arg("--bin=tracer-user");
        build
    }
}

/// Builds the shipped library and command line.
pub fn run() -> anyhow::Result<()> {
    run_with(Tool::Shipped)
}

/// Builds the eBPF object and the program that records, then the library and the command line,
/// which include them, and the library for robots.
pub fn run_with(tool: Tool) -> anyhow::Result<()> {
    build_ebpf::run()?;
    recorder::run()?;
    // For C alone: what a Rust program could name is reached by a longer way.
    process::run(
        workspace::cargo_for_host("rustc")
            .args([PROFILE, "--package=libposixtrace", "--lib"])
            .arg("--crate-type=cdylib,staticlib"),
    )?;
    process::run(workspace::cargo_for_host("rustc").args([
        PROFILE,
        "--package=tracetools-posix",
        "--lib",
    ]))?;
    process::run(&mut tool.build())
}
