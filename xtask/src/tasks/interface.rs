//! Public interface of the crates that others use, as lists: the difference of a list shows the
//! items that a change adds or removes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use public_api::Builder;

use crate::{process, workspace};

/// Arguments of the task.
#[derive(clap::Args)]
pub struct Args {
    /// Only fail when a list is not up to date
    #[arg(long)]
    pub check: bool,
}

/// Crates that others use, and their folders. `tracer-posix` re-exports items of the other two.
const CRATES: [(&str, &str); 6] = [
    ("tracer-binary", "tracer-user/binary"),
    ("tracer-engine", "tracer-posix/engine"),
    ("tracer-log", "tracer-posix/log"),
    ("tracer-posix", "tracer-posix"),
    ("tracer-syscalls", "tracer-user/syscalls"),
    ("tracer-text", "tracer-user/text"),
];

/// Name of the list, in the crate's folder.
const LIST: &str = "interface.txt";

/// Writes the lists, or compares them.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut differences = String::new();
    for (name, folder) in CRATES {
        let path = workspace::root().join(folder).join(LIST);
        let made = list_of(name).with_context(|| format!("cannot list the interface of {name}"))?;
        if !args.check {
            fs::write(&path, made).with_context(|| format!("cannot write {}", path.display()))?;
            continue;
        }
        let present = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        differences += &difference(&present, &made);
    }
    ensure!(
        differences.is_empty(),
        "the public interface is another one; if that is intended, run: cargo xtask interface\n{differences}"
    );
    Ok(())
}

/// Returns a line for each public item, sorted.
fn list_of(name: &str) -> anyhow::Result<String> {
    let json = description_of(name)?;
    let interface = Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()?;
    Ok(interface.items().map(|item| format!("{item}\n")).collect())
}

/// Makes rustdoc's description of a crate as JSON, and returns its path. Its format belongs to the
/// pinned toolchain, as the reader's version does.
///
/// Only rustdoc may use what is not stable. Crates that ask whether they may, too, are not compiled
/// anew for this: they are those of the other checks.
fn description_of(name: &str) -> anyhow::Result<PathBuf> {
    process::run(
        workspace::cargo_for_host("rustdoc")
            .args(["--quiet", "--lib", "--all-features"])
            .args(["--package", name])
            .args(["--", "-Zunstable-options", "--output-format=json"])
            .env("RUSTDOC", unstable_rustdoc()?),
    )?;
    Ok(workspace::target("doc").join(format!("{}.json", name.replace('-', "_"))))
}

/// Returns a program that is rustdoc with features that are not stable.
fn unstable_rustdoc() -> anyhow::Result<PathBuf> {
    let program = workspace::target("tools/unstable-rustdoc");
    let script = "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n";
    if fs::read_to_string(&program).is_ok_and(|there| there == script) {
        return Ok(program);
    }
    let write = || -> anyhow::Result<()> {
        fs::create_dir_all(workspace::target("tools"))?;
        fs::write(&program, script)?;
        Ok(fs::set_permissions(
            &program,
            Permissions::from_mode(0o755),
        )?)
    };
    write().with_context(|| format!("cannot write {}", program.display()))?;
    Ok(program)
}

/// Returns the lines that are only in one of two lists.
fn difference(present: &str, made: &str) -> String {
    let only = |sign: &str, lines: &str, other: &str| -> String {
        let is_missing = |line: &&str| !other.lines().any(|known| known == *line);
        let missing = lines.lines().filter(is_missing);
        missing.map(|line| format!("{sign} {line}\n")).collect()
    };
    only("-", present, made) + &only("+", made, present)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_away_and_what_is_added_is_shown() {
        let difference = difference("pub fn a\npub fn b\n", "pub fn b\npub fn c\n");
        assert_eq!(difference, "- pub fn a\n+ pub fn c\n");
    }
}
