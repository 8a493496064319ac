//! Crates as their users get them: only the files that `cargo publish` would upload are built and
//! documented, without the tools that only the eBPF object needs.

mod texts;

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, iter};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use texts::{TEXTS, Texts};

use crate::{process, workspace};

/// Largest size that a registry accepts, compressed.
const MOST_BYTES: u64 = 10 << 20;

/// Files that every crate has in addition to its sources.
const IN_ALL: [&str; 3] = ["README.md", TEXTS[0], TEXTS[1]];

/// Files of single crates that their users could not make.
const IN_SOME: &[(&str, &str)] = &[("tracer-kernel", "ebpf/tracer-ebpf.o")];

/// Files that are of no use to the users of a crate.
const STRAYS: &[&str] = &["page/test/", "page/package.json", "page/tsconfig.json"];

/// Tools that only makers of the eBPF object have.
const ABSENT: &[&str] = &["bpf-linker", "clang", "llvm-config", "llc", "opt"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Crate>,
}

/// Crate of this project.
#[derive(Deserialize)]
struct Crate {
    name: String,
    version: String,
    manifest_path: PathBuf,
    description: Option<String>,
    license: Option<String>,
    readme: Option<PathBuf>,
    rust_version: Option<String>,
    keywords: Vec<String>,
    categories: Vec<String>,
    /// Registries that it may be published in; `None`: any.
    publish: Option<Vec<String>>,
}

/// Packages and verifies the published crates, and uploads them where that is asked for.
pub fn run(is_upload: bool) -> anyhow::Result<()> {
    let crates = published()?;
    if is_upload {
        check_that_all_is_committed()?;
    }
    let _texts = Texts::put_into(&crates)?;
    for one in &crates {
        check_manifest(one)?;
        check_files(&one.name, &files_of(one)?)?;
    }
    let path = path_without_tools()?;
    verify(&crates, &path)?;
    for one in &crates {
        check_size(one)?;
    }
    make(&crates, &path)?;
    if is_upload {
        process::run(of_all("publish", &crates).arg("--no-verify"))?;
    }
    Ok(())
}

/// Fails where something would be uploaded that no commit has.
fn check_that_all_is_committed() -> anyhow::Result<()> {
    let said = process::output(workspace::git("status").arg("--porcelain"))?;
    ensure!(said.is_empty(), "commit this before an upload:\n{said}");
    Ok(())
}

/// Returns the crates that are published, in the order of their names.
fn published() -> anyhow::Result<Vec<Crate>> {
    let mut ask = workspace::cargo("metadata");
    let said = process::output(ask.args(["--format-version=1", "--no-deps"]))?;
    let metadata: Metadata = serde_json::from_str(&said).context("cargo metadata")?;
    let mut crates = metadata.packages;
    crates.retain(|one| one.publish.is_none());
    crates.sort_by(|a, b| a.name.cmp(&b.name));
    ensure!(!crates.is_empty(), "no crate is published");
    Ok(crates)
}

/// Fails when a manifest lacks an entry that registries show.
fn check_manifest(one: &Crate) -> anyhow::Result<()> {
    let said = [
        ("description", one.description.is_some()),
        ("license", one.license.is_some()),
        ("readme", one.readme.is_some()),
        ("rust-version", one.rust_version.is_some()),
        (
            "keywords, five at most",
            (1..=5).contains(&one.keywords.len()),
        ),
        (
            "categories, five at most",
            (1..=5).contains(&one.categories.len()),
        ),
    ];
    let missing: Vec<&str> = said
        .iter()
        .filter(|(_, is)| !is)
        .map(|(key, _)| *key)
        .collect();
    ensure!(
        missing.is_empty(),
        "the manifest of {} does not say: {}",
        one.name,
        missing.join("; ")
    );
    Ok(())
}

/// Lists the paths of the files that a crate would have.
fn files_of(one: &Crate) -> anyhow::Result<Vec<String>> {
    let mut list = workspace::cargo("package");
    let said = process::output(list.args(["--list", "--allow-dirty", "--package", &one.name]))?;
    Ok(said.lines().map(str::to_owned).collect())
}

