//! Debian's kernels: which package, and the image out of it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::{process, workspace};

/// A kernel to boot: the newest package of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kernel {
    series: &'static str,
    is_realtime: bool,
}

/// Those that are tested, under the name that one types.
pub const KERNELS: [(&str, Kernel); 4] = [
    ("6.1", kernel("6.1", false)),
    ("6.12", kernel("6.12", false)),
    ("6.1-rt", kernel("6.1", true)),
    ("6.12-rt", kernel("6.12", true)),
];

const fn kernel(series: &'static str, is_realtime: bool) -> Kernel {
    Kernel {
        series,
        is_realtime,
    }
}

/// What boots.
pub struct Image {
    /// The Debian package it is from.
    pub package: String,
    /// The compressed kernel.
    pub path: PathBuf,
}

impl Kernel {
    /// Finds the newest package, fetches it unless it is there, and takes the image out. Nothing
    /// is installed.
    pub fn fetch(self) -> anyhow::Result<Image> {
        let pattern = format!(
            "^linux-image-{}\\..*-amd64$",
            self.series.replace('.', "\\.")
        );
        let listed =
            process::output(Command::new("apt-cache").args(["search", "--names-only", &pattern]))?;
        let names = listed.lines().filter_map(|line| line.split(' ').next());
        let package = self.newest(names).with_context(|| {
            let flavour = if self.is_realtime { "-rt" } else { "" };
            format!(
                "apt knows no package linux-image-{}.*{flavour}-amd64; run apt-get update, or add \
                 a Debian release that has it to apt's sources",
                self.series
            )
        })?;
        let folder = workspace::target("vm/kernels").join(package);
        let path = folder.join("vmlinuz");
        if !path.exists() {
            fs::create_dir_all(&folder)?;
            let image = unpack(package, &folder)
                .with_context(|| format!("no kernel from the package {package}"))?;
            // Last and at once, so that what is there is whole.
            fs::rename(image, &path)?;
        }
        Ok(Image {
            package: package.to_owned(),
            path,
        })
    }

    /// The newest of the packages that are this kernel.
    fn newest<'a>(self, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        names
            .filter(|name| self.is_in(name))
            .max_by_key(|name| numbers(name))
    }

    /// Whether the package is of this series and flavour. Others have other words in their names
    /// (`cloud`), or are not signed (`amd64-unsigned`).
    fn is_in(self, package: &str) -> bool {
        let version = package
            .strip_prefix("linux-image-")
            .and_then(|name| name.strip_suffix("-amd64"));
        let version = match version {
            Some(name) if self.is_realtime => name.strip_suffix("-rt"),
            other => other,
        };
        let rest = version
            .and_then(|version| version.strip_prefix(self.series))
            .and_then(|rest| rest.strip_prefix('.'));
        let is_word = |part: &str| part.chars().all(|c| c.is_ascii_alphabetic());
        rest.is_some_and(|rest| !rest.split('-').any(is_word))
    }
}

/// The numbers in a name, which order versions of one series.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

/// Fetches the package and takes the kernel image out.
fn unpack(package: &str, folder: &std::path::Path) -> anyhow::Result<PathBuf> {
    // As oneself and not as apt's own user, who may not write here.
    process::run(
        Command::new("apt-get")
            .current_dir(folder)
            .args(["download", "--quiet", "-o", "APT::Sandbox::User=root"])
            .arg(package),
    )?;
    let archive = only_file(folder, |name| name.ends_with(".deb"))?;
    process::run(Command::new("sh").current_dir(folder).args([
        "-ec",
        "dpkg-deb --fsys-tarfile \"$0\" | tar -x --wildcards './boot/vmlinuz-*'",
        &archive.to_string_lossy(),
    ]))?;
    // A hundred megabytes, nearly all of them drivers.
    fs::remove_file(&archive)?;
    only_file(&folder.join("boot"), |name| name.starts_with("vmlinuz-"))
}

fn only_file(
    folder: &std::path::Path,
    is_wanted: impl Fn(&str) -> bool,
) -> anyhow::Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if is_wanted(&entry.file_name().to_string_lossy()) {
            found.push(entry.path());
        }
    }
    ensure!(
        found.len() == 1,
        "{} fitting files in {}",
        found.len(),
        folder.display()
    );
    found.pop().context("no file")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: [&str; 9] = [
        "linux-image-6.1.0-9-amd64",
        "linux-image-6.1.0-56-amd64",
        "linux-image-6.1.0-57-cloud-amd64",
        "linux-image-6.1.0-55-rt-amd64",
        "linux-image-6.12.9+bpo-amd64",
        "linux-image-6.12.117+deb12-amd64",
        "linux-image-6.12.117+deb12-rt-amd64",
        "linux-image-6.12.118+deb12-amd64-unsigned",
        "linux-image-6.12-amd64",
    ];

    #[test]
    fn the_newest_package_of_the_series_and_flavour_is_taken() {
        let newest = |name: &str| {
            let (_, kernel) = KERNELS.iter().find(|(typed, _)| *typed == name).unwrap();
            kernel.newest(LISTED.into_iter())
        };
        assert_eq!(newest("6.1"), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(newest("6.1-rt"), Some("linux-image-6.1.0-55-rt-amd64"));
        assert_eq!(newest("6.12"), Some("linux-image-6.12.117+deb12-amd64"));
        assert_eq!(
            newest("6.12-rt"),
            Some("linux-image-6.12.117+deb12-rt-amd64")
        );
    }
}
