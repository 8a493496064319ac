//! Makes the type information of an eBPF object small, and the same wherever it was built.
//!
//! The compiler adds the file and line of each instruction, with the text of that line. That is
//! more than half of the object, and it changes with each comment that moves a line. The kernel
//! shows it to readers of the verifier's log and needs none of it. Types, and the start of each
//! function, stay.

use std::collections::HashMap;

use anyhow::{Context as _, bail, ensure};

const MAGIC: [u8; 2] = [0x9f, 0xeb];

/// Positions in the header of `.BTF` that locate its parts.
const TYPES: Part = Part { at: 8 };
const STRINGS: Part = Part { at: 16 };
/// Positions in the header of `.BTF.ext`.
const FUNCTIONS: Part = Part { at: 8 };
const FIELD_ACCESSES: Part = Part { at: 24 };
const EXT_HEADER: usize = 32;

/// Bytes that every type has.
const TYPE_BYTES: usize = 12;

/// Returns `.BTF` and `.BTF.ext` without lines, and with only the strings that are still named.
pub fn without_lines(types: &[u8], ext: &[u8]) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let old = STRINGS.find_in(types).context("no strings")?;
    let mut strings = Strings::new(old);
    let types = TYPES.find_in(types).context("no types")?;
    let types = renamed_types(types, &mut strings)?;
    let accesses = FIELD_ACCESSES.find_in(ext);
    ensure!(
        accesses.is_none_or(<[u8]>::is_empty),
        "it has accesses to fields that are relocated"
    );
    let functions = FUNCTIONS.find_in(ext).context("no functions")?;
    let functions = renamed_functions(functions, &mut strings)?;
    Ok((
        with_header(24, &[&types, &strings.new])?,
        with_header(EXT_HEADER, &[&functions, &[], &[]])?,
    ))
}

/// Part of a section, whose offset and length are in the header.
struct Part {
    at: usize,
}

impl Part {
    /// Returns the part's bytes; `None` when the section does not have it.
    fn find_in(self, section: &[u8]) -> Option<&[u8]> {
        section.strip_prefix(&MAGIC)?;
        let header = usize_at(section, 4)?;
        // The header is shorter where the section does not have this part.
        if self.at.checked_add(8)? > header {
            return None;
        }
        let begin = header.checked_add(usize_at(section, self.at)?)?;
        let end = begin.checked_add(usize_at(section, self.at.checked_add(4)?)?)?;
        section.get(begin..end)
    }
}

/// Makes a section of these parts, one after the other.
fn with_header(header: usize, parts: &[&[u8]]) -> anyhow::Result<Vec<u8>> {
    let mut section = MAGIC.to_vec();
    section.extend([1, 0]);
    section.extend(u32::try_from(header)?.to_le_bytes());
    let mut offset = 0_usize;
    for part in parts {
        section.extend(u32::try_from(offset)?.to_le_bytes());
        section.extend(u32::try_from(part.len())?.to_le_bytes());
        offset = offset.saturating_add(part.len());
    }
    ensure!(section.len() == header, "a header of another size");
    section.extend(parts.concat());
    Ok(section)
}

/// Strings that are still referred to.
struct Strings<'a> {
    old: &'a [u8],
    new: Vec<u8>,
    at: HashMap<&'a [u8], u32>,
}

impl<'a> Strings<'a> {
    fn new(old: &'a [u8]) -> Self {
        // The first string is empty, for types without a name.
        Self {
            old,
            new: vec![0],
            at: HashMap::from([(&[][..], 0)]),
        }
    }

    /// Returns the new position of the string that was at `old`.
    fn renamed(&mut self, old: u32) -> anyhow::Result<u32> {
        let rest = self.old.get(usize::try_from(old)?..);
        let rest = rest.context("a name that is not there")?;
        let length = rest.iter().position(|&byte| byte == 0);
        let string = length.and_then(|length| rest.get(..length));
        let string = string.context("a name without an end")?;
        if let Some(at) = self.at.get(string) {
            return Ok(*at);
        }
        let at = u32::try_from(self.new.len())?;
        self.at.insert(string, at);
        self.new.extend(string);
        self.new.push(0);
        Ok(at)
    }

    /// Updates the word at `at`, which names a string.
    fn rename(&mut self, bytes: &mut [u8], at: usize) -> anyhow::Result<()> {
        let word = bytes.get_mut(at..at.saturating_add(4));
        let word: &mut [u8; 4] = word.context("it ends too early")?.try_into()?;
        *word = self.renamed(u32::from_le_bytes(*word))?.to_le_bytes();
        Ok(())
    }
}

