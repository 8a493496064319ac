//! The file's header. The file has two copies of it, of which the newer counts.

#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, reason = "the file may say anything")
)]

use zerocopy::{FromBytes, IntoBytes};

use super::layout::{
    FILE_MAGIC, HEADER_BYTES_FIELD, HEADER_COPIES, LEAST_HEADER_BYTES, LogId, MAX_PACKET_FIELD,
    OLDEST_READER, REGION_START, RawFileHeader, VERSION, status_bits,
};
use super::losses::LossCounts;
use super::{FinalStatus, LogHeader, LogOptions, System};
use tracer_engine::ClockPair;
use tracer_engine::event::{MonotonicNs, RealtimeNs};
use tracer_engine::{Attributes, Inheritance, LogFullPolicy, StreamFullPolicy, TraceName};

/// Bytes of a header that this version writes.
pub(super) const HEADER_BYTES: usize = size_of::<RawFileHeader>();

/// Where the bytes of the checksum lie.
const CRC: std::ops::Range<usize> = 12..16;

/// Where its length lies.
const LENGTH: std::ops::Range<usize> = 16..20;

/// Bytes that a copy of the header may take, of this version or a later one.
pub(super) const COPY_BYTES: usize = 4096;

/// Facts about a log's content, known for sure only once the log is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// The status at the end; `None` while the log is being written.
    pub status: Option<FinalStatus>,
    /// Packets written since the log began, overwritten ones included.
    pub packets: u64,
    /// The oldest packet that counts.
    pub oldest: u64,
    /// Events in the log.
    pub events: u64,
    /// Where the trailer lies; 0 for nowhere.
    pub trailer: u64,
    /// Events lost so far.
    pub losses: LossCounts,
    /// When the trace ended, where that is known: no event is later.
    pub ended: Option<MonotonicNs>,
}

/// The file's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileHeader {
    /// Generation of the copy: of two copies the newer one has the higher.
    pub generation: u64,
    /// The log that the packets belong to.
    pub log_id: LogId,
    /// The log's description of the stream.
    pub info: LogHeader,
    /// How it is laid out.
    pub options: LogOptions,
    /// Where it was made.
    pub system: System,
    /// Facts about its content.
    pub content: Content,
}

/// Why a copy of the header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderFault {
    /// The file does not begin as a log does.
    NoMagic,
    /// Its checksum is wrong, or a field has an impossible value.
    Damaged,
    /// A later version is needed to read it.
    TooNew { needed: u16 },
    /// The traced programs' data is of another kind of machine.
    Foreign { byte_order: u8, word_bytes: u8 },
}

const LITTLE: u8 = 1;
pub(super) const BIG: u8 = 2;
const OUR_BYTE_ORDER: u8 = if cfg!(target_endian = "little") {
    LITTLE
} else {
    BIG
};
const OUR_WORD_BYTES: u8 = if cfg!(target_pointer_width = "64") {
    8
} else {
    4
};

