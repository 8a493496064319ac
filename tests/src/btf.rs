//! The kernel's types in files, as they are and as those of another kernel would be.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

/// Path of the running kernel's own types.
pub const OWN: &str = "/sys/kernel/btf/vmlinux";

/// Makes an ELF file with these types in its section, by a third-party tool. It has the build
/// identifier of some program, or none.
///
/// # Errors
///
/// It cannot be made.
pub fn in_elf(types: &Path, folder: &Path, has_build_id: bool) -> anyhow::Result<PathBuf> {
    let elf = folder.join("vmlinux");
    let build_id = if has_build_id {
        ".none"
    } else {
        ".note.gnu.build-id"
    };
    let section = format!(".BTF={}", types.display());
    let status = Command::new("objcopy")
        .args(["--add-section", &section, "--remove-section", build_id])
        .arg("/bin/true")
        .arg(&elf)
        .status()
        .context("cannot run objcopy")?;
    ensure!(status.success(), "objcopy: {status}");
    Ok(elf)
}

/// Reads the kernel's types, and moves `member` of `of` back by this many bytes.
///
/// # Errors
///
/// They have no such member.
pub fn shifted(of: &str, member: &str, by: u32) -> anyhow::Result<Vec<u8>> {
    let mut bytes = fs::read(OWN).context(OWN)?;
    let at = offset_of(&bytes, of, member);
    let at = at.with_context(|| format!("no {of}.{member}"))?;
    let bits = word(&bytes, at).context("truncated")?;
    // In bits; of a bit field the upper byte is its size.
    let moved = bits + by * 8;
    let target = bytes.get_mut(at..at + 4).context("truncated")?;
    target.copy_from_slice(&moved.to_ne_bytes());
    Ok(bytes)
}

/// Finds the position at which the offset of a member is written.
fn offset_of(bytes: &[u8], of: &str, member: &str) -> Option<usize> {
    const STRUCT: u32 = 4;
    let header = size(bytes, 4)?;
    let types = header + size(bytes, 8)?;
    let strings = header + size(bytes, 16)?;
    let is_named = |at: usize, name: &str| {
        let start = size(bytes, at).map(|offset| strings + offset);
        let rest = start.and_then(|start| bytes.get(start..)?.strip_prefix(name.as_bytes()));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    };
    let end = types + size(bytes, 12)?;
    let mut at = types;
    while at < end {
        let info = word(bytes, at + 4)?;
        let (kind, length) = (info >> 24 & 0x1f, usize::try_from(info & 0xffff).ok()?);
        if kind == STRUCT && is_named(at, of) {
            let mut members = (0..length).map(|index| at + 12 + index * 12);
            return Some(members.find(|at| is_named(*at, member))? + 8);
        }
        at += 12 + rest_of(kind, length)?;
    }
    None
}

/// Bytes behind the fixed part of a type of this kind.
fn rest_of(kind: u32, length: usize) -> Option<usize> {
    match kind {
        2 | 7..=12 | 16 | 18 => Some(0),
        1 | 14 | 17 => Some(4),
        3 => Some(12),
        6 | 13 => Some(8 * length),
        4 | 5 | 15 | 19 => Some(12 * length),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

fn size(bytes: &[u8], at: usize) -> Option<usize> {
    word(bytes, at)?.try_into().ok()
}
