//! Unit, run by systemd: Debian boots in a virtual machine with the package and nginx.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;

use super::systems::that_boots;
use super::{IN_COMMON, Made, NEWEST, Upgrade, WHY, bring};
use crate::tasks::vmtest;
use crate::{privilege, process, workspace};

const SCRIPT: &str = include_str!("service.sh");
/// Unit that runs the script when the system is up.
const UNIT: &str = include_str!("service.unit");
/// Script that makes the system run that unit, without the time limits of faster machines.
const PREPARE: &str = include_str!("service-prepare.sh");

/// Greatest time that it may take on emulated processors.
const LIMIT: Duration = Duration::from_secs(1500);

/// Boots the system, and checks the recorder of nginx there.
pub fn run(made: &Made, next: &Upgrade) -> anyhow::Result<()> {
    let bare = that_boots(NEWEST)?;
    bring(&bare, &made.debs, &next.0.debs)?;
    for (name, text) in [
        ("service.sh", format!("{IN_COMMON}\n{SCRIPT}")),
        ("life.service", UNIT.to_owned()),
        ("prepare.sh", PREPARE.to_owned()),
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
    vmtest::boot("service", &bare.root, "/sbin/init", LIMIT)
        .context("the unit did not come through")
}
