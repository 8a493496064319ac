//! Options of `openat2`.

use super::files::permissions;
use super::pointed::Data;
use super::render::flags;
use crate::flags::OPEN;

/// Bytes of a `struct open_how` that are known.
const KNOWN: usize = 24;

const RESOLVE: &[(&str, u64)] = &[
    ("RESOLVE_NO_XDEV", 1),
    ("RESOLVE_NO_MAGICLINKS", 2),
    ("RESOLVE_NO_SYMLINKS", 4),
    ("RESOLVE_BENEATH", 8),
    ("RESOLVE_IN_ROOT", 0x10),
    ("RESOLVE_CACHED", 0x20),
];

/// Appends a `struct open_how`: the mode where it counts, and bytes beyond those that are known
/// where they are not all zero.
pub fn push_open_how(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    let (bits, mode, resolve) = (bytes.u64(0)?, bytes.u64(8)?, bytes.u64(16)?);
    out.extend_from_slice(b"{flags=");
    match u32::try_from(bits) {
        Ok(bits) => OPEN.push(out, bits),
        Err(_) => out.extend_from_slice(format!("{bits:#x}").as_bytes()),
    }
    let makes_file = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY).cast_unsigned();
    if bits & u64::from(makes_file) != 0 || mode != 0 {
        let shown = u32::try_from(mode).map_or_else(|_| format!("0{mode:o}"), permissions);
        out.extend_from_slice(format!(", mode={shown}").as_bytes());
    }
    let resolve = flags(resolve, RESOLVE, "0");
    out.extend_from_slice(format!(", resolve={resolve}").as_bytes());
    let more = bytes.from(KNOWN)?.slice();
    if more.iter().any(|byte| *byte != 0) {
        let last = KNOWN + more.len() - 1;
        out.extend_from_slice(format!(", /* bytes {KNOWN}..{last} */ \"").as_bytes());
        for byte in more {
            out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
        out.push(b'"');
    }
    out.push(b'}');
    Some(())
}
