//! Life of the packages in bare systems: installed, used, upgraded, removed, and nothing left
//! behind.

mod systems;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::{CHECKSUMS, Choice, Made, Release, folder, make_in};
use crate::tasks::vmtest;
use crate::{packages, privilege, process, workspace};
use systems::{Bare, bare, make_busybox, that_boots};

/// Release that is given the layout of a system with rpm, and that boots.
const NEWEST: &str = "trixie";

const IN_COMMON: &str = include_str!("life/common.sh");
const OF_DEBIAN: &str = include_str!("life/debian.sh");
const OF_RPM: &str = include_str!("life/rpm.sh");
const OF_TARBALL: &str = include_str!("life/tarball.sh");
const PROGRAM: &str = include_str!("life/program.c");
const OF_SERVICE: &str = include_str!("life/service.sh");
/// Unit that runs the script when the system is up.
const SERVICE_UNIT: &str = include_str!("life/service.unit");
/// Script that makes the system run that unit, without the time limits of faster machines.
const PREPARE_SERVICE: &str = include_str!("life/service-prepare.sh");

/// Greatest time that the check of a service may take on emulated processors.
const SERVICE_LIMIT: Duration = Duration::from_secs(1500);

/// Packages that those under test are upgraded to.
pub struct Upgrade(Made);

impl Upgrade {
    /// Makes the packages.
    pub fn make(release: &Release, choice: Choice) -> anyhow::Result<Self> {
        let folder = workspace::target("package/next");
        let _ = fs::remove_dir_all(&folder);
        Ok(Self(make_in(release, choice, &folder)?))
    }
}

/// Systems by their names on the command line.
const SYSTEMS: &[(&str, &str, Live)] = &[
    ("bookworm", "Debian 12", |made, next| {
        debian("bookworm", made, next)
    }),
    ("trixie", "Debian 13", |made, next| {
        debian("trixie", made, next)
    }),
    (
        "rpm",
        "A system with rpm, in the layout of Fedora and openSUSE",
        rpm,
    ),
    (
        "service",
        "The flight recorder of a service, under systemd",
        service,
    ),
    (
        TARBALL,
        "A system of busybox alone, without a C library",
        tarball,
    ),
];

/// System that the archive is for.
pub const TARBALL: &str = "tarball";

/// Function that takes packages through their life in a system; the second ones are the upgrade.
type Live = fn(&Made, &Upgrade) -> anyhow::Result<()>;

/// Returns the names of systems on the command line.
pub fn names() -> Vec<&'static str> {
    SYSTEMS.iter().map(|(name, ..)| *name).collect()
}

/// Takes all packages through their life, in the systems that are named, or in all.
pub fn run(made: &Made, next: &Upgrade, only: &[String]) -> anyhow::Result<()> {
    let choice = Choice::from_systems(only);
    if choice.packages {
        packages::install_missing(packages::TO_UNPACK_DEBIAN)?;
    }
    if choice.tarball {
        packages::install_missing(packages::TO_TEST_TARBALLS)?;
    }
    privilege::check(WHY)?;
    for (name, title, live) in SYSTEMS {
        if only.is_empty() || only.iter().any(|one| one == name) {
            println!("\n{title}:");
            let begin = Instant::now();
            live(made, next)?;
            println!("  {} s", begin.elapsed().as_secs());
        }
    }
    Ok(())
}

fn debian(suite: &str, made: &Made, next: &Upgrade) -> anyhow::Result<()> {
    let bare = bare(suite)?;
    bring(&bare, &made.debs, &next.0.debs)?;
    live(&bare, OF_DEBIAN)
}

fn rpm(made: &Made, next: &Upgrade) -> anyhow::Result<()> {
    let bare = bare(NEWEST)?;
    bring(&bare, &made.rpms, &next.0.rpms)?;
    live_with_rpm(&bare)
}

