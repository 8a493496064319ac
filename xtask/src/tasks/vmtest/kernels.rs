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
    /// What the guest needs of its modules, those first that others need.
    pub modules: Vec<PathBuf>,
}

/// The modules that give a guest the host's files, and what tests ask for. A kernel may have some
/// built in, or not have some at all.
const MODULES: [&str; 14] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "netfs",
    "fscache",
    "9pnet",
    "9pnet_virtio",
    "9p",
    "overlay",
    "fuse",
    "cuse",
    "loop",
];

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
        let modules = folder.join("modules");
        if !(path.exists() && modules.exists()) {
            fs::create_dir_all(&modules)?;
            let image = unpack(package, &folder)
                .with_context(|| format!("no kernel from the package {package}"))?;
            // Last and at once, so that what is there is whole.
            fs::rename(image, &path)?;
        }
        let modules = MODULES.map(|name| modules.join(name).with_extension("ko"));
        Ok(Image {
            package: package.to_owned(),
            path,
            modules: modules.into_iter().filter(|path| path.exists()).collect(),
        })
    }

    /// The newest of the packages that are this kernel.
    fn newest<'a>(self, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        names
            .filter(|name| self.is_in(name))
            .max_by_key(|name| version_of(name))
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

/// The number of each part in a name, which order versions of one series.
fn version_of(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

/// Takes the image and the modules that are named out of the package, and these out of what they
/// are compressed by.
const UNPACK: &str = r#"
dpkg-deb --fsys-tarfile "$0" | tar -x --wildcards './boot/vmlinuz-*' './lib/modules/*.ko*'
for name; do
    find lib -name "$name.ko*" -exec cp {} modules/ ';'
done
find modules -name '*.xz' -exec xz -d {} +
rm -r lib
"#;

/// Fetches the package and takes the kernel image and the modules out.
fn unpack(package: &str, folder: &std::path::Path) -> anyhow::Result<PathBuf> {
    // As oneself and not as apt's own user, who may not write here.
    process::run(
        Command::new("apt-get")
            .current_dir(folder)
            .args(["download", "--quiet", "-o", "APT::Sandbox::User=root"])
            .arg(package),
    )?;
    let archive = only_file(folder, |name| name.ends_with(".deb"))?;
    let mut unpack = Command::new("sh");
    unpack
        .current_dir(folder)
        .args(["-ec", UNPACK])
        .arg(&archive);
    process::run(unpack.args(MODULES))?;
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
