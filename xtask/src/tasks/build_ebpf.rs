//! Builds the eBPF object.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::tasks::setup;
use crate::{debug_sections, process, workspace};

/// Where the object is left, for `tracer-user` to take in.
const OBJECT: &str = "ebpf/tracer-ebpf.o";

#[cfg(target_endian = "little")]
const TARGET: &str = "bpfel-unknown-none";
#[cfg(target_endian = "big")]
const TARGET: &str = "bpfeb-unknown-none";

/// Type information for the kernel, and the instructions that every kernel with BPF ring buffers
/// takes.
const FLAGS: [&str; 3] = ["-Cdebuginfo=2", "-Clink-arg=--btf", "-Ctarget-cpu=v3"];

/// Separates flags in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\x1f";

/// Builds the object and returns where it is. The file is left alone when nothing changed, so
/// that nothing built from it is built again.
pub fn run() -> anyhow::Result<PathBuf> {
    let linker = setup::for_ebpf()?;
    let mut linker_flag = OsString::from("-Clinker=");
    linker_flag.push(linker);
    process::run(cargo_for_ebpf("build", Some(linker_flag)).arg("--bins"))
        .context("the eBPF object cannot be built")?;

    let built = workspace::target("ebpf")
        .join(TARGET)
        .join("release/tracer-ebpf");
    let object = workspace::target(OBJECT);
    let bytes = fs::read(&built).with_context(|| format!("cannot read {}", built.display()))?;
    ensure!(
        bytes.starts_with(b"\x7fELF"),
        "{} is no object file",
        built.display()
    );
    // Six of its seven parts are for debuggers, which find them where it was built. The loader
    // needs none.
    let bytes = debug_sections::remove(&bytes)?;
    if fs::read(&object).ok().as_deref() != Some(&bytes) {
        fs::write(&object, &bytes).with_context(|| format!("cannot write {}", object.display()))?;
    }
    Ok(object)
}

/// A cargo command for the crate `tracer-ebpf` and its target.
///
/// The pinned stable toolchain builds `core` for it from source, which is a nightly feature: only
/// this command is allowed it.
pub fn cargo_for_ebpf(subcommand: &str, linker_flag: Option<OsString>) -> Command {
    let flags = FLAGS.map(OsString::from).into_iter();
    let flags: Vec<_> = flags.chain(linker_flag).collect();
    let mut command = workspace::cargo(subcommand);
    command
        .args(["--package", "tracer-ebpf", "--release"])
        .args(["--target", TARGET, "-Zbuild-std=core", "--target-dir"])
        .arg(workspace::target("ebpf"))
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join(OsStr::new(SEPARATOR)))
        .env_remove("RUSTFLAGS");
    command
}
