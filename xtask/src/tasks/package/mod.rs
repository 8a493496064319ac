//! Makes packages of the files that `dist` lays out: for Debian, for systems with rpm, and an
//! archive with a static program for all others.
//!
//! The control files are written here, and `dpkg-deb` and `rpmbuild` make the packages: `cargo deb`
//! and `cargo generate-rpm` would need the list of files a second time, in the manifests of crates,
//! and know neither `dpkg-shlibdeps` nor the names that a library provides.

mod check;
mod crates;
mod deb;
mod documents;
mod licences;
mod life;
mod rpm;
mod system;
mod tarball;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::tasks::dist::{self, Part};
use crate::tasks::man;
use crate::{packages, process, workspace};

/// Selection of packages, and their properties.
#[derive(clap::Args)]
pub struct Args {
    /// Install, use, upgrade and remove the packages in bare systems (as root; their files come
    /// from where this machine's do)
    #[arg(long)]
    test: bool,
    /// Only what this system needs, and with --test only in it; may be given more than once
    #[arg(long, value_name = "SYSTEM", value_parser = life::names())]
    only: Vec<String>,
    /// Take what was built, without building it anew
    #[arg(long)]
    no_build: bool,
    /// Package the crates for cargo's registry instead, and verify them as those who get them do
    #[arg(long, conflicts_with_all = ["test", "only", "no_build"])]
    crates: bool,
    /// Upload them when that has succeeded
    #[arg(long, requires = "crates")]
    upload: bool,
    /// Which packages of this version they are
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    revision: u32,
    /// Who answers for them (git's user where nothing is said)
    #[arg(long, value_name = "NAME <ADDRESS>")]
    maintainer: Option<String>,
}

/// Package.
struct Package {
    part: Part,
    /// Name in Debian.
    deb: &'static str,
    /// Name in systems with rpm.
    rpm: &'static str,
    section: &'static str,
    summary: &'static str,
    /// Lines, without the prefix that each format gives a line.
    description: &'static [&'static str],
}

const PACKAGES: &[Package] = &[
    Package {
        part: Part::Tool,
        deb: "tracer-user",
        rpm: "tracer-user",
        section: "utils",
        summary: "traces processes: system and user events in one timeline",
        description: &[
            "Attaches to running processes or starts them, and records what the kernel",
            "does with them (by eBPF) and what they say themselves (POSIX trace events",
            "and probes), in exact order of time. Shows events, statistics, and why",
            "something took long; writes logs, and exports them for Perfetto and others.",
        ],
    },
    Package {
        part: Part::Library,
        deb: "libposixtrace0",
        rpm: "libposixtrace0",
        section: "libs",
        summary: "tracing option of POSIX (shared library)",
        description: &[
            "The functions of <trace.h> as IEEE Std 1003.1 has them: trace points, streams",
            "and logs. This is the library that programs built with it need.",
        ],
    },
    Package {
        part: Part::Robots,
        deb: "libtracetools-posixtrace",
        rpm: "libtracetools-posixtrace",
        section: "libs",
        summary: "traces ROS 2 without LTTng (shared library)",
        description: &[
            "The interface of libtracetools, which the libraries of ROS 2 call where a",
            "message is published or taken and where a callback starts or ends. Each",
            "call is an event of POSIX tracing, which tracer-user records beside those",
            "of the kernel. It is preloaded, and takes the place of no file.",
        ],
    },
    Package {
        part: Part::Shipper,
        deb: "tracer-user-ship",
        rpm: "tracer-user-ship",
        section: "utils",
        summary: "ships traces of this host to an object store",
        description: &[
            "Takes the slices that flight recorders of tracer-user leave on this host, and",
            "puts them as tables (Parquet) into S3, GCS, Azure or a folder, where those of",
            "all hosts are, and their spans to a receiver of OpenTelemetry. Runs as a user",
            "of its own, and listens nowhere.",
        ],
    },
    Package {
        part: Part::Development,
        deb: "libposixtrace-dev",
        rpm: "libposixtrace-devel",
        section: "libdevel",
        summary: "tracing option of POSIX (development files)",
        description: &[
            "The functions of <trace.h> as IEEE Std 1003.1 has them: trace points, streams",
            "and logs. This is what building programs with the library needs: the header,",
            "static libraries, files for pkg-config, and the manual pages.",
        ],
    },
];

/// Properties that all packages have in common.
struct Release {
    version: &'static str,
    revision: u32,
    maintainer: String,
    /// Seconds since 1970: time of the commit, so that one commit always makes the same packages.
    date: u64,
    /// Date as Debian and rpm write it.
    date_text: [String; 2],
}

