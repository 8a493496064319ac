//! For machines with arm64: what compiles for them, and runs their programs here.

use std::path::PathBuf;
use std::process::Command;

use crate::tasks::{for_c, setup};
use crate::{process, workspace};

/// What Rust calls them.
pub const TARGET: &str = "aarch64-unknown-linux-gnu";

/// What the C compiler's tools for them begin with.
pub const TOOLS: &str = "aarch64-linux-gnu-";

/// Where Debian's cross compiler has their C library.
pub const LIBRARIES: &str = "/usr/aarch64-linux-gnu";

/// What runs one of their programs.
pub const RUNNER: [&str; 3] = ["qemu-aarch64", "-L", LIBRARIES];

/// Sets up what building and running for them needs.
pub fn set_up() -> anyhow::Result<()> {
    setup::for_arm64(TARGET)
}

/// A cargo command that compiles for them. Without what debuggers want, which is most of what is
/// written otherwise.
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

/// Builds the library, and lays out what C programs need of it.
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

/// Where all of it is laid out, as `target/dist` is for this machine.
pub fn folder() -> PathBuf {
    workspace::target("arm64/dist")
}
