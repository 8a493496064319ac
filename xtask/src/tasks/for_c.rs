//! Lays out the files that C programs need of a library from another build than the shipped one.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::tasks::{archive, dist};
use crate::workspace;

/// Lays out the library in the folder `built` of the repository, its header and its pkg-config
/// file, as `target/dist` is. The names of the tools that make the static library begin with
/// `tools`.
pub fn lay_out(built: &str, tools: &str, dist: &Path) -> anyhow::Result<()> {
    for below in ["bin", "include", "lib/pkgconfig"] {
        fs::create_dir_all(dist.join(below))?;
    }
    let lib = dist.join("lib");
    let compiled = workspace::root().join(built).join("libposixtrace.so");
    for name in ["libposixtrace.so.0", "libposixtrace.so"] {
        copy(&compiled, &lib.join(name))?;
    }
    archive::make_by(
        tools,
        &format!("{built}/libposixtrace.a"),
        "tracer-posix/libposixtrace/exports.txt",
        &lib.join("libposixtrace.a"),
    )?;
    let sources = workspace::root().join("tracer-posix/libposixtrace");
    copy(
        &sources.join("include/trace.h"),
        &dist.join("include/trace.h"),
    )?;
    let template = "tracer-posix/libposixtrace/posixtrace.pc.in";
    let pkg_config = dist::fill(template, dist::WHEREVER, "lib")?;
    fs::write(lib.join("pkgconfig/posixtrace.pc"), pkg_config)?;
    Ok(())
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}
