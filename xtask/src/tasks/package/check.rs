//! Distributions' checks of packages.

use std::fs;
use std::process::Command;

use anyhow::ensure;

use super::Made;
use crate::tasks::dist;
use crate::{process, workspace};

/// Fails when lintian or rpmlint finds an error, or the unit is exposed too much.
pub fn run(made: &Made) -> anyhow::Result<()> {
    units()?;
    println!("lintian:");
    process::run(
        Command::new("lintian")
            .args(["--allow-root", "--fail-on=error", "--tag-display-limit=0"])
            .args(["--suppress-tags", "initial-upload-closes-no-bugs"])
            .args(&made.debs),
    )?;
    println!("rpmlint:");
    let settings = workspace::target("package/rpmlint.toml");
    fs::write(&settings, SETTINGS)?;
    let mut command = Command::new("rpmlint");
    command.arg("--config").arg(&settings).args(&made.rpms);
    let status = command.status()?;
    ensure!(status.success(), "rpmlint has found errors");
    Ok(())
}

/// Runs `systemd-analyze security` on the units.
fn units() -> anyhow::Result<()> {
    for (unit, most_exposure) in dist::SERVICES {
        let unit = workspace::root().join(unit);
        let mut command = Command::new("systemd-analyze");
        command.args(["security", "--offline=true", "--no-pager"]);
        command.args(["--threshold", most_exposure]).arg(unit);
        let said = process::output(&mut command)?;
        if let Some(line) = said.lines().last() {
            println!("{line}");
        }
    }
    Ok(())
}

/// Settings of rpmlint without the checks that are a distribution's task, or that no distribution
/// meets.
const SETTINGS: &str = r#"
# As all but Mandriva compress pages.
CompressExtension = "gz"
Filters = [
    # Lists that are a distribution's.
    "non-standard-group",
    "invalid-license",
    # The publisher of packages signs them.
    "no-signature",
    # Distributions strip static libraries as they build packages.
    "static-library-without-debuginfo",
    # For loaders of before 2006.
    "missing-hash-section",
    # It counts licences as files of no library.
    "outside-libdir-files /usr/share/licenses/",
]
"#;
