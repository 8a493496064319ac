//! eBPF linker: found, or built.
//!
//! It reads the bitcode of the pinned toolchain, so its LLVM must not be older than the
//! toolchain's.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::packages::{self, Need};
use crate::{process, workspace};

const VERSION: &str = "0.13.0";

/// LLVM of the pinned toolchain.
const LLVM_MAJOR: &str = "22";

/// Path of Debian's LLVM package.
const LLVM_PREFIX: &str = "/usr/lib/llvm-22";

/// Settings for a quick build without debug information: the work is done by LLVM, which is
/// compiled already.
const QUICK: [&str; 2] = ["profile.release.debug=false", "profile.release.opt-level=1"];

/// Prerequisites of building the linker; not needed where a fitting linker is found.
const TO_BUILD_IT: &[Need] = &[Need {
    what: "LLVM 22 for the eBPF linker",
    holds: || llvm_prefix().join("include/llvm-c/Core.h").exists(),
    packages: &["llvm-22-dev"],
}];

/// Finds a fitting linker.
fn find() -> Option<PathBuf> {
    let on_path = process::find("bpf-linker").filter(|linker| fits(linker));
    on_path.or_else(|| Some(own()).filter(|linker| fits(linker)))
}

/// Finds the linker or builds it into `target/tools`.
pub fn find_or_install() -> anyhow::Result<PathBuf> {
    if let Some(linker) = find() {
        return Ok(linker);
    }
    packages::install_missing(TO_BUILD_IT)?;
    eprintln!("Building bpf-linker {VERSION} into target/tools");
    let features = format!("llvm-{LLVM_MAJOR}");
    process::run(
        workspace::cargo("install")
            .args(["bpf-linker", "--version", VERSION, "--locked", "--force"])
            .args(["--no-default-features", "--features", &features])
            .args(QUICK.iter().flat_map(|setting| ["--config", setting]))
            .arg("--root")
            .arg(workspace::target("tools"))
            .arg("--target-dir")
            .arg(workspace::target("tools/build"))
            .env("LLVM_PREFIX", llvm_prefix()),
    )
    .context("bpf-linker cannot be built")?;
    // Some hundred megabytes that are not needed again.
    let _ = fs::remove_dir_all(workspace::target("tools/build"));
    let linker = own();
    ensure!(
        fits(&linker),
        "the bpf-linker just built does not read what this toolchain writes: {}",
        linker.display()
    );
    Ok(linker)
}

/// Returns the version of the LLVM that a linker built here uses, or `None` where there is none.
pub fn llvm_version() -> Option<String> {
    process::output(Command::new(llvm_prefix().join("bin/llvm-config")).arg("--version")).ok()
}

fn own() -> PathBuf {
    workspace::target("tools/bin/bpf-linker")
}

fn llvm_prefix() -> PathBuf {
    env::var_os("LLVM_PREFIX").map_or_else(|| LLVM_PREFIX.into(), PathBuf::from)
}

/// Tells whether `linker` has the version and reads the toolchain's bitcode. The linker does not
/// report its LLVM version, so it is tried on a small file.
fn fits(linker: &Path) -> bool {
    let version = process::output(Command::new(linker).arg("--version"));
    version.is_ok_and(|said| said == format!("bpf-linker {VERSION}"))
        && reads_bitcode(linker).unwrap_or(false)
}

fn reads_bitcode(linker: &Path) -> anyhow::Result<bool> {
    let folder = workspace::target("tools/probe");
    fs::create_dir_all(&folder)?;
    let source = folder.join("probe.rs");
    let bitcode = folder.join("probe.bc");
    fs::write(
        &source,
        "#![no_std]\n#[unsafe(no_mangle)]\npub extern \"C\" fn probe(a: u32) -> u32 { a }\n",
    )?;
    process::output(
        Command::new("rustc")
            .current_dir(workspace::root())
            .args(["--edition=2024", "--crate-type=lib", "--emit=llvm-bc", "-o"])
            .arg(&bitcode)
            .arg(&source),
    )?;
    Ok(process::succeeds(
        Command::new(linker)
            .args(["--target=bpfel", "--export=probe", "--output"])
            .arg(folder.join("probe.o"))
            .arg(&bitcode),
    ))
}
