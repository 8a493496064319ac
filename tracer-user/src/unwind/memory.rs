//! Memory of a program that was copied.

/// What was copied of a stack, from its innermost end on.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// Where it begins in the program.
    pub start: u64,
    /// What was there.
    pub bytes: &'a [u8],
}

impl Memory<'_> {
    /// The word at an address; `None` where it was not copied.
    pub fn word(&self, address: u64) -> Option<u64> {
        self.bytes(address, 8)
    }

    /// So many bytes at an address, eight at most.
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
