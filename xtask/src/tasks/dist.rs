//! Lays out the files to install: `target/dist/{bin,include,lib,lib/pkgconfig,share}`. The
//! distribution consists of pieces, each of a part, which is a package of its own.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::tasks::build::{self, Tool};
use crate::tasks::{archive, man, ship};
use crate::{process, workspace};

/// Part that a file belongs to. Distributions make a package of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Command line.
    Tool,
    /// Files needed by programs that were built with the library.
    Library,
    /// Instrumentation of robots.
    Robots,
    /// Files needed to build such programs.
    Development,
    /// Program that ships slices.
    Shipper,
}

/// File of the distribution.
pub struct Piece {
    /// Part that it belongs to.
    pub part: Part,
    /// Path under `target/dist`, and under the prefix once installed.
    pub path: String,
    /// Source of its contents.
    pub content: Content,
}

/// Source of the contents of a [`Piece`]. Paths are from the top folder.
pub enum Content {
    /// Copy of a file of the repository or build.
    Copy {
        /// Its path.
        from: String,
        /// File mode.
        mode: u32,
    },
    /// Copy of a program or library, without debug information.
    Compiled {
        /// Its path.
        from: String,
        /// File mode.
        mode: u32,
    },
    /// Static library whose only global names are the exported ones.
    Archive {
        /// The archive's path.
        from: &'static str,
        /// Path of the list of names, one per line.
        exports: &'static str,
    },
    /// Static library made of one C file.
    CArchive {
        /// The file's path.
        from: &'static str,
    },
    /// Copy of a file with `@VERSION@` and paths (`@PREFIX@`, `@LIB@`) replaced.
    Template {
        /// Its path.
        from: &'static str,
    },
    /// This text.
    Text(String),
    /// Symbolic link.
    Link {
        /// Target of the link.
        to: &'static str,
    },
}

impl Piece {
    /// Creates a piece at this path.
    pub fn new(part: Part, path: impl Into<String>, content: Content) -> Self {
        let path = path.into();
        Self {
            part,
            path,
            content,
        }
    }
}

/// Lists all files of the distribution.
pub fn pieces() -> anyhow::Result<Vec<Piece>> {
    let mut pieces = without_pages(Tool::Shipped);
    pieces.extend(man::pieces()?);
    Ok(pieces)
}

/// Lists all files that packages have: also the shipper, a program of its own with large libraries,
/// which takes long to build.
pub fn packaged() -> anyhow::Result<Vec<Piece>> {
    let mut pieces = pieces()?;
    let program = Content::Compiled {
        from: "target/shipped/tracer-ship".to_owned(),
        mode: 0o755,
    };
    let path = "libexec/tracer-user/tracer-ship";
    pieces.push(Piece::new(Part::Shipper, path, program));
    pieces.extend(OF_SHIPPER.iter().map(|(path, from)| {
        let from = (*from).to_owned();
        Piece::new(Part::Shipper, *path, Content::Copy { from, mode: 0o644 })
    }));
    Ok(pieces)
}

/// Lists all files but the manual pages: those that programs need.
pub fn without_pages(tool: Tool) -> Vec<Piece> {
    let shared = Content::Compiled {
        from: "target/shipped/libposixtrace.so".to_owned(),
        mode: 0o644,
    };
    let archive = Content::Archive {
        from: "target/shipped/libposixtrace.a",
        exports: "tracer-posix/libposixtrace/exports.txt",
    };
    let tracetools = Content::Compiled {
        from: "target/shipped/libtracetools.so".to_owned(),
        mode: 0o644,
    };
    let program = Content::Compiled {
        from: tool.path().to_owned(),
        mode: 0o755,
    };
    let mut pieces = vec![
        Piece::new(Part::Tool, "bin/tracer-user", program),
        Piece::new(Part::Library, "lib/libposixtrace.so.0", shared),
        Piece::new(Part::Robots, "lib/posixtrace/libtracetools.so", tracetools),
        Piece::new(
            Part::Development,
            "lib/libposixtrace.so",
            Content::Link {
                to: "libposixtrace.so.0",
            },
        ),
        Piece::new(Part::Development, "lib/libposixtrace.a", archive),
        Piece::new(
            Part::Development,
            "lib/libposixtrace_musl.a",
            Content::CArchive {
                from: "tracer-posix/libposixtrace/musl/missing.c",
            },
        ),
    ];
    pieces.extend(
        TEMPLATES
            .iter()
            .map(|(path, from)| Piece::new(Part::Development, *path, Content::Template { from })),
    );
    pieces.extend(COPIES.iter().map(|(part, path, from)| {
        let from = (*from).to_owned();
        Piece::new(*part, *path, Content::Copy { from, mode: 0o644 })
    }));
    pieces
}

/// Files made from templates: the path in the distribution, and the template.
const TEMPLATES: &[(&str, &str)] = &[
    (
        "lib/pkgconfig/posixtrace.pc",
        "tracer-posix/libposixtrace/posixtrace.pc.in",
    ),
    (
        "lib/pkgconfig/posixtrace-musl.pc",
        "tracer-posix/libposixtrace/posixtrace-musl.pc.in",
    ),
];

/// Unit of the flight recorder.
const RECORDER: &str = "tracer-user/systemd/tracer-user@.service";

/// Units of the agent of all users.
const SERVICE: &str = "tracer-user/systemd/tracer-user.service";
const SOCKET: &str = "tracer-user/systemd/tracer-user.socket";

/// Unit of the shipper.
const SHIPPER: &str = "tracer-user/systemd/tracer-user-ship.service";

