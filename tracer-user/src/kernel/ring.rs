//! The BPF ring, with positions: what is needed to say up to when it was read.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

use aya::maps::{MapData, RingBuf};

use super::error::LoadError;
use super::mapping::{Access, Mapping, page_bytes};

/// How often to look again at a record that is reserved and not yet submitted. A program takes
/// well below a microsecond in between; longer only when its virtual CPU is taken away.
const BUSY_LOOKS: u32 = 200;

/// A place in the ring: bytes since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(u64);

impl Position {
    /// Whether `other` comes after this. Positions wrap around.
    fn is_before(self, other: Self) -> bool {
        let ahead = other.0.wrapping_sub(self.0);
        ahead != 0 && ahead < 1 << 63
    }
}

/// The reader's end of the BPF ring.
pub struct Ring {
    records: RingBuf<MapData>,
    /// A second view of the ring's first two pages, for aya keeps the positions to itself. The
    /// consumer's is in the first page, the producer's in the second.
    positions: Mapping,
    page_bytes: usize,
}

impl Ring {
    pub fn new(records: RingBuf<MapData>) -> Result<Self, LoadError> {
        let page_bytes = page_bytes();
        let positions =
            Mapping::new(records.as_fd(), 2 * page_bytes, Access::Read).map_err(|source| {
                LoadError::MapCall {
                    call: "mmap",
                    name: "RINGS",
                    source,
                }
            })?;
        Ok(Self {
            records,
            positions,
            page_bytes,
        })
    }

    /// The place up to which room has been reserved so far.
    pub fn end(&self) -> Position {
        self.position(self.page_bytes)
    }

    /// Hands over each record before `end`. Returns whether that was all of them; if not, one is
    /// still being written.
    pub fn drain(&mut self, end: Position, mut each: impl FnMut(&[u8])) -> bool {
        let mut looks = 0;
        while self.position(0).is_before(end) {
            if let Some(record) = self.records.next() {
                each(&record);
            } else if looks < BUSY_LOOKS {
                looks += 1;
                std::hint::spin_loop();
            } else {
                return false;
            }
        }
        true
    }

    fn position(&self, at: usize) -> Position {
        // Acquire pairs with the kernel's release of the producer's position: what was reserved
        // before it is seen. The consumer's is our own.
        let position = self.positions.word(at);
        Position(position.map_or(0, |position| position.load(Ordering::Acquire)))
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.records.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_compared_across_the_wrap() {
        let (last, first) = (Position(u64::MAX - 7), Position(8));

        assert!(last.is_before(first));
        assert!(!first.is_before(last));
        assert!(!first.is_before(first));
    }
}
