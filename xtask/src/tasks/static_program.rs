//! Command line for any Linux: musl is linked in, so it needs no C library of the system.

use std::ffi::{OsStr, OsString};
use std::fs;

use anyhow::{Context as _, ensure};
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Endianness, elf};

use crate::tasks::build_ebpf::{SEPARATOR, paths_taken_out};
use crate::tasks::{build, setup};
use crate::{process, workspace};

/// Rust's name of the target.
#[cfg(target_arch = "x86_64")]
pub const TARGET: &str = "x86_64-unknown-linux-musl";
#[cfg(target_arch = "aarch64")]
pub const TARGET: &str = "aarch64-unknown-linux-musl";

/// Builds the program, with the present eBPF object. No path of this machine gets into it: it is
/// the same wherever it is built.
pub fn build() -> anyhow::Result<()> {
    setup::for_static_program(TARGET)?;
    let flags: Vec<OsString> = paths_taken_out()?;
    let mut build = workspace::cargo_for_host("build");
    build
        .args([build::PROFILE, "--package=tracer-user", "--bin=tracer-user"])
        .args(["--target", TARGET])
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join(OsStr::new(SEPARATOR)))
        // The tool has no use for the program that records, which may be there or not.
        .env("TRACER_RECORDER", "/dev/null")
        .env_remove("RUSTFLAGS");
    process::run(&mut build)?;
    check()
}

/// Returns the path of the program, from the top folder.
pub fn path() -> String {
    format!("target/{TARGET}/shipped/tracer-user")
}

/// Fails when the program needs a loader, and so libraries.
fn check() -> anyhow::Result<()> {
    let path = workspace::root().join(path());
    let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
    let file = ElfFile64::<Endianness>::parse(&*bytes).context("the program is no ELF file")?;
    let mut headers = file.elf_program_headers().iter();
    ensure!(
        headers.all(|header| header.p_type(file.endian()) != elf::PT_INTERP),
        "{} is not static: it asks for a loader",
        path.display()
    );
    Ok(())
}
