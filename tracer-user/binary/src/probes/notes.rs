//! Static probes in the notes of a file: section `.note.stapsdt`.
//!
//! Every note is a probe at one site: its address, the address that section `.stapsdt.base` had
//! when the note was written, the address of its semaphore or 0, and three texts: provider, name,
//! arguments.

/// `n_type` of these notes.
const TYPE: u32 = 3;
/// Their owner.
const OWNER: &[u8] = b"stapsdt\0";

/// Sites of static probes that one file may have. The largest programs have some thousand.
pub const MOST_NOTES: usize = 100_000;

/// Bytes of a note's texts that are held. Real ones have some hundred.
const MOST_TEXT_BYTES: usize = 4096;

/// Static probe at one site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Provider that the probe names.
    pub provider: String,
    /// Name of the probe.
    pub name: String,
    /// Locations of its arguments, in words of the assembler.
    pub arguments: String,
    /// Its address in the file's address space, as written.
    pub address: u64,
    /// Address of `.stapsdt.base` when the note was written.
    pub base: u64,
    /// The address of its semaphore, as written; 0 for none.
    pub semaphore: u64,
}

/// Reads the probes in a section's bytes, which any user may have written. A truncated note is left
/// out; `None` where there are more than [`MOST_NOTES`].
pub fn parse(untrusted: &[u8]) -> Option<Vec<Note>> {
    let mut notes = Vec::new();
    let mut rest = untrusted;
    while let Some((note, after)) = first(rest) {
        notes.extend(note);
        if notes.len() > MOST_NOTES {
            return None;
        }
        rest = after;
    }
    Some(notes)
}

/// Returns the first note, where it is such a probe, and what follows.
fn first(bytes: &[u8]) -> Option<(Option<Note>, &[u8])> {
    let (owner_bytes, bytes) = word(bytes)?;
    let (content_bytes, bytes) = word(bytes)?;
    let (kind, bytes) = word(bytes)?;
    let (owner, bytes) = padded(bytes, owner_bytes)?;
    let (content, bytes) = padded(bytes, content_bytes)?;
    let is_probe = kind == TYPE && owner == OWNER;
    Some((is_probe.then(|| probe(content)).flatten(), bytes))
}

fn probe(content: &[u8]) -> Option<Note> {
    let (address, rest) = address(content)?;
    let (base, rest) = self::address(rest)?;
    let (semaphore, rest) = self::address(rest)?;
    let rest = rest.get(..MOST_TEXT_BYTES).unwrap_or(rest);
    let mut texts = rest.split(|byte| *byte == 0);
    let mut text = || {
        texts
            .next()
            .map(|text| String::from_utf8_lossy(text).into_owned())
    };
    Some(Note {
        provider: text()?,
        name: text()?,
        arguments: text()?,
        address,
        base,
        semaphore,
    })
}

fn word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (word, rest) = bytes.split_first_chunk()?;
    Some((u32::from_ne_bytes(*word), rest))
}

fn address(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (word, rest) = bytes.split_first_chunk()?;
    Some((u64::from_ne_bytes(*word), rest))
}

/// Returns `length` bytes, and what follows their padding to whole words.
fn padded(bytes: &[u8], length: u32) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(length).ok()?;
    let (content, rest) = bytes.split_at_checked(length)?;
    let padding = length.next_multiple_of(4) - length;
    // The last one may end without its padding.
    Some((content, rest.get(padding..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap();
        let mut bytes = Vec::new();
        for word in [8, length, kind] {
            bytes.extend_from_slice(&u32::to_ne_bytes(word));
        }
        bytes.extend_from_slice(OWNER);
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn content(texts: &[u8]) -> Vec<u8> {
        let mut content = Vec::new();
        for address in [0x1000_u64, 0x2000, 0x3000] {
            content.extend_from_slice(&address.to_ne_bytes());
        }
        content.extend_from_slice(texts);
        content
    }

    #[test]
    fn probes_are_read_and_other_notes_passed_over() {
        let mut bytes = note(1, b"something else");
        bytes.extend(note(TYPE, &content(b"app\0start\08@%rax\0")));
        bytes.extend(note(TYPE, &content(b"app\0end\0\0")));
        let notes = parse(&bytes).unwrap();

        assert_eq!(notes.len(), 2);
        assert_eq!(notes[0].provider, "app");
        assert_eq!(notes[0].arguments, "8@%rax");
        assert_eq!(notes[1].name, "end");
        assert_eq!(
            (notes[1].address, notes[1].base, notes[1].semaphore),
            (0x1000, 0x2000, 0x3000)
        );
    }

    #[test]
    fn damaged_notes_of_any_length_are_no_trouble() {
        let whole = note(TYPE, &content(b"app\0start\08@%rax\0"));
        for length in 0..whole.len() {
            assert!(parse(&whole[..length]).unwrap().len() <= 1);
        }
        for index in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[index] = 0xff;
            assert!(parse(&bytes).unwrap().len() <= 1);
        }
    }

    #[test]
    fn more_sites_than_any_program_has_are_not_read() {
        let one = note(TYPE, &content(b"a\0b\0\0"));
        let many = |count| one.repeat(count);
        assert_eq!(parse(&many(MOST_NOTES)).unwrap().len(), MOST_NOTES);
        assert_eq!(parse(&many(MOST_NOTES + 1)), None);
    }

    #[test]
    fn endless_texts_are_truncated() {
        let mut texts = b"app\0start\0".to_vec();
        texts.resize(100_000, b'x');
        let notes = parse(&note(TYPE, &content(&texts))).unwrap();
        assert!(notes[0].arguments.len() < MOST_TEXT_BYTES);
    }
}
