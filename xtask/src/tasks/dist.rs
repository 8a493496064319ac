//! Lays out what is installed: `target/dist/{bin,include,lib,lib/pkgconfig,share/man}`.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::tasks::piece::{Content, Piece};
use crate::tasks::{archive, build, man};
use crate::{process, workspace};

/// Everything that is distributed.
pub fn pieces() -> anyhow::Result<Vec<Piece>> {
    let mut pieces = without_pages();
    pieces.extend(man::pieces()?);
    Ok(pieces)
}

/// Everything but the manual pages: what programs need.
pub fn without_pages() -> Vec<Piece> {
    let mut pieces = programs_and_libraries();
    pieces.extend(COMPLETIONS.iter().map(|(path, from)| {
        let from = (*from).to_owned();
        Piece::new(*path, Content::Copy { from, mode: 0o644 })
    }));
    pieces
}

/// What shells read, and where.
const COMPLETIONS: &[(&str, &str)] = &[
    (
        "share/bash-completion/completions/tracer-user",
        "tracer-user/completions/tracer-user.bash",
    ),
    (
        "share/zsh/site-functions/_tracer-user",
        "tracer-user/completions/_tracer-user",
    ),
    (
        "share/fish/vendor_completions.d/tracer-user.fish",
        "tracer-user/completions/tracer-user.fish",
    ),
];

fn programs_and_libraries() -> Vec<Piece> {
    let header = "tracer-posix/libposixtrace/include/trace.h".to_owned();
    let shared = Content::Compiled {
        from: "target/shipped/libposixtrace.so",
        mode: 0o644,
    };
    let archive = Content::Archive {
        from: "target/shipped/libposixtrace.a",
        exports: "tracer-posix/libposixtrace/exports.txt",
    };
    let program = Content::Compiled {
        from: "target/shipped/tracer-user",
        mode: 0o755,
    };
    let pkg_config = Content::Template {
        from: "tracer-posix/libposixtrace/posixtrace.pc.in",
    };
    vec![
        Piece::new("bin/tracer-user", program),
        Piece::new("lib/libposixtrace.so.0", shared),
        Piece::new(
            "lib/libposixtrace.so",
            Content::Link {
                to: "libposixtrace.so.0",
            },
        ),
        Piece::new("lib/libposixtrace.a", archive),
        Piece::new(
            "include/trace.h",
            Content::Copy {
                from: header,
                mode: 0o644,
            },
        ),
        Piece::new("lib/pkgconfig/posixtrace.pc", pkg_config),
        Piece::new(
            "share/posixtrace/valgrind.supp",
            Content::Copy {
                from: "tracer-posix/libposixtrace/valgrind.supp".to_owned(),
                mode: 0o644,
            },
        ),
        Piece::new(
            "lib/libposixtrace_musl.a",
            Content::CArchive {
                from: "tracer-posix/libposixtrace/musl/missing.c",
            },
        ),
        Piece::new(
            "lib/pkgconfig/posixtrace-musl.pc",
            Content::Template {
                from: "tracer-posix/libposixtrace/posixtrace-musl.pc.in",
            },
        ),
    ]
}

/// Builds, lays out and returns the folder.
pub fn run() -> anyhow::Result<PathBuf> {
    build::run()?;
    man::of_programs()?;
    lay_out(&pieces()?)
}

/// As [`run`], but for the manual pages: what makes them takes half as long to build again.
pub fn run_without_pages() -> anyhow::Result<PathBuf> {
    build::run()?;
    lay_out(&without_pages())
}

fn lay_out(pieces: &[Piece]) -> anyhow::Result<PathBuf> {
    let dist = workspace::target("dist");
    for piece in pieces {
        let to = dist.join(&piece.path);
        lay_whole(piece, &to).with_context(|| format!("cannot make {}", to.display()))?;
    }
    Ok(dist)
}

/// Makes it under another name. A program that runs from the old file keeps that, and none begins
/// with one that is half-made: `strip` writes into the file that it is given.
fn lay_whole(piece: &Piece, to: &Path) -> anyhow::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = to.with_file_name(name);
    let _ = fs::remove_file(&new);
    lay(piece, &new)?;
    fs::rename(&new, to)?;
    Ok(())
}

fn lay(piece: &Piece, to: &Path) -> anyhow::Result<()> {
    match &piece.content {
        Content::Copy { from, mode } => copy(from, to, *mode)?,
        Content::Compiled { from, mode } => {
            copy(from, to, *mode)?;
            strip(to)?;
        }
        Content::Archive { from, exports } => archive::make(from, exports, to)?,
        Content::CArchive { from } => archive::of_c(from, to)?,
        Content::Template { from } => {
            let template = fs::read_to_string(workspace::root().join(from))
                .with_context(|| (*from).to_owned())?;
            fs::write(to, template.replace("@VERSION@", env!("CARGO_PKG_VERSION")))?;
        }
        Content::Text(text) => fs::write(to, text)?,
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
