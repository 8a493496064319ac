//! `cargo xtask fuzz`: runs a fuzz target on its seeds, which are one file in the repository.

#[path = "../../../fuzz/src/seeds.rs"]
mod seeds;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::{process, workspace};

/// Toolchain that fuzzing needs.
const TOOLCHAIN: &str = "nightly";

/// Folder of the crate.
const FOLDER: &str = "fuzz";

/// Its program, which is told the target by the variable.
const PROGRAM: &str = "any_bytes";
const VARIABLE: &str = "FUZZ_TARGET";

/// Arguments of the task.
#[derive(clap::Args)]
pub struct Args {
    /// The target, such as area_read
    target: String,
    /// Only unpack its seeds, into target/fuzz/TARGET
    #[arg(long)]
    unpack: bool,
    /// Only write its seeds anew, from what has a name in target/fuzz/TARGET
    #[arg(long, conflicts_with = "unpack")]
    pack: bool,
    /// As little of what was found as reaches the same code, before it gets names
    #[arg(long, conflicts_with_all = ["unpack", "pack"])]
    minimise: bool,
    /// Options of libFuzzer
    #[arg(last = true)]
    options: Vec<String>,
}

/// Runs the target, or packs its seeds.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let file = find(&args.target)?;
    let folder = workspace::target("fuzz").join(&args.target);
    if args.pack {
        return pack(&folder, &file);
    }
    unpack(&file, &folder)?;
    if args.unpack {
        println!("{}", folder.display());
        return Ok(());
    }
    let task = if args.minimise { "cmin" } else { "run" };
    process::run(
        Command::new("rustup")
            .args(["run", TOOLCHAIN, "cargo", "fuzz", task])
            .args(["--fuzz-dir", ".", PROGRAM])
            .arg(&folder)
            .arg("--")
            .args(&args.options)
            .current_dir(workspace::root().join(FOLDER))
            .env(VARIABLE, &args.target)
            // Of the pinned toolchain, which runs this task.
            .env_remove("CARGO")
            .env_remove("RUSTUP_TOOLCHAIN"),
    )
    .context("cargo-fuzz may be missing: cargo install cargo-fuzz")
}

/// Returns the file of a target's seeds.
fn find(target: &str) -> anyhow::Result<PathBuf> {
    let file = workspace::root()
        .join(FOLDER)
        .join(format!("corpus/{target}.seeds"));
    ensure!(
        file.exists(),
        "no fuzz target is called {target}: see {FOLDER}/README.md"
    );
    Ok(file)
}

/// Writes each seed to a file of its own. Files of an earlier run stay.
fn unpack(file: &Path, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for seed in seeds::read(file)? {
        let is_name =
            !seed.name.is_empty() && !seed.name.starts_with('.') && !seed.name.contains('/');
        ensure!(is_name, "{}: {:?} is no name", file.display(), seed.name);
        fs::write(folder.join(&seed.name), &seed.bytes)?;
    }
    Ok(())
}

/// Length of the names that libFuzzer gives.
const NAME_OF_FUZZER: usize = 40;

/// Packs the seeds of a folder into one file: all files but those that libFuzzer named.
fn pack(folder: &Path, file: &Path) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder)
        .with_context(|| format!("{}: nothing is unpacked yet", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.len() != NAME_OF_FUZZER {
            names.push(name);
        }
    }
    names.sort();
    ensure!(!names.is_empty(), "{}: no seeds", folder.display());
    let mut packed = Vec::new();
    for name in &names {
        ensure!(!name.contains([' ', '\n']), "{name:?} is no name of a seed");
        let bytes = fs::read(folder.join(name))?;
        packed.extend_from_slice(format!("{name} {}\n", bytes.len()).as_bytes());
        packed.extend_from_slice(&bytes);
        packed.push(b'\n');
    }
    fs::write(file, packed).with_context(|| file.display().to_string())?;
    println!("{} seeds are in {}", names.len(), file.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unpacked_is_packed_as_it_was() {
        let folder = std::env::temp_dir().join(format!("seeds-{}", std::process::id()));
        let file = find("elf").unwrap();
        unpack(&file, &folder.join("unpacked")).unwrap();
        let found = "0123456789012345678901234567890123456789";
        fs::write(folder.join("unpacked").join(found), "of the fuzzer").unwrap();
        pack(&folder.join("unpacked"), &folder.join("packed")).unwrap();
        let packed = fs::read(folder.join("packed")).unwrap();
        fs::remove_dir_all(folder).unwrap();

        assert!(packed == fs::read(file).unwrap());
    }

    #[test]
    fn a_file_that_is_cut_off_is_refused() {
        let file = std::env::temp_dir().join(format!("cut-{}", std::process::id()));
        for content in [
            "a 3\nabc",
            "a 4\nabc\n",
            "a x\nabc\n",
            "a\n",
            "a 3 3\nabc\n",
        ] {
            fs::write(&file, content).unwrap();
            assert!(seeds::read(&file).is_err(), "{content:?}");
        }
        fs::write(&file, "a 3\na\nc\nb 0\n\n").unwrap();
        let seeds = seeds::read(&file).unwrap();
        fs::remove_file(file).unwrap();

        let seeds: Vec<_> = seeds
            .iter()
            .map(|seed| (&*seed.name, &*seed.bytes))
            .collect();
        assert_eq!(seeds, [("a", &b"a\nc"[..]), ("b", &b""[..])]);
    }
}