/// Fails when a file is missing, or is of no use.
fn check_files(name: &str, files: &[String]) -> anyhow::Result<()> {
    let of_it = IN_SOME.iter().filter(|(of, _)| *of == name);
    for wanted in IN_ALL.iter().chain(of_it.map(|(_, file)| file)) {
        ensure!(
            files.iter().any(|file| file == wanted),
            "{name} would be published without {wanted}"
        );
    }
    let is_stray = |file: &&String| STRAYS.iter().any(|stray| file.starts_with(stray));
    if let Some(stray) = files.iter().find(is_stray) {
        anyhow::bail!("{name} would be published with {stray}: add it to `exclude`");
    }
    Ok(())
}

/// Packages all crates, and builds each from its package and those of the others: cargo holds them
/// in a registry of its own meanwhile. Nothing is uploaded.
fn verify(crates: &[Crate], path: &OsStr) -> anyhow::Result<()> {
    process::run(of_all("publish", crates).arg("--dry-run").env("PATH", path))?;
    // That leaves no packages where cargo promises them to be.
    process::run(of_all("package", crates).args(["--quiet", "--no-verify"]))
}

/// Returns a cargo command for these crates. It takes what is not committed: the licences are not,
/// and a change can be tried before.
fn of_all(subcommand: &str, crates: &[Crate]) -> Command {
    let mut command = workspace::cargo(subcommand);
    command
        .arg("--allow-dirty")
        .arg("--target-dir")
        .arg(folder());
    for one in crates {
        command.args(["--package", &one.name]);
    }
    command
}

fn check_size(one: &Crate) -> anyhow::Result<()> {
    let file = archive(one);
    let bytes = file
        .metadata()
        .with_context(|| file.display().to_string())?
        .len();
    println!("{:9} bytes  {} {}", bytes, one.name, one.version);
    ensure!(
        bytes <= MOST_BYTES,
        "{} has {bytes} bytes: registries take {MOST_BYTES}",
        one.name
    );
    Ok(())
}

/// Returns the path at which cargo leaves a package.
fn archive(one: &Crate) -> PathBuf {
    let name = format!("{}-{}.crate", one.name, one.version);
    folder().join("package").join(name)
}

/// Returns the target folder of this task, which is separate from that of other builds.
fn folder() -> PathBuf {
    workspace::target("crates")
}

/// Returns a `PATH` on which a call of one of these tools fails, and the build with it: programs of
/// the same names come first.
fn path_without_tools() -> anyhow::Result<OsString> {
    let folder = workspace::target("package/absent");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    for name in ABSENT {
        let file = folder.join(name);
        let says =
            format!("#!/bin/sh\necho '{name} is not for those who get a crate' >&2\nexit 1\n");
        fs::write(&file, says).with_context(|| file.display().to_string())?;
        fs::set_permissions(&file, Permissions::from_mode(0o755))?;
    }
    let present = env::var_os("PATH").unwrap_or_default();
    let folders = iter::once(folder).chain(env::split_paths(&present));
    Ok(env::join_paths(folders)?)
}

/// Unpacks the crates in a folder that no setting of this repository reaches, and documents them
/// there.
fn make(crates: &[Crate], path: &OsStr) -> anyhow::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_and_what_is_too_much_is_found() {
        let files = |more: &[&str]| -> Vec<String> {
            IN_ALL
                .iter()
                .chain(more)
                .map(|one| (*one).to_owned())
                .collect()
        };

        assert!(check_files("tracer-log", &files(&["src/lib.rs"])).is_ok());
        assert!(check_files("tracer-kernel", &files(&["src/lib.rs"])).is_err());
        assert!(check_files("tracer-kernel", &files(&["ebpf/tracer-ebpf.o"])).is_ok());
        assert!(check_files("tracer-log", &files(&["page/test/shown.test.js"])).is_err());
        assert!(check_files("tracer-log", &["README.md".to_owned()]).is_err());
    }
}
