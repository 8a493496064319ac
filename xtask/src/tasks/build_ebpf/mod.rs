//! Builds the eBPF object.
//!
//! The object is a part of the repository, so that other developers need neither its linker nor
//! LLVM. Its bytes do not depend on where it is built: paths are removed from the compiler's input,
//! and lines of files are no part of it.
//!
//! Digest of what the eBPF object is built from, and of the object. While the one that is noted
//! beside the object is right, nothing has to be built to know that the object is.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context as _, bail, ensure};

use crate::tasks::setup;
use crate::{bpf_linker, debug_sections, process, workspace};

/// Path of the object, which `tracer-user` includes.
const OBJECT: &str = "tracer-user/kernel/ebpf/tracer-ebpf.o";

/// File that names the tools that built it, since others may write other bytes; and the digest of
/// what they built it from.
const BUILT_WITH: &str = "tracer-user/kernel/ebpf/built-with.txt";

#[cfg(target_endian = "little")]
const TARGET: &str = "bpfel-unknown-none";
#[cfg(target_endian = "big")]
const TARGET: &str = "bpfeb-unknown-none";

/// Type information for the kernel, and the instruction set that every kernel with BPF ring buffers
/// accepts.
const FLAGS: [&str; 3] = ["-Cdebuginfo=2", "-Clink-arg=--btf", "-Ctarget-cpu=v3"];

/// Separator of flags in `CARGO_ENCODED_RUSTFLAGS`.
pub const SEPARATOR: &str = "\x1f";

/// Arguments of the task.
#[derive(clap::Args)]
pub struct Args {
    /// Only build it, and compare it with the one in the repository
    #[arg(long)]
    check: bool,
}

/// Beginning of the line with the digest.
const SOURCES: &str = "sources ";

/// Runs the task: builds the object, or checks it.
pub fn asked(args: &Args) -> anyhow::Result<()> {
    if args.check { check() } else { renew() }
}

/// Returns the path of the object.
pub fn object() -> PathBuf {
    workspace::root().join(OBJECT)
}

/// Makes sure that the object is that of its sources, and returns its path. It is built where
/// sources have changed since it was; in continuous integration it must not change then.
pub fn run() -> anyhow::Result<PathBuf> {
    if is_noted()? {
        eprintln!("{OBJECT} is noted to be built from its sources as they are");
    } else if env::var_os("CI").is_some() {
        check()?;
    } else {
        renew()?;
    }
    Ok(object())
}

/// Tells whether the object was built from its sources as they are now. Then the lint has nothing
/// to say of them: they are linted before they are built.
pub fn is_noted() -> anyhow::Result<bool> {
    let digest = digest()?;
    let noted = String::from_utf8(read(BUILT_WITH)?)?;
    let noted = noted.lines().find_map(|line| line.strip_prefix(SOURCES));
    Ok(noted == Some(&*digest))
}

/// Builds the object. An unchanged file is not written, so that nothing built from it is built
/// again.
fn renew() -> anyhow::Result<()> {
    if write(OBJECT, &build()?)? {
        eprintln!("{OBJECT} is another one now: commit it with what changed it");
    }
    let note = format!("{}{SOURCES}{}\n", tools()?, digest()?);
    if write(BUILT_WITH, note.as_bytes())? {
        eprintln!("{BUILT_WITH} notes other sources or tools now: commit it too");
    }
    Ok(())
}

/// Fails when the object in the repository is not the one that is built from its sources. With
/// other tools than those that built it, that cannot be known: then the object built here is used.
fn check() -> anyhow::Result<()> {
    let built = build()?;
    let there = read(OBJECT)?;
    let (noted, tools) = (String::from_utf8(read(BUILT_WITH)?)?, tools()?);
    if there == built {
        eprintln!("{OBJECT} is what is built from its sources");
    } else if noted.starts_with(&tools) {
        bail!(
            "{OBJECT} is not built from the sources beside it; run: cargo xtask build-ebpf, and commit it"
        );
    } else {
        eprintln!(
            "{OBJECT} CANNOT BE COMPARED with what is built here, which is used instead. \
             It was built with:\n{noted}and here there are:\n{tools}"
        );
        write(OBJECT, &built)?;
    }
    Ok(())
}