fn renamed_types(types: &[u8], strings: &mut Strings<'_>) -> anyhow::Result<Vec<u8>> {
    let mut renamed = types.to_vec();
    let mut at = 0_usize;
    while at < types.len() {
        let info = usize_at(types, at.saturating_add(4)).context("half a type")?;
        let (kind, count) = ((info >> 24) & 0x1f, info & 0xffff);
        // Elements that follow the type: their size, their number, and whether each begins with a
        // name.
        let (size, elements, has_names) = match kind {
            // Integer, variable and tag of a declaration have a word.
            1 | 14 | 17 => (4, 1, false),
            // Pointer, forward declaration, typedef, volatile, const, restrict, function,
            // float and tag of a type have nothing.
            2 | 7..=12 | 16 | 18 => (0, 0, false),
            // Array.
            3 => (12, 1, false),
            // Struct, union and enumeration of 64 bits.
            4 | 5 | 19 => (12, count, true),
            // Enumeration, and parameters.
            6 | 13 => (8, count, true),
            // Section.
            15 => (12, count, false),
            _ => bail!("a type of the unknown kind {kind}"),
        };
        strings.rename(&mut renamed, at)?;
        at = at.saturating_add(TYPE_BYTES);
        for _ in 0..elements {
            if has_names {
                strings.rename(&mut renamed, at)?;
            }
            at = at.saturating_add(size);
        }
    }
    ensure!(at == types.len(), "half a type");
    Ok(renamed)
}

/// Updates the names of sections. Each section has records of one size.
fn renamed_functions(functions: &[u8], strings: &mut Strings<'_>) -> anyhow::Result<Vec<u8>> {
    let mut renamed = functions.to_vec();
    let size = usize_at(functions, 0).context("no size of records")?;
    let mut at = 4_usize;
    while at < functions.len() {
        let count = usize_at(functions, at.saturating_add(4)).context("half a section")?;
        strings.rename(&mut renamed, at)?;
        at = at
            .saturating_add(8)
            .saturating_add(count.saturating_mul(size));
    }
    ensure!(at == functions.len(), "half a section");
    Ok(renamed)
}

fn usize_at(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(word)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Returns an integer and a struct of one, and a function at the beginning of a section.
    fn small() -> (Vec<u8>, Vec<u8>) {
        let strings = b"\0/home/somebody/a.rs\0int\0let it = 1;\0whole\0part\0section\0";
        let at = |name: &str| {
            let mut all = strings.windows(name.len());
            u32::try_from(all.position(|part| part == name.as_bytes()).unwrap()).unwrap()
        };
        let integer = words(&[at("int\0"), 1 << 24, 4, 32]);
        let whole = words(&[at("whole"), 4 << 24 | 1, 4, at("part"), 1, 0]);
        let types = [integer, whole].concat();
        let functions = words(&[8, at("section"), 1, 0, 2]);
        let lines = words(&[16, at("section"), 1, 0, at("/home"), at("let"), 7]);
        (
            with_header(24, &[&types, strings]).unwrap(),
            with_header(EXT_HEADER, &[&functions, &lines, &[]]).unwrap(),
        )
    }

    #[test]
    fn types_and_functions_stay_and_lines_go() {
        let (types, ext) = small();
        let (types, ext) = without_lines(&types, &ext).unwrap();
        let strings = STRINGS.find_in(&types).unwrap();
        assert_eq!(strings, b"\0int\0whole\0part\0section\0");
        let expected = words(&[1, 1 << 24, 4, 32, 5, 4 << 24 | 1, 4, 11, 1, 0]);
        assert_eq!(TYPES.find_in(&types).unwrap(), expected);
        assert_eq!(FUNCTIONS.find_in(&ext).unwrap(), words(&[8, 16, 1, 0, 2]));
        let lines = Part { at: 16 };
        assert_eq!(lines.find_in(&ext), Some(&[][..]));
        // A second pass finds nothing to remove.
        assert_eq!(without_lines(&types, &ext).unwrap(), (types, ext));
    }

    #[test]
    fn what_is_not_as_it_should_be_is_refused() {
        let (types, ext) = small();
        assert!(without_lines(b"no types", &ext).is_err());
        assert!(without_lines(&types, b"no functions").is_err());
        for length in 0..types.len() {
            assert!(without_lines(&types[..length], &ext).is_err(), "{length}");
        }
        let accesses = words(&[16, 1, 1, 0, 0, 0, 0]);
        let functions = FUNCTIONS.find_in(&ext).unwrap();
        let relocated = with_header(EXT_HEADER, &[functions, &[], &accesses]).unwrap();
        assert!(without_lines(&types, &relocated).is_err());
        let unknown = words(&[0, 30 << 24, 0]);
        let unknown = with_header(24, &[&unknown, b"\0"]).unwrap();
        assert!(without_lines(&unknown, &ext).is_err());
    }
}
