//! A record as words: see [`RECORD_HEADER_BYTES`].

use std::sync::atomic::Ordering::Relaxed;

use tracer_common::area::RECORD_HEADER_BYTES;
use tracer_common::event_type::EventTypeId;

use super::atomics::AtomicU64;

/// Bytes of a word.
pub(super) const WORD: u64 = 8;
/// Bytes of a record's head.
pub(crate) const HEAD: u64 = RECORD_HEADER_BYTES as u64;
/// Bits of an address in the second word of a record; above them is the CPU plus one.
const ADDRESS_BITS: u32 = 48;
/// Set in the event type's 16 bits when the data was truncated.
const TRUNCATED: u64 = 0x8000;

/// Returns the number of bytes that a record with this much data takes in a chunk.
#[inline(always)]
pub(super) const fn record_bytes(data_length: u64) -> u64 {
    // `next_multiple_of` without its look for an overflow: lengths have 16 bits.
    HEAD + ((data_length + (WORD - 1)) & !(WORD - 1))
}

/// Contents of an event, as the trace point passes them.
#[derive(Clone, Copy)]
pub(crate) struct Emission<'a> {
    /// The process's own identifier of the type.
    pub(crate) event_type: EventTypeId,
    /// The type's number in the area.
    pub(crate) number: u32,
    /// Address of the trace point.
    pub(crate) address: u64,
    /// The part of the data that is recorded: at most `MAX_DATA_BYTES`.
    pub(crate) data: &'a [u8],
    pub(crate) is_truncated: bool,
}

impl Emission<'_> {
    /// Returns the second word of the record. It lacks the CPU.
    #[inline(always)]
    pub(crate) fn second_word(&self) -> u64 {
        self.address & ((1 << ADDRESS_BITS) - 1)
    }

    /// Returns the third word of the record.
    #[inline(always)]
    pub(crate) fn third_word(&self) -> u64 {
        let truncated = if self.is_truncated { TRUNCATED } else { 0 };
        u64::from(self.number)
            | (u64::from(self.event_type.0) | truncated) << 32
            | (self.data.len() as u64) << 48
    }
}

/// Returns the CPU plus one, or 0, in the bits of a record's second word that are for it.
#[inline(always)]
pub(super) fn cpu_bits(cpu_plus_one: u16) -> u64 {
    u64::from(cpu_plus_one) << ADDRESS_BITS
}

/// Writes data into as many words as it needs, and fills the last one up with zeros. The caller
/// passes as many words.
#[inline(always)]
pub(super) fn put_data(mut left: &[AtomicU64], data: &[u8]) {
    let (fours, data) = data.as_chunks::<32>();
    for four in fours {
        let Some((first, others)) = left.split_first_chunk::<4>() else {
            return;
        };
        let (words, _none) = four.as_chunks::<8>();
        for (to, word) in first.iter().zip(words) {
            to.store(u64::from_ne_bytes(*word), Relaxed);
        }
        left = others;
    }
    let (words, rest) = data.as_chunks::<8>();
    for word in words {
        let Some((to, others)) = left.split_first() else {
            return;
        };
        to.store(u64::from_ne_bytes(*word), Relaxed);
        left = others;
    }
    if !rest.is_empty()
        && let Some(to) = left.first()
    {
        to.store(last_word(rest), Relaxed);
    }
}

/// Returns a word that begins with these bytes, which are fewer than a word has; zeros follow.
#[inline(always)]
pub(crate) fn last_word(rest: &[u8]) -> u64 {
    u64::from_ne_bytes(part_of_word(rest).to_le_bytes())
}

/// Returns one to seven bytes as the low bytes of a word. Two loads that overlap, and no call: a
/// trace point does this.
#[inline(always)]
fn part_of_word(bytes: &[u8]) -> u64 {
    let shift = |width: usize| (bytes.len() - width) * 8;
    if let (Some(low), Some(high)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return u64::from(u32::from_le_bytes(*low))
            | u64::from(u32::from_le_bytes(*high)) << shift(4);
    }
    if let (Some(low), Some(high)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return u64::from(u16::from_le_bytes(*low))
            | u64::from(u16::from_le_bytes(*high)) << shift(2);
    }
    bytes.first().map_or(0, |byte| u64::from(*byte))
}

/// Returns how much data a record has, by its third word.
#[inline(always)]
pub(super) fn data_length(word2: u64) -> u64 {
    word2 >> 48
}

/// Returns the event type in the third word, and whether the data was truncated.
pub(super) fn event_type(third: u64) -> (EventTypeId, bool) {
    let bits = (third >> 32) & 0xffff;
    let id = u32::try_from(bits & !TRUNCATED).unwrap_or(0);
    (EventTypeId(id), bits & TRUNCATED != 0)
}

/// Returns the type's number in the area, by the third word of a record.
pub(super) fn number(third: u64) -> u32 {
    u32::try_from(third & u64::from(u32::MAX)).unwrap_or(0)
}

/// Returns the trace point's address in the second word, and the CPU.
pub(super) fn address_and_cpu(second: u64) -> (u64, Option<u32>) {
    let cpu = u32::try_from(second >> ADDRESS_BITS).ok();
    (
        second & ((1 << ADDRESS_BITS) - 1),
        cpu.and_then(|cpu| cpu.checked_sub(1)),
    )
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_word_is_its_low_bytes() {
        let bytes = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77];

        for length in 0..=bytes.len() {
            let mut whole = [0; 8];
            whole[..length].copy_from_slice(&bytes[..length]);
            assert_eq!(part_of_word(&bytes[..length]), u64::from_le_bytes(whole));
        }
    }

    #[test]
    fn a_head_says_what_it_was_made_from() {
        let emission = Emission {
            event_type: EventTypeId(1279),
            number: 32_767,
            address: 0x7fff_1234_5678,
            data: &[0; 9],
            is_truncated: true,
        };
        let second = emission.second_word() | cpu_bits(65_535);
        let third = emission.third_word();

        assert_eq!(address_and_cpu(second), (0x7fff_1234_5678, Some(65_534)));
        assert_eq!(event_type(third), (EventTypeId(1279), true));
        assert_eq!((data_length(third), number(third)), (9, 32_767));
    }
}
