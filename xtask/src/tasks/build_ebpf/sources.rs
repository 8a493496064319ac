//! Digest of what the eBPF object is built from, and of the object. While the one that is noted
//! beside the object is right, nothing has to be built to know that the object is.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, ensure};

use super::{FLAGS, OBJECT, TARGET};
use crate::{process, workspace};

/// Files and folders: the sources, the toolchain, what turns the compiler's output into the object,
/// and what the lint is told.
const PATHS: [&str; 10] = [
    "clippy.toml",
    "rust-toolchain.toml",
    "tracer-common/Cargo.toml",
    "tracer-common/src",
    "tracer-ebpf/Cargo.toml",
    "tracer-ebpf/src",
    "xtask/src/bpf_linker.rs",
    "xtask/src/debug_sections.rs",
    "xtask/src/tasks/build_ebpf",
    OBJECT,
];

/// Manifest with the profiles, of which this one builds the object, and with the lints.
const MANIFEST: &str = "Cargo.toml";
const PROFILE: &str = "release";

/// Returns the digest, in hexadecimal digits.
pub fn digest() -> anyhow::Result<String> {
    let mut all = format!("{TARGET} {}\n", FLAGS.join(" ")).into_bytes();
    all.extend_from_slice(settings()?.as_bytes());
    for package in packages()? {
        writeln!(all, "{package}")?;
    }
    for path in PATHS {
        for file in files(Path::new(path))? {
            let bytes = fs::read(workspace::root().join(&file));
            let bytes = bytes.with_context(|| file.display().to_string())?;
            writeln!(all, "{} {}", file.display(), bytes.len())?;
            all.extend_from_slice(&bytes);
        }
    }
    hash(&all)
}

/// Returns the settings of the profile and of the lints.
fn settings() -> anyhow::Result<String> {
    let manifest = fs::read_to_string(workspace::root().join(MANIFEST)).context(MANIFEST)?;
    let manifest: toml::Table = manifest.parse().context(MANIFEST)?;
    let profile = manifest.get("profile").and_then(|all| all.get(PROFILE));
    let profile = profile.with_context(|| format!("{MANIFEST} has no profile {PROFILE}"))?;
    let lints = manifest.get("workspace").and_then(|all| all.get("lints"));
    let lints = lints.with_context(|| format!("{MANIFEST} has no lints"))?;
    Ok(format!("{profile:?}\n{lints:?}\n"))
}

/// Returns the names and versions of the crates that the programs are made of.
fn packages() -> anyhow::Result<BTreeSet<String>> {
    let tree = process::output(
        workspace::cargo("tree")
            .args(["--package=tracer-ebpf", "--edges=normal"])
            .args(["--prefix=none", "--format={p}"]),
    )?;
    let words = |line: &str| {
        let words: Vec<&str> = line.split(' ').take(2).collect();
        words.join(" ")
    };
    Ok(tree.lines().map(words).collect())
}

/// Lists the files of a folder, however deep, in order; or the file itself.
fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let whole = workspace::root().join(path);
    if !whole.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut inside = BTreeSet::new();
    for entry in fs::read_dir(&whole).with_context(|| whole.display().to_string())? {
        inside.insert(path.join(entry?.file_name()));
    }
    let lists: anyhow::Result<Vec<_>> = inside.iter().map(|path| files(path)).collect();
    Ok(lists?.concat())
}

fn hash(bytes: &[u8]) -> anyhow::Result<String> {
    let mut hash = workspace::git("hash-object");
    let mut hash = hash
        .arg("--stdin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run git")?;
    hash.stdin.take().context("no input")?.write_all(bytes)?;
    let output = hash.wait_with_output()?;
    ensure!(output.status.success(), "git cannot make a digest");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_the_object_are_among_the_files() {
        let files = |path: &str| files(Path::new(path)).unwrap();
        assert!(files("tracer-ebpf/src").contains(&PathBuf::from("tracer-ebpf/src/main.rs")));
        let deep = PathBuf::from("tracer-common/src/kernel/mod.rs");
        assert!(files("tracer-common/src").contains(&deep));
        assert_eq!(files(OBJECT), [PathBuf::from(OBJECT)]);
    }

    #[test]
    fn other_bytes_have_another_digest() {
        assert_eq!(hash(b"a").unwrap(), hash(b"a").unwrap());
        assert_ne!(hash(b"a").unwrap(), hash(b"b").unwrap());
    }

    #[test]
    fn the_crates_are_named_with_their_versions() {
        let packages = packages().unwrap();
        assert!(packages.contains("tracer-common v0.1.0"), "{packages:?}");
    }
}
