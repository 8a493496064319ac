//! Notes of the program `stacks`.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

/// The functions that each of its points was in, the innermost first.
///
/// # Errors
///
/// The file cannot be read.
pub fn chains(notes: &Path) -> anyhow::Result<Vec<Vec<String>>> {
    let text = fs::read_to_string(notes).with_context(|| format!("{}", notes.display()))?;
    let chains = text
        .lines()
        .map(|line| line.split(' ').map(str::to_owned).collect());
    Ok(chains.collect())
}
