//! Packages of Node.js that tests and the lint use, in a folder of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::{process, workspace};

/// Packages, each at the version that it was tested with.
const PACKAGES: [&str; 3] = [
    // Drives a browser.
    "playwright-core@1.65.1",
    // Finds what those cannot use who see or hear a page otherwise.
    "axe-core@4.14.1",
    // Checks the types of the page's modules.
    "typescript@7.0.2",
];

/// A server that answers as Azure's object store does.
const AZURITE: [&str; 1] = ["azurite@3.37.0"];

/// Returns the script that is that server, once it is installed.
///
/// # Errors
///
/// It cannot be installed.
pub fn azurite() -> anyhow::Result<PathBuf> {
    let folder = workspace::target("azurite");
    install(&folder, &AZURITE)?;
    Ok(folder.join("node_modules/azurite/dist/src/blob/main.js"))
}

/// Returns their folder, under `target/`: the value of `NODE_PATH`.
pub fn modules() -> PathBuf {
    folder().join("node_modules")
}

fn folder() -> PathBuf {
    workspace::target("node")
}

/// Installs the packages; a quick check when they are installed already.
pub fn install_missing() -> anyhow::Result<()> {
    install(&folder(), &PACKAGES)
}

fn install(folder: &Path, packages: &[&str]) -> anyhow::Result<()> {
    let sign = folder.join("packages");
    let wanted = packages.join("\n");
    if fs::read_to_string(&sign).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    eprintln!(
        "Installing {} into {}",
        packages.join(" "),
        folder.display()
    );
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // Packages go to the folder that has such a file, or to one further up.
    let package = folder.join("package.json");
    fs::write(&package, "{\"private\": true}\n")
        .with_context(|| format!("cannot write to {}", package.display()))?;
    process::run(
        Command::new("npm")
            .current_dir(folder)
            .args(["install", "--silent", "--no-audit", "--no-fund"])
            // What they would do while they are installed is not needed.
            .args(["--ignore-scripts", "--save-exact"])
            .args(packages),
    )
    .context("the packages of Node.js cannot be installed")?;
    fs::write(&sign, wanted).with_context(|| format!("cannot write to {}", sign.display()))
}
