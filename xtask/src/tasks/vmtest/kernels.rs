//! Debian's kernels: the choice of a package, and its image.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::apt::{self, Archive};
use crate::{process, workspace};

/// Kernel to boot: the newest package of a series, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kernel {
    /// First two parts of its version; `None` for the newest of all.
    series: Option<&'static str>,
    is_realtime: bool,
}

/// Series of which Debian has no package any more: the user gives its image.
pub const WITHOUT_PACKAGE: &str = "5.15";

/// Tested kernels, by their names on the command line.
pub const KERNELS: [(&str, Kernel); 7] = [
    ("5.10", kernel("5.10", false)),
    ("6.1", kernel("6.1", false)),
    ("6.12", kernel("6.12", false)),
    ("6.18", kernel("6.18", false)),
    (
        "newest",
        Kernel {
            series: None,
            is_realtime: false,
        },
    ),
    ("6.1-rt", kernel("6.1", true)),
    ("6.12-rt", kernel("6.12", true)),
];

const fn kernel(series: &'static str, is_realtime: bool) -> Kernel {
    Kernel {
        series: Some(series),
        is_realtime,
    }
}

/// Kernel image that boots.
pub struct Image {
    /// Name of its Debian package, or a text that it is from none.
    pub package: String,
    /// Path of the compressed kernel.
    pub path: PathBuf,
    /// Modules that the guest needs, in the order of their dependencies.
    pub modules: Vec<PathBuf>,
}

/// Modules that give a guest the host's files, and those that tests need. A kernel may have some
/// built in, or not have some at all.
pub const MODULES: [&str; 14] = [
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

impl Image {
    /// Describes a kernel that a user has built, with all that the guest needs built in.
    pub fn given(path: &Path) -> Self {
        Self {
            package: "built from its sources".to_owned(),
            path: path.to_owned(),
            modules: Vec::new(),
        }
    }
}

impl Kernel {
    /// Finds the newest package, fetches it if necessary, and extracts the image. Nothing is
    /// installed.
    pub fn fetch(self) -> anyhow::Result<Image> {
        let archive = Archive::open()?;
        let names = archive.names("^linux-image-[0-9].*-amd64$")?;
        let package = self.newest(names.iter().map(String::as_str));
        let package = package.with_context(|| {
            let flavour = if self.is_realtime { "-rt" } else { "" };
            let series = self.series.unwrap_or("*");
            format!(
                "the Debian archive that apt uses here has no package \
                 linux-image-{series}.*{flavour}-amd64"
            )
        })?;
        let folder = workspace::target("vm/kernels").join(package);
        let path = folder.join("vmlinuz");
        let modules = folder.join("modules");
        if !(path.exists() && modules.exists()) {
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&modules)?;
            let image = unpack(&archive, package, &folder)
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

    /// Finds the newest of the packages of this kernel.
    fn newest<'a>(self, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        names
            .filter(|name| self.is_in(name))
            .max_by_key(|name| version_of(name))
    }

    /// Tells whether the package is of this series and flavour. Others have further words in their
    /// names (`cloud`), or are not signed (`amd64-unsigned`), or are not released yet (`6.19-rc8`).
    fn is_in(self, package: &str) -> bool {
        let version = package
            .strip_prefix("linux-image-")
            .and_then(|name| name.strip_suffix("-amd64"));
        let version = match version {
            Some(name) if self.is_realtime => name.strip_suffix("-rt"),
            other => other,
        };
        let rest = match self.series {
            // The package of a series has no third part: it means the newest of that.
            None => version.filter(|version| version.split('.').count() > 2),
            Some(series) => version
                .and_then(|version| version.strip_prefix(series))
                .and_then(|rest| rest.strip_prefix('.')),
        };
        let is_word = |part: &str| part.starts_with(|c: char| c.is_ascii_alphabetic());
        rest.is_some_and(|rest| !rest.split('-').any(is_word))
    }
}

/// Returns the numbers in a name, which order versions of one series.
fn version_of(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

/// Script that decompresses the modules.
const UNPACK_MODULES: &str = "
find . -name '*.ko*' -path '*/lib/modules/*' -exec cp {} modules/ ';'
find modules -name '*.xz' -exec xz -d {} +
";

/// Fetches the package and extracts the kernel image and the modules.
fn unpack(archive: &Archive, package: &str, folder: &Path) -> anyhow::Result<PathBuf> {
    // From 7.0 on the package has nothing but the names of two others.
    let version = package.trim_start_matches("linux-image-");
    let parts = format!(
        "^linux-(binary|modules)-{}$",
        version.replace(['.', '+'], ".")
    );
    let parts = archive.names(&parts)?;
    for name in parts.iter().map(String::as_str).chain([package]) {
        archive.fetch(name, folder)?;
    }
    let modules = MODULES
        .iter()
        .map(|name| format!("*/lib/modules/*/{name}.ko*"));
    let modules = modules.chain(
        MODULES
            .iter()
            .map(|name| format!("./lib/modules/*/{name}.ko*")),
    );
    let images = ["./boot/vmlinuz-*", "*/lib/modules/*/vmlinuz"];
    let members: Vec<_> = modules.chain(images.map(str::to_owned)).collect();
    apt::unpack(folder, &members)?;
    let mut unpack = Command::new("sh");
    unpack.current_dir(folder).args(["-ec", UNPACK_MODULES]);
    process::run(&mut unpack)?;
    let found = process::output(
        Command::new("find")
            .current_dir(folder)
            .args([".", "-type", "f", "-name", "vmlinuz*"]),
    )?;
    let images: Vec<_> = found.lines().collect();
    ensure!(images.len() == 1, "it has {} images", images.len());
    Ok(folder.join(found.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: [&str; 14] = [
        "linux-image-5.10.0-46-amd64",
        "linux-image-6.1.0-9-amd64",
        "linux-image-6.1.0-0.deb11.99-amd64",
        "linux-image-6.1.0-56-amd64",
        "linux-image-6.1.0-57-cloud-amd64",
        "linux-image-6.1.0-55-rt-amd64",
        "linux-image-6.12.9+bpo-amd64",
        "linux-image-6.12.117+deb12-amd64",
        "linux-image-6.12.117+deb12-rt-amd64",
        "linux-image-6.12.118+deb12-amd64-unsigned",
        "linux-image-6.12-amd64",
        "linux-image-7.3.4+deb13-amd64",
        "linux-image-7.4-amd64",
        "linux-image-7.4.0-rc7-amd64",
    ];

    #[test]
    fn the_newest_package_of_the_series_and_flavour_is_taken() {
        let newest = |name: &str| {
            let (_, kernel) = KERNELS.iter().find(|(typed, _)| *typed == name).unwrap();
            kernel.newest(LISTED.into_iter())
        };
        assert_eq!(newest("5.10"), Some("linux-image-5.10.0-46-amd64"));
        assert_eq!(newest("6.1"), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(newest("6.1-rt"), Some("linux-image-6.1.0-55-rt-amd64"));
        assert_eq!(newest("6.12"), Some("linux-image-6.12.117+deb12-amd64"));
        assert_eq!(
            newest("6.12-rt"),
            Some("linux-image-6.12.117+deb12-rt-amd64")
        );
        assert_eq!(newest("6.18"), None);
        assert_eq!(newest("newest"), Some("linux-image-7.3.4+deb13-amd64"));
    }
}
