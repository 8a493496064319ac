//! Identifier of a build of the kernel. The notes of the running kernel and the file with its debug
//! symbols have the same identifier.

use std::fmt::Write as _;
use std::fs;

use super::raw::read_u32;

/// Reads the identifier of the running kernel; `None` where the kernel does not give it.
pub fn read_running_kernel() -> Option<Vec<u8>> {
    in_notes(&fs::read("/sys/kernel/notes").ok()?)
}

/// Returns the identifier in hexadecimal digits, as tools print it.
pub fn in_digits(build_id: &[u8]) -> String {
    build_id.iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// Returns the build identifier among notes of an ELF file.
fn in_notes(notes: &[u8]) -> Option<Vec<u8>> {
    /// `NT_GNU_BUILD_ID`.
    const BUILD_ID: u32 = 3;
    const OWNER: &[u8] = b"GNU\0";
    let mut rest = notes;
    loop {
        let length = |at| usize::try_from(read_u32(rest, at)?).ok();
        let (owner_bytes, bytes) = (length(0)?, length(4)?);
        let kind = read_u32(rest, 8)?;
        let owner = rest.get(12..)?.get(..owner_bytes)?;
        let start = 12_usize.checked_add(owner_bytes.checked_next_multiple_of(4)?)?;
        let content = rest.get(start..)?.get(..bytes)?;
        if kind == BUILD_ID && owner == OWNER {
            return Some(content.to_vec());
        }
        rest = rest.get(start.checked_add(bytes.checked_next_multiple_of(4)?)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, owner: &[u8], content: &[u8]) -> Vec<u8> {
        let lengths = [owner.len(), content.len()].map(|length| u32::try_from(length).unwrap());
        let mut note = [lengths[0], lengths[1], kind]
            .map(u32::to_ne_bytes)
            .concat();
        for part in [owner, content] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn it_is_found_behind_other_notes_and_nowhere_else() {
        let notes = [
            note(3, b"Xen\0", b"1234"),
            note(6, b"Linux\0", b"x"),
            note(3, b"GNU\0", &[0xab, 0x01]),
        ]
        .concat();
        let found = in_notes(&notes).unwrap();
        assert_eq!(in_digits(&found), "ab01");
        for length in 0..notes.len() - 2 {
            assert_eq!(in_notes(&notes[..length]), None, "{length}");
        }
        let mut endless = notes;
        endless[4..8].fill(0xff);
        assert_eq!(in_notes(&endless), None);
    }
}
