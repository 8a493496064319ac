//! Bytes as letters of ASCII, denser than base64: thirteen or fourteen bits in two letters, as in
//! basE91. No letter begins a tag, ends a line or is a blank.

use std::io::{self, Write};

/// Number of letters: all that are visible, but `<`.
const LETTERS: u32 = 93;

/// Number of values that two letters have beyond those of thirteen bits: so many get a fourteenth
/// bit.
const SPARE: u32 = LETTERS * LETTERS - (1 << 13);

/// Number of letters that are written at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// Writer that takes bytes and writes letters.
pub struct Letters<W: Write> {
    out: W,
    bits: u32,
    count: u32,
    chunk: Vec<u8>,
}

impl<W: Write> Letters<W> {
    /// Creates a writer to `out`.
    pub fn new(out: W) -> Self {
        Self {
            out,
            bits: 0,
            count: 0,
            chunk: Vec::with_capacity(CHUNK_BYTES + 16),
        }
    }

    /// Writes the remaining bits.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        if self.count > 0 {
            self.push_two(self.bits);
        }
        self.out.write_all(&self.chunk)
    }

    fn push(&mut self, byte: u8) {
        self.bits |= u32::from(byte) << self.count;
        self.count += 8;
        // Fourteen may be wanted.
        if self.count >= 14 {
            let low = self.bits & 0x1fff;
            let taken = if low < SPARE { 14 } else { 13 };
            self.push_two(self.bits & ((1 << taken) - 1));
            self.bits >>= taken;
            self.count -= taken;
        }
    }

    fn push_two(&mut self, value: u32) {
        self.chunk
            .extend([value % LETTERS, value / LETTERS].map(letter));
    }
}

impl<W: Write> Write for Letters<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = bytes.get(..CHUNK_BYTES / 2).unwrap_or(bytes);
        for byte in bytes {
            self.push(*byte);
        }
        if self.chunk.len() >= CHUNK_BYTES {
            self.out.write_all(&self.chunk)?;
            self.chunk.clear();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.chunk)?;
        self.chunk.clear();
        self.out.flush()
    }
}

/// Returns the letter of this value: those from `!` on, without `<`.
fn letter(value: u32) -> u8 {
    let letter = b'!' + u8::try_from(value).unwrap_or_default();
    if letter < b'<' { letter } else { letter + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        let mut letters = Letters::new(&mut out);
        letters.write_all(bytes).unwrap();
        letters.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Returns the bytes, by the arithmetic of the format alone.
    fn bytes(letters: &str) -> Vec<u8> {
        let (mut bits, mut count, mut bytes) = (0_u64, 0, Vec::new());
        for two in letters.as_bytes().chunks(2) {
            let [low, high] = [0, 1].map(|index| {
                let letter = u64::from(two[index]);
                assert!((33..127).contains(&letter) && letter != 60, "{letter}");
                letter - 33 - u64::from(letter > 60)
            });
            let value = low + high * 93;
            bits |= value << count;
            count += if value % 8192 < 457 { 14 } else { 13 };
            while count >= 8 {
                bytes.push(u8::try_from(bits & 0xff).unwrap());
                bits >>= 8;
                count -= 8;
            }
        }
        bytes
    }

    #[test]
    fn bytes_come_back_and_no_letter_is_markup() {
        let mut random = 1_u64;
        for length in (0..70).chain([1000, 200_000]) {
            let given: Vec<u8> = (0..length)
                .map(|_| {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    random.to_be_bytes()[0]
                })
                .collect();
            let letters = letters(&given);
            let back = bytes(&letters);
            // Bits that only fill the last letters may look like another byte.
            assert_eq!(back.get(..length), Some(&given[..]));
            assert!(back.len() <= length + 1 && letters.len() < length * 5 / 4 + 4);
        }
    }
}
