//! Conformance table: the clauses of the standard, and the tests that show each.

mod clauses;
mod markers;
mod table;

use std::fs;

use anyhow::{Context as _, ensure};

use crate::workspace;
use clauses::Clauses;

/// Arguments of the task.
#[derive(clap::Args)]
pub struct Args {
    /// Only fail when the table is not up to date
    #[arg(long)]
    pub check: bool,
}

const CLAUSES: &str = "tracer-posix/libposixtrace/conformance/clauses.toml";
const TABLE: &str = "docs/conformance.md";

/// Writes the table, or compares it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let read = |path: &str| {
        fs::read_to_string(workspace::root().join(path)).with_context(|| path.to_owned())
    };
    let clauses = Clauses::parse(&read(CLAUSES)?).context(CLAUSES)?;
    let markers = markers::find(workspace::root())?;
    let table = table::render(&clauses, &markers)?;
    if args.check {
        ensure!(
            read(TABLE)? == table,
            "{TABLE} is not up to date; run: cargo xtask conformance"
        );
        return Ok(());
    }
    let path = workspace::root().join(TABLE);
    fs::write(&path, table).with_context(|| format!("cannot write {}", path.display()))
}
