//! Lays out what is installed: `target/dist/{bin,include,lib,lib/pkgconfig}`.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::tasks::{archive, build};
use crate::{process, workspace};

/// A file of the distribution.
pub struct Piece {
    /// Where it is under `target/dist`, and under the prefix once installed.
    pub path: &'static str,
    /// What it is made from.
    pub content: Content,
}

/// What a [`Piece`] is made from.
pub enum Content {
    /// A copy of a file of the repository or build.
    Copy {
        /// Path from the top folder.
        from: &'static str,
        /// File mode.
        mode: u32,
    },
    /// A copy of a program or library, without what only a debugger needs.
    Compiled {
        /// Path from the top folder.
        from: &'static str,
        /// File mode.
        mode: u32,
    },
    /// A static library that has no global names but those that are exported.
    Archive {
        /// Path from the top folder.
        from: &'static str,
        /// The list of names, one a line; path from the top folder.
        exports: &'static str,
    },
    /// A copy of a file with `@VERSION@` replaced.
    Template {
        /// Path from the top folder.
        from: &'static str,
    },
    /// A symbolic link.
    Link {
        /// What it says.
        to: &'static str,
    },
}

/// Everything that is distributed. Cargo names the libraries after the crate; the linker and
/// pkg-config know them under the name that stands here.
pub const PIECES: &[Piece] = &[
    Piece {
        path: "bin/tracer-user",
        content: Content::Compiled {
            from: "target/release/tracer-user",
            mode: 0o755,
        },
    },
    Piece {
        path: "lib/libposixtrace.so.0",
        content: Content::Compiled {
            from: "target/release/libtracer_posix.so",
            mode: 0o644,
        },
    },
    Piece {
        path: "lib/libposixtrace.so",
        content: Content::Link {
            to: "libposixtrace.so.0",
        },
    },
    Piece {
        path: "lib/libposixtrace.a",
        content: Content::Archive {
            from: "target/release/libtracer_posix.a",
            exports: "tracer-posix/exports.txt",
        },
    },
    Piece {
        path: "include/trace.h",
        content: Content::Copy {
            from: "tracer-posix/include/trace.h",
            mode: 0o644,
        },
    },
    Piece {
        path: "lib/pkgconfig/posixtrace.pc",
        content: Content::Template {
            from: "tracer-posix/posixtrace.pc.in",
        },
    },
];

/// Builds, lays out and returns the folder.
pub fn run() -> anyhow::Result<PathBuf> {
    build::run()?;
    let dist = workspace::target("dist");
    for piece in PIECES {
        let to = dist.join(piece.path);
        lay(piece, &to).with_context(|| format!("cannot make {}", to.display()))?;
    }
    Ok(dist)
}

fn lay(piece: &Piece, to: &Path) -> anyhow::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    // A program that runs from the old file keeps it: the new one is another file.
    let _ = fs::remove_file(to);
    match piece.content {
        Content::Copy { from, mode } => copy(from, to, mode)?,
        Content::Compiled { from, mode } => {
            copy(from, to, mode)?;
            strip(to)?;
        }
        Content::Archive { from, exports } => archive::make(from, exports, to)?,
        Content::Template { from } => {
            let template = fs::read_to_string(workspace::root().join(from))
                .with_context(|| from.to_owned())?;
            fs::write(to, template.replace("@VERSION@", env!("CARGO_PKG_VERSION")))?;
        }
        Content::Link { to: target } => symlink(target, to)?,
    }
    Ok(())
}

fn copy(from: &str, to: &Path, mode: u32) -> anyhow::Result<()> {
    fs::copy(workspace::root().join(from), to).with_context(|| from.to_owned())?;
    fs::set_permissions(to, Permissions::from_mode(mode))?;
    Ok(())
}

/// Takes the debugger's part out: nine tenths of a library. `strip` comes with every C compiler.
fn strip(file: &Path) -> anyhow::Result<()> {
    process::run(Command::new("strip").arg("--strip-debug").arg(file))
}
