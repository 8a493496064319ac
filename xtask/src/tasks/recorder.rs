//! Builds the program that records, which the library includes.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};

use crate::{process, workspace};

/// Path of the program. `.cargo/config.toml` names it to the library's build script.
const PROGRAM: &str = "recorder/tracer-recorder";

/// Flags of a static program made of a part of the library, without trace points and C functions.
/// It is started from memory, perhaps where there are no files: it has to contain everything.
const FLAGS: [&str; 3] = ["-Ctarget-feature=+crt-static", "--cfg", "tracer_recorder"];

/// Separator of flags in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\x1f";

/// Builds the program and returns its path. An unchanged file is not written, so that nothing built
/// from it is built again.
pub fn run() -> anyhow::Result<PathBuf> {
    let target = host()?;
    let folder = workspace::target("recorder");
    let mut build = workspace::cargo("build");
    build
        .args(["--quiet", "--package=tracer-recorder", "--profile=recorder"])
        // Named, so that the flags are not those of build scripts too.
        .args(["--target", &target, "--target-dir"])
        .arg(&folder)
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join(SEPARATOR))
        .env_remove("RUSTFLAGS");
    // Quietly: cargo warns of kinds of library that are not made for it.
    process::output(&mut build).context(
        "the program that records cannot be built; where the static C library is missing, please install it (Debian: \
         libc6-dev, Fedora: glibc-static)",
    )?;
    let built = folder.join(&target).join("recorder/tracer-recorder");
    let bytes = fs::read(&built).with_context(|| format!("cannot read {}", built.display()))?;
    ensure!(
        bytes.starts_with(b"\x7fELF"),
        "{} is no program",
        built.display()
    );
    let program = workspace::target(PROGRAM);
    if fs::read(&program).ok().as_deref() != Some(&bytes) {
        fs::write(&program, &bytes)
            .with_context(|| format!("cannot write {}", program.display()))?;
    }
    Ok(program)
}

/// Returns the target that the toolchain compiles for by default.
fn host() -> anyhow::Result<String> {
    let mut rustc = std::process::Command::new("rustc");
    rustc.arg("-vV").current_dir(workspace::root());
    let said = process::output(&mut rustc)?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .context("rustc does not say what it compiles for")
}
