//! Columns of integers and texts, as short as they get: each is deflated while it grows.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::DeflateEncoder;
use foldhash::fast::RandomState;

/// Bytes that are deflated at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// A column: integers with seven bits a byte, the lowest first (LEB128), and texts with their
/// length before them.
pub struct Column {
    /// What the page calls it.
    pub name: &'static str,
    count: u64,
    bytes: u64,
    chunk: Vec<u8>,
    deflated: DeflateEncoder<Vec<u8>>,
}

/// A column that is complete.
pub struct Deflated {
    /// What the page calls it.
    pub name: &'static str,
    /// Integers and texts.
    pub count: u64,
    /// Bytes before it was deflated.
    pub bytes: u64,
    /// The bytes.
    pub deflated: Vec<u8>,
}

impl Column {
    /// Nothing yet.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            count: 0,
            bytes: 0,
            chunk: Vec::with_capacity(CHUNK_BYTES + 16),
            deflated: DeflateEncoder::new(Vec::new(), Compression::default()),
        }
    }

    /// Adds an integer.
    pub fn push(&mut self, value: impl Into<u64>) {
        self.push_varint(value.into());
        self.count += 1;
        self.deflate_some();
    }

    /// Adds an integer that may be negative: small ones are short.
    pub fn push_signed(&mut self, value: i64) {
        self.push(zigzag(value));
    }

    /// Adds a text.
    pub fn push_text(&mut self, text: &[u8]) {
        self.push_varint(text.len() as u64);
        self.chunk.extend_from_slice(text);
        self.count += 1;
        self.deflate_some();
    }

    /// Bytes so far, before they are deflated.
    pub fn bytes(&self) -> u64 {
        self.bytes + self.chunk.len() as u64
    }

    fn push_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.chunk.push(low_bits(value) | 0x80);
            value >>= 7;
        }
        self.chunk.push(low_bits(value));
    }

    fn deflate_some(&mut self) {
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

    /// All of it.
    ///
    /// # Errors
    ///
    /// It cannot be deflated.
    pub fn finish(mut self) -> io::Result<Deflated> {
        self.deflate();
        Ok(Deflated {
            name: self.name,
            count: self.count,
            bytes: self.bytes,
            deflated: self.deflated.finish()?,
        })
    }
}

/// Bytes, deflated.
///
/// # Errors
///
/// They cannot be deflated.
pub fn deflate(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut deflated = DeflateEncoder::new(Vec::new(), Compression::default());
    deflated.write_all(bytes)?;
    deflated.finish()
}

/// The seven lowest bits.
fn low_bits(value: u64) -> u8 {
    u8::try_from(value & 0x7f).unwrap_or_default()
}

/// 0, -1, 1, -2, … as 0, 1, 2, 3, ….
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// Entries of a dictionary: of those beyond nothing is shown.
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
    /// The index of a value, which is added where it is new; `None` where there are too many.
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

    /// The values, in order.
    pub fn entries(&self) -> &[T] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::DeflateDecoder;

    use super::*;

    #[test]
    fn integers_and_texts_are_as_the_page_reads_them() {
        let mut column = Column::new("any");
        for value in [0_u64, 127, 128, 300, u64::MAX] {
            column.push(value);
        }
        for value in [0, -1, 1, -64, 64, i64::MIN] {
            column.push_signed(value);
        }
        column.push_text("größe".as_bytes());
        let column = column.finish().unwrap();
        let mut bytes = Vec::new();
        DeflateDecoder::new(&column.deflated[..])
            .read_to_end(&mut bytes)
            .unwrap();
        assert_eq!((column.count, column.bytes), (12, bytes.len() as u64));
        let largest = [&[0xff; 9][..], &[1]].concat();
        let mut expected = vec![0, 127, 0x80, 1, 0xac, 2];
        expected.extend_from_slice(&largest);
        expected.extend_from_slice(&[0, 1, 2, 127, 0x80, 1]);
        expected.extend_from_slice(&largest);
        expected.extend_from_slice(&[7]);
        expected.extend_from_slice("größe".as_bytes());
        assert_eq!(bytes, expected);
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
