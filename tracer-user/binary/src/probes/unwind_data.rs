//! Unwind data of a file (`.eh_frame`): how its functions call.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;

use object::{Object, ObjectSection, ReadRef};

use super::binary::Segments;

/// Bytes of it that are read: the largest browser has some 30 million.
const MOST_BYTES: u64 = 64 << 20;

/// Bytes of `[vdso]` at most.
const MOST_VDSO_BYTES: u64 = 1 << 20;

/// Section of a file.
#[derive(Debug)]
pub(crate) struct Part {
    /// Address at which it is mapped.
    pub address: u64,
    /// Content.
    pub bytes: Box<[u8]>,
}

/// Unwind data of a file, as bytes.
#[derive(Debug)]
pub(crate) struct UnwindData {
    /// `.eh_frame`.
    pub entries: Part,
    /// `.eh_frame_hdr`, where there is one: by it, entries are found.
    pub index: Option<Part>,
    /// Address of `.text`: other addresses may be relative to it.
    pub text: u64,
    /// Address of `.got`: likewise.
    pub got: u64,
    segments: Segments,
}

impl UnwindData {
    /// Reads the unwind data of a file with these segments; `None` where it has none.
    pub(super) fn read<'a, R: ReadRef<'a>>(
        segments: Segments,
        parsed: &object::File<'a, R>,
    ) -> Option<Self> {
        let part = |name: &str| {
            let section = parsed.section_by_name(name)?;
            if section.size() > MOST_BYTES {
                return None;
            }
            Some(Part {
                address: section.address(),
                bytes: section.data().ok()?.into(),
            })
        };
        let address = |name| {
            let section = parsed.section_by_name(name);
            section.map_or(0, |section| section.address())
        };
        Some(Self {
            entries: part(".eh_frame").filter(|part| !part.bytes.is_empty())?,
            index: part(".eh_frame_hdr"),
            text: address(".text"),
            got: address(".got"),
            segments,
        })
    }

    /// Reads the unwind data of a program or library in memory.
    pub fn read_image(image: &[u8]) -> Option<Self> {
        let parsed = object::File::parse(image).ok()?;
        Self::read(Segments::read(&parsed), &parsed)
    }

    /// Reads the unwind data of the code that the kernel maps into each process (`[vdso]`).
    pub fn of_vdso() -> Option<Self> {
        Self::read_image(&vdso_image()?)
    }

    /// Returns the address of what is at this offset in the file.
    pub fn address(&self, offset: u64) -> Option<u64> {
        self.segments.address(offset)
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> u64 {
        let index = self.index.as_ref().map_or(0, |part| part.bytes.len());
        (self.entries.bytes.len() + index) as u64
    }
}

/// Returns the code that the kernel maps into each process (`[vdso]`), from that of this process:
/// every process has the same.
pub(super) fn vdso_image() -> Option<Vec<u8>> {
    let maps = BufReader::new(File::open("/proc/self/maps").ok()?);
    let mut lines = maps.lines().map_while(Result::ok);
    let line = lines.find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let [start, end] = [start, end].map(|word| u64::from_str_radix(word, 16).ok());
    let start = start?;
    let bytes = end?
        .checked_sub(start)
        .filter(|bytes| *bytes <= MOST_VDSO_BYTES)?;
    let mut image = vec![0; usize::try_from(bytes).ok()?];
    let memory = File::open("/proc/self/mem").ok()?;
    memory.read_exact_at(&mut image, start).ok()?;
    Some(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vdso_says_how_it_calls() {
        assert!(UnwindData::of_vdso().is_some());
    }
}
