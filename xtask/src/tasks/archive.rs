//! Static library: one object, whose global names are the exported ones.
//!
//! Cargo's archive has Rust's standard library in it with all its global names. A program that
//! links two such archives may be refused for names that both define, and is larger than necessary.
//! The linker makes one object of the code that the exported functions need, and the names are made
//! local. All the tools come with every C compiler.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::{process, workspace};

/// Makes the archive `to` from the archive `from`, with the names listed in `exports`.
pub fn make(from: &str, exports: &str, to: &Path) -> anyhow::Result<()> {
    make_by("", from, exports, to)
}

/// Does the same as [`make`] with the tools whose names begin with `tools`: those for another
/// machine's architecture.
pub fn make_by(tools: &str, from: &str, exports: &str, to: &Path) -> anyhow::Result<()> {
    let exports = workspace::root().join(exports);
    let listed = fs::read_to_string(&exports).with_context(|| exports.display().to_string())?;
    let names: Vec<&str> = listed.lines().collect();
    ensure!(!names.is_empty(), "{} is empty", exports.display());
    let folder = workspace::target("archive");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let (linked, object) = (folder.join("linked.o"), folder.join("posixtrace.o"));

    let mut link = Command::new(format!("{tools}ld"));
    link.args(["-r", "--gc-sections", "-o"]).arg(&linked);
    for name in names {
        link.args(["--require-defined", name]);
    }
    link.arg("--whole-archive")
        .arg(workspace::root().join(from));
    process::run(&mut link)?;
    process::run(
        Command::new(format!("{tools}objcopy"))
            // The toolchain's bitcode is of no use to another linker, and confuses some.
            .args(["--remove-section=.llvmbc", "--remove-section=.llvmcmd"])
            .arg("--strip-debug")
            .arg(format!("--keep-global-symbols={}", exports.display()))
            .arg(&linked)
            .arg(&object),
    )?;
    pack(&object, to)
}

/// Makes the archive `to` of one C file, for any C library.
pub fn make_from_c(from: &str, to: &Path) -> anyhow::Result<()> {
    let folder = workspace::target("archive");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let object = folder.join("c.o");
    process::run(
        Command::new("cc")
            .args(["-O2", "-fPIC", "-Wall", "-Wextra", "-Werror", "-c"])
            // What one C library has for these the other may not have.
            .args(["-fno-stack-protector", "-U_FORTIFY_SOURCE"])
            .arg("-o")
            .arg(&object)
            .arg(workspace::root().join(from)),
    )?;
    pack(&object, to)
}

fn pack(object: &Path, to: &Path) -> anyhow::Result<()> {
    // What is there from before would stay in it.
    let _ = fs::remove_file(to);
    process::run(Command::new("ar").arg("rcsD").arg(to).arg(object))
}
