//! Rings of single CPUs: see [`cpu_ring`].

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{SyscallEnterData, SyscallTextsRecord, string_space};

/// A ring that the programs of one CPU alone write to, and the agent reads: the maps `CPU_RINGS`
/// and `CPU_RING_ENDS`. It has the records of system calls, which come one after the other on a
/// CPU: no program of them begins there before the last one has ended. So it needs no lock, and no
/// help of the kernel's.
///
/// A position is a count of bytes since the ring was made. The bytes lie in chunks, each an entry
/// of `CPU_RINGS`. A record begins where a chunk has bytes left, and may go on into the
/// [slack](cpu_ring::SLACK) behind it; then the next one begins with the next chunk.
///
/// A record is a word with its length in bytes, and that many bytes, rounded up to whole words.
pub mod cpu_ring {
    /// Bytes of a chunk: a power of two.
    pub const CHUNK: u32 = 128 * 1024;
    /// Bytes behind a chunk, for the record that begins last in it.
    pub const SLACK: u32 = 16 * 1024;
    /// Bytes of an entry of `CPU_RINGS`.
    pub const ENTRY: usize = (CHUNK + SLACK) as usize;
    /// Bytes before a record.
    pub const HEAD: usize = 8;

    /// Returns the position behind a record of this length that begins at `position`.
    #[must_use]
    pub const fn behind(position: u64, length: u64) -> u64 {
        let chunk = CHUNK as u64;
        let end = position + HEAD as u64 + length.next_multiple_of(8);
        let next_chunk = position - position % chunk + chunk;
        if end < next_chunk { end } else { next_chunk }
    }
}

/// Positions of a ring of one CPU, an entry of the map `CPU_RING_ENDS`. Writer and reader have a
/// cache line each.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CpuRingEnds {
    /// Position up to which there are records; written by the programs.
    pub written: u64,
    /// 1 while a record is being written, from before its time is read; written by the programs.
    pub busy: u64,
    /// Position at which the reader was last woken; written by the programs.
    pub woken: u64,
    /// Zero.
    pub reserved: [u64; 5],
    /// Position up to which was read; written by the agent.
    pub read: u64,
    /// Zero.
    pub more_reserved: [u64; 7],
}

const _: () = {
    assert!(size_of::<CpuRingEnds>() == 128);
    assert!(offset_of!(CpuRingEnds, read) == 64);
    let longest = size_of::<SyscallTextsRecord<SyscallEnterData, { string_space::LARGE }>>();
    assert!(longest + cpu_ring::HEAD <= cpu_ring::SLACK as usize);
};

#[cfg(test)]
mod tests {
    use super::cpu_ring::{CHUNK, behind};

    #[test]
    fn a_record_goes_on_behind_its_chunk_and_the_next_one_begins_with_the_next() {
        let chunk = u64::from(CHUNK);

        assert_eq!(behind(0, 56), 64);
        assert_eq!(behind(64, 57), 136);
        assert_eq!(behind(chunk - 64, 56), chunk);
        assert_eq!(behind(chunk - 8, 5000), chunk);
        assert_eq!(behind(3 * chunk, 8), 3 * chunk + 16);
    }
}