impl FileHeader {
    /// Returns the header as it lies in the file.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let attributes = &self.info.attributes;
        let content = &self.content;
        let (losses, losses_used) = content.losses.to_header();
        let status = content.status.unwrap_or_default();
        let mut raw = RawFileHeader {
            magic: FILE_MAGIC,
            version: VERSION.into(),
            oldest_reader: OLDEST_READER.into(),
            crc: 0.into(),
            header_bytes: HEADER_BYTES_FIELD.into(),
            byte_order: OUR_BYTE_ORDER,
            word_bytes: OUR_WORD_BYTES,
            is_complete: u8::from(content.status.is_some()),
            log_full_policy: code_of(LOG_FULL_POLICIES, self.options.policy),
            generation: self.generation.into(),
            log_id: self.log_id,
            region_start: REGION_START.into(),
            max_size: self.options.max_size.into(),
            max_packet: MAX_PACKET_FIELD.into(),
            stream_full_policy: attributes
                .stream_full_policy
                .map_or(0, |policy| code_of(STREAM_FULL_POLICIES, policy)),
            inheritance: code_of(INHERITANCES, attributes.inheritance),
            attribute_log_full_policy: code_of(LOG_FULL_POLICIES, attributes.log_full_policy),
            status: status_byte(status),
            creation_time: attributes.creation_time.0.into(),
            clock_resolution: attributes.clock_resolution_ns.into(),
            stream_min_size: (attributes.stream_min_size as u64).into(),
            max_data_size: (attributes.max_data_size as u64).into(),
            log_max_size: (attributes.log_max_size as u64).into(),
            generation_version: *attributes.generation_version.padded(),
            trace_name: *attributes.name.padded(),
            anchor_monotonic: self.info.anchor.monotonic.0.into(),
            anchor_realtime: self.info.anchor.realtime.0.into(),
            trailer_offset: content.trailer.into(),
            packets: content.packets.into(),
            events: content.events.into(),
            flush_error: status.flush_error.into(),
            losses_used: losses_used.into(),
            oldest_sequence: content.oldest.into(),
            kernel_release: padded(&self.system.kernel_release),
            machine: padded(&self.system.machine),
            losses,
            ended: content.ended.map_or(0, |at| at.0).into(),
        };
        raw.crc = crc32c::crc32c(raw.as_bytes()).into();
        let mut bytes = [0; HEADER_BYTES];
        bytes.copy_from_slice(raw.as_bytes());
        bytes
    }

    /// Reads one copy into the heap: it is large, and a thread may have little stack.
    #[inline(never)]
    fn on_heap(untrusted: &[u8]) -> Result<Box<Self>, HeaderFault> {
        Self::from_bytes(untrusted).map(Box::new)
    }

    /// Reads one copy.
    pub fn from_bytes(untrusted: &[u8]) -> Result<Self, HeaderFault> {
        if !untrusted.starts_with(&FILE_MAGIC) {
            return Err(HeaderFault::NoMagic);
        }
        let raw = whole(untrusted).ok_or(HeaderFault::Damaged)?;
        let needed = raw.oldest_reader.get();
        if needed > VERSION {
            return Err(HeaderFault::TooNew { needed });
        }
        if (raw.byte_order, raw.word_bytes) != (OUR_BYTE_ORDER, OUR_WORD_BYTES) {
            return Err(HeaderFault::Foreign {
                byte_order: raw.byte_order,
                word_bytes: raw.word_bytes,
            });
        }
        Self::from_raw(&raw).ok_or(HeaderFault::Damaged)
    }

    fn from_raw(raw: &RawFileHeader) -> Option<Self> {
        let attributes = attributes_from(raw)?;
        if raw.region_start.get() != REGION_START
            || raw.max_packet.get() > MAX_PACKET_FIELD
            || REGION_START.checked_add(raw.max_size.get())? > i64::MAX as u64
        {
            return None;
        }
        Some(Self {
            generation: raw.generation.get(),
            log_id: raw.log_id,
            info: LogHeader {
                attributes,
                anchor: ClockPair {
                    monotonic: MonotonicNs(raw.anchor_monotonic.get()),
                    realtime: RealtimeNs(raw.anchor_realtime.get()),
                },
            },
            options: LogOptions {
                policy: value_of(LOG_FULL_POLICIES, raw.log_full_policy)?,
                max_size: raw.max_size.get(),
            },
            system: System {
                kernel_release: until_null(&raw.kernel_release),
                machine: until_null(&raw.machine),
            },
            content: Content {
                status: (raw.is_complete != 0)
                    .then(|| status_from(raw.status, raw.flush_error.get())),
                packets: raw.packets.get(),
                oldest: raw.oldest_sequence.get(),
                events: raw.events.get(),
                trailer: raw.trailer_offset.get(),
                losses: LossCounts::from_header(&raw.losses, raw.losses_used.get()),
                ended: (raw.is_complete != 0 && raw.ended.get() > 0)
                    .then(|| MonotonicNs(raw.ended.get())),
            },
        })
    }

    /// Returns the newer of the copies that are whole; the gravest fault when none is.
    pub fn newest(copies: [&[u8]; HEADER_COPIES.len()]) -> Result<Box<Self>, HeaderFault> {
        let [one, other] = copies.map(Self::on_heap);
        match (one, other) {
            (Ok(one), Ok(other)) if other.generation > one.generation => Ok(other),
            (Ok(one), _) | (Err(_), Ok(one)) => Ok(one),
            (Err(HeaderFault::NoMagic | HeaderFault::Damaged), Err(fault))
                if fault != HeaderFault::NoMagic =>
            {
                Err(fault)
            }
            (Err(fault), Err(_)) => Err(fault),
        }
    }
}

/// Returns as much of `text` as fits before a null.
fn padded<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    for (to, byte) in bytes.iter_mut().take(N.saturating_sub(1)).zip(text) {
        *to = *byte;
    }
    bytes
}

/// Returns the bytes before the first null.
fn until_null(bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .copied()
        .take_while(|byte| *byte != 0)
        .collect()
}

