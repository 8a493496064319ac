//! Interpreters of CPython, whose frames are compared with what they say themselves.

use std::env;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::{packages, privilege, process, workspace};

/// Variable that lists interpreters, with `:` between them.
pub const VARIABLE: &str = "TRACER_PYTHONS";

/// Newest version that is known: 3.14 is 14. A distribution that is not new has only older ones.
const NEWEST: u32 = 14;

/// Release of Debian that has it.
const SUITE: &str = "sid";

/// Packages of it, with its headers.
fn packages_of(minor: u32) -> String {
    format!("python3.{minor}-minimal,libpython3.{minor}-stdlib,libpython3.{minor}-dev")
}

/// Returns the interpreters that are at hand beside the distribution's own: those that the variable
/// lists; else those of pyenv, and what was unpacked here.
pub fn at_hand() -> Vec<PathBuf> {
    if let Some(listed) = env::var_os(VARIABLE) {
        return env::split_paths(&listed).collect();
    }
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let versions = fs::read_dir(home.join(".pyenv/versions"));
    let versions = versions.into_iter().flatten().flatten();
    let mut all: Vec<_> = versions
        .map(|version| version.path().join("bin/python3"))
        .filter(|interpreter| interpreter.exists())
        .collect();
    all.sort();
    all.extend(Some(unpacked()).filter(|interpreter| interpreter.exists()));
    all
}

/// Returns the value of the variable that lists those at hand.
pub fn listed() -> OsString {
    let has_no_colon = |path: &PathBuf| !path.as_os_str().as_encoded_bytes().contains(&b':');
    env::join_paths(at_hand().into_iter().filter(has_no_colon)).unwrap_or_default()
}

/// Returns the version of an interpreter: 3.14 is 14.
pub fn minor(interpreter: &Path) -> Option<u32> {
    let mut said = Command::new(interpreter);
    let words = ["-c", "import sys; print(sys.version_info[1])"];
    let said = said.args(words).output().ok()?;
    String::from_utf8(said.stdout).ok()?.trim().parse().ok()
}

fn unpacked() -> PathBuf {
    workspace::target(&format!("pythons/3.{NEWEST}/bin/python3"))
}

/// Unpacks the newest one from the packages of Debian, with the C library that it needs, where none
/// is at hand.
pub fn install_newest() -> anyhow::Result<()> {
    let own = Path::new("/usr/bin/python3").to_owned();
    let mut all = at_hand().into_iter().chain([own]);
    if all.any(|interpreter| minor(&interpreter) == Some(NEWEST)) {
        return Ok(());
    }
    packages::install_missing(packages::TO_UNPACK_DEBIAN)?;
    let folder = workspace::target(&format!("pythons/3.{NEWEST}"));
    let root = folder.join("root");
    let why = "unpack an interpreter of Python";
    process::run(privilege::as_root("rm", why)?.arg("-rf").arg(&folder))?;
    fs::create_dir_all(folder.join("bin"))?;
    process::run(
        privilege::as_root("mmdebstrap", why)?
            .args(["--quiet", "--mode=root", "--variant=extract"])
            // A copy of the archive may be older than its lists are valid; they are signed.
            .arg("--aptopt=Acquire::Check-Valid-Until \"false\"")
            .arg(format!("--include={}", packages_of(NEWEST)))
            .arg(SUITE)
            .arg(&root)
            .arg(packages::source(SUITE)?),
    )?;
    let libraries = format!("usr/lib/{}-linux-gnu", env::consts::ARCH);
    let libraries = root.join(libraries);
    let loader = fs::read_dir(&libraries)?.flatten().map(|file| file.path());
    let loader = loader
        .filter_map(|path| path.to_str().map(str::to_owned))
        .find(|path| {
            path.rsplit('/')
                .next()
                .is_some_and(|name| name.starts_with("ld-linux"))
        })
        .context("the packages have no C library")?;
    // With its own C library, which is newer than the one here.
    let script = format!(
        "#!/bin/sh\nPYTHONHOME={root}/usr exec {loader} --library-path {libraries} \
         {root}/usr/bin/python3.{NEWEST} \"$@\"\n",
        root = root.display(),
        libraries = libraries.display(),
    );
    let interpreter = unpacked();
    fs::write(&interpreter, script)?;
    fs::set_permissions(&interpreter, Permissions::from_mode(0o755))?;
    Ok(())
}
