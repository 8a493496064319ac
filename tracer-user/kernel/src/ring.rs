//! Reader's end of a BPF ring.
//!
//! A ring has a page with the position up to which it was read, a page with the position up to
//! which it was written, and its bytes. The kernel lets a process map the bytes twice in a row, so
//! that a record that continues at the ring's start lies in one piece. Both mappings would count as
//! memory of the process. So this reader maps the bytes once, and puts the few records that are in
//! two pieces together.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use super::error::LoadError;
use super::mapping::{Access, MapMemory, page_bytes};

/// Number of further looks at a record that is reserved and not yet submitted. A program submits
/// its record in well below a microsecond, unless its virtual CPU is taken away meanwhile.
const BUSY_LOOKS: u32 = 200;

/// Bytes given back to the writers at once. The writers read the position for each record, so the
/// reader changes it seldom.
const GIVE_BACK_BYTES: u64 = 32 * 1024;

/// Bytes before each record: its length, with these bits, and four bytes of the kernel's own.
const HEADER_BYTES: u64 = 8;
const IS_BUSY: u32 = 1 << 31;
const IS_DISCARDED: u32 = 1 << 30;

/// Position in the ring: bytes since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(u64);

impl Position {
    /// Tells whether `other` comes after this. Positions wrap around.
    fn is_before(self, other: Self) -> bool {
        let ahead = other.0.wrapping_sub(self.0);
        ahead != 0 && ahead < 1 << 63
    }
}

/// The reader's end of the BPF ring.
pub struct Ring {
    map: OwnedFd,
    /// The ring's first page: the position up to which the ring was read, which the writers see.
    read: MapMemory,
    /// The first page again, the page with the writers' position, and the bytes.
    written: MapMemory,
    page_bytes: usize,
    /// Bytes of the ring, a power of two.
    ring_bytes: u64,
    /// Position up to which records were handed over.
    position: Position,
    /// Record that was in two pieces.
    joined: Vec<u8>,
}

impl Ring {
    /// Returns the reader's end of the ring `map`, which has `ring_bytes` bytes and no other
    /// reader.
    pub fn new(map: OwnedFd, ring_bytes: u32) -> Result<Self, LoadError> {
        let page_bytes = page_bytes();
        let bytes = usize::try_from(ring_bytes).unwrap_or(usize::MAX);
        let mapped = |length, access| {
            MapMemory::new(map.as_fd(), length, access).map_err(|source| LoadError::MapCall {
                call: "mmap",
                name: "RINGS",
                source,
            })
        };
        let read = mapped(page_bytes, Access::ReadWrite)?;
        let written = mapped(bytes.saturating_add(2 * page_bytes), Access::Read)?;
        let position = Position(word(&read, 0));
        Ok(Self {
            map,
            read,
            written,
            page_bytes,
            ring_bytes: u64::from(ring_bytes),
            position,
            joined: Vec::new(),
        })
    }

    /// Returns the position up to which space has been reserved so far.
    pub fn end(&self) -> Position {
        Position(word(&self.written, self.page_bytes))
    }

    /// Hands over each record before `end`. Returns whether that was all of them; if not, one is
    /// still being written.
    pub fn drain(&mut self, end: Position, mut each: impl FnMut(&[u8])) -> bool {
        let mut given_back = self.position;
        let is_whole = loop {
            if !self.position.is_before(end) {
                break true;
            }
            let Some(length) = self.submitted() else {
                break false;
            };
            if length & IS_DISCARDED == 0 {
                self.hand_over(length, &mut each);
            }
            let length = u64::from(length & !IS_DISCARDED);
            let taken = (HEADER_BYTES + length).next_multiple_of(8);
            self.position = Position(self.position.0.wrapping_add(taken));
            if self.position.0.wrapping_sub(given_back.0) >= GIVE_BACK_BYTES {
                given_back = self.position;
                self.give_back();
            }
        };
        if given_back != self.position {
            self.give_back();
        }
        is_whole
    }

    /// Returns the length of the next record, and whether it was discarded; `None` where its writer
    /// does not submit it soon.
    fn submitted(&self) -> Option<u32> {
        // A record begins at a multiple of 8, so its header is in one piece.
        let at = self.offset(0);
        for _ in 0..BUSY_LOOKS {
            // Acquire pairs with the kernel's exchange that submits the record: its bytes are seen.
            let length = self.written.half_word(at)?.load(Ordering::Acquire);
            if length & IS_BUSY == 0 {
                return Some(length);
            }
            std::hint::spin_loop();
        }
        None
    }

