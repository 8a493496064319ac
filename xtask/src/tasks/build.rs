//! Builds what is shipped, and what is tested in its place.

use crate::tasks::{build_ebpf, recorder};
use crate::{process, workspace};

/// The profile of what is shipped, and the folder in `target` that it is left in.
pub const PROFILE: &str = "--profile=shipped";

/// How the command line is built. The library is always the one that is shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Linked as a whole, which takes minutes.
    Shipped,
    /// Linked from its parts: for tests and the demonstration.
    Tested,
}

impl Tool {
    /// Its profile, and the folder in `target` that it is left in.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Shipped => "shipped",
            Self::Tested => "tested",
        }
    }

    /// Path of the program, from the top folder.
    pub fn path(self) -> String {
        format!("target/{}/tracer-user", self.folder())
    }
}

/// Builds what is shipped.
pub fn run() -> anyhow::Result<()> {
    run_with(Tool::Shipped)
}

/// Builds the eBPF object and the program that records, and then the library and the command line,
/// which take them in.
pub fn run_with(tool: Tool) -> anyhow::Result<()> {
    build_ebpf::run()?;
    recorder::run()?;
    // For C alone: what a Rust program could name is reached by a longer way.
    process::run(
        workspace::cargo_for_host("rustc")
            .args([PROFILE, "--package=libposixtrace", "--lib"])
            .arg("--crate-type=cdylib,staticlib"),
    )?;
    process::run(
        workspace::cargo_for_host("build")
            .args(["--profile", tool.folder(), "--package=tracer-user"])
            .arg("--bin=tracer-user"),
    )
}
