//! Installs missing prerequisites; a quick check when none is missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::{bpf_linker, node, packages, process, python, workspace};

/// Prerequisites to set up in addition to those of building.
#[derive(clap::Args)]
pub struct Args {
    /// Also what the tests need
    #[arg(long)]
    test: bool,
}

/// Part of the toolchain, and the file in the toolchain's folder that shows it is installed.
struct Component {
    name: &'static str,
    sign: &'static str,
}

const RUST_SRC: Component = Component {
    name: "rust-src",
    sign: "lib/rustlib/src/rust/library/core/Cargo.toml",
};

const LINTERS: [Component; 2] = [
    Component {
        name: "clippy",
        sign: "bin/cargo-clippy",
    },
    Component {
        name: "rustfmt",
        sign: "bin/cargo-fmt",
    },
];

/// Sets up everything.
pub fn run(args: &Args) -> anyhow::Result<()> {
    for_ebpf()?;
    for_linting()?;
    for_c_programs()?;
    if args.test {
        for_tests()?;
    }
    eprintln!("Everything needed is there.");
    Ok(())
}

/// Sets up the prerequisites of building the eBPF object, and returns its linker.
pub fn for_ebpf() -> anyhow::Result<PathBuf> {
    packages::install_missing(packages::TO_BUILD)?;
    add_components(&[RUST_SRC])?;
    bpf_linker::find_or_install()
}

/// Sets up the prerequisites of linting.
pub fn for_linting() -> anyhow::Result<()> {
    packages::install_missing(packages::TO_LINT.iter().chain(packages::FOR_NODE))?;
    node::install_missing()?;
    for_linting_ebpf()
}

/// Sets up the prerequisites of linting eBPF code, which needs no linker.
pub fn for_linting_ebpf() -> anyhow::Result<()> {
    add_components(&[RUST_SRC])?;
    add_components(&LINTERS)
}

/// Sets up the prerequisites of compiling C programs with the library.
pub fn for_c_programs() -> anyhow::Result<()> {
    packages::install_missing(packages::TO_BUILD.iter().chain(packages::FOR_C_PROGRAMS))
}

/// Sets up the prerequisites of the tests in addition to those of the build.
pub fn for_tests() -> anyhow::Result<()> {
    for_c_programs()?;
    tools_of_tests()
}

/// Sets up the tools that tests compare with, and the packages of Python and Node.js with which
/// they read exports and pages. No build needs them.
pub fn tools_of_tests() -> anyhow::Result<()> {
    packages::install_missing(packages::TO_TEST.iter().chain(packages::FOR_NODE))?;
    python::install_missing()?;
    node::install_missing()
}

/// Sets up the prerequisites of pictures in addition to those of the build.
pub fn for_pictures() -> anyhow::Result<()> {
    packages::install_missing(packages::FOR_PICTURES.iter().chain(packages::FOR_NODE))?;
    node::install_missing()
}

/// Sets up the prerequisites of tests in virtual machines.
pub fn for_virtual_machines() -> anyhow::Result<()> {
    for_tests()?;
    packages::install_missing(packages::FOR_VIRTUAL_MACHINES)
}

/// Sets up the prerequisites of compiling for arm64, whose target is `target`, and of running its
/// programs.
pub fn for_arm64(target: &str) -> anyhow::Result<()> {
    for_c_programs()?;
    packages::install_missing(packages::FOR_ARM64)?;
    add_target(target)
}

/// Sets up the prerequisites of the program that is linked with musl, for this target. All of it is
/// Rust, and the target brings the C library: only the linker comes from the system.
pub fn for_static_program(target: &str) -> anyhow::Result<()> {
    packages::install_missing(packages::TO_BUILD)?;
    add_target(target)
}

/// Adds the standard library for another target to the toolchain.
pub fn add_target(target: &str) -> anyhow::Result<()> {
    let sysroot = sysroot()?;
    if Path::new(&sysroot)
        .join("lib/rustlib")
        .join(target)
        .exists()
    {
        return Ok(());
    }
    process::run(
        Command::new("rustup")
            .current_dir(workspace::root())
            .args(["target", "add", target]),
    )
    .with_context(|| format!("the toolchain's target {target} cannot be added"))
}

fn sysroot() -> anyhow::Result<String> {
    process::output(
        Command::new("rustc")
            .current_dir(workspace::root())
            .args(["--print", "sysroot"]),
    )
}

/// Adds parts of the toolchain. A rustup that installs automatically has added them already; where
/// that is disabled, naming them in `rust-toolchain.toml` is not enough.
fn add_components(components: &[Component]) -> anyhow::Result<()> {
    let sysroot = sysroot()?;
    let is_missing = |component: &&Component| !Path::new(&sysroot).join(component.sign).exists();
    let missing: Vec<_> = components
        .iter()
        .filter(is_missing)
        .map(|component| component.name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    if process::find("rustup").is_none() {
        bail!(
            "the toolchain lacks {}, and there is no rustup to add it",
            missing.join(", ")
        );
    }
    process::run(
        Command::new("rustup")
            .current_dir(workspace::root())
            .args(["component", "add"])
            .args(&missing),
    )
    .with_context(|| format!("the toolchain's {} cannot be added", missing.join(", ")))
}
