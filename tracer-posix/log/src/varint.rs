//! Integers of variable length: seven bits a byte, lowest first; the top bit says that more follow
//! (LEB128).

#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, reason = "the file may say anything")
)]

/// Most bytes of an integer.
pub(super) const MAX_BYTES: usize = 10;

/// Appends an integer.
pub(super) fn put(bytes: &mut Vec<u8>, value: u64) {
    let mut scratch = Scratch::default();
    scratch.put(value);
    bytes.extend_from_slice(scratch.as_bytes());
}

/// A short run of bytes that is put together before it is appended in one go.
#[derive(Debug)]
pub(super) struct Scratch {
    bytes: [u8; Self::CAPACITY],
    length: usize,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            bytes: [0; Self::CAPACITY],
            length: 0,
        }
    }
}

impl Scratch {
    /// Most bytes that it holds.
    pub const CAPACITY: usize = 128;

    /// Adds an integer.
    #[inline]
    pub fn put(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put_byte((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.put_byte((value & 0x7f) as u8);
    }

    /// Adds a byte. Drops it beyond the capacity, which callers do not reach.
    #[inline]
    pub fn put_byte(&mut self, byte: u8) {
        if let Some(next) = self.bytes.get_mut(self.length) {
            *next = byte;
            self.length = self.length.saturating_add(1);
        }
    }

    /// Replaces the first byte.
    #[inline]
    pub fn set_first(&mut self, byte: u8) {
        if let Some(next) = self.bytes.first_mut() {
            *next = byte;
        }
    }

    /// Adds bytes.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.put_byte(byte);
        }
    }

    /// Returns the bytes that were added so far.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// Reader of untrusted bytes, front to back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    untrusted: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at `position` of `untrusted`, and ends where that ends.
    pub fn new(untrusted: &'a [u8], position: usize) -> Self {
        Self {
            untrusted,
            position,
        }
    }

    /// Returns where the next byte is.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the bytes that were not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.untrusted.get(self.position..).unwrap_or_default()
    }

    /// Returns the next byte.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.untrusted.get(self.position)?;
        self.position = self.position.saturating_add(1);
        Some(byte)
    }

    /// Returns the next integer.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let first = self.byte()?;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        self.long_varint(first)
    }

    fn long_varint(&mut self, first: u8) -> Option<u64> {
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has space for one bit only.
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Returns the next integer, which has to fit into 32 bits.
    #[inline]
    pub fn varint32(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }

    /// Returns the next `length` bytes.
    #[inline]
    pub fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.position.checked_add(length)?;
        let bytes = self.untrusted.get(self.position..end)?;
        self.position = end;
        Some(bytes)
    }

    /// Reads a length and that many bytes.
    #[inline]
    pub fn counted_bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        self.bytes(length)
    }

    /// Tells whether there is nothing more.
    pub fn is_at_end(&self) -> bool {
        self.position >= self.untrusted.len()
    }

    /// Returns the next 64-bit integer of fixed length.
    pub fn fixed64(&mut self) -> Option<u64> {
        let bytes = self.bytes(8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn integers_below_128_take_one_byte_and_the_largest_ten() {
        let length_of = |value| {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            bytes.len()
        };

        assert_eq!([length_of(0), length_of(127), length_of(128)], [1, 1, 2]);
        assert_eq!(length_of(u64::MAX), MAX_BYTES);
    }

    #[test]
    fn an_integer_that_is_truncated_is_none() {
        assert_eq!(Cursor::new(&[0x80, 0x80], 0).varint(), None);
    }

    #[test]
    fn an_integer_beyond_64_bits_is_none() {
        let too_large = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        let too_long = [0x80; 11];

        assert_eq!(Cursor::new(&too_large, 0).varint(), None);
        assert_eq!(Cursor::new(&too_long, 0).varint(), None);
    }

    #[test]
    fn a_length_beyond_the_end_gives_no_bytes() {
        assert_eq!(Cursor::new(&[200, 1, 0], 0).counted_bytes(), None);
    }

    proptest! {
        #[test]
        fn every_integer_comes_back(value: u64, shift in 0_u32..64) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            let mut cursor = Cursor::new(&bytes, 0);

            prop_assert_eq!(cursor.varint(), Some(value));
            prop_assert!(cursor.rest().is_empty());
        }
    }
}
