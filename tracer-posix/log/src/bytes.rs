//! Where the bytes of a log come from.

use std::fmt;
use std::io;

/// The bytes that a log is read from: a file, or memory of the caller. They may grow, shrink or
/// change between two calls.
pub trait LogBytes: fmt::Debug {
    /// Returns how many bytes there are now.
    ///
    /// # Errors
    ///
    /// The number is not known.
    fn length(&self) -> io::Result<u64>;

    /// Reads bytes from `offset` on into `buffer`. Returns how many: there may be fewer than fit,
    /// but 0 only at the end.
    ///
    /// # Errors
    ///
    /// Nothing can be read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

#[cfg(unix)]
impl LogBytes for std::fs::File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buffer, offset)
    }
}

impl LogBytes for &[u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.get(offset..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        if let (Some(buffer), Some(rest)) = (buffer.get_mut(..length), rest.get(..length)) {
            buffer.copy_from_slice(rest);
        }
        Ok(length)
    }
}
