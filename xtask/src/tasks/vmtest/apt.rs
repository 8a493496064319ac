//! Packages of Debian releases that this machine does not have.
//!
//! They are fetched by apt, from the mirror that this machine uses, with lists of their own below
//! `target/vm`. Nothing is installed, and the machine's own lists stay as they are.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::{process, workspace};

/// Debian's suites with kernels: releases, backports, and the coming release.
const SUITES: [&str; 6] = [
    "bullseye",
    "bookworm",
    "bookworm-backports",
    "trixie",
    "trixie-backports",
    "sid",
];
/// Suites of the archive of security updates.
const SECURITY_SUITES: [&str; 3] = ["bullseye-security", "bookworm-security", "trixie-security"];

/// Keys of all of Debian's releases, where the machine has them.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Age at which lists are fetched again.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// Package lists of these releases, for apt.
pub struct Archive {
    folder: PathBuf,
}

impl Archive {
    /// Opens the archive with lists that are not older than a day.
    pub fn open() -> anyhow::Result<Self> {
        let folder = workspace::target("vm/apt");
        for inner in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(inner))?;
        }
        let archive = Self { folder };
        archive.refresh()?;
        Ok(archive)
    }

    fn refresh(&self) -> anyhow::Result<()> {
        let known = process::output(Command::new("apt-get").args([
            "indextargets",
            "--format",
            "$(ORIGIN)|$(LABEL)|$(REPO_URI)",
            "Created-By: Packages",
        ]))?;
        let sources = sources(&known, Path::new(KEYS).exists()).context(
            "apt has no archive of Debian among its sources, which is where the kernels are from",
        )?;
        let path = self.folder.join("sources.list");
        let age = fs::metadata(&path).and_then(|file| file.modified());
        let age = age.ok().and_then(|time| time.elapsed().ok());
        let is_same = fs::read_to_string(&path).is_ok_and(|before| before == sources);
        if is_same && age.is_some_and(|age| age < FRESH) {
            return Ok(());
        }
        let new = path.with_extension("new");
        fs::write(&new, &sources).with_context(|| new.display().to_string())?;
        let mut update = self.command("apt-get", &new);
        // A release that has left the mirror is a warning: its kernels are said to be missing.
        update.args(["update", "--quiet"]);
        if let Err(error) = process::run(&mut update) {
            eprintln!("{error:#}");
        }
        fs::rename(&new, &path).with_context(|| path.display().to_string())
    }

    fn command(&self, program: &str, sources: &Path) -> Command {
        let mut command = Command::new(program);
        let mut option = |name: &str, value: &Path| {
            command.arg("-o");
            command.arg(format!("{name}={}", value.display()));
        };
        option("Dir::Etc::SourceList", sources);
        option("Dir::Etc::SourceParts", Path::new("/dev/null"));
        option("Dir::State::Lists", &self.folder.join("lists"));
        option("Dir::Cache", &self.folder.join("cache"));
        // As oneself and not as apt's own user, who may not write here.
        option("APT::Sandbox::User", Path::new("root"));
        // Descriptions for graphical programs: a half of all.
        for what in ["DEP-11", "Translations", "DEP-11-icons"] {
            let name = format!("Acquire::IndexTargets::deb::{what}::DefaultEnabled");
            option(&name, Path::new("false"));
        }
        command
    }

    fn ready_command(&self, program: &str) -> Command {
        self.command(program, &self.folder.join("sources.list"))
    }

    /// Returns the names of packages that this regular expression matches.
    pub fn names(&self, pattern: &str) -> anyhow::Result<Vec<String>> {
        let mut search = self.ready_command("apt-cache");
        let listed = process::output(search.args(["search", "--names-only", pattern]))?;
        let names = listed.lines().filter_map(|line| line.split(' ').next());
        Ok(names.map(str::to_owned).collect())
    }

    /// Fetches a package into `folder`.
    pub fn fetch(&self, package: &str, folder: &Path) -> anyhow::Result<()> {
        let mut download = self.ready_command("apt-get");
        download.current_dir(folder);
        process::run(download.args(["download", "--quiet", package]))
    }
}