fn read(file: &str) -> anyhow::Result<Vec<u8>> {
    fs::read(workspace::root().join(file)).with_context(|| format!("cannot read {file}"))
}

/// Writes the file, and tells whether it had other contents before.
fn write(file: &str, bytes: &[u8]) -> anyhow::Result<bool> {
    let path = workspace::root().join(file);
    if fs::read(&path).ok().as_deref() == Some(bytes) {
        return Ok(false);
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&path, bytes).with_context(|| format!("cannot write {file}"))?;
    Ok(true)
}

/// Lists the compiler, the linker and its LLVM, a line each.
fn tools() -> anyhow::Result<String> {
    let mut rustc = Command::new("rustc");
    rustc.current_dir(workspace::root()).arg("--version");
    let rustc = process::output(&mut rustc)?;
    let linker = process::output(Command::new(setup::for_ebpf()?).arg("--version"))?;
    let llvm = bpf_linker::llvm_version().unwrap_or_else(|| "unknown".to_owned());
    Ok(format!("{rustc}\n{linker}\nLLVM {llvm}\n"))
}

/// Lints the sources, without the linker.
pub fn lint() -> anyhow::Result<()> {
    process::run(cargo_for_ebpf("clippy", []).args(["--", "-D", "warnings"]))
}

/// Lints the sources, and builds the object.
fn build() -> anyhow::Result<Vec<u8>> {
    setup::for_linting_ebpf()?;
    lint()?;
    let linker = setup::for_ebpf()?;
    let mut linker_flag = OsString::from("-Clinker=");
    linker_flag.push(linker);
    let mut build = cargo_for_ebpf("build", paths_taken_out()?.into_iter().chain([linker_flag]));
    process::run(build.arg("--bins")).context("the eBPF object cannot be built")?;

    let built = workspace::target("ebpf")
        .join(TARGET)
        .join("release/tracer-ebpf");
    let bytes = fs::read(&built).with_context(|| format!("cannot read {}", built.display()))?;
    ensure!(
        bytes.starts_with(b"\x7fELF"),
        "{} is no object file",
        built.display()
    );
    // Nearly all of it is for debuggers, which find that where it was built. The loader needs
    // none.
    debug_sections::remove(&bytes)
}

/// Returns flags that keep paths of this machine out of the compiler's output.
pub fn paths_taken_out() -> anyhow::Result<Vec<OsString>> {
    let mut sysroot = Command::new("rustc");
    sysroot.current_dir(workspace::root());
    let sysroot = PathBuf::from(process::output(sysroot.args(["--print", "sysroot"]))?);
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let home = home.map(|home| (home, "/cargo"));
    // A toolchain may be a link to another one: then both are said of it.
    let real = fs::canonicalize(&sysroot).unwrap_or_else(|_| sysroot.clone());
    let of = |(from, to): (&Path, &str)| {
        let mut flag = OsString::from("--remap-path-prefix=");
        flag.push(from);
        flag.push("=");
        flag.push(to);
        flag
    };
    let home = home.iter().map(|(path, to)| (path.as_path(), *to));
    let toolchain = [(&*sysroot, "/rust"), (&*real, "/rust")];
    let all = home
        .chain(toolchain)
        .chain([(workspace::root(), "/tracer")]);
    Ok(all.map(of).collect())
}

/// Returns a cargo command for the crate `tracer-ebpf` and its target.
///
/// The pinned stable toolchain builds `core` for it from source, which is a nightly feature: only
/// this command may use it.
fn cargo_for_ebpf(subcommand: &str, more_flags: impl IntoIterator<Item = OsString>) -> Command {
    let flags = FLAGS.map(OsString::from).into_iter();
    let flags: Vec<_> = flags.chain(more_flags).collect();
    let mut command = workspace::cargo(subcommand);
    command
        .args(["--package", "tracer-ebpf", "--release"])
        .args(["--target", TARGET, "-Zbuild-std=core", "--target-dir"])
        .arg(workspace::target("ebpf"))
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join(OsStr::new(SEPARATOR)))
        .env_remove("RUSTFLAGS")
        // Another compiler, such as one that lints, makes other bytes.
        .env_remove("RUSTC_WORKSPACE_WRAPPER");
    command
}

