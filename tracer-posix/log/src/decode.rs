//! Decoding of the bytes of a packet into events.

#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, reason = "the file may say anything")
)]

use std::io;

use tracer_common::event_type::EventTypeId;

use super::dictionary::{LastSeen, Site};
use super::encode::{LONGEST_COMMON_DATA, flags};
use super::layout::{ALIGNMENT, PACKET_HEADER_BYTES};
use super::losses::LossCounts;
use super::packet_header::PacketHeader;
use super::preamble;
use super::varint::Cursor;
use tracer_engine::EventTypes;
use tracer_engine::event::{Event, EventHeader, MonotonicNs, Truncation};

/// A packet whose events are being read. Its bytes come from a file that may hold anything.
#[derive(Debug, Default)]
pub(super) struct Packet {
    bytes: Vec<u8>,
    threads: Vec<ThreadEntry>,
    sites: Vec<Site>,
    common_data: Vec<Span>,
    events: Vec<EventEntry>,
    next: usize,
    /// Whether there was no memory for the packet's contents.
    lacks_memory: bool,
    /// The data of the event given out last, where it does not lie in the packet in one piece.
    joined: Vec<u8>,
}

/// A piece of the packet's bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u32,
    length: u32,
}

#[derive(Clone, Copy, Debug)]
struct ThreadEntry {
    pid: i32,
    tid: i32,
    thread_id: u64,
    comm: Span,
    last_seen: LastSeen,
}

#[derive(Clone, Copy, Debug)]
struct EventEntry {
    time: u64,
    thread: u32,
    site: u32,
    cpu: Option<u32>,
    data: Data,
    truncation: Truncation,
}

#[derive(Clone, Copy, Debug)]
enum Data {
    /// All of it lies in the packet.
    Whole(Span),
    /// An integer comes behind it.
    WithInteger(Span, u64),
}

/// Why a packet could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undecoded {
    /// It breaks a rule of the format.
    Malformed,
    /// There is no memory for its events.
    NoMemory,
}

