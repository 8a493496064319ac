//! The debugger's part of a file (DWARF), plain or compressed.
//!
//! The maker of the file says how large a compressed section will be, and may lie both ways: no
//! more than that is unpacked, all sections together have a limit, and memory is taken only as
//! bytes come.

use std::borrow::Cow;
use std::cell::Cell;
use std::convert::Infallible;
use std::io::Read;

use flate2::read::ZlibDecoder;
use gimli::{Dwarf, DwarfSections, EndianSlice, NativeEndian, SectionId};
use object::{CompressedData, CompressionFormat, Object, ObjectSection, ReadRef};
use ruzstd::decoding::StreamingDecoder;

use super::binary::Segments;
use super::opening::MOST_BYTES;
use super::split_files::SplitPlaces;

/// Section, as it is read.
pub type SectionSlice<'a> = EndianSlice<'a, NativeEndian>;

/// The sections that are looked at. Without lines and lists, units that name them are not read.
const READ: [SectionId; 9] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// The debugger's part of a file, in memory.
#[derive(Debug)]
pub(crate) struct DebugData {
    sections: DwarfSections<Box<[u8]>>,
    /// Those of the file with what it has in common with others.
    alternate: Option<DwarfSections<Box<[u8]>>>,
    /// Places of the units that it leaves to files of their own.
    pub split: SplitPlaces,
    /// Bytes of memory that it takes.
    pub bytes: u64,
    segments: Segments,
}

impl DebugData {
    /// Reads the debugger's part of a file whose own segments give the addresses; `None` where it
    /// has none.
    pub(super) fn read<'a, R: ReadRef<'a>>(
        segments: Segments,
        parsed: &object::File<'a, R>,
        split: SplitPlaces,
    ) -> Option<Self> {
        info_bytes(parsed).filter(|bytes| *bytes > 0)?;
        let (sections, bytes) = owned_sections(parsed);
        Some(Self {
            sections,
            alternate: None,
            split,
            bytes,
            segments,
        })
    }

    /// Adds what it has in common with others, as another file has it.
    pub(super) fn add_alternate<'a, R: ReadRef<'a>>(&mut self, parsed: &object::File<'a, R>) {
        let (sections, bytes) = owned_sections(parsed);
        self.alternate = Some(sections);
        self.bytes += bytes;
    }

    /// Returns the sections, parsed.
    pub fn dwarf(&self) -> Dwarf<SectionSlice<'_>> {
        self.sections
            .borrow_with_sup(self.alternate.as_ref(), |bytes| slice(bytes))
    }

    /// Returns the address of what is at this offset in the file.
    pub fn address(&self, offset: u64) -> Option<u64> {
        self.segments.address(offset)
    }
}

/// Returns a section as it is read.
pub(super) fn slice(bytes: &[u8]) -> SectionSlice<'_> {
    EndianSlice::new(bytes, NativeEndian)
}

/// Reads the sections of a file into memory; returns how many bytes they have as well.
fn owned_sections<'a, R: ReadRef<'a>>(
    parsed: &object::File<'a, R>,
) -> (DwarfSections<Box<[u8]>>, u64) {
    let bytes = Cell::new(0);
    let sections = sections(parsed, |section| {
        bytes.set(bytes.get() + section.len() as u64);
        section.into_owned().into_boxed_slice()
    });
    (sections, bytes.get())
}

/// Bytes of the entries of a file, once they are unpacked; `None` where it has none.
pub fn info_bytes<'a, R: ReadRef<'a>>(parsed: &object::File<'a, R>) -> Option<u64> {
    let section = parsed.section_by_name(SectionId::DebugInfo.name())?;
    Some(section.compressed_file_range().ok()?.uncompressed_size)
}

/// Reads the sections of a file; a section that cannot be read, or is too large, is empty.
pub fn sections<'a, R: ReadRef<'a>, T: Default>(
    parsed: &object::File<'a, R>,
    make: impl Fn(Cow<'a, [u8]>) -> T,
) -> DwarfSections<T> {
    let mut left = MOST_BYTES;
    let load = |id: SectionId| -> Result<T, Infallible> {
        let name = READ.contains(&id).then(|| id.name());
        let content = name.and_then(|name| section(parsed, name, &mut left));
        Ok(content.map_or_else(T::default, &make))
    };
    match DwarfSections::load(load) {
        Ok(sections) => sections,
        Err(never) => match never {},
    }
}

/// Returns the content of the section of this name; no more than `left` is unpacked.
pub(super) fn section<'a, R: ReadRef<'a>>(
    parsed: &object::File<'a, R>,
    name: &str,
    left: &mut u64,
) -> Option<Cow<'a, [u8]>> {
    let data = parsed.section_by_name(name)?.compressed_data();
    content(&data.ok()?, left)
}

/// Returns the content of a section; no more than `left` is unpacked.
fn content<'a>(data: &CompressedData<'a>, left: &mut u64) -> Option<Cow<'a, [u8]>> {
    let size = data.uncompressed_size;
    *left = left.checked_sub(size)?;
    let unpacked = match data.format {
        CompressionFormat::None => return Some(Cow::Borrowed(data.data)),
        CompressionFormat::Zlib => {
            let mut bytes = Vec::new();
            let decoder = ZlibDecoder::new(data.data).take(size);
            { decoder }.read_to_end(&mut bytes).ok()?;
            bytes
        }
        CompressionFormat::Zstandard => zstd(data.data, size)?,
        _ => return None,
    };
    (unpacked.len() as u64 == size).then_some(Cow::Owned(unpacked))
}

/// Unpacks frames of zstd, one after the other.
fn zstd(mut frames: &[u8], size: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while !frames.is_empty() && (bytes.len() as u64) < size {
        let left = size - bytes.len() as u64;
        let decoder = StreamingDecoder::new(&mut frames).ok()?.take(left);
        // An empty frame is no progress, but has taken bytes.
        { decoder }.read_to_end(&mut bytes).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compressed(format: CompressionFormat, data: &[u8], size: u64) -> CompressedData<'_> {
        CompressedData {
            format,
            data,
            uncompressed_size: size,
        }
    }

    fn zlib(of: &[u8]) -> Vec<u8> {
        use std::io::Write;
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(of).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn no_more_is_unpacked_than_a_section_says_and_may_have() {
        let whole = vec![7; 100_000];
        let packed = zlib(&whole);
        let mut left = 200_000;
        let unpacked = |size, left: &mut u64| {
            content(&compressed(CompressionFormat::Zlib, &packed, size), left)
        };
        assert_eq!(unpacked(100_000, &mut left).as_deref(), Some(&*whole));
        // It says less than it has, and is believed.
        assert_eq!(unpacked(9, &mut left).as_deref(), Some(&whole[..9]));
        // It says more than it has, or than there may be.
        assert_eq!(
            unpacked(100_001 - 11, &mut left).map(|b| b.len()),
            Some(99_990)
        );
        assert_eq!(left, 1);
        assert_eq!(unpacked(u64::MAX, &mut left), None);
        let mut left = 200_000;
        assert_eq!(unpacked(100_001, &mut left), None);
        assert_eq!(unpacked(99_999, &mut left).map(|b| b.len()), Some(99_999));
    }

    #[test]
    fn damage_is_refused() {
        let packed = zlib(&(0..=255).cycle().take(5000).collect::<Vec<u8>>());
        for at in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x5a;
            for format in [CompressionFormat::Zlib, CompressionFormat::Zstandard] {
                let _ = content(&compressed(format, &damaged, 5000), &mut 1_000_000);
                let _ = content(&compressed(format, &damaged[..at], 5000), &mut 1_000_000);
            }
        }
    }
}