fn tarball(made: &Made, _next: &Upgrade) -> anyhow::Result<()> {
    let bare = make_busybox()?;
    let tarball = made.tarball.clone().context("the archive is not made")?;
    bring(&bare, &[tarball, folder().join(CHECKSUMS)], &[])?;
    live(&bare, OF_TARBALL)
}

/// Copies the packages, and the program that uses the library, to the paths that the script
/// expects.
fn bring(bare: &Bare, old: &[PathBuf], new: &[PathBuf]) -> anyhow::Result<()> {
    for (folder, packages) in [("old", old), ("new", new)] {
        let folder = bare.root.join("life").join(folder);
        process::run(privilege::as_root("mkdir", WHY)?.arg("-p").arg(&folder))?;
        if !packages.is_empty() {
            process::run(privilege::as_root("cp", WHY)?.args(packages).arg(&folder))?;
        }
    }
    let program = workspace::target("package/program.c");
    fs::write(&program, PROGRAM)?;
    process::run(
        privilege::as_root("cp", WHY)?
            .arg(&program)
            .arg(bare.root.join("life")),
    )
}

const WHY: &str = "install packages in bare systems";

/// Runs a script in a system, in a mount namespace of its own: its mounts end with it.
fn live(bare: &Bare, script: &str) -> anyhow::Result<()> {
    let written = workspace::target("package/life.sh");
    fs::write(&written, format!("{IN_COMMON}\n{script}"))?;
    let mut copy = privilege::as_root("cp", WHY)?;
    process::run(copy.arg(&written).arg(bare.root.join("life/life.sh")))?;
    let enter = "mount --make-rprivate / && mount -t proc proc \"$1/proc\" && \
                 mount --rbind /sys \"$1/sys\" && mount --rbind /dev \"$1/dev\" && \
                 mount -t tmpfs tmpfs \"$1/run\" && exec chroot \"$1\" /bin/sh /life/life.sh";
    let mut command = privilege::as_root("unshare", WHY)?;
    command
        .args(["--mount", "sh", "-c", enter, "enter"])
        .arg(&bare.root);
    process::run(&mut command).context("the packages did not come through")
}

/// Installs with this machine's rpm, as the installers of systems do: a system of Debian has no rpm
/// of its own. A package that is made here declares what that system's C library provides; all
/// other dependencies are those of the packages as they are.
fn live_with_rpm(bare: &Bare) -> anyhow::Result<()> {
    let script = workspace::target("package/rpm.sh");
    fs::write(&script, format!("{IN_COMMON}\n{OF_RPM}"))?;
    let mut command = privilege::as_root("unshare", WHY)?;
    command.args(["--mount", "sh"]).arg(&script).arg(&bare.root);
    process::run(&mut command).context("the packages did not come through")
}

/// Checks the unit, run by systemd: Debian boots in a virtual machine with the package and nginx,
/// whose recorder is checked there.
fn service(made: &Made, next: &Upgrade) -> anyhow::Result<()> {
    let bare = that_boots(NEWEST)?;
    bring(&bare, &made.debs, &next.0.debs)?;
    for (name, text) in [
        ("service.sh", format!("{IN_COMMON}\n{OF_SERVICE}")),
        ("life.service", SERVICE_UNIT.to_owned()),
        ("prepare.sh", PREPARE_SERVICE.to_owned()),
    ] {
        let written = workspace::target("package").join(name);
        fs::write(&written, text)?;
        let to = bare.root.join("life").join(name);
        process::run(privilege::as_root("cp", WHY)?.arg(&written).arg(to))?;
    }
    let mut prepare = privilege::as_root("chroot", WHY)?;
    process::run(
        prepare
            .arg(&bare.root)
            .args(["/bin/sh", "/life/prepare.sh"]),
    )?;
    vmtest::boot("service", &bare.root, "/sbin/init", SERVICE_LIMIT)
        .context("the unit did not come through")
}
