//! Puts the eBPF object where the crate can embed it.
//!
//! `cargo xtask build-ebpf` leaves it in the target directory. Where it is missing, an empty file
//! is embedded and loading says what to run: everything else can be built and tested without it.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

const OBJECT: &str = "ebpf/tracer-ebpf.o";

fn main() -> io::Result<()> {
    let candidates = candidates();
    let found = candidates.iter().position(|path| path.is_file());
    // What comes after the one that was found does not matter.
    for path in candidates.iter().take(found.map_or(usize::MAX, |i| i + 1)) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    if found.is_none() {
        // No such file: Cargo runs this again each time until there is an object, even if that
        // one is older than this run, which it would otherwise not notice.
        println!("cargo:rerun-if-changed={OBJECT}.is-missing");
    }
    println!("cargo:rerun-if-env-changed=CARGO_TARGET_DIR");

    let object = match found.and_then(|i| candidates.get(i)) {
        Some(path) => fs::read(path)?,
        None => Vec::new(),
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("tracer-ebpf.o"), object)
}

/// Where the object may be, the likeliest path first.
fn candidates() -> Vec<PathBuf> {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let workspace = manifest.parent().unwrap_or(Path::new("."));
    // A relative one is taken from the workspace, which is where Cargo is mostly called.
    let chosen = env::var_os("CARGO_TARGET_DIR").map(|target| workspace.join(target));
    let usual = workspace.join("target");
    chosen
        .into_iter()
        .chain([usual])
        .map(|target| target.join(OBJECT))
        .collect()
}
