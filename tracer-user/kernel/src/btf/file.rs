//! BTF in a file that the user names. The file is either BTF, as the kernel shows it in `/sys`, or
//! an ELF file with a section `.BTF`, such as a `vmlinux`. Any user may have made the file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use object::read::ReadCache;
use object::{Object, ObjectSection};

use super::offsets::FieldMissing;
use super::reader::{Btf, BtfError};
use tracer_binary::probes::{Bounded, ReadBudget, open_ordinary};

/// Most bytes of BTF that are read. The BTF of a distribution's kernel has some five million.
const MOST_BYTES: u64 = 64 << 20;

/// Section of an ELF file.
const SECTION: &str = ".BTF";

/// Reason why the kernel's types cannot be read from a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// File that cannot be opened or read.
    #[error("{0}")]
    Unreadable(io::Error),
    /// File with more BTF than any kernel has.
    #[error("it has more than {} MiB of BTF, which is more than is read", MOST_BYTES >> 20)]
    TooLarge,
    /// File that begins neither like BTF nor like an ELF file.
    #[error("it is neither BTF nor an ELF file")]
    Neither,
    /// ELF file that cannot be read.
    #[error("it is a damaged ELF file: {0}")]
    DamagedElf(object::Error),
    /// ELF file without BTF.
    #[error("it is an ELF file without a section {SECTION}")]
    NoSection,
    /// BTF that cannot be read.
    #[error("its BTF is damaged: {0}")]
    Damaged(BtfError),
    /// BTF without fields that every kernel has.
    #[error("its BTF is none of a kernel's that can be traced: {0}")]
    Lacks(FieldMissing),
}

impl FileError {
    /// Returns the remedy, in words that follow "; ".
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "give --btf an ordinary file that can be read",
            Self::TooLarge | Self::Neither => {
                "give --btf the kernel's BTF as it is, or an ELF file with a section .BTF, such as \
                 vmlinux; unpack an archive first"
            }
            Self::NoSection => {
                "take its BTF from the vmlinux with debug symbols: pahole -J \
                 --btf_encode_detached=FILE vmlinux"
            }
            Self::DamagedElf(_) | Self::Damaged(_) => "get the file again",
            Self::Lacks(_) => {
                "give --btf the BTF of the whole kernel, and of this one, not that of a module or \
                 what some program needed of it"
            }
        }
    }
}

/// Content of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Contents {
    /// BTF.
    pub bytes: Vec<u8>,
    /// Build identifier of the kernel, where the file has it.
    pub build_id: Option<Vec<u8>>,
}

/// Reads the BTF that a file holds, without looking into it.
///
/// # Errors
///
/// See [`FileError`].
pub fn read(path: &Path) -> Result<Contents, FileError> {
    let file = open_ordinary(path).map_err(FileError::Unreadable)?;
    let start = start_of(&file).map_err(FileError::Unreadable)?;
    if start == *object::elf::ELFMAG.as_slice() {
        section(&file)
    } else if Btf::begins(&start) {
        let bytes = whole(&file)?;
        let build_id = None;
        Ok(Contents { bytes, build_id })
    } else {
        Err(FileError::Neither)
    }
}

/// Reads the first four bytes, or as many as there are.
fn start_of(file: &File) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    (&mut &*file).take(4).read_to_end(&mut start)?;
    Ok(start)
}

fn whole(file: &File) -> Result<Vec<u8>, FileError> {
    let length = file.metadata().map_err(FileError::Unreadable)?.len();
    if length > MOST_BYTES {
        return Err(FileError::TooLarge);
    }
    let mut bytes = Vec::new();
    let mut cursor = io::BufReader::new(file);
    io::Seek::rewind(&mut cursor).map_err(FileError::Unreadable)?;
    // The file may grow while it is read.
    let read = cursor.take(MOST_BYTES + 1).read_to_end(&mut bytes);
    let read = read.map_err(FileError::Unreadable)?;
    if read as u64 > MOST_BYTES {
        return Err(FileError::TooLarge);
    }
    Ok(bytes)
}

