//! Subjects of the tests: the command line and the library as they are distributed.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

/// The distribution's folder, as `cargo xtask dist` lays it out.
///
/// # Errors
///
/// It is not there.
pub fn folder() -> anyhow::Result<PathBuf> {
    let folder = env::var_os("TRACER_DIST").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/dist"),
        PathBuf::from,
    );
    ensure!(
        folder.join("include/trace.h").exists(),
        "nothing to test in {}; run: cargo xtask dist",
        folder.display()
    );
    Ok(folder.canonicalize()?)
}

/// The command line's path.
///
/// # Errors
///
/// It is not there.
pub fn tracer_user() -> anyhow::Result<PathBuf> {
    Ok(folder()?.join("bin/tracer-user"))
}

/// Way in which a program gets the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// Dynamic: from `libposixtrace.so`, when it starts.
    Shared,
    /// Static: it has the library inside.
    Static,
}

/// Beginning of the line of a source with several programs before one of them; its name follows.
/// The source is compiled with that macro.
const ONE_OF_SEVERAL: &str = "#ifdef PROGRAM_";

/// Source of a program.
struct Source {
    /// Name of the program.
    name: String,
    path: PathBuf,
    /// The source has several programs.
    is_one_of_several: bool,
}

impl Source {
    /// Finds the source of the program `name` among those in `folder`.
    fn find(folder: &Path, name: &str) -> anyhow::Result<Self> {
        let mut all = Self::all(folder)?.into_iter();
        all.find(|source| source.name == name)
            .with_context(|| format!("{} has no program {name}", folder.display()))
    }

    /// Returns the sources of all programs in `folder`.
    fn all(folder: &Path) -> anyhow::Result<Vec<Self>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let extension = path.extension().unwrap_or_default();
            if extension != "c" && extension != "cc" {
                continue;
            }
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let of_several = |name: &str| Self {
                name: name.to_owned(),
                path: path.clone(),
                is_one_of_several: true,
            };
            let several = text
                .lines()
                .filter_map(|line| line.strip_prefix(ONE_OF_SEVERAL));
            let before = all.len();
            all.extend(several.map(of_several));
            if all.len() == before {
                let name = path.file_stem().unwrap_or_default();
                all.push(Self {
                    name: name.to_string_lossy().into_owned(),
                    path,
                    is_one_of_several: false,
                });
            }
        }
        Ok(all)
    }
}

/// Compiles the program `name` of `tests/programs` into `into` as a user of the library would, and
/// returns the program. Its source is `NAME.c` or `NAME.cc`, or one with several programs.
///
/// Where `TRACER_PROGRAMS` names a folder that has it, the program is taken from there instead: in
/// a virtual machine a compiler takes long.
///
/// # Errors
///
/// The compiler or pkg-config fails; the error has its complaint.
pub fn compile(name: &str, into: &Path) -> anyhow::Result<PathBuf> {
    let program = into.join(name);
    if take_compiled(name, &program)? {
        return Ok(program);
    }
    compile_program(name, into, Linkage::Shared)
}

/// Copies the program of this name from the folder of compiled ones to `into`; `false` where there
/// is none.
pub(crate) fn take_compiled(name: &str, into: &Path) -> anyhow::Result<bool> {
    let folder = env::var_os("TRACER_PROGRAMS").map(PathBuf::from);
    let compiled = folder.map(|folder| folder.join(name));
    let Some(compiled) = compiled.filter(|compiled| compiled.exists()) else {
        return Ok(false);
    };
    // It may be there already, and run.
    let _ = fs::remove_file(into);
    fs::copy(&compiled, into).with_context(|| compiled.display().to_string())?;
    Ok(true)
}

