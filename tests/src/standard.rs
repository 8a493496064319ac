//! The programs of `tests/programs/standard`: each has cases, and each case shows clauses of the
//! standard. Each is compiled by each compiler, with the shared library and with the static one:
//! `cargo xtask test --whole` runs each case in all four ways, else it runs in one of two that have
//! all of that.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::{Context as _, ensure};

use crate::dist::{self, Linkage};

/// A way to make a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Build {
    compiler: &'static str,
    linkage: Linkage,
}

/// Builds, the first two of which have each compiler and each library.
const BUILDS: [Build; 4] = [
    build("gcc", Linkage::Shared),
    build("clang", Linkage::Static),
    build("gcc", Linkage::Static),
    build("clang", Linkage::Shared),
];

/// Builds of [`BUILDS`] of which a case runs as one where not all is asked for.
const USUAL_BUILDS: usize = 2;

const fn build(compiler: &'static str, linkage: Linkage) -> Build {
    Build { compiler, linkage }
}

/// Options of all compilers: the programs use no extension of a compiler, and have no warning.
const STRICT: [&str; 5] = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"];

/// Time after which a case hangs, which is a failure.
const SECONDS: &str = "300";

/// The builds of a case for this machine, or for the one whose compiler `TRACER_COMPILER` names.
fn builds(case: &str) -> &'static [Build] {
    static BUILDS_ELSEWHERE: LazyLock<Option<[Build; 2]>> = LazyLock::new(|| {
        let compiler: &str = env::var("TRACER_COMPILER").ok()?.leak();
        Some([Linkage::Shared, Linkage::Static].map(|linkage| build(compiler, linkage)))
    });
    match &*BUILDS_ELSEWHERE {
        Some(builds) => builds,
        None if crate::is_whole() => &BUILDS,
        None => {
            let usual = case.bytes().map(usize::from).sum::<usize>() % USUAL_BUILDS;
            &BUILDS[usual..=usual]
        }
    }
}

/// Runs a case as builds of its program, one after the other: some make many streams, of which a
/// user may have 32, and other cases run beside it.
///
/// # Errors
///
/// The case fails, and says why; or it cannot be made or run.
pub fn check(folder: &Path, program: &str, case: &str) -> anyhow::Result<()> {
    let mut builds = builds(case).iter();
    builds.try_for_each(|build| check_as(*build, folder, program, case))
}

fn check_as(build: Build, folder: &Path, program: &str, case: &str) -> anyhow::Result<()> {
    let output = run(&compiled(folder, program, build)?, &[case])?;
    ensure!(
        output.status.success(),
        "{program} {case} ({build:?}): {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// The cases that a program has.
///
/// # Errors
///
/// The program cannot be made or run.
pub fn cases(folder: &Path, program: &str) -> anyhow::Result<Vec<String>> {
    let build = builds(program).first().context("no compiler")?;
    let output = run(&compiled(folder, program, *build)?, &[])?;
    ensure!(output.status.success(), "{program}: {}", output.status);
    let listed = String::from_utf8(output.stdout)?;
    Ok(listed.lines().map(str::to_owned).collect())
}

fn run(program: &Path, arguments: &[&str]) -> anyhow::Result<Output> {
    // What runs programs for another machine, with its own arguments.
    let runner = env::var("TRACER_RUNNER").unwrap_or_default();
    let output = Command::new("timeout")
        .args(["--kill-after=5", SECONDS])
        .args(runner.split_whitespace())
        .arg(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", dist::folder()?.join("lib"))
        .output();
    output.with_context(|| format!("cannot run {}", program.display()))
}

/// The program as this build makes it; made once.
fn compiled(folder: &Path, program: &str, build: Build) -> anyhow::Result<PathBuf> {
    static MADE: Mutex<Option<HashMap<(String, Build), PathBuf>>> = Mutex::new(None);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let made = made.get_or_insert_default();
    let key = (program.to_owned(), build);
    if let Some(path) = made.get(&key) {
        return Ok(path.clone());
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("programs/standard")
        .join(program)
        .with_extension("c");
    let name = format!("{program}-{}-{:?}", build.compiler, build.linkage);
    // Made under a name of its own: another run may be using what was there before.
    let new = folder.join(format!("{name}.{}", std::process::id()));
    dist::compile_file(build.compiler, &source, &new, &STRICT, build.linkage)?;
    let path = folder.join(name);
    fs::rename(&new, &path)?;
    made.insert(key, path.clone());
    Ok(path)
}
