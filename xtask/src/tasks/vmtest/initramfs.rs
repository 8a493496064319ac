//! Files of the virtual machine: those of the host, and an initial root file system that mounts
//! them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use super::apt;
use super::archive::Archive;
use super::kernels::Image;
use super::machine::Kind;
use super::selection::Selection;
use super::selection::{self, Case};
use crate::{packages, process, workspace};

/// Script that mounts the host's files.
const INIT: &str = include_str!("init.sh");
/// Script that runs the tests.
const TESTS: &str = include_str!("tests.sh");

/// Mount points, and folders of single files.
const FOLDERS: &[&str] = &[
    "/proc", "/dev", "/host", "/changes", "/machine", "/busybox", "/vmtest",
];

/// Greatest time of one test on emulated processors.
const TIMEOUT: Duration = Duration::from_secs(420);

/// Slowness of such a guest compared to a real machine: its tests wait this many times longer.
const SLOWNESS: u32 = 4;

/// Files of a virtual machine in addition to its kernel. Paths are those inside it.
pub struct Guest {
    /// Kind of machine.
    pub kind: Kind,
    /// Folder of the host whose files it has.
    pub files: PathBuf,
    /// Static busybox for it, on the host.
    pub busybox: PathBuf,
    /// Folder of the distribution.
    pub dist: PathBuf,
    /// Folder of the programs that tests would compile.
    pub programs: PathBuf,
    /// Folder of the test executables.
    pub tests: PathBuf,
}

impl Guest {
    /// Describes a guest that has this machine's files.
    pub fn describe_this_machine() -> Self {
        Self {
            kind: Kind::X86_64,
            files: "/".into(),
            busybox: packages::BUSYBOX.into(),
            dist: workspace::target("dist"),
            programs: programs(),
            tests: tests(),
        }
    }
}

/// Makes the first root file system, with the list of tests to run.
pub fn build(image: &Image, guest: &Guest, cases: &[Case]) -> anyhow::Result<Vec<u8>> {
    let mut archive = base(image, &guest.busybox, "/bin/sh /vmtest/tests.sh")?;
    archive.file("/vmtest/tests.sh", 0o644, TESTS)?;
    archive.file("/vmtest/environment", 0o644, environment(guest))?;
    archive.file("/vmtest/list", 0o644, selection::listed(cases))?;
    archive.into_bytes()
}

/// Makes a first root file system that gives the files of a machine to `first`: its first program
/// and that program's arguments.
pub fn make_for_system(image: &Image, first: &str) -> anyhow::Result<Vec<u8>> {
    base(image, Path::new(packages::BUSYBOX), first)?.into_bytes()
}

/// Makes the archive that mounts the files of a machine, for `first` to run with them.
fn base(image: &Image, busybox: &Path, first: &str) -> anyhow::Result<Archive> {
    let mut archive = Archive::new();
    for folder in FOLDERS {
        archive.folder(folder)?;
    }
    archive.file("/init", 0o755, INIT.replace("@FIRST@", first))?;
    copy(&mut archive, busybox, Path::new("/busybox/busybox"))?;
    for (index, module) in image.modules.iter().enumerate() {
        let name = module.file_name().context("no name")?.to_string_lossy();
        let to = format!("/modules/{index:02}-{name}");
        copy(&mut archive, module, Path::new(&to))?;
    }
    Ok(archive)
}

fn copy(archive: &mut Archive, from: &Path, to: &Path) -> anyhow::Result<()> {
    let read = || -> anyhow::Result<(u32, Vec<u8>)> {
        let mode = fs::metadata(from)?.permissions().mode() & 0o777;
        Ok((mode, fs::read(from)?))
    };
    let (mode, content) = read().with_context(|| from.display().to_string())?;
    archive.file(to, mode, content)
}

/// Formats the environment of the tests.
fn environment(guest: &Guest) -> String {
    let rtla = workspace::target(apt::RTLA);
    let rtla = match guest.kind {
        Kind::X86_64 if rtla.exists() => format!("export TRACER_RTLA='{}'\n", rtla.display()),
        Kind::X86_64 | Kind::Arm64 => String::new(),
    };
    format!(
        "export TRACER_DIST='{}' TRACER_PROGRAMS='{}' TRACER_REQUIRE_PRIVILEGED=1\n\
         export TRACER_TEST_SLOWNESS={SLOWNESS} TRACER_MACHINE_PAUSES=1\nTESTS='{}'\nTIMEOUT={}\n{rtla}",
        guest.dist.display(),
        guest.programs.display(),
        guest.tests.display(),
        TIMEOUT.as_secs()
    )
}

fn programs() -> PathBuf {
    workspace::target("vm/programs")
}

fn tests() -> PathBuf {
    workspace::target("vm/tests")
}

/// Lays out the test executables, and the programs that they would need a long time to compile.
pub fn lay_out(selection: &Selection) -> anyhow::Result<()> {
    process::run(
        workspace::cargo_for_host("run")
            .args(["--quiet", "--package=tests", "--bin=compile-programs", "--"])
            .arg(programs()),
    )?;
    fs::create_dir_all(tests())?;
    for file in &selection.executables {
        process::run(
            Command::new("strip")
                .args(["--strip-debug", "-o"])
                .arg(tests().join(&file.name))
                .arg(&file.path),
        )?;
    }
    Ok(())
}
