//! Bare systems.

use std::fs;
use std::path::PathBuf;

use super::WHY;
use crate::{packages, privilege, process, workspace};

/// Root of a system.
pub struct Bare {
    /// Its folder.
    pub root: PathBuf,
}

impl Drop for Bare {
    fn drop(&mut self) {
        // What a script had mounted there has ended with the script.
        if let Ok(mut command) = privilege::as_root("rm", WHY) {
            command.args(["-rf", "--one-file-system"]).arg(&self.root);
            let _ = process::run(&mut command);
        }
    }
}

/// Makes a Debian with only the packages that every Debian has.
pub fn bare(suite: &str) -> anyhow::Result<Bare> {
    debian(suite, suite, &[])
}

/// Makes a Debian that boots, with a service.
pub fn that_boots(suite: &str) -> anyhow::Result<Bare> {
    debian(
        &format!("{suite}-that-boots"),
        suite,
        &["--include=systemd-sysv,nginx-light"],
    )
}

/// Makes a system that has only busybox, which is static.
pub fn make_busybox() -> anyhow::Result<Bare> {
    let bare = new_root("busybox")?;
    let folders = ["bin", "dev", "etc", "life", "proc", "run", "sys", "tmp"];
    let mut make = privilege::as_root("mkdir", WHY)?;
    process::run(make.args(folders.map(|folder| bare.root.join(folder))))?;
    let mut copy = privilege::as_root("cp", WHY)?;
    process::run(copy.arg(packages::BUSYBOX).arg(bare.root.join("bin")))?;
    let mut install = privilege::as_root("chroot", WHY)?;
    let names = ["/bin/busybox", "--install", "-s", "/bin"];
    process::run(install.arg(&bare.root).args(names))?;
    Ok(bare)
}

/// Makes a Debian. An archive of it is used again for a day.
fn debian(name: &str, suite: &str, options: &[&str]) -> anyhow::Result<Bare> {
    let folder = workspace::target("package/systems");
    fs::create_dir_all(&folder)?;
    let archive = folder.join(format!("{name}.tar"));
    let age = archive.metadata().and_then(|data| data.modified());
    let age = age.ok().and_then(|at| at.elapsed().ok());
    if age.is_none_or(|age| age.as_secs() > 24 * 3600) {
        let source = packages::source(suite)?;
        process::run(
            privilege::as_root("mmdebstrap", WHY)?
                .args(["--quiet", "--mode=root", "--variant=minbase"])
                .args(options)
                .arg(suite)
                .arg(&archive)
                .arg(source),
        )?;
    }
    let bare = new_root(name)?;
    let mut unpack = privilege::as_root("tar", WHY)?;
    // Devices come from this machine.
    unpack
        .args(["--extract", "--exclude=./dev/*", "--file"])
        .arg(&archive);
    process::run(unpack.arg("--directory").arg(&bare.root))?;
    let mut copy = privilege::as_root("cp", WHY)?;
    let resolver = bare.root.join("etc/resolv.conf");
    process::run(
        copy.args(["--dereference", "/etc/resolv.conf"])
            .arg(resolver),
    )?;
    Ok(bare)
}

fn new_root(name: &str) -> anyhow::Result<Bare> {
    let root = workspace::target("package/systems").join(format!("{name}.root"));
    let bare = Bare { root };
    process::run(
        privilege::as_root("rm", WHY)?
            .args(["-rf", "--one-file-system"])
            .arg(&bare.root),
    )?;
    process::run(privilege::as_root("mkdir", WHY)?.arg("-p").arg(&bare.root))?;
    Ok(bare)
}
