//! Installs the files that `dist` lays out, and removes them.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::tasks::dist;
use crate::tasks::dist::Content;
use crate::{privilege, process};

/// Folders to install into.
#[derive(clap::Args)]
pub struct Args {
    /// Folder that gets bin, lib and include
    #[arg(long, value_name = "FOLDER", default_value = "/usr/local")]
    prefix: PathBuf,
    /// Folder in the role of the file system's root, to make a package
    #[arg(long, value_name = "FOLDER")]
    destdir: Option<PathBuf>,
}

/// Builds and installs.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let dist = dist::run()?;
    let folder = args.folder()?;
    for piece in dist::pieces()? {
        let (from, to) = (dist.join(&piece.path), folder.join(&piece.path));
        let mut command = match piece.content {
            Content::Copy { mode, .. } | Content::Compiled { mode, .. } => {
                install_file(&from, &to, mode)?
            }
            Content::Archive { .. }
            | Content::CArchive { .. }
            | Content::Template { .. }
            | Content::Text(_) => install_file(&from, &to, 0o644)?,
            Content::Link { to: target } => {
                let mut command = writer("ln", &to)?;
                command.args(["-sfn", target]).arg(&to);
                command
            }
        };
        process::run(&mut command).with_context(|| format!("cannot install {}", to.display()))?;
        println!("{}", to.display());
    }
    args.update_the_linker()?;
    if !args.is_of_the_system() {
        println!("\n{}", search_paths(&folder));
    }
    Ok(())
}

/// Removes the installed files. Missing files are no error.
pub fn remove(args: &Args) -> anyhow::Result<()> {
    let folder = args.folder()?;
    let mut paths: Vec<PathBuf> = dist::pieces()?
        .iter()
        .map(|piece| folder.join(&piece.path))
        .collect();
    // Nothing is built for this, and the pages of the program may not be known.
    let pages = folder.join("share/man/man1");
    for page in fs::read_dir(pages).into_iter().flatten() {
        let page = page?;
        if page.file_name().as_bytes().starts_with(b"tracer-user") {
            paths.push(page.path());
        }
    }
    paths.sort();
    paths.dedup();
    for path in paths.iter().filter(|path| path.symlink_metadata().is_ok()) {
        let mut command = writer("rm", path)?;
        process::run(command.arg("--").arg(path))
            .with_context(|| format!("cannot remove {}", path.display()))?;
        println!("removed {}", path.display());
    }
    for empty in emptied(&folder, &paths) {
        process::run(writer("rmdir", &empty)?.arg(&empty))?;
        println!("removed {}", empty.display());
    }
    args.update_the_linker()
}

/// Finds the folders below `prefix` that are empty now, the innermost first. Folders that every
/// system has are not removed, empty or not.
fn emptied(prefix: &Path, removed: &[PathBuf]) -> Vec<PathBuf> {
    let of_system = ["bin", "include", "lib", "share", "share/man"].map(|name| prefix.join(name));
    let folders = removed.iter().flat_map(|path| path.ancestors().skip(1));
    let folders = folders.filter(|folder| *folder != prefix && folder.starts_with(prefix));
    let mut folders: Vec<&Path> = folders.collect();
    folders.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
    folders.dedup();
    let mut empty: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let is_system = of_system.iter().any(|one| one == folder);
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut others = entries.filter(|entry| !empty.contains(&entry.path()));
        let is_empty = folder.exists() && others.next().is_none();
        if is_empty && !is_system && !empty.iter().any(|one| one == folder) {
            empty.push(folder.to_owned());
        }
    }
    empty
}

impl Args {
    /// Returns the folder that gets the files.
    fn folder(&self) -> anyhow::Result<PathBuf> {
        let prefix = std::path::absolute(&self.prefix)?;
        Ok(match &self.destdir {
            Some(destdir) => {
                let below_root = prefix.strip_prefix("/").unwrap_or(&prefix);
                std::path::absolute(destdir)?.join(below_root)
            }
            None => prefix,
        })
    }

    /// Tells whether the system looks for programs and libraries there.
    fn is_of_the_system(&self) -> bool {
        let of_system = ["/usr", "/usr/local"].map(Path::new);
        self.destdir.is_none() && of_system.contains(&self.prefix.as_path())
    }

    /// Runs `ldconfig`, so that programs find the library from now on, or no longer.
    fn update_the_linker(&self) -> anyhow::Result<()> {
        if self.is_of_the_system() {
            process::run(&mut privilege::as_root("ldconfig", "run ldconfig")?)?;
        }
        Ok(())
    }
}

/// Formats the variables to set for files that are installed elsewhere.
fn search_paths(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "Programs, libraries and pages are not looked for there by themselves:\n    \
         export PATH={folder}/bin:$PATH\n    \
         export PKG_CONFIG_PATH={folder}/lib/pkgconfig\n    \
         export LD_LIBRARY_PATH={folder}/lib"
    )
}

fn install_file(from: &Path, to: &Path, mode: u32) -> anyhow::Result<Command> {
    let mut command = writer("install", to)?;
    command
        .args(["-D", "-m", &format!("{mode:o}")])
        .arg(from)
        .arg(to);
    Ok(command)
}

/// Returns a command that may write `to`.
fn writer(program: &str, to: &Path) -> anyhow::Result<Command> {
    let existing = to.ancestors().skip(1).find(|folder| folder.exists());
    if existing.is_none_or(is_writable) {
        return Ok(Command::new(program));
    }
    privilege::as_root(program, "write there")
}

fn is_writable(folder: &Path) -> bool {
    let Ok(path) = CString::new(folder.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: `path` is a null-terminated string that lives until after the call.
    unsafe { libc::access(path.as_ptr(), libc::W_OK) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_are_empty_go_from_the_inside_and_those_of_systems_stay() {
        let prefix = std::env::temp_dir().join(format!("emptied-{}", std::process::id()));
        for folder in ["share/a/b", "share/c/d", "bin", "lib/e"] {
            fs::create_dir_all(prefix.join(folder)).unwrap();
        }
        fs::write(prefix.join("share/c/other"), "").unwrap();
        let removed = [
            "share/a/b/x",
            "share/c/d/y",
            "bin/z",
            "lib/e/f",
            "share/g/h",
        ];
        let removed = removed.map(|path| prefix.join(path));

        let found = emptied(&prefix, &removed);
        fs::remove_dir_all(&prefix).unwrap();
        let mut found: Vec<_> = found
            .iter()
            .map(|path| path.strip_prefix(&prefix).unwrap().to_str().unwrap())
            .collect();
        assert!(
            found.iter().position(|one| *one == "share/a/b")
                < found.iter().position(|one| *one == "share/a")
        );
        found.sort_unstable();
        assert_eq!(found, ["lib/e", "share/a", "share/a/b", "share/c/d"]);
    }
}
