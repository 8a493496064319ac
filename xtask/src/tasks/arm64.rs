//! Builds for machines with arm64, whose programs also run here.

use std::path::PathBuf;
use std::process::Command;

use crate::tasks::{for_c, setup};
use crate::{process, workspace};

/// Rust's name of the target.
pub const TARGET: &str = "aarch64-unknown-linux-gnu";

/// Prefix of the C compiler's tools for it.
pub const TOOLS: &str = "aarch64-linux-gnu-";

/// Folder of its C library in Debian's cross compiler.
pub const LIBRARIES: &str = "/usr/aarch64-linux-gnu";

/// Command that runs one of its programs.
pub const RUNNER: [&str; 3] = ["qemu-aarch64", "-L", LIBRARIES];

/// Sets up the prerequisites of building and running for it.
pub fn set_up() -> anyhow::Result<()> {
    setup::for_arm64(TARGET)
}

/// Returns a cargo command that compiles for it, without debug information, which would be most of
/// the output.
pub fn cargo(subcommand: &str) -> Command {
    let mut command = workspace::cargo_for_host(subcommand);
    command
        .args(["--target", TARGET])
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
            format!("{TOOLS}gcc"),
        )
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            RUNNER.join(" "),
        )
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    command
}

/// Builds the library, and lays out the files that C programs need of it.
pub fn library() -> anyhow::Result<PathBuf> {
    process::run(
        cargo("rustc")
            .args(["--quiet", "--package=libposixtrace", "--lib"])
            .arg("--crate-type=cdylib,staticlib"),
    )?;
    let dist = folder();
    for_c::lay_out(&format!("target/{TARGET}/debug"), TOOLS, &dist)?;
    Ok(dist)
}

/// Returns the folder of this layout: as `target/dist` is for this machine.
pub fn folder() -> PathBuf {
    workspace::target("arm64/dist")
}