impl Release {
    fn from_args(args: &Args) -> anyhow::Result<Self> {
        let date = process::output(workspace::git("log").args(["-1", "--format=%ct"]))?;
        let date: u64 = date
            .parse()
            .context("git does not say when the commit was")?;
        let text = |format: &str| {
            let at = format!("--date=@{date}");
            let mut command = Command::new("date");
            command.args(["--utc", &at, format]).env("LC_ALL", "C");
            process::output(&mut command)
        };
        let maintainer = match &args.maintainer {
            Some(maintainer) => maintainer.clone(),
            None => {
                let said = |key: &str| process::output(workspace::git("config").arg(key));
                let said = said("user.name").and_then(|name| Ok((name, said("user.email")?)));
                let (name, address) = said.context(
                    "packages name who answers for them; give --maintainer 'NAME <ADDRESS>'",
                )?;
                format!("{name} <{address}>")
            }
        };
        ensure!(
            maintainer.contains(" <") && maintainer.ends_with('>') && !maintainer.contains('\n'),
            "--maintainer {maintainer:?}: give NAME <ADDRESS>"
        );
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            revision: args.revision,
            maintainer,
            date,
            date_text: [text("+%a, %d %b %Y %H:%M:%S +0000")?, text("+%a %b %d %Y")?],
        })
    }

    /// Returns the next packages of the same version.
    fn next(&self) -> Self {
        Self {
            revision: self.revision + 1,
            maintainer: self.maintainer.clone(),
            date_text: self.date_text.clone(),
            ..*self
        }
    }

    fn full_version(&self) -> String {
        format!("{}-{}", self.version, self.revision)
    }
}

/// Returns the folder in which packages are left.
fn folder() -> PathBuf {
    workspace::target("packages")
}

/// Packages and archives that are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    /// Packages for package managers.
    packages: bool,
    /// Archive for all others.
    tarball: bool,
}

impl Choice {
    /// Returns the choice that these systems need; everything when none is named.
    fn from_systems(systems: &[String]) -> Self {
        let is_tarball = |system: &String| system == life::TARBALL;
        Self {
            packages: systems.is_empty() || !systems.iter().all(is_tarball),
            tarball: systems.is_empty() || systems.iter().any(is_tarball),
        }
    }
}

/// Makes the packages, and checks them as distributions do.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.crates {
        return crates::run(args.upload);
    }
    let choice = Choice::from_systems(&args.only);
    if choice.packages {
        packages::install_missing(packages::TO_PACKAGE)?;
    }
    let release = Release::from_args(args)?;
    if !args.no_build {
        build(choice)?;
    }
    let made = make(&release, choice)?;
    checksums()?;
    if choice.packages {
        check::run(&made)?;
    }
    if args.test {
        // Not left with the others: users are not to install them. An archive is not upgraded.
        let upgrade = Choice {
            tarball: false,
            ..choice
        };
        let next = life::Upgrade::make(&release.next(), upgrade)?;
        life::run(&made, &next, &args.only)?;
    }
    println!("\n{}", folder().display());
    Ok(())
}

fn build(choice: Choice) -> anyhow::Result<()> {
    if choice.packages {
        dist::run_packaged()?;
    } else {
        man::make_for_programs()?;
    }
    if choice.tarball {
        tarball::build_program()?;
    }
    Ok(())
}

/// Packages that were made.
#[derive(Default)]
struct Made {
    debs: Vec<PathBuf>,
    rpms: Vec<PathBuf>,
    tarball: Option<PathBuf>,
}

fn make(release: &Release, choice: Choice) -> anyhow::Result<Made> {
    // What an earlier version has left is no part of this one.
    let _ = fs::remove_dir_all(folder());
    fs::create_dir_all(folder())?;
    make_in(release, choice, &folder())
}

fn make_in(release: &Release, choice: Choice, folder: &Path) -> anyhow::Result<Made> {
    fs::create_dir_all(folder)?;
    let mut made = Made::default();
    if choice.packages {
        made.debs = deb::make(release, folder)?;
        made.rpms = rpm::make(release, folder)?;
    }
    if choice.tarball {
        made.tarball = Some(tarball::make(release, folder)?);
    }
    Ok(made)
}

/// File of the checksums.
const CHECKSUMS: &str = "SHA256SUMS";

/// Writes checksums of all files in the folder.
fn checksums() -> anyhow::Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder())? {
        names.push(entry?.file_name());
    }
    names.retain(|name| name != CHECKSUMS);
    names.sort();
    let mut command = Command::new("sha256sum");
    let sums = process::output(command.args(names).current_dir(folder()))?;
    fs::write(folder().join(CHECKSUMS), sums + "\n")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_what_the_systems_need() {
        let of = |systems: &[&str]| {
            let systems: Vec<String> = systems.iter().map(|one| (*one).to_owned()).collect();
            let Choice { packages, tarball } = Choice::from_systems(&systems);
            (packages, tarball)
        };

        assert_eq!(of(&[]), (true, true));
        assert_eq!(of(&["tarball"]), (false, true));
        assert_eq!(of(&["trixie", "rpm"]), (true, false));
        assert_eq!(of(&["trixie", "tarball"]), (true, true));
    }
}
