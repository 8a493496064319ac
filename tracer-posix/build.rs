//! Puts the program that records into the library.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Where the program that records is (`.cargo/config.toml`), once `cargo xtask` has built it. In a
/// library that is built without it forks record.
const RECORDER: &str = "TRACER_RECORDER";

/// Sources that library and program are built from, and have to be built from alike.
const SOURCES: [&str; 6] = [
    "src",
    "area/src",
    "engine/src",
    "log/src",
    "recorder/src",
    "../tracer-common/src",
];

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    let mut hash = Hash::new();
    // In a package of this crate alone the others are missing, and so is a program to compare with.
    for folder in SOURCES
        .into_iter()
        .filter(|folder| Path::new(folder).is_dir())
    {
        println!("cargo:rerun-if-changed={folder}");
        add_folder(&mut hash, Path::new(folder))?;
    }
    let mark = format!("posixtrace of sources {:016x}", hash.0);
    println!("cargo:rustc-env=TRACER_SOURCES={mark}");
    include_recorder(&mark)
}

/// Takes in the program that has the mark in it, or nothing: another version's could not be
/// decoded.
fn include_recorder(mark: &str) -> io::Result<()> {
    println!("cargo:rerun-if-env-changed={RECORDER}");
    // The program is no part of itself.
    let is_the_program = env::var_os("CARGO_CFG_TRACER_RECORDER").is_some();
    let program = env::var_os(RECORDER).filter(|_| !is_the_program);
    let program = program.map(PathBuf::from);
    if let Some(program) = &program {
        println!("cargo:rerun-if-changed={}", program.display());
    }
    let mark = mark.as_bytes();
    let bytes = program
        .and_then(|program| fs::read(program).ok())
        .filter(|bytes| bytes.windows(mark.len()).any(|part| part == mark));
    let folder = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    let included = PathBuf::from(folder).join("tracer-recorder");
    fs::write(&included, bytes.unwrap_or_default())?;
    println!(
        "cargo:rustc-env=TRACER_RECORDER_INCLUDED={}",
        included.display()
    );
    Ok(())
}

fn add_folder(hash: &mut Hash, folder: &Path) -> io::Result<()> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.sort();
    for path in paths {
        if path.is_dir() {
            add_folder(hash, &path)?;
        } else {
            hash.add(&fs::read(path)?);
        }
    }
    Ok(())
}

/// Distinguishes sources (FNV-1a).
struct Hash(u64);

impl Hash {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
