//! ELF files as a hostile user would make them.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;

use crate::attacker::{ATTACKER, give};

/// An ELF file of this machine with one executable segment, a section of notes, one of symbols and
/// one of their names.
pub struct Elf {
    /// Offset and size of the notes.
    pub notes: (u64, u64),
    /// Offset and size of the symbols.
    pub symbols: (u64, u64),
    /// Offset and size of the names.
    pub names: (u64, u64),
}

impl Elf {
    /// Writes the file, with these parts at their offsets; the attacker owns it then.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, path: &Path, parts: &[(u64, Vec<u8>)]) -> anyhow::Result<()> {
        const MACHINE: u16 = if cfg!(target_arch = "aarch64") {
            183
        } else {
            62
        };
        let mut header = b"\x7fELF\x02\x01\x01".to_vec();
        header.resize(16, 0);
        for half in [3_u16, MACHINE] {
            header.extend(half.to_le_bytes());
        }
        header.extend(1_u32.to_le_bytes());
        // Entry, program headers, section headers.
        for word in [0_u64, 64, 256] {
            header.extend(word.to_le_bytes());
        }
        header.extend(0_u32.to_le_bytes());
        for half in [64_u16, 56, 1, 64, 5, 4] {
            header.extend(half.to_le_bytes());
        }
        let mut segment = Vec::new();
        segment.extend(1_u32.to_le_bytes());
        segment.extend(5_u32.to_le_bytes());
        for word in [0_u64, 0, 0, 1 << 30, 1 << 30, 4096] {
            segment.extend(word.to_le_bytes());
        }
        const TEXTS: &[u8] = b"\0.note.stapsdt\0.symtab\0.strtab\0.shstrtab\0";
        let mut sections = vec![0; 64];
        let texts = (1024, TEXTS.len() as u64);
        for (name, kind, (offset, size), link, entry) in [
            (1_u32, 7_u32, self.notes, 0_u32, 0_u64),
            (15, 2, self.symbols, 3, 24),
            (23, 3, self.names, 0, 0),
            (31, 3, texts, 0, 0),
        ] {
            sections.extend(name.to_le_bytes());
            sections.extend(kind.to_le_bytes());
            for word in [0, 0, offset, size] {
                sections.extend(word.to_le_bytes());
            }
            sections.extend(link.to_le_bytes());
            sections.extend(0_u32.to_le_bytes());
            for word in [4, entry] {
                sections.extend(word.to_le_bytes());
            }
        }
        let file = File::create(path)?;
        let all = [
            (0, header),
            (64, segment),
            (256, sections),
            (1024, TEXTS.to_vec()),
        ];
        for (offset, bytes) in all.iter().chain(parts) {
            file.write_all_at(bytes, *offset)?;
        }
        file.set_permissions(fs::Permissions::from_mode(0o755))?;
        give(path, ATTACKER)?;
        Ok(())
    }
}

/// Makes `count` notes, each with an argument that is a variable of the program.
///
/// # Errors
///
/// A note is too long.
pub fn notes(count: usize) -> anyhow::Result<Vec<u8>> {
    let mut notes = Vec::new();
    for index in 0..count {
        let texts = format!("p{index}\0n\08@v{index}(%rip)\0");
        let length = u32::try_from(24 + texts.len())?;
        for word in [8, length, 3] {
            notes.extend(word.to_le_bytes());
        }
        notes.extend(b"stapsdt\0");
        for address in [0x2000_u64, 0, 0] {
            notes.extend(address.to_le_bytes());
        }
        notes.extend(texts.as_bytes());
        notes.resize(notes.len().next_multiple_of(4), 0);
    }
    Ok(notes)
}

/// Makes `count` symbols, and their names.
///
/// # Errors
///
/// The names are too long.
pub fn symbols(count: usize) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let (mut symbols, mut names) = (vec![0; 24], vec![0]);
    for index in 0..count {
        symbols.extend(u32::try_from(names.len())?.to_le_bytes());
        // A variable of the section after the notes.
        symbols.extend([1, 0, 2, 0]);
        for word in [0x3000_u64, 8] {
            symbols.extend(word.to_le_bytes());
        }
        names.extend(format!("s{index}\0").as_bytes());
    }
    Ok((symbols, names))
}
