//! Reading of a file that any user may have made: no part of it, and not all parts together, take
//! all of the memory.

use std::cell::Cell;
use std::ops::Range;

use object::ReadRef;

/// Bytes of a file that are read in all, at one time. The tables of a browser with all its symbols
/// have less; a sparse file claims any size for nothing.
pub const MOST_BYTES: u64 = 128 << 20;

/// Bytes of a name.
const MOST_NAME_BYTES: u64 = 64 << 10;

/// Bytes that may still be read.
#[derive(Debug)]
pub struct ReadBudget {
    left: Cell<u64>,
    is_exceeded: Cell<bool>,
}

impl Default for ReadBudget {
    fn default() -> Self {
        Self {
            left: Cell::new(MOST_BYTES),
            is_exceeded: Cell::new(false),
        }
    }
}

impl ReadBudget {
    /// Tells whether more was asked for than may be read.
    pub fn is_exceeded(&self) -> bool {
        self.is_exceeded.get()
    }

    fn spend(&self, bytes: u64) -> Result<(), ()> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => {
                self.is_exceeded.set(true);
                Err(())
            }
        }
    }
}

/// File of which no more is read than the budget allows.
#[derive(Clone, Copy, Debug)]
pub struct Bounded<'b, R> {
    file: R,
    budget: &'b ReadBudget,
}

impl<'b, R> Bounded<'b, R> {
    /// Reads `file` within the budget.
    pub fn new(file: R, budget: &'b ReadBudget) -> Self {
        Self { file, budget }
    }
}

impl<'a, R: ReadRef<'a>> ReadRef<'a> for Bounded<'a, R> {
    fn len(self) -> Result<u64, ()> {
        self.file.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        // Beyond the end is nothing, and costs nothing.
        let end = offset.checked_add(size).ok_or(())?;
        if end > self.file.len()? {
            return Err(());
        }
        self.budget.spend(size)?;
        self.file.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let end = range.end.min(range.start.saturating_add(MOST_NAME_BYTES));
        let found = self.file.read_bytes_at_until(range.start..end, delimiter)?;
        self.budget.spend(found.len() as u64)?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use object::read::ReadCache;

    use super::*;

    #[test]
    fn parts_that_are_too_large_together_are_not_read() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(MOST_BYTES * 100).unwrap();
        let cache = ReadCache::new(&file);
        let budget = ReadBudget::default();
        let bounded = Bounded::new(&cache, &budget);

        assert_eq!(bounded.read_bytes_at(MOST_BYTES * 99, 4), Ok(&[0; 4][..]));
        assert!(bounded.read_bytes_at(MOST_BYTES * 100, 4).is_err());
        assert!(!budget.is_exceeded());
        assert!(bounded.read_bytes_at(0, MOST_BYTES).is_err());
        assert!(budget.is_exceeded());
    }
}