fn section(file: &File) -> Result<Contents, FileError> {
    let cache = ReadCache::new(file);
    let budget = ReadBudget::default();
    let failed = |error| {
        if budget.is_exceeded() {
            FileError::TooLarge
        } else {
            FileError::DamagedElf(error)
        }
    };
    let parsed = object::File::parse(Bounded::new(&cache, &budget)).map_err(failed)?;
    let found = parsed.section_by_name(SECTION);
    let found = found.ok_or(FileError::NoSection)?;
    if found.size() > MOST_BYTES {
        return Err(FileError::TooLarge);
    }
    let build_id = parsed.build_id().map_err(failed)?;
    Ok(Contents {
        bytes: found.data().map_err(failed)?.to_vec(),
        build_id: build_id.map(<[u8]>::to_vec),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use super::*;

    const BTF: &[u8] = &0x1_eb9f_u32.to_ne_bytes();

    /// Offset of the section headers in the file that `elf` builds, and the size of each.
    const HEADERS: usize = 64;
    const HEADER_BYTES: usize = 64;

    /// Builds an ELF file with one section of this name, and one of names.
    fn elf(section: &str, bytes: &[u8]) -> Vec<u8> {
        const SECTIONS: usize = 3;
        let names = format!("\0{section}\0.names\0");
        let names_at = HEADERS + SECTIONS * HEADER_BYTES;
        let bytes_at = names_at + names.len();
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(16, 0);
        elf.extend([2_u16, 62].map(u16::to_le_bytes).concat());
        elf.extend(1_u32.to_le_bytes());
        elf.extend([0, 0, HEADERS as u64].map(u64::to_le_bytes).concat());
        elf.extend([0; 4]);
        let header = u16::try_from(HEADER_BYTES).unwrap();
        let sections = u16::try_from(SECTIONS).unwrap();
        elf.extend(
            [64, 0, 0, header, sections, 2]
                .map(u16::to_le_bytes)
                .concat(),
        );
        elf.extend([0; HEADER_BYTES]);
        for (name, kind, at, size) in [
            (1, 1_u32, bytes_at, bytes.len()),
            (section.len() + 2, 3, names_at, names.len()),
        ] {
            elf.extend(u32::try_from(name).unwrap().to_le_bytes());
            elf.extend(kind.to_le_bytes());
            let words = [0, 0, at as u64, size as u64, 0, 1, 0];
            elf.extend(words.map(u64::to_le_bytes).concat());
        }
        elf.extend(names.as_bytes());
        elf.extend(bytes);
        elf
    }

    fn read_bytes(bytes: &[u8]) -> Result<Vec<u8>, FileError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        read(file.path()).map(|contents| contents.bytes)
    }

    #[test]
    fn btf_is_read_as_it_is_and_from_its_section() {
        let bytes = [BTF, b"and the rest"].concat();
        assert_eq!(read_bytes(&bytes).unwrap(), bytes);
        assert_eq!(read_bytes(&elf(".BTF", &bytes)).unwrap(), bytes);
        assert!(matches!(
            read_bytes(&elf(".text", &bytes)),
            Err(FileError::NoSection)
        ));
    }

    #[test]
    fn what_is_neither_is_refused() {
        for bytes in [&b""[..], b"\x7f", b"\xfd7zXZ", &[0; 100]] {
            assert!(
                matches!(read_bytes(bytes), Err(FileError::Neither)),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn a_damaged_elf_file_is_an_error_wherever_it_ends() {
        let whole = elf(".BTF", BTF);
        for length in 4..whole.len() {
            // A file that lacks only padding at its end is still read.
            let _ = read_bytes(&whole[..length]);
        }
        assert!(matches!(
            read_bytes(&whole[..32]),
            Err(FileError::DamagedElf(_))
        ));
        for at in 4..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] = 0xff;
            let _ = read_bytes(&bytes);
        }
    }

    #[test]
    fn no_more_is_read_than_any_kernel_has() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), BTF).unwrap();
        file.as_file().set_len(1 << 40).unwrap();
        let start = Instant::now();
        assert!(matches!(read(file.path()), Err(FileError::TooLarge)));
        // An ELF file whose section claims to have as many bytes.
        let mut whole = elf(".BTF", BTF);
        let size = HEADERS + HEADER_BYTES + 32;
        whole[size..size + 8].copy_from_slice(&(1_u64 << 39).to_le_bytes());
        fs::write(file.path(), &whole).unwrap();
        file.as_file().set_len(1 << 40).unwrap();
        assert!(matches!(read(file.path()), Err(FileError::TooLarge)));
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn what_is_no_ordinary_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path(), Path::new("/dev/zero"), Path::new("/nowhere")] {
            let error = read(path).unwrap_err();
            assert!(matches!(error, FileError::Unreadable(_)), "{error}");
        }
    }
}
