//! Archive for machines that have no package manager, or another one: the program is static.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::system::{self, System};
use super::{Release, documents};
use crate::tasks::piece::Part;
use crate::tasks::{dist, static_program};
use crate::{process, workspace};

/// Makes the archive. Returns its path.
pub fn make(release: &Release, into: &Path) -> anyhow::Result<PathBuf> {
    let work = workspace::target("package/tarball");
    let _ = fs::remove_dir_all(&work);
    let dist = work.join("dist");
    dist::lay_out_tool(&static_program::path(), &dist)?;
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
