//! Compiles every program of `tests/programs` into a folder, for a machine without a compiler.
//!
//! `compile-programs FOLDER`; the tests find them there when `TRACER_PROGRAMS` names the folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tests::dist;

fn main() -> anyhow::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.context("give the folder that the programs are to be put into")?;
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    for name in dist::program_names()? {
        dist::compile(&name, Path::new(&folder))?;
    }
    Ok(())
}