    fn hand_over(&mut self, length: u32, each: &mut impl FnMut(&[u8])) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (start, end) = (self.offset(HEADER_BYTES), self.mapped_bytes());
        let first = length.min(end.saturating_sub(start));
        // SAFETY: the record was submitted, and no writer takes its space before it is given back.
        let bytes = unsafe { self.written.bytes(start, first) }.unwrap_or_default();
        if first == length {
            each(bytes);
            return;
        }
        self.joined.clear();
        self.joined.extend_from_slice(bytes);
        // SAFETY: as above; the record goes on at the ring's start.
        let rest = unsafe { self.written.bytes(2 * self.page_bytes, length - first) };
        self.joined.extend_from_slice(rest.unwrap_or_default());
        each(&self.joined);
    }

    /// Returns the offset in the mapping of the byte at this distance after the position.
    fn offset(&self, after: u64) -> usize {
        let in_ring = self.position.0.wrapping_add(after) & (self.ring_bytes - 1);
        // It is below the size of what is mapped.
        2 * self.page_bytes + usize::try_from(in_ring).unwrap_or(0)
    }

    fn mapped_bytes(&self) -> usize {
        2 * self.page_bytes + usize::try_from(self.ring_bytes).unwrap_or(0)
    }

    /// Gives the writers the space of the records that were handed over.
    fn give_back(&self) {
        if let Some(read) = self.read.word(0) {
            // Release: the records have been read before their space is given back.
            read.store(self.position.0, Ordering::Release);
        }
    }
}

fn word(mapping: &MapMemory, at: usize) -> u64 {
    // Acquire pairs with the kernel's release of the producer's position: what was reserved before
    // is seen. This process writes the consumer's position itself.
    let word = mapping.word(at);
    word.map_or(0, |word| word.load(Ordering::Acquire))
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    /// File with the layout of a ring, written as the kernel writes.
    struct Writer {
        file: File,
        ring_bytes: u64,
        end: u64,
    }

    impl Writer {
        fn new() -> (Self, Ring) {
            let page = page_bytes() as u64;
            let file = tempfile::tempfile().unwrap();
            file.set_len(3 * page).unwrap();
            let fd = OwnedFd::from(file.try_clone().unwrap());
            let ring = Ring::new(fd, u32::try_from(page).unwrap()).unwrap();
            let writer = Self {
                file,
                ring_bytes: page,
                end: 0,
            };
            (writer, ring)
        }

        fn write(&mut self, record: &[u8], bits: u32) {
            let length = u32::try_from(record.len()).unwrap() | bits;
            let mut bytes = Vec::from(length.to_ne_bytes());
            bytes.extend_from_slice(&[0; 4]);
            bytes.extend_from_slice(record);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            for byte in bytes {
                let at = 2 * self.ring_bytes + self.end % self.ring_bytes;
                self.file.write_all_at(&[byte], at).unwrap();
                self.end += 1;
            }
            let end = self.end.to_ne_bytes();
            self.file.write_all_at(&end, self.ring_bytes).unwrap();
        }

        /// Returns the position up to which the reader says that it has read.
        fn read(&self) -> u64 {
            let mut read = [0; 8];
            self.file.read_exact_at(&mut read, 0).unwrap();
            u64::from_ne_bytes(read)
        }
    }

    fn drained(ring: &mut Ring) -> (Vec<Vec<u8>>, bool) {
        let mut records = Vec::new();
        let end = ring.end();
        let is_whole = ring.drain(end, |record| records.push(record.to_vec()));
        (records, is_whole)
    }

    #[test]
    fn positions_are_compared_across_the_wrap() {
        let (last, first) = (Position(u64::MAX - 7), Position(8));

        assert!(last.is_before(first));
        assert!(!first.is_before(last));
        assert!(!first.is_before(first));
    }

    #[test]
    fn records_come_whole_from_wherever_they_lie() {
        let (mut writer, mut ring) = Writer::new();
        for round in 0..1000_u32 {
            // 100 bytes and a header do not divide the ring: some records go on at its start.
            let record: Vec<u8> = (0..100).map(|byte| byte ^ round.to_le_bytes()[0]).collect();
            writer.write(&record, 0);
            assert_eq!(drained(&mut ring), (vec![record], true));
            assert_eq!(writer.read(), writer.end, "its space is given back");
        }
    }

    #[test]
    fn what_was_discarded_is_passed_over() {
        let (mut writer, mut ring) = Writer::new();
        writer.write(b"one", 0);
        writer.write(b"not this", IS_DISCARDED);
        writer.write(b"three", 0);

        let (records, is_whole) = drained(&mut ring);

        assert_eq!(records, [b"one".to_vec(), b"three".to_vec()]);
        assert!(is_whole);
        assert_eq!(writer.read(), writer.end);
    }

    #[test]
    fn a_record_that_is_still_written_ends_the_round() {
        let (mut writer, mut ring) = Writer::new();
        writer.write(b"one", 0);
        let before = writer.end;
        writer.write(b"two", IS_BUSY);
        writer.write(b"three", 0);

        assert_eq!(drained(&mut ring), (vec![b"one".to_vec()], false));
        assert_eq!(writer.read(), before);

        let at = 2 * writer.ring_bytes + before;
        writer.file.write_all_at(&3_u32.to_ne_bytes(), at).unwrap();
        let rest = vec![b"two".to_vec(), b"three".to_vec()];
        assert_eq!(drained(&mut ring), (rest, true));
    }

    #[test]
    fn nothing_is_handed_over_beyond_the_end_that_was_looked_at() {
        let (mut writer, mut ring) = Writer::new();
        writer.write(b"before", 0);
        let end = ring.end();
        writer.write(b"after", 0);
        let mut count = 0;

        assert!(ring.drain(end, |_| count += 1));
        assert_eq!(count, 1);
    }
}
