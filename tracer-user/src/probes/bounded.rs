//! Reading a file that anybody may have made: no part of it takes all of the memory.

use std::ops::Range;

use object::ReadRef;

/// More than any table of a real program has.
const LIMIT: u64 = 1 << 30;

/// A file of which no part larger than a limit is read at once.
#[derive(Clone, Copy, Debug)]
pub struct Bounded<R>(pub R);

impl<'a, R: ReadRef<'a>> ReadRef<'a> for Bounded<R> {
    fn len(self) -> Result<u64, ()> {
        self.0.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        if size > LIMIT {
            return Err(());
        }
        self.0.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.0.read_bytes_at_until(range, delimiter)
    }
}

#[cfg(test)]
mod tests {
    use object::read::ReadCache;

    use super::*;

    #[test]
    fn a_part_that_is_too_large_is_not_read() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(LIMIT * 100).unwrap();
        let cache = ReadCache::new(&file);
        let bounded = Bounded(&cache);

        assert_eq!(bounded.read_bytes_at(LIMIT * 99, 4), Ok(&[0; 4][..]));
        assert!(bounded.read_bytes_at(0, LIMIT + 1).is_err());
    }
}