/// Files of the shipper that are copied unchanged.
const OF_SHIPPER: &[(&str, &str)] = &[
    ("lib/systemd/system/tracer-user-ship.service", SHIPPER),
    (
        "lib/sysusers.d/tracer-user-ship.conf",
        "tracer-user/systemd/ship/sysusers.conf",
    ),
    (
        "lib/tmpfiles.d/tracer-user-ship.conf",
        "tracer-user/systemd/ship/tmpfiles.conf",
    ),
    (
        "share/tracer-user/ship/recorder.conf",
        "tracer-user/systemd/ship/recorder.conf",
    ),
];

/// Units of services, and ten times the greatest exposure of each that `systemd-analyze security`
/// may report.
pub const SERVICES: &[(&str, &str)] = &[(RECORDER, "30"), (SERVICE, "20"), (SHIPPER, "20")];

/// Files that are copied unchanged.
const COPIES: &[(Part, &str, &str)] = &[
    (
        Part::Development,
        "include/trace.h",
        "tracer-posix/libposixtrace/include/trace.h",
    ),
    (
        Part::Development,
        "share/posixtrace/valgrind.supp",
        "tracer-posix/libposixtrace/valgrind.supp",
    ),
    (
        Part::Tool,
        "share/bash-completion/completions/tracer-user",
        "tracer-user/completions/tracer-user.bash",
    ),
    (
        Part::Tool,
        "share/zsh/site-functions/_tracer-user",
        "tracer-user/completions/_tracer-user",
    ),
    (
        Part::Tool,
        "share/fish/vendor_completions.d/tracer-user.fish",
        "tracer-user/completions/tracer-user.fish",
    ),
    // How programs that reason work with the tool.
    (
        Part::Tool,
        "share/tracer-user/skills/tracer-user/SKILL.md",
        "tracer-user/skill/SKILL.md",
    ),
    (
        Part::Tool,
        "lib/systemd/system/tracer-user@.service",
        RECORDER,
    ),
    (
        Part::Tool,
        "lib/systemd/system/tracer-user.service",
        SERVICE,
    ),
    (Part::Tool, "lib/systemd/system/tracer-user.socket", SOCKET),
];

/// Builds, lays out and returns the folder, with the shipper.
pub fn run_packaged() -> anyhow::Result<PathBuf> {
    build::run()?;
    ship::build("shipped")?;
    man::make_for_programs()?;
    let dist = workspace::target("dist");
    lay_out(&packaged()?, &dist)?;
    Ok(dist)
}

/// Builds, lays out and returns the folder.
pub fn run() -> anyhow::Result<PathBuf> {
    build::run()?;
    man::make_for_programs()?;
    let dist = workspace::target("dist");
    lay_out(&pieces()?, &dist)?;
    Ok(dist)
}

/// Does the same as [`run`] without the manual pages: building their generator takes half as long
/// again.
pub fn run_without_pages() -> anyhow::Result<PathBuf> {
    build::run()?;
    let dist = workspace::target("dist");
    lay_out(&without_pages(Tool::Shipped), &dist)?;
    Ok(dist)
}

/// Does the same as [`run_without_pages`] with the command line that is built with the tests, in a
/// folder of its own.
pub fn run_for_tests() -> anyhow::Result<PathBuf> {
    build::run_with(Tool::Tested)?;
    let dist = for_tests();
    lay_out(&without_pages(Tool::Tested), &dist)?;
    Ok(dist)
}

/// Returns the folder of [`run_for_tests`].
pub fn for_tests() -> PathBuf {
    workspace::target("tested/dist")
}

/// Lays out the tool alone, with a program from another build.
pub fn lay_out_tool(program: &str, to: &Path) -> anyhow::Result<()> {
    let mut pieces = pieces()?;
    pieces.retain(|piece| piece.part == Part::Tool);
    for piece in &mut pieces {
        if let Content::Compiled { from, .. } = &mut piece.content {
            program.clone_into(from);
        }
    }
    // What another version had is no part of this one.
    let _ = fs::remove_dir_all(to);
    lay_out(&pieces, to)
}

fn lay_out(pieces: &[Piece], dist: &Path) -> anyhow::Result<()> {
    for piece in pieces {
        let to = dist.join(&piece.path);
        lay_whole(piece, &to).with_context(|| format!("cannot make {}", to.display()))?;
    }
    Ok(())
}

/// Makes the file under a temporary name and renames it. A program that runs from the old file
/// continues with that, and no program starts from a file that is half-made: `strip` writes into
/// the file that it is given.
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
        Content::CArchive { from } => archive::make_from_c(from, to)?,
        // The folder may be moved.
        Content::Template { from } => fs::write(to, fill(from, WHEREVER, "lib")?)?,
        Content::Text(text) => fs::write(to, text)?,
        Content::Link { to: target } => symlink(target, to)?,
    }
    Ok(())
}

/// Prefix of a distribution that works at any path, in the syntax of pkg-config.
pub const WHEREVER: &str = "${pcfiledir}/../..";

/// Fills in a template for libraries in the folder `lib` below `prefix`.
pub fn fill(template: &str, prefix: &str, lib: &str) -> anyhow::Result<String> {
    let text = fs::read_to_string(workspace::root().join(template))
        .with_context(|| template.to_owned())?;
    let text = text.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    Ok(text.replace("@PREFIX@", prefix).replace("@LIB@", lib))
}

fn copy(from: &str, to: &Path, mode: u32) -> anyhow::Result<()> {
    fs::copy(workspace::root().join(from), to).with_context(|| from.to_owned())?;
    fs::set_permissions(to, Permissions::from_mode(mode))?;
    Ok(())
}

/// Removes debug information: nine tenths of a library. `strip` comes with every C compiler.
fn strip(file: &Path) -> anyhow::Result<()> {
    process::run(Command::new("strip").arg("--strip-debug").arg(file))
}
