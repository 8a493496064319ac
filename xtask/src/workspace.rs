//! Paths of the repository, and cargo as the tasks call it.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, fs};

use anyhow::Context as _;

use crate::process;

/// Returns the top folder of the repository.
///
/// Cargo's environment says where it has just found this crate. The path that was compiled in is
/// that of the checkout at build time: a checkout that was moved is not built anew.
pub fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> =
        LazyLock::new(|| root_of(env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from)));
    &ROOT
}

/// Returns the parent of this crate's folder, as Cargo reported it.
fn root_of(said: Option<PathBuf>) -> PathBuf {
    let is_ours = |folder: &PathBuf| folder.ends_with("xtask") && folder.exists();
    let here = said.filter(is_ours);
    let here = here.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    here.parent().map_or_else(|| here.clone(), Path::to_owned)
}

/// Makes sure that no build is used that has the path of another folder compiled into it, as tests
/// have: when the checkout was moved with its `target/`, the workspace's own crates are built anew.
pub fn settle() -> anyhow::Result<()> {
    let (sign, here) = (target("checkout"), root().as_os_str().as_bytes());
    let before = fs::read(&sign).ok();
    if before.as_deref() == Some(here) {
        return Ok(());
    }
    if before.is_some() || root() != root_of(None) {
        eprintln!("The checkout was moved: its own crates are built anew");
        for profile in ["dev", "release"] {
            let what = ["--quiet", "--workspace", "--profile", profile];
            process::run(cargo_for_host("clean").args(what))?;
        }
    }
    fs::create_dir_all(target(""))?;
    fs::write(&sign, here).with_context(|| format!("cannot write {}", sign.display()))
}

/// Returns a path under `target/`.
pub fn target(path: &str) -> PathBuf {
    root().join("target").join(path)
}

/// Returns a cargo command of the pinned toolchain in the top folder.
pub fn cargo(subcommand: &str) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .arg(subcommand)
        .current_dir(root())
        .env_remove("CARGO_TARGET_DIR")
        // Nightly features are for the eBPF build alone, which sets this itself.
        .env_remove("RUSTC_BOOTSTRAP");
    command
}

/// Returns a git command in the top folder.
pub fn git(subcommand: &str) -> Command {
    let mut command = Command::new("git");
    command.arg(subcommand).current_dir(root());
    command
}

/// Returns a cargo command that compiles for the host.
///
/// Its output goes under the repository's own `target/`, whatever the user's configuration says:
/// the tasks pick it up there.
pub fn cargo_for_host(subcommand: &str) -> Command {
    let mut command = cargo(subcommand);
    command.arg("--target-dir").arg(target(""));
    command
}

/// Program that compiles as `rustc` does, and lints.
const LINTER: &str = "clippy-driver";

/// Its further arguments, each with the mark at its end by which it tells them apart. `.ci/run` has
/// them too: another compiler, or others of its arguments, and all is built anew.
const LINTS: &str = "-Dwarnings__CLIPPY_HACKERY__";

static IS_LINTED: AtomicBool = AtomicBool::new(false);

/// Makes [`cargo_for_tests`] lint what it compiles. A finding ends the build.
pub fn lint_tests() {
    IS_LINTED.store(true, Ordering::Relaxed);
}

/// Returns a cargo command that compiles tests, and what is built with them.
pub fn cargo_for_tests(subcommand: &str) -> Command {
    let mut command = cargo_for_host(subcommand);
    if IS_LINTED.load(Ordering::Relaxed) {
        command
            .env("RUSTC_WORKSPACE_WRAPPER", LINTER)
            .env("CLIPPY_ARGS", LINTS);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_folder_is_where_cargo_found_this_crate_and_not_where_it_was_built() {
        let moved = std::env::temp_dir().join(format!("moved-{}", std::process::id()));
        let here = moved.join("xtask");
        fs::create_dir_all(&here).unwrap();
        let found = root_of(Some(here));
        fs::remove_dir_all(&moved).unwrap();

        assert_eq!(found, moved);
        // What is another crate's, or no more there, says nothing.
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert_eq!(root_of(Some(moved.join("xtask"))), built);
        assert_eq!(root_of(Some("/".into())), built);
        assert_eq!(root_of(None), built);
    }
}
