//! Layout of files in each kind of system.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::documents::Document;
use crate::process;
use crate::tasks::dist;
use crate::tasks::dist::{Content, Part};

/// Kind of system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Debian and its derivatives.
    Debian,
    /// Fedora, openSUSE and others with rpm.
    Rpm,
    /// Any system where an archive is unpacked.
    Any,
}

impl System {
    /// Returns the folder of libraries below `/usr`.
    pub fn libraries(self) -> String {
        match self {
            Self::Debian => format!("lib/{}-linux-gnu", std::env::consts::ARCH),
            Self::Rpm => "lib64".to_owned(),
            Self::Any => "lib".to_owned(),
        }
    }

    /// Returns the path of a file of `dist`, from the root.
    pub fn path(self, in_dist: &str) -> PathBuf {
        const OF_SYSTEMD: [&str; 3] = ["lib/systemd/", "lib/sysusers.d/", "lib/tmpfiles.d/"];
        const ZSH: &str = "share/zsh/site-functions/";
        if self == Self::Any {
            return in_dist.into();
        }
        let below_usr = match (in_dist.strip_prefix("lib/"), in_dist.strip_prefix(ZSH)) {
            (Some(library), _) if !OF_SYSTEMD.iter().any(|folder| in_dist.starts_with(folder)) => {
                format!("{}/{library}", self.libraries())
            }
            (_, Some(name)) if self == Self::Debian => {
                format!("share/zsh/vendor-completions/{name}")
            }
            _ => in_dist.to_owned(),
        };
        Path::new("usr").join(below_usr)
    }
}

/// Lays out the files of a part below `root`, from the layout of `dist`. Returns their paths from
/// the root.
pub fn lay_out(
    system: System,
    part: Part,
    dist: &Path,
    documents: &[Document],
    root: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let _ = fs::remove_dir_all(root);
    let mut paths = Vec::new();
    let pieces = dist::packaged()?;
    for piece in pieces.iter().filter(|piece| piece.part == part) {
        let path = system.path(&piece.path);
        let to = root.join(&path);
        let from = dist.join(&piece.path);
        make_folder_of(&to)?;
        match &piece.content {
            Content::Link { to: target } => symlink(target, &to)?,
            Content::Template { from } => {
                write(
                    &to,
                    dist::fill(from, "/usr", &system.libraries())?.as_bytes(),
                )?;
            }
            Content::Compiled { mode, .. } => {
                // rpm looks for what is required by, and provided by, what may be executed.
                let is_library = matches!(part, Part::Library | Part::Robots);
                let is_rpm_library = system == System::Rpm && is_library;
                let mode = if is_rpm_library { 0o755 } else { *mode };
                fs::copy(&from, &to).with_context(|| from.display().to_string())?;
                process::run(Command::new("strip").arg("--strip-unneeded").arg(&to))?;
                fs::set_permissions(&to, Permissions::from_mode(mode))?;
            }
            Content::Copy { .. }
            | Content::Archive { .. }
            | Content::CArchive { .. }
            | Content::Text(_) => {
                let content = fs::read(&from).with_context(|| from.display().to_string())?;
                write(&to, &content)?;
            }
        }
        let is_page = piece.path.starts_with("share/man/");
        paths.push(if is_page {
            compress(root, &path)?
        } else {
            path
        });
    }
    for document in documents {
        let to = root.join(&document.path);
        make_folder_of(&to)?;
        write(&to, document.text.as_bytes())?;
        paths.push(if document.is_compressed {
            compress(root, &document.path)?
        } else {
            document.path.clone()
        });
    }
    paths.sort();
    Ok(paths)
}

/// Compresses a file as distributions do: without a date, so that the same text makes the same
/// bytes.
fn compress(root: &Path, path: &Path) -> anyhow::Result<PathBuf> {
    process::run(Command::new("gzip").args(["-9nf"]).arg(root.join(path)))?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".gz");
    Ok(path.with_file_name(name))
}

fn write(to: &Path, content: &[u8]) -> anyhow::Result<()> {
    fs::write(to, content).with_context(|| format!("cannot write {}", to.display()))?;
    fs::set_permissions(to, Permissions::from_mode(0o644))?;
    Ok(())
}

/// Makes folders that every user may read, whatever the umask of this process.
fn make_folder_of(path: &Path) -> anyhow::Result<()> {
    let Some(folder) = path.parent().filter(|folder| !folder.exists()) else {
        return Ok(());
    };
    make_folder_of(folder)?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_where_each_system_looks_for_them_and_units_are_not_with_them() {
        let arch = std::env::consts::ARCH;
        for (in_dist, debian, rpm) in [
            ("bin/x", "usr/bin/x".to_owned(), "usr/bin/x"),
            (
                "lib/x.so.0",
                format!("usr/lib/{arch}-linux-gnu/x.so.0"),
                "usr/lib64/x.so.0",
            ),
            (
                "lib/pkgconfig/x.pc",
                format!("usr/lib/{arch}-linux-gnu/pkgconfig/x.pc"),
                "usr/lib64/pkgconfig/x.pc",
            ),
            (
                "lib/systemd/system/x@.service",
                "usr/lib/systemd/system/x@.service".to_owned(),
                "usr/lib/systemd/system/x@.service",
            ),
            (
                "lib/sysusers.d/x.conf",
                "usr/lib/sysusers.d/x.conf".to_owned(),
                "usr/lib/sysusers.d/x.conf",
            ),
            (
                "share/zsh/site-functions/_x",
                "usr/share/zsh/vendor-completions/_x".to_owned(),
                "usr/share/zsh/site-functions/_x",
            ),
        ] {
            assert_eq!(System::Debian.path(in_dist), Path::new(&debian));
            assert_eq!(System::Rpm.path(in_dist), Path::new(rpm));
        }
    }
}
