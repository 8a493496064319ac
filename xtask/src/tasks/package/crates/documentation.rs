//! Documentation of the crates, made as sites make it: from the packages alone.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::{Crate, archive, folder};
use crate::process;

/// Unpacks the crates in a folder that no setting of this repository reaches, and documents them
/// there.
pub fn make(crates: &[Crate], path: &OsStr) -> anyhow::Result<()> {
    let outside = Outside::new()?;
    let folders: Vec<String> = crates
        .iter()
        .map(|one| format!("\"{}-{}\"", one.name, one.version))
        .collect();
    let mut manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n[patch.crates-io]\n",
        folders.join(", ")
    );
    for one in crates {
        let mut unpack = Command::new("tar");
        unpack.arg("--extract").arg("--file").arg(archive(one));
        process::run(unpack.arg("--directory").arg(&outside.0))?;
        // The registry does not have them yet.
        let _ = writeln!(
            manifest,
            "{0} = {{ path = \"{0}-{1}\" }}",
            one.name, one.version
        );
    }
    let file = outside.0.join("Cargo.toml");
    fs::write(&file, manifest).with_context(|| file.display().to_string())?;
    document(&outside.0, path)
}

fn document(folder_of_all: &Path, path: &OsStr) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    process::run(
        Command::new(cargo)
            .args([
                "doc",
                "--quiet",
                "--no-deps",
                "--workspace",
                "--lib",
                "--target-dir",
            ])
            .arg(folder())
            .current_dir(folder_of_all)
            .env("RUSTDOCFLAGS", "-D warnings")
            .env("PATH", path),
    )
}

/// Folder that is removed when this value is dropped.
struct Outside(PathBuf);

impl Outside {
    fn new() -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("crates-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self(folder))
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