/// Formats apt's list of sources from apt's report of the machine's own; `None` when the machine
/// has none of Debian.
fn sources(known: &str, has_keys: bool) -> Option<String> {
    let archive = |label: &str| {
        let mut rows = known.lines().filter_map(|row| {
            let mut fields = row.split('|');
            let (origin, of, uri) = (fields.next()?, fields.next()?, fields.next()?);
            (origin == "Debian" && of == label).then_some(uri)
        });
        rows.next()
    };
    let keys = if has_keys {
        format!("signed-by={KEYS} ")
    } else {
        String::new()
    };
    let mut text = String::new();
    let mut add = |uri: &str, suites: &[&str]| {
        for suite in suites {
            let _ = writeln!(text, "deb [{keys}arch=amd64] {uri} {suite} main");
        }
    };
    add(archive("Debian")?, &SUITES);
    if let Some(uri) = archive("Debian-Security") {
        add(uri, &SECURITY_SUITES);
    }
    Some(text)
}

/// Extracts `members`, shell patterns, from the packages in `folder`, and removes the packages.
pub fn unpack(folder: &Path, members: &[String]) -> anyhow::Result<()> {
    let mut packages = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "deb") {
            packages.push(path);
        }
    }
    ensure!(!packages.is_empty(), "no package in {}", folder.display());
    for package in packages {
        // A member that is not in there makes `tar` fail, and is no fault.
        const UNPACK: &str = r#"dpkg-deb --fsys-tarfile "$0" >"$0.tar"
            tar -xf "$0.tar" --wildcards "$@" 2>/dev/null || true
            rm "$0" "$0.tar""#;
        let mut unpack = Command::new("sh");
        unpack.current_dir(folder).args(["-ec", UNPACK]);
        process::run(unpack.arg(&package).args(members))?;
    }
    Ok(())
}

/// Folder of [`fetch_rtla`], below `target`.
pub const RTLA: &str = "vm/rtla";

/// Unpacks the kernel's own tool for latencies, with its libraries, for the release that this
/// machine runs: the newest one that says causes.
pub fn fetch_rtla() -> anyhow::Result<()> {
    let folder = workspace::target(RTLA);
    if folder.join("usr/bin/rtla").exists() {
        return Ok(());
    }
    let release = fs::read_to_string("/etc/os-release")?;
    let mut lines = release.lines();
    let codename = lines.find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let codename = codename.context("/etc/os-release names no release")?;
    fs::create_dir_all(&folder)?;
    let archive = Archive::open()?;
    let backport = format!("rtla/{codename}-backports");
    if archive.fetch(&backport, &folder).is_err() {
        archive.fetch(&format!("rtla/{codename}"), &folder)?;
    }
    for library in ["libtraceevent1", "libtracefs1"] {
        archive.fetch(&format!("{library}/{codename}"), &folder)?;
    }
    let members = ["./usr/bin/*", "./usr/lib/*/libtrace*"];
    unpack(&folder, &members.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_mirror_is_taken_and_others_archives_are_not() {
        let known = "Other|Debian|http://c/\nDebian|Debian-Security|http://b/\n\
                     Debian|Debian|http://a/\nDebian|Debian|http://d/\n";
        let text = sources(known, true).unwrap();
        assert!(
            text.contains("arch=amd64] http://a/ bullseye main\n"),
            "{text}"
        );
        assert!(text.contains(" http://b/ trixie-security main\n"), "{text}");
        assert!(text.contains(KEYS), "{text}");
        assert!(
            !text.contains("http://c/") && !text.contains("http://d/"),
            "{text}"
        );
        assert_eq!(text.lines().count(), SUITES.len() + SECURITY_SUITES.len());

        let alone = sources("Debian|Debian|http://a/\n", false).unwrap();
        assert_eq!(alone.lines().count(), SUITES.len());
        assert!(!alone.contains("signed-by"));
        assert_eq!(sources("Ubuntu|Ubuntu|http://a/\n", true), None);
    }
}