/// Returns the names of the programs that [`compile`] can compile.
///
/// # Errors
///
/// The folder cannot be read.
pub fn program_names() -> anyhow::Result<Vec<String>> {
    let sources = Source::all(&programs())?.into_iter();
    Ok(sources.map(|source| source.name).collect())
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

/// Compiles a program as [`compile`] does, with the library inside the program.
///
/// # Errors
///
/// The compiler or pkg-config fails; the error has its complaint.
pub fn compile_static(name: &str, into: &Path) -> anyhow::Result<PathBuf> {
    compile_program(name, into, Linkage::Static)
}

fn compile_program(name: &str, into: &Path, linkage: Linkage) -> anyhow::Result<PathBuf> {
    compile_from(&programs(), name, into, &[], linkage)
}

/// Compiles the program `name` of the sources in `folder` as [`compile`] does, with more `options`.
///
/// # Errors
///
/// There is no such program; the compiler or pkg-config fails; the error has its complaint.
pub fn compile_from(
    folder: &Path,
    name: &str,
    into: &Path,
    options: &[&str],
    linkage: Linkage,
) -> anyhow::Result<PathBuf> {
    let source = Source::find(folder, name)?;
    let is_cpp = source.path.extension().is_some_and(|kind| kind == "cc");
    let selects = format!("-DPROGRAM_{name}");
    let mut all = vec!["-Wall", "-Wextra", "-Werror"];
    if source.is_one_of_several {
        all.push(&selects);
    }
    all.extend(options);
    let program = into.join(name);
    let compiler = if is_cpp { "g++" } else { "cc" };
    compile_file(compiler, &source.path, &program, &all, linkage)?;
    Ok(program)
}

/// Compiles `source` into `program` with `compiler` as a user of the library would.
///
/// # Errors
///
/// The compiler or pkg-config fails, or there is no such compiler; the error has the complaint.
pub fn compile_file(
    compiler: &str,
    source: &Path,
    program: &Path,
    options: &[&str],
    linkage: Linkage,
) -> anyhow::Result<()> {
    let lib = folder()?.join("lib");
    let compiled = Command::new(compiler)
        .args(["-O2", "-pthread"])
        .args(options)
        .arg("-o")
        .arg(program)
        .arg(source)
        // A program that uses nothing of the library is to be one without it.
        .arg("-Wl,--as-needed")
        .args(flags(linkage)?.split_whitespace())
        .arg(format!("-Wl,-rpath,{}", lib.display()))
        .output()
        .with_context(|| format!("cannot run {compiler}; run: cargo xtask setup --test"))?;
    ensure!(
        compiled.status.success(),
        "{compiler} {}: {}",
        source.display(),
        String::from_utf8_lossy(&compiled.stderr)
    );
    Ok(())
}

fn flags(linkage: Linkage) -> anyhow::Result<String> {
    flags_of("posixtrace", linkage)
}

/// Returns the flags that pkg-config prints for the library under one of its names.
///
/// # Errors
///
/// pkg-config cannot be run, or fails; the error has its complaint.
pub fn flags_of(name: &str, linkage: Linkage) -> anyhow::Result<String> {
    let options: &[&str] = match linkage {
        Linkage::Shared => &[],
        Linkage::Static => &["--static"],
    };
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", name])
        .args(options)
        .env("PKG_CONFIG_PATH", folder()?.join("lib/pkgconfig"))
        .output()
        .context("cannot run pkg-config")?;
    ensure!(
        flags.status.success(),
        "pkg-config: {}",
        String::from_utf8_lossy(&flags.stderr)
    );
    let flags = String::from_utf8(flags.stdout)?;
    Ok(match linkage {
        Linkage::Shared => flags,
        Linkage::Static => flags.replace("-lposixtrace ", "-l:libposixtrace.a "),
    })
}

/// Makes a copy of the distribution in `folder` that every user may read and run: the original may
/// be in a folder that is closed to others.
///
/// # Errors
///
/// It cannot be copied.
pub fn copy_for_everyone(folder: &Path) -> anyhow::Result<PathBuf> {
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    let copied = Command::new("cp")
        .arg("-r")
        .args([self::folder()?, folder.join("dist")])
        .status()
        .context("cannot run cp")?;
    ensure!(copied.success(), "cannot copy the distribution");
    Ok(folder.join("dist"))
}