impl Packet {
    /// Returns a buffer that the caller fills with a packet's bytes, and forgets the events of the
    /// last packet.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    pub fn buffer(&mut self, length: usize) -> io::Result<&mut [u8]> {
        self.forget();
        let more = length.saturating_sub(self.bytes.len());
        let reserved = self.bytes.try_reserve(more);
        reserved.map_err(|_none| io::Error::from(io::ErrorKind::OutOfMemory))?;
        self.bytes.resize(length, 0);
        Ok(&mut self.bytes)
    }

    /// Forgets all events.
    pub fn forget(&mut self) {
        self.threads.clear();
        self.sites.clear();
        self.common_data.clear();
        self.events.clear();
        self.next = 0;
        self.lacks_memory = false;
    }

    /// Checks and decodes the bytes, which have to begin with `header`. Adds new event types to
    /// `types`. Afterwards the packet has all its events, or none.
    pub fn decode(
        &mut self,
        header: &PacketHeader,
        types: &mut EventTypes,
    ) -> Result<LossCounts, Undecoded> {
        self.forget();
        let result = self.decode_all(header, types);
        if result.is_some() {
            return result.ok_or(Undecoded::Malformed);
        }
        let lacks_memory = self.lacks_memory;
        self.forget();
        Err(if lacks_memory {
            Undecoded::NoMemory
        } else {
            Undecoded::Malformed
        })
    }

    fn decode_all(&mut self, header: &PacketHeader, types: &mut EventTypes) -> Option<LossCounts> {
        let bytes = std::mem::take(&mut self.bytes);
        let losses = self.decode_bytes(&bytes, header, types);
        self.bytes = bytes;
        losses
    }

    fn decode_bytes(
        &mut self,
        bytes: &[u8],
        header: &PacketHeader,
        types: &mut EventTypes,
    ) -> Option<LossCounts> {
        let preamble = bytes.get(PACKET_HEADER_BYTES..header.events_offset)?;
        let events = bytes.get(header.events_offset..header.length)?;
        if crc32c::crc32c(preamble) != header.preamble_crc
            || crc32c::crc32c(events) != header.events_crc
        {
            return None;
        }
        let mut cursor = Cursor::new(bytes, header.events_offset);
        let mut state = State {
            time: header.first_time,
            thread: None,
        };
        let events = usize::try_from(header.events).unwrap_or(0);
        if self.events.try_reserve(events).is_err() {
            self.lacks_memory = true;
            return None;
        }
        for index in 0..header.events {
            let event = self.event(&mut cursor, &mut state)?;
            if index == 0 && event.time != header.first_time {
                return None;
            }
            self.events.push(event);
        }
        let rest = cursor.rest();
        let is_filled_up = rest.len() < ALIGNMENT && rest.iter().all(|&byte| byte == 0);
        if !is_filled_up || state.time != header.last_time {
            return None;
        }
        preamble::read(preamble, types)
    }

    #[inline]
    fn event(&mut self, cursor: &mut Cursor<'_>, state: &mut State) -> Option<EventEntry> {
        let bits = cursor.byte()?;
        if bits & !flags::ALL != 0 {
            return None;
        }
        state.time = state.time.checked_add(cursor.varint()?)?;
        if bits & flags::THREAD != 0 {
            state.thread = Some(self.thread(cursor)?);
        }
        let thread = state.thread?;
        let site = self.site(cursor)?;
        let cpu = self.cpu(cursor, bits, thread)?;
        let data = self.data(cursor, bits, thread, state.time)?;
        let event_type = self.sites.get(to_usize(site))?.event_type;
        let known = self.threads.get_mut(to_usize(thread))?;
        known.last_seen.follow(event_type, state.time);
        Some(EventEntry {
            time: state.time,
            thread,
            site,
            cpu,
            data,
            truncation: if bits & flags::TRUNCATED == 0 {
                Truncation::None
            } else {
                Truncation::Record
            },
        })
    }

    #[inline]
    fn thread(&mut self, cursor: &mut Cursor<'_>) -> Option<u32> {
        let index = cursor.varint32()?;
        if is_new(index, self.threads.len())? {
            let entry = ThreadEntry {
                pid: cursor.varint32()?.cast_signed(),
                tid: cursor.varint32()?.cast_signed(),
                thread_id: cursor.varint()?,
                comm: counted_span(cursor)?,
                last_seen: LastSeen::default(),
            };
            self.lacks_memory |= push(&mut self.threads, entry).is_none();
        }
        Some(index)
    }

    #[inline]
    fn site(&mut self, cursor: &mut Cursor<'_>) -> Option<u32> {
        let index = cursor.varint32()?;
        if is_new(index, self.sites.len())? {
            let site = Site {
                event_type: EventTypeId(cursor.varint32()?),
                program_address: cursor.varint()?,
            };
            self.lacks_memory |= push(&mut self.sites, site).is_none();
        }
        Some(index)
    }

    #[inline]
    #[expect(
        clippy::option_option,
        reason = "the outer one says whether the bytes are right, the inner one is the event's"
    )]
    fn cpu(&mut self, cursor: &mut Cursor<'_>, bits: u8, thread: u32) -> Option<Option<u32>> {
        match bits & (flags::SAME_CPU | flags::CPU) {
            0 => Some(None),
            flags::SAME_CPU => {
                let entry = self.threads.get(to_usize(thread))?;
                entry.last_seen.cpu.map(Some)
            }
            flags::CPU => {
                let cpu = cursor.varint32()?;
                self.threads.get_mut(to_usize(thread))?.last_seen.cpu = Some(cpu);
                Some(Some(cpu))
            }
            _ => None,
        }
    }

    #[inline]
    fn data(&mut self, cursor: &mut Cursor<'_>, bits: u8, thread: u32, time: u64) -> Option<Data> {
        let kind = bits & (flags::RAN | flags::INTEGER);
        if bits & flags::COMMON_DATA == 0 {
            let data = counted_span(cursor).map(Data::Whole);
            return data.filter(|_| kind == 0);
        }
        let index = cursor.varint32()?;
        if is_new(index, self.common_data.len())? {
            let data = counted_span(cursor)?;
            self.lacks_memory |= push(&mut self.common_data, data).is_none();
        }
        let common = *self.common_data.get(to_usize(index))?;
        let integer = match kind {
            0 => return Some(Data::Whole(common)),
            flags::RAN => {
                let thread = self.threads.get(to_usize(thread))?;
                thread.last_seen.ran_until(time)?
            }
            flags::INTEGER => cursor.varint()?,
            _ => return None,
        };
        let fits = to_usize(common.length) <= LONGEST_COMMON_DATA;
        fits.then_some(Data::WithInteger(common, integer))
    }

    /// Tells whether an event is left.
    #[inline]
    pub fn has_next(&self) -> bool {
        self.next < self.events.len()
    }

    /// Goes on to the next event. Returns its time; `None` if none is left.
    #[inline]
    pub fn advance(&mut self) -> Option<u64> {
        let entry = *self.events.get(self.next)?;
        self.next = self.next.saturating_add(1);
        if let Data::WithInteger(common, integer) = entry.data {
            let mut joined = std::mem::take(&mut self.joined);
            joined.clear();
            joined.extend_from_slice(self.bytes_of(common));
            joined.extend_from_slice(&integer.to_ne_bytes());
            self.joined = joined;
        }
        Some(entry.time)
    }

    /// Returns the event at hand and the name of its thread.
    #[inline]
    pub fn at_hand(&self) -> Option<(Event<'_>, &[u8])> {
        let entry = self.events.get(self.next.checked_sub(1)?)?;
        let thread = self.threads.get(to_usize(entry.thread))?;
        let site = self.sites.get(to_usize(entry.site))?;
        let header = EventHeader {
            time: MonotonicNs(entry.time),
            event_type: site.event_type,
            pid: thread.pid,
            tid: thread.tid,
            cpu: entry.cpu,
            thread_id: thread.thread_id,
            program_address: site.program_address,
            truncation: entry.truncation,
        };
        let data = match entry.data {
            Data::Whole(span) => self.bytes_of(span),
            Data::WithInteger(..) => &self.joined,
        };
        let event = Event { header, data };
        Some((event, self.bytes_of(thread.comm)))
    }

    #[inline]
    fn bytes_of(&self, span: Span) -> &[u8] {
        let start = to_usize(span.start);
        self.bytes
            .get(start..start.saturating_add(to_usize(span.length)))
            .unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug)]
struct State {
    time: u64,
    thread: Option<u32>,
}

/// Adds an item, where there is memory for it.
fn push<T>(items: &mut Vec<T>, item: T) -> Option<()> {
    items.try_reserve(1).ok()?;
    items.push(item);
    Some(())
}

/// Tells whether an index is that of a new entry; `None` if it lies beyond that.
#[inline]
fn is_new(index: u32, length: usize) -> Option<bool> {
    let index = to_usize(index);
    (index <= length).then_some(index == length)
}

#[inline]
fn counted_span(cursor: &mut Cursor<'_>) -> Option<Span> {
    let length = cursor.varint32()?;
    let start = u32::try_from(cursor.position()).ok()?;
    cursor.bytes(to_usize(length))?;
    Some(Span { start, length })
}

#[inline]
fn to_usize(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