/// Returns the header of any version, if its checksum is right. Fields that an earlier version
/// lacks are zeros.
fn whole(untrusted: &[u8]) -> Option<RawFileHeader> {
    let length = u32::from_le_bytes(untrusted.get(LENGTH)?.try_into().ok()?);
    let length = usize::try_from(length).ok()?;
    if !(LEAST_HEADER_BYTES..=COPY_BYTES).contains(&length) {
        return None;
    }
    let whole = untrusted.get(..length)?;
    let stored = u32::from_le_bytes(whole.get(CRC)?.try_into().ok()?);
    let crc = crc32c::crc32c(whole.get(..CRC.start)?);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    let crc = crc32c::crc32c_append(crc, whole.get(CRC.end..)?);
    if crc != stored {
        return None;
    }
    let mut bytes = [0; HEADER_BYTES];
    for (to, byte) in bytes.iter_mut().zip(whole) {
        *to = *byte;
    }
    RawFileHeader::read_from_bytes(&bytes).ok()
}

fn attributes_from(raw: &RawFileHeader) -> Option<Attributes> {
    Some(Attributes {
        generation_version: TraceName::truncated_from(&raw.generation_version),
        name: TraceName::truncated_from(&raw.trace_name),
        creation_time: RealtimeNs(raw.creation_time.get()),
        clock_resolution_ns: raw.clock_resolution.get(),
        stream_min_size: usize::try_from(raw.stream_min_size.get()).ok()?,
        stream_full_policy: match raw.stream_full_policy {
            0 => None,
            code => Some(value_of(STREAM_FULL_POLICIES, code)?),
        },
        max_data_size: usize::try_from(raw.max_data_size.get()).ok()?,
        inheritance: value_of(INHERITANCES, raw.inheritance)?,
        log_max_size: usize::try_from(raw.log_max_size.get()).ok()?,
        log_full_policy: value_of(LOG_FULL_POLICIES, raw.attribute_log_full_policy)?,
        kernel_events: None,
    })
}

/// The codes are those of `trace.h`; a test compares them.
const LOG_FULL_POLICIES: &[(u8, LogFullPolicy)] = &[
    (1, LogFullPolicy::Loop),
    (2, LogFullPolicy::UntilFull),
    (4, LogFullPolicy::Append),
];
const STREAM_FULL_POLICIES: &[(u8, StreamFullPolicy)] = &[
    (1, StreamFullPolicy::Loop),
    (2, StreamFullPolicy::UntilFull),
    (3, StreamFullPolicy::Flush),
];
const INHERITANCES: &[(u8, Inheritance)] =
    &[(1, Inheritance::CloseForChild), (2, Inheritance::Inherited)];

fn code_of<T: PartialEq>(values: &[(u8, T)], value: T) -> u8 {
    let known = values.iter().find(|(_, known)| *known == value);
    known.map_or(0, |(code, _)| *code)
}

fn value_of<T: Copy>(values: &[(u8, T)], code: u8) -> Option<T> {
    let known = values.iter().find(|(known, _)| *known == code);
    known.map(|(_, value)| *value)
}

/// Returns the flags of a status, in one byte.
pub(super) fn status_byte(status: FinalStatus) -> u8 {
    let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    bit(status.is_full, status_bits::STREAM_FULL)
        | bit(status.is_overrun, status_bits::STREAM_OVERRUN)
        | bit(status.is_log_full, status_bits::LOG_FULL)
        | bit(status.is_log_overrun, status_bits::LOG_OVERRUN)
}

