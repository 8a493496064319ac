//! What the virtual machine finds in its root file system.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use super::archive::Archive;
use super::cases::{self, Case};
use super::libraries;
use super::selection::Selection;
use crate::tasks::dist::{self, Content};
use crate::{packages, process, workspace};

/// Where it is kept, below the build's folder.
pub const PATH: &str = "vm/initramfs.cpio";

const INIT: &str = include_str!("init.sh");

/// Programs that tests start or compare with. Busybox stands in for every other one.
const PROGRAMS: &[&str] = &[
    "sh", "true", "false", "ls", "cat", "wc", "sleep", "env", "cp", "make", "mount", "umount",
    "strace", "setpriv", "unshare", "nsenter", "perf", "bpftrace", "readelf", "nm", "strip",
];

/// Folders on which something is mounted or that programs expect.
const FOLDERS: &[&str] = &[
    "/proc", "/sys", "/dev", "/tmp", "/run", "/etc", "/root", "/busybox",
];

/// How long one test may take, where processors are in software.
const PATIENCE: Duration = Duration::from_secs(420);

/// How much slower than a real machine such a guest is: its tests wait for so many times longer.
const SLOWNESS: u32 = 4;

/// Where the compiled C programs are.
const C_PROGRAMS: &str = "/programs";

/// The archive that says what to run. The kernel unpacks it after the one of [`build`] when it stands
/// behind that.
pub fn plan(cases: &[Case]) -> anyhow::Result<Vec<u8>> {
    let mut archive = Archive::new();
    archive.file("/tests/list", 0o644, cases::listed(cases))?;
    archive.into_bytes()
}

/// Makes the root file system: the distribution, which is laid out already, and the tests.
pub fn build(tests: &Selection) -> anyhow::Result<Vec<u8>> {
    let mut root = Root {
        archive: Archive::new(),
        libraries: BTreeSet::new(),
    };
    for folder in FOLDERS {
        root.archive.folder(folder)?;
    }
    root.archive.file("/init", 0o755, INIT)?;
    root.archive
        .file("/etc/passwd", 0o644, "root:x:0:0::/root:/bin/sh\n")?;
    root.copy(Path::new(packages::BUSYBOX), Path::new("/busybox/busybox"))?;
    for name in PROGRAMS {
        let path = libraries::program(name)?;
        root.program(&path, &path)?;
    }
    root.distribution()?;
    root.c_programs()?;
    root.tests(tests)?;
    for library in std::mem::take(&mut root.libraries) {
        root.copy(&library, &library)?;
    }
    root.archive.into_bytes()
}

struct Root {
    archive: Archive,
    /// What the programs so far need.
    libraries: BTreeSet<PathBuf>,
}

impl Root {
    fn copy(&mut self, from: &Path, to: &Path) -> anyhow::Result<()> {
        let read = || -> anyhow::Result<(u32, Vec<u8>)> {
            let mode = fs::metadata(from)?.permissions().mode() & 0o777;
            Ok((mode, fs::read(from)?))
        };
        let (mode, content) = read().with_context(|| from.display().to_string())?;
        self.archive.file(to, mode, content)
    }

    /// A program with the libraries it needs.
    fn program(&mut self, from: &Path, to: &Path) -> anyhow::Result<()> {
        self.libraries.extend(libraries::of(from)?);
        self.copy(from, to)
    }

    /// The distribution, under the path that it has here: compiled programs know it.
    fn distribution(&mut self) -> anyhow::Result<()> {
        let folder = workspace::target("dist");
        for piece in dist::without_pages() {
            let path = folder.join(&piece.path);
            let is_run = piece.path.starts_with("bin/") || piece.path.ends_with(".so.0");
            match piece.content {
                Content::Compiled { .. } if is_run => self.program(&path, &path)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The programs of `tests/programs`.
    fn c_programs(&mut self) -> anyhow::Result<()> {
        let folder = workspace::target("vm/programs");
        process::run(
            workspace::cargo_for_host("run")
                .args(["--quiet", "--package=tests", "--bin=compile-programs", "--"])
                .arg(&folder),
        )?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let to = Path::new(C_PROGRAMS).join(entry.file_name());
            self.program(&entry.path(), &to)?;
        }
        Ok(())
    }

    /// The test executables, and what they are told.
    fn tests(&mut self, tests: &Selection) -> anyhow::Result<()> {
        let stripped = workspace::target("vm/tests");
        fs::create_dir_all(&stripped)?;
        for file in &tests.executables {
            let small = stripped.join(&file.name);
            process::run(
                Command::new("strip")
                    .args(["--strip-debug", "-o"])
                    .arg(&small)
                    .arg(&file.path),
            )?;
            self.program(&small, &Path::new("/tests").join(&file.name))?;
        }
        let environment = format!(
            "export TRACER_DIST='{}' TRACER_PROGRAMS={C_PROGRAMS} TRACER_REQUIRE_PRIVILEGED=1\n\
             export TRACER_TEST_SLOWNESS={SLOWNESS}\nPATIENCE={}\n",
            workspace::target("dist").display(),
            PATIENCE.as_secs()
        );
        self.archive.file("/environment", 0o644, environment)
    }
}
