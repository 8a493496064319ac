//! Archive for machines that have no package manager, or another one. The program is for any Linux:
//! musl is linked in, so it needs no C library of the system.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Endianness, elf};

use super::system::{self, System};
use super::{Release, documents};
use crate::tasks::build_ebpf::{SEPARATOR, paths_taken_out};
use crate::tasks::dist::{self, Part};
use crate::tasks::{build, setup};
use crate::{process, workspace};

/// Rust's name of the target.
#[cfg(target_arch = "x86_64")]
pub const TARGET: &str = "x86_64-unknown-linux-musl";
#[cfg(target_arch = "aarch64")]
pub const TARGET: &str = "aarch64-unknown-linux-musl";

/// Builds the program, with the present eBPF object. No path of this machine gets into it: it is
/// the same wherever it is built.
pub fn build_program() -> anyhow::Result<()> {
    setup::for_static_program(TARGET)?;
    let flags: Vec<OsString> = paths_taken_out()?;
    let mut build = workspace::cargo_for_host("build");
    build
        .args([build::PROFILE, "--package=tracer-user", "--bin=tracer-user"])
        .args(["--target", TARGET])
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join(OsStr::new(SEPARATOR)))
        // The tool has no use for the program that records, which may be there or not.
        .env("TRACER_RECORDER", "/dev/null")
        .env_remove("RUSTFLAGS");
    process::run(&mut build)?;
    check_program()
}

/// Returns the path of the program, from the top folder.
fn program() -> String {
    format!("target/{TARGET}/shipped/tracer-user")
}

/// Fails when the program needs a loader, and so libraries.
fn check_program() -> anyhow::Result<()> {
    let path = workspace::root().join(program());
    let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
    let file = ElfFile64::<Endianness>::parse(&*bytes).context("the program is no ELF file")?;
    let mut headers = file.elf_program_headers().iter();
    ensure!(
        headers.all(|header| header.p_type(file.endian()) != elf::PT_INTERP),
        "{} is not static: it asks for a loader",
        path.display()
    );
    Ok(())
}

/// Makes the archive. Returns its path.
pub fn make(release: &Release, into: &Path) -> anyhow::Result<PathBuf> {
    let work = workspace::target("package/tarball");
    let _ = fs::remove_dir_all(&work);
    let dist = work.join("dist");
    dist::lay_out_tool(&program(), &dist)?;
    let name = format!(
        "tracer-user-{}-linux-{}",
        release.version,
        std::env::consts::ARCH
    );
    let documents = documents::collect_for_archive()?;
    system::lay_out(
        System::Any,
        Part::Tool,
        &dist,
        &documents,
        &work.join(&name),
    )?;
    pack(&name, &work, release, into)
}

/// Packs files so that the same files always make the same bytes, for every user and at any time.
fn pack(name: &str, work: &Path, release: &Release, into: &Path) -> anyhow::Result<PathBuf> {
    let tar = into.join(format!("{name}.tar"));
    process::output(
        Command::new("tar")
            .args(["--create", "--format=gnu", "--sort=name"])
            .args(["--owner=root:0", "--group=root:0", "--numeric-owner"])
            .arg(format!("--mtime=@{}", release.date))
            .arg("--file")
            .arg(&tar)
            .arg("--directory")
            .arg(work)
            .arg(name),
    )?;
    // Without a name and a date.
    process::output(Command::new("gzip").args(["-9nf"]).arg(&tar))?;
    Ok(into.join(format!("{name}.tar.gz")))
}
