//! The seeds of a fuzz target, which are one file in the repository: for each its name and length
//! in a line, and as many bytes and a line's end.

#![allow(dead_code, reason = "each user has its part of this")]

use std::fs;
use std::io;
use std::path::Path;

/// An input that a fuzz target begins with.
pub struct Seed {
    /// Names of those that fuzzing has found begin with `found_`.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

impl Seed {
    /// Tells whether fuzzing has found it: nothing is made of these, as there are many.
    pub fn is_found(&self) -> bool {
        self.name.starts_with("found_")
    }
}

/// Reads the seeds in a file.
///
/// # Errors
///
/// The file cannot be read, or something else is in it.
pub fn read(path: &Path) -> io::Result<Vec<Seed>> {
    let file = fs::read(path)?;
    let (mut seeds, mut rest) = (Vec::new(), &file[..]);
    while !rest.is_empty() {
        let (seed, after) = first(rest).ok_or_else(|| {
            let at = file.len() - rest.len();
            io::Error::other(format!("{}: no seed at byte {at}", path.display()))
        })?;
        seeds.push(seed);
        rest = after;
    }
    Ok(seeds)
}

/// Splits the first seed off.
fn first(file: &[u8]) -> Option<(Seed, &[u8])> {
    let end = file.iter().position(|byte| *byte == b'\n')?;
    let (name, length) = str::from_utf8(&file[..end]).ok()?.split_once(' ')?;
    let (bytes, after) = file[end + 1..].split_at_checked(length.parse().ok()?)?;
    let seed = Seed {
        name: name.to_owned(),
        bytes: bytes.to_owned(),
    };
    Some((seed, after.strip_prefix(b"\n")?))
}