/// Files and folders: the sources, the toolchain, what turns the compiler's output into the object,
/// and what the lint is told.
const PATHS: [&str; 10] = [
    "clippy.toml",
    "rust-toolchain.toml",
    "tracer-common/Cargo.toml",
    "tracer-common/src",
    "tracer-ebpf/Cargo.toml",
    "tracer-ebpf/src",
    "xtask/src/bpf_linker.rs",
    "xtask/src/debug_sections.rs",
    "xtask/src/tasks/build_ebpf",
    OBJECT,
];

/// Manifest with the profiles, of which this one builds the object, and with the lints.
const MANIFEST: &str = "Cargo.toml";
const PROFILE: &str = "release";

/// Returns the digest, in hexadecimal digits.
pub fn digest() -> anyhow::Result<String> {
    let mut all = format!("{TARGET} {}\n", FLAGS.join(" ")).into_bytes();
    all.extend_from_slice(settings()?.as_bytes());
    for package in packages()? {
        writeln!(all, "{package}")?;
    }
    for path in PATHS {
        for file in files(Path::new(path))? {
            let bytes = fs::read(workspace::root().join(&file));
            let bytes = bytes.with_context(|| file.display().to_string())?;
            writeln!(all, "{} {}", file.display(), bytes.len())?;
            all.extend_from_slice(&bytes);
        }
    }
    hash(&all)
}

/// Returns the settings of the profile and of the lints.
fn settings() -> anyhow::Result<String> {
    let manifest = fs::read_to_string(workspace::root().join(MANIFEST)).context(MANIFEST)?;
    let manifest: toml::Table = manifest.parse().context(MANIFEST)?;
    let profile = manifest.get("profile").and_then(|all| all.get(PROFILE));
    let profile = profile.with_context(|| format!("{MANIFEST} has no profile {PROFILE}"))?;
    let lints = manifest.get("workspace").and_then(|all| all.get("lints"));
    let lints = lints.with_context(|| format!("{MANIFEST} has no lints"))?;
    Ok(format!("{profile:?}\n{lints:?}\n"))
}

/// Returns the names and versions of the crates that the programs are made of.
fn packages() -> anyhow::Result<BTreeSet<String>> {
    let tree = process::output(
        workspace::cargo("tree")
            .args(["--package=tracer-ebpf", "--edges=normal"])
            .args(["--prefix=none", "--format={p}"]),
    )?;
    let words = |line: &str| {
        let words: Vec<&str> = line.split(' ').take(2).collect();
        words.join(" ")
    };
    Ok(tree.lines().map(words).collect())
}

/// Lists the files of a folder, however deep, in order; or the file itself.
fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let whole = workspace::root().join(path);
    if !whole.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut inside = BTreeSet::new();
    for entry in fs::read_dir(&whole).with_context(|| whole.display().to_string())? {
        inside.insert(path.join(entry?.file_name()));
    }
    let lists: anyhow::Result<Vec<_>> = inside.iter().map(|path| files(path)).collect();
    Ok(lists?.concat())
}

fn hash(bytes: &[u8]) -> anyhow::Result<String> {
    let mut hash = workspace::git("hash-object");
    let mut hash = hash
        .arg("--stdin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run git")?;
    hash.stdin.take().context("no input")?.write_all(bytes)?;
    let output = hash.wait_with_output()?;
    ensure!(output.status.success(), "git cannot make a digest");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_the_object_are_among_the_files() {
        let files = |path: &str| files(Path::new(path)).unwrap();
        assert!(files("tracer-ebpf/src").contains(&PathBuf::from("tracer-ebpf/src/main.rs")));
        let deep = PathBuf::from("tracer-common/src/kernel/mod.rs");
        assert!(files("tracer-common/src").contains(&deep));
        assert_eq!(files(OBJECT), [PathBuf::from(OBJECT)]);
    }

    #[test]
    fn other_bytes_have_another_digest() {
        assert_eq!(hash(b"a").unwrap(), hash(b"a").unwrap());
        assert_ne!(hash(b"a").unwrap(), hash(b"b").unwrap());
    }

    #[test]
    fn the_crates_are_named_with_their_versions() {
        let packages = packages().unwrap();
        assert!(packages.contains("tracer-common v0.1.0"), "{packages:?}");
    }
}
