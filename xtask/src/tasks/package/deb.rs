//! Packages of Debian.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::system::{self, System};
use super::{PACKAGES, Package, Release, documents};
use crate::tasks::dist::Part;
use crate::{process, workspace};

/// Makes all packages. Returns their paths.
pub fn make(release: &Release, into: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let architecture = process::output(Command::new("dpkg").arg("--print-architecture"))?;
    let (dist, work) = (workspace::target("dist"), workspace::target("package/deb"));
    let mut made = Vec::new();
    for package in PACKAGES {
        let root = work.join(package.deb);
        let documents = documents::collect_for_debian(package, release)?;
        let paths = system::lay_out(System::Debian, package.part, &dist, &documents, &root)?;
        let control = root.join("DEBIAN");
        fs::create_dir_all(&control)?;
        fs::write(control.join("md5sums"), sums(&root, &paths)?)?;
        let text = control_file(package, release, &architecture, &work)?;
        fs::write(control.join("control"), text)?;
        for (name, text) in scripts(package.part) {
            fs::write(control.join(name), text)?;
            let mode = if matches!(*name, "triggers" | "shlibs") {
                0o644
            } else {
                0o755
            };
            fs::set_permissions(control.join(name), fs::Permissions::from_mode(mode))?;
        }
        let name = format!(
            "{}_{}_{architecture}.deb",
            package.deb,
            release.full_version()
        );
        let to = into.join(name);
        process::output(
            Command::new("dpkg-deb")
                .args(["--root-owner-group", "-Zxz", "--build"])
                .args([&root, &to])
                .env("SOURCE_DATE_EPOCH", release.date.to_string()),
        )?;
        made.push(to);
    }
    Ok(made)
}

fn sums(root: &Path, paths: &[PathBuf]) -> anyhow::Result<String> {
    let files = paths.iter().filter(|path| !root.join(path).is_symlink());
    let sums = process::output(Command::new("md5sum").args(files).current_dir(root))?;
    Ok(sums + "\n")
}

fn control_file(
    package: &Package,
    release: &Release,
    architecture: &str,
    work: &Path,
) -> anyhow::Result<String> {
    let version = release.full_version();
    let root = work.join(package.deb);
    let further = match package.part {
        Part::Tool => format!("Depends: {}\n", linked(&root, work)?),
        Part::Library => format!(
            "Depends: {}\nBuilt-Using: {}\nMulti-Arch: same\n",
            linked(&root, work)?,
            c_library()?
        ),
        // It needs that library, and what that one needs, which is laid out before it.
        Part::Robots => format!(
            "Depends: libposixtrace0 (= {version}), {}\nMulti-Arch: same\n",
            linked(&work.join("libposixtrace0"), work)?
        ),
        // It is `tracer-user ship` that runs it.
        Part::Shipper => format!(
            "Depends: tracer-user (= {version}), {}\n",
            linked(&root, work)?
        ),
        Part::Development => format!(
            "Depends: libposixtrace0 (= {version}), libc6-dev\nBuilt-Using: {}\nMulti-Arch: same\n",
            c_library()?
        ),
    };
    let description: String = package
        .description
        .iter()
        .map(|line| format!(" {line}\n"))
        .collect();
    Ok(format!(
        "Package: {}\nSource: tracer-user\nVersion: {version}\nArchitecture: {architecture}\n\
         Maintainer: {}\nInstalled-Size: {}\nSection: {}\nPriority: optional\n{further}\
         Description: {}\n{description}",
        package.deb,
        release.maintainer,
        kibibytes(&root)?,
        package.section,
        package.summary,
    ))
}

/// Finds the packages of the libraries that programs and libraries below `root` are linked with.
fn linked(root: &Path, work: &Path) -> anyhow::Result<String> {
    // It wants the control file of a source package.
    let debian = work.join("debian");
    fs::create_dir_all(&debian)?;
    fs::write(
        debian.join("control"),
        "Source: tracer-user\n\nPackage: tracer-user\nArchitecture: any\n",
    )?;
    let mut elf = Vec::new();
    for path in [
        root.join("usr/bin"),
        root.join("usr/libexec/tracer-user"),
        root.join("usr").join(System::Debian.libraries()),
    ] {
        for entry in fs::read_dir(path).into_iter().flatten() {
            let path = entry?.path();
            if fs::read(&path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF")) {
                elf.push(path);
            }
        }
    }
    let mut command = Command::new("dpkg-shlibdeps");
    let said = process::output(command.arg("-O").args(elf).current_dir(work))?;
    let depends = said
        .lines()
        .find_map(|line| line.strip_prefix("shlibs:Depends="));
    depends
        .map(str::to_owned)
        .context("dpkg-shlibdeps does not say what is needed")
}

/// Returns the source package of the C library that the recorder inside the library is linked with.
fn c_library() -> anyhow::Result<String> {
    process::output(Command::new("dpkg-query").args([
        "--show",
        "--showformat=${source:Package} (= ${source:Version})",
        "libc6-dev",
    ]))
}

fn kibibytes(root: &Path) -> anyhow::Result<u64> {
    let said = process::output(
        Command::new("du")
            .args(["-sk", "--apparent-size"])
            .arg(root),
    )?;
    let size = said.split_whitespace().next().unwrap_or_default();
    size.parse().context("du does not say how large that is")
}

/// Returns the further control files of a package.
fn scripts(part: Part) -> &'static [(&'static str, &'static str)] {
    match part {
        Part::Tool => &[
            ("postinst", include_str!("deb/postinst")),
            ("prerm", include_str!("deb/prerm")),
            ("postrm", include_str!("deb/postrm")),
        ],
        Part::Library => &[
            ("shlibs", "libposixtrace 0 libposixtrace0\n"),
            ("triggers", "activate-noawait ldconfig\n"),
        ],
        Part::Shipper => &[
            ("postinst", include_str!("deb/ship-postinst")),
            ("prerm", include_str!("deb/ship-prerm")),
            ("postrm", include_str!("deb/ship-postrm")),
        ],
        Part::Robots | Part::Development => &[],
    }
}
