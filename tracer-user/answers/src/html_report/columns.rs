//! Columns of integers and texts, as short as possible: each is deflated while it grows. Values
//! that columns refer to by index are in dictionaries.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::DeflateEncoder;
use foldhash::fast::RandomState;

/// Number of bytes that are deflated at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// Column of integers with seven bits a byte, the lowest first (LEB128). The first bytes of all
/// integers are a plane of their own, the second ones another, and so on: bytes of the same meaning
/// get shorter together.
pub struct IntegerColumn {
    name: &'static str,
    count: u64,
    planes: Vec<Plane>,
}

/// Column of texts, each with its length before it, within one plane.
pub struct TextColumn {
    name: &'static str,
    count: u64,
    plane: Plane,
}

/// Bytes that are deflated together.
struct Plane {
    bytes: u64,
    chunk: Vec<u8>,
    deflated: DeflateEncoder<Vec<u8>>,
}

/// Complete column.
pub struct Deflated {
    /// Name that the page has for it.
    pub name: &'static str,
    /// Number of integers or texts.
    pub count: u64,
    /// Whether it has texts.
    pub has_texts: bool,
    /// Planes, each as its number of bytes before it was deflated, and the deflated bytes.
    pub planes: Vec<(u64, Vec<u8>)>,
}

impl IntegerColumn {
    /// Creates an empty column.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            count: 0,
            planes: Vec::new(),
        }
    }

    /// Adds an integer.
    pub fn push(&mut self, value: impl Into<u64>) {
        self.count += 1;
        for (index, byte) in varint(value.into()).enumerate() {
            if self.planes.len() <= index {
                self.planes.push(Plane::new());
            }
            if let Some(plane) = self.planes.get_mut(index) {
                plane.push(&[byte]);
            }
        }
    }

    /// Adds an integer that may be negative: small ones are short.
    pub fn push_signed(&mut self, value: i64) {
        self.push(zigzag(value));
    }

    /// Completes the column.
    ///
    /// # Errors
    ///
    /// It cannot be deflated.
    pub fn finish(self) -> io::Result<Deflated> {
        let planes = self.planes.into_iter().map(Plane::finish);
        Ok(Deflated {
            name: self.name,
            count: self.count,
            has_texts: false,
            planes: planes.collect::<io::Result<_>>()?,
        })
    }
}

impl TextColumn {
    /// Creates an empty column.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            count: 0,
            plane: Plane::new(),
        }
    }

    /// Adds a text.
    pub fn push(&mut self, text: &[u8]) {
        self.count += 1;
        for byte in varint(text.len() as u64) {
            self.plane.push(&[byte]);
        }
        self.plane.push(text);
    }

    /// Returns the number of bytes so far, before they are deflated.
    pub fn bytes(&self) -> u64 {
        self.plane.bytes + self.plane.chunk.len() as u64
    }

    /// Completes the column.
    ///
    /// # Errors
    ///
    /// It cannot be deflated.
    pub fn finish(self) -> io::Result<Deflated> {
        Ok(Deflated {
            name: self.name,
            count: self.count,
            has_texts: true,
            planes: vec![self.plane.finish()?],
        })
    }
}

impl Plane {
    fn new() -> Self {
        Self {
            bytes: 0,
            chunk: Vec::new(),
            deflated: DeflateEncoder::new(Vec::new(), Compression::best()),
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK_BYTES {
            self.deflate();
        }
    }

    fn deflate(&mut self) {
        self.bytes += self.chunk.len() as u64;
        // Into memory, where nothing fails.
        let _ = self.deflated.write_all(&self.chunk);
        self.chunk.clear();
    }

    fn finish(mut self) -> io::Result<(u64, Vec<u8>)> {
        self.deflate();
        Ok((self.bytes, self.deflated.finish()?))
    }
}

/// Deflates bytes.
///
/// # Errors
///
/// They cannot be deflated.
pub fn deflate(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut deflated = DeflateEncoder::new(Vec::new(), Compression::best());
    deflated.write_all(bytes)?;
    deflated.finish()
}

/// Returns the bytes of an integer: seven bits each, with the highest bit set where another byte
/// follows.
fn varint(value: u64) -> impl Iterator<Item = u8> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let value = rest?;
        let low = u8::try_from(value & 0x7f).unwrap_or_default();
        rest = (value >> 7 != 0).then_some(value >> 7);
        Some(if rest.is_some() { low | 0x80 } else { low })
    })
}

