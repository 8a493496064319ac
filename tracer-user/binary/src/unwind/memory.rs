//! Memory of a program that was copied.

/// Copied part of a stack, from its innermost end on.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// Address in the program at which it begins.
    pub start: u64,
    /// Bytes that were there.
    pub bytes: &'a [u8],
}

impl Memory<'_> {
    /// Returns the word at an address; `None` where it was not copied.
    pub fn word(&self, address: u64) -> Option<u64> {
        self.bytes(address, 8)
    }

    /// Returns `count` bytes at an address, eight at most.
    pub fn bytes(&self, address: u64, count: u8) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(at..)?.get(..usize::from(count))?;
        let mut word = [0; 8];
        let to = if cfg!(target_endian = "little") {
            word.get_mut(..bytes.len())
        } else {
            word.get_mut(8_usize.checked_sub(bytes.len())?..)
        };
        to?.copy_from_slice(bytes);
        Some(u64::from_ne_bytes(word))
    }
}