fn status_from(bits: u8, flush_error: i32) -> FinalStatus {
    FinalStatus {
        is_full: bits & status_bits::STREAM_FULL != 0,
        is_overrun: bits & status_bits::STREAM_OVERRUN != 0,
        flush_error,
        is_log_full: bits & status_bits::LOG_FULL != 0,
        is_log_overrun: bits & status_bits::LOG_OVERRUN != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE_H: &str = include_str!("../../libposixtrace/include/trace.h");

    fn header() -> FileHeader {
        let attributes = Attributes::default()
            .with_name("a stream")
            .with_stream_full_policy(StreamFullPolicy::Flush)
            .with_inheritance(Inheritance::Inherited);
        FileHeader {
            generation: 7,
            log_id: LogId([9; 16]),
            info: LogHeader {
                attributes,
                anchor: ClockPair {
                    monotonic: MonotonicNs(1_000),
                    realtime: RealtimeNs(2_000_000),
                },
            },
            options: LogOptions {
                policy: LogFullPolicy::UntilFull,
                max_size: 1 << 20,
            },
            system: System {
                kernel_release: b"6.1.0-rc1".to_vec(),
                machine: b"x86_64".to_vec(),
            },
            content: Content {
                status: Some(FinalStatus {
                    is_full: true,
                    is_overrun: false,
                    flush_error: 28,
                    is_log_full: true,
                    is_log_overrun: true,
                }),
                packets: 3,
                oldest: 1,
                events: 99,
                trailer: 12_000,
                losses: LossCounts {
                    overwritten: 5,
                    ..LossCounts::default()
                },
                ended: Some(MonotonicNs(77_000)),
            },
        }
    }

    #[test]
    fn a_header_comes_back_as_it_was() {
        assert_eq!(FileHeader::from_bytes(&header().to_bytes()), Ok(header()));
    }

    #[test]
    fn a_header_of_the_first_version_has_no_system() {
        // These bytes were reserved.
        let mut bytes = header().to_bytes();
        bytes[8] = 1;
        bytes[296..352].fill(0);
        let mut expected = header();
        expected.system = System::default();
        expected.content.ended = None;

        assert_eq!(FileHeader::from_bytes(&shorter(&bytes)), Ok(expected));
    }

    /// Returns the bytes with a header of versions 1 to 3, which is shorter; the bytes behind it
    /// stay.
    fn shorter(bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        bytes[LENGTH].copy_from_slice(&1024_u32.to_le_bytes());
        bytes[CRC].fill(0);
        let crc = crc32c::crc32c(&bytes[..1024]);
        bytes[CRC].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn a_header_of_an_earlier_version_does_not_say_when_the_trace_ended() {
        let mut expected = header();
        expected.content.ended = None;

        let read = FileHeader::from_bytes(&shorter(&header().to_bytes()));

        assert_eq!(read, Ok(expected));
    }

    #[test]
    fn a_log_that_is_being_written_has_no_end() {
        let mut unended = header();
        unended.content.status = None;

        let read = FileHeader::from_bytes(&unended.to_bytes()).unwrap();

        assert_eq!(read.content.ended, None);
    }

    #[test]
    fn a_release_that_is_too_long_is_truncated() {
        let long = FileHeader {
            system: System {
                kernel_release: vec![b'6'; 60],
                machine: Vec::new(),
            },
            ..header()
        };

        let read = FileHeader::from_bytes(&long.to_bytes()).unwrap();

        assert_eq!(read.system.kernel_release, [b'6'; 39]);
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let whole = header().to_bytes();
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole;
            damaged[bit / 8] ^= 1 << (bit % 8);

            assert!(FileHeader::from_bytes(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn the_newer_whole_copy_counts() {
        let (older, newer) = (
            header().to_bytes(),
            FileHeader {
                generation: 8,
                ..header()
            }
            .to_bytes(),
        );
        let mut damaged = newer;
        damaged[100] ^= 1;
        let newest = |one: &[u8], other: &[u8]| {
            FileHeader::newest([one, other]).map(|header| header.generation)
        };

        assert_eq!(newest(&older, &newer), Ok(8));
        assert_eq!(newest(&newer, &older), Ok(8));
        assert_eq!(newest(&older, &damaged), Ok(7));
        assert_eq!(newest(&damaged, &older), Ok(7));
        assert_eq!(newest(&damaged, &damaged), Err(HeaderFault::Damaged));
        assert_eq!(newest(b"", &damaged), Err(HeaderFault::Damaged));
        assert_eq!(newest(b"", b"text"), Err(HeaderFault::NoMagic));
    }

    #[test]
    fn a_log_for_later_readers_is_not_taken_for_a_damaged_one() {
        let mut bytes = header().to_bytes();
        let later = VERSION + 1;
        bytes[10..12].copy_from_slice(&later.to_le_bytes());
        bytes[CRC].fill(0);
        let crc = crc32c::crc32c(&bytes);
        bytes[CRC].copy_from_slice(&crc.to_le_bytes());

        assert_eq!(
            FileHeader::from_bytes(&bytes),
            Err(HeaderFault::TooNew { needed: later })
        );
    }

    #[test]
    fn the_codes_of_policies_are_those_of_the_c_header() {
        let c = |name: &str| {
            let define = format!("#define {name} ");
            let value = TRACE_H.lines().find_map(|line| line.strip_prefix(&define));
            value.unwrap().trim().parse::<u8>().unwrap()
        };

        assert_eq!(
            LOG_FULL_POLICIES
                .iter()
                .map(|(n, _)| *n)
                .collect::<Vec<_>>(),
            [
                c("POSIX_TRACE_LOOP"),
                c("POSIX_TRACE_UNTIL_FULL"),
                c("POSIX_TRACE_APPEND")
            ]
        );
        assert_eq!(
            STREAM_FULL_POLICIES
                .iter()
                .map(|(n, _)| *n)
                .collect::<Vec<_>>(),
            [
                c("POSIX_TRACE_LOOP"),
                c("POSIX_TRACE_UNTIL_FULL"),
                c("POSIX_TRACE_FLUSH")
            ]
        );
        assert_eq!(
            INHERITANCES.iter().map(|(n, _)| *n).collect::<Vec<_>>(),
            [c("POSIX_TRACE_CLOSE_FOR_CHILD"), c("POSIX_TRACE_INHERITED")]
        );
    }
}