/// Maps 0, -1, 1, -2, … to 0, 1, 2, 3, ….
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// Limit of the entries of a dictionary: nothing is shown of the values beyond it.
const MOST_ENTRIES: usize = 65_536;

/// Values that columns refer to by index, in the order in which they came.
#[derive(Debug)]
pub struct Dictionary<T> {
    index: HashMap<T, u32, RandomState>,
    entries: Vec<T>,
}

impl<T> Default for Dictionary<T> {
    fn default() -> Self {
        Self {
            index: HashMap::default(),
            entries: Vec::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Dictionary<T> {
    /// Returns the index of a value, which is added where it is new; `None` where there are too
    /// many.
    pub fn index(&mut self, value: &T) -> Option<u32> {
        if let Some(index) = self.index.get(value) {
            return Some(*index);
        }
        if self.entries.len() >= MOST_ENTRIES {
            return None;
        }
        let index = u32::try_from(self.entries.len()).ok()?;
        self.index.insert(value.clone(), index);
        self.entries.push(value.clone());
        Some(index)
    }

    /// Returns the values, in order.
    pub fn entries(&self) -> &[T] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::DeflateDecoder;

    use super::*;

    fn inflated(column: &Deflated) -> Vec<Vec<u8>> {
        let planes = column.planes.iter();
        planes
            .map(|(length, deflated)| {
                let mut bytes = Vec::new();
                DeflateDecoder::new(&deflated[..])
                    .read_to_end(&mut bytes)
                    .unwrap();
                assert_eq!(bytes.len() as u64, *length);
                bytes
            })
            .collect()
    }

    #[test]
    fn integers_are_as_the_page_reads_them() {
        let mut column = IntegerColumn::new("any");
        for value in [0_u64, 127, 128, 300, u64::MAX] {
            column.push(value);
        }
        for value in [0, -1, 1, -64, 64, i64::MIN] {
            column.push_signed(value);
        }
        let column = column.finish().unwrap();
        assert_eq!((column.count, column.has_texts), (11, false));
        let mut expected = vec![
            vec![0, 127, 0x80, 0xac, 0xff, 0, 1, 2, 127, 0x80, 0xff],
            vec![1, 2, 0xff, 1, 0xff],
        ];
        expected.extend((0..7).map(|_| vec![0xff; 2]));
        expected.push(vec![1; 2]);
        assert_eq!(inflated(&column), expected);
    }

    #[test]
    fn texts_are_as_the_page_reads_them() {
        let mut texts = TextColumn::new("any");
        let long = "x".repeat(300);
        texts.push("größe".as_bytes());
        texts.push(b"");
        texts.push(long.as_bytes());
        assert_eq!(texts.bytes(), 8 + 1 + 302);
        let texts = texts.finish().unwrap();
        assert_eq!((texts.count, texts.has_texts), (3, true));
        let expected = [&[7], "größe".as_bytes(), &[0, 0xac, 2], long.as_bytes()].concat();
        assert_eq!(inflated(&texts), [expected]);
    }

    #[test]
    fn a_dictionary_ends_somewhere() {
        let mut dictionary = Dictionary::default();
        for value in 0..100_000_u32 {
            let expected = (value < 65_536).then_some(value);
            assert_eq!(dictionary.index(&value), expected);
        }
        assert_eq!(dictionary.index(&7), Some(7));
    }
}
