//! Where things are, and cargo as the tasks call it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The top folder of the repository.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// A path under `target/`.
pub fn target(path: &str) -> PathBuf {
    root().join("target").join(path)
}

/// A cargo command of the pinned toolchain in the top folder.
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

/// A cargo command that compiles for the host.
///
/// Its output goes under the repository's own `target/`, whatever the user's configuration says:
/// the tasks pick it up there.
pub fn cargo_for_host(subcommand: &str) -> Command {
    let mut command = cargo(subcommand);
    command.arg("--target-dir").arg(target(""));
    command
}
