//! Installs what `dist` lays out.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::tasks::dist::{self, Content};
use crate::{privilege, process};

/// Where to install.
#[derive(clap::Args)]
pub struct Args {
    /// Folder that gets bin, lib and include
    #[arg(long, value_name = "FOLDER", default_value = "/usr/local")]
    prefix: PathBuf,
    /// Folder that stands for the file system's root, to make a package
    #[arg(long, value_name = "FOLDER")]
    destdir: Option<PathBuf>,
}

/// Builds and installs.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let dist = dist::run()?;
    let prefix = std::path::absolute(&args.prefix)?;
    let folder = match &args.destdir {
        Some(destdir) => {
            let below_root = prefix.strip_prefix("/").unwrap_or(&prefix);
            std::path::absolute(destdir)?.join(below_root)
        }
        None => prefix.clone(),
    };
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
    let is_system = [Path::new("/usr"), Path::new("/usr/local")].contains(&prefix.as_path());
    if args.destdir.is_none() && is_system {
        // So that programs find the library from now on.
        process::run(&mut privilege::as_root("ldconfig", "run ldconfig")?)?;
    }
    Ok(())
}

fn install_file(from: &Path, to: &Path, mode: u32) -> anyhow::Result<Command> {
    let mut command = writer("install", to)?;
    command
        .args(["-D", "-m", &format!("{mode:o}")])
        .arg(from)
        .arg(to);
    Ok(command)
}

/// A command that may write `to`.
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
