//! Encoding of events as the bytes of a packet.

use std::mem::offset_of;

use tracer_common::event_type::{EventTypeId, STREAM_EVENT_ID_LIMIT};
use tracer_common::kernel::SwitchOutData;

use super::dictionary::{Comm, DataDictionary, Dictionary, Entry, LastSeen, Site, Thread};
use super::layout::{ALIGNMENT, LogId, PACKET_HEADER_BYTES};
use super::losses::LossCounts;
use super::packet_header::PacketHeader;
use super::preamble::{self, Definitions};
use super::varint::Scratch;
use tracer_engine::EventTypes;
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};

/// Bits of an event's first byte.
pub(super) mod flags {
    /// The data was truncated when the event was recorded.
    pub const TRUNCATED: u8 = 1;
    /// The event is not of the same thread as the one before.
    pub const THREAD: u8 = 2;
    /// The event was on the CPU that this thread named last.
    pub const SAME_CPU: u8 = 4;
    /// Its CPU follows.
    pub const CPU: u8 = 8;
    /// Its data is in the dictionary.
    pub const COMMON_DATA: u8 = 16;
    /// Its data is that in the dictionary, then the time since its thread got a CPU.
    pub const RAN: u8 = 32;
    /// Its data is that in the dictionary, then an integer of 64 bits, which the event has.
    pub const INTEGER: u8 = 64;
    /// Bits that have a meaning.
    pub const ALL: u8 = 127;
}

/// The longest data that is looked for in the dictionary. Only system events have data that
/// repeats.
pub(super) const LONGEST_COMMON_DATA: usize = 64;

/// Most bytes of an event beside its data: flags, time, thread (index, pid, tid, `pthread_t`,
/// name), site (index, type, address), cpu, data (index, length, integer behind it).
const MAX_EVENT_OVERHEAD: usize =
    1 + 10 + (5 + 5 + 5 + 10 + 1 + 16) + (5 + 5 + 10) + 5 + (5 + 5 + 10);

/// Returns the most bytes of a packet with so many bytes of definitions and of events.
const fn packet_bytes(definitions: usize, events: usize) -> usize {
    PACKET_HEADER_BYTES + preamble::max_bytes(definitions) + events + ALIGNMENT
}

/// Returns the most bytes of a packet with one event that has `data_length` bytes of data, and with
/// the definition of its type, where that has a name.
pub(super) fn single_event_packet(data_length: usize, name: Option<&[u8]>) -> usize {
    let definition = name.map_or(0, preamble::max_definition_bytes);
    packet_bytes(definition, MAX_EVENT_OVERHEAD.saturating_add(data_length))
}

/// The types that a packet has defined: a bit for each identifier, up to the highest.
#[derive(Debug, Default)]
struct Defined(Vec<u64>);

impl Defined {
    #[inline]
    fn contains(&self, id: EventTypeId) -> bool {
        let word = self.0.get((id.0 / 64) as usize);
        word.is_some_and(|word| word >> (id.0 % 64) & 1 == 1)
    }

    fn insert(&mut self, id: EventTypeId) {
        let index = (id.0 / 64) as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        if let Some(word) = self.0.get_mut(index) {
            *word |= 1 << (id.0 % 64);
        }
    }
}

/// A packet that events can still be added to.
#[derive(Debug)]
pub(super) struct PacketBuilder {
    events: Vec<u8>,
    count: u32,
    first_time: MonotonicNs,
    last_time: MonotonicNs,
    definitions: Definitions,
    defined: Defined,
    threads: Dictionary<Thread>,
    /// State that is remembered of each thread.
    last_seen: Vec<LastSeen>,
    last_thread: Option<u32>,
    sites: Dictionary<Site>,
    data: DataDictionary,
}

impl Default for PacketBuilder {
    fn default() -> Self {
        Self {
            events: Vec::new(),
            count: 0,
            first_time: MonotonicNs(0),
            last_time: MonotonicNs(0),
            definitions: Definitions::default(),
            defined: Defined::default(),
            threads: Dictionary::default(),
            last_seen: Vec::new(),
            last_thread: None,
            sites: Dictionary::default(),
            data: DataDictionary::default(),
        }
    }
}

impl PacketBuilder {
    /// Returns the number of events in it.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the most bytes that it would take with an event more.
    #[inline]
    pub fn size_with(&self, event_type: EventTypeId, data: &[u8], types: &EventTypes) -> usize {
        let definition = match self.new_name(event_type, types) {
            Some(name) => preamble::max_definition_bytes(name),
            None => 0,
        };
        packet_bytes(
            self.definitions.len() + definition,
            self.events.len() + MAX_EVENT_OVERHEAD + data.len(),
        )
    }

    /// Returns the name of a user type that this packet has not defined yet.
    #[inline]
    fn new_name<'a>(&self, id: EventTypeId, types: &'a EventTypes) -> Option<&'a [u8]> {
        if !id.is_user() || id == EventTypeId::UNNAMED_USEREVENT || self.defined.contains(id) {
            return None;
        }
        types.name(id).filter(|_| id.0 < STREAM_EVENT_ID_LIMIT)
    }

    /// Adds an event, which is not older than the one before.
    pub fn push(&mut self, header: &EventHeader, data: &[u8], comm: &[u8], types: &EventTypes) {
        if let Some(name) = self.new_name(header.event_type, types) {
            self.definitions.add(header.event_type, name);
            self.defined.insert(header.event_type);
        }
        if self.count == 0 {
            self.first_time = header.time;
            self.last_time = header.time;
        }
        let delta = header.time.0.saturating_sub(self.last_time.0);
        self.last_time = header.time;
        self.count += 1;

        let mut bytes = Scratch::default();
        let mut flags = match header.truncation {
            Truncation::None => 0,
            Truncation::Record => flags::TRUNCATED,
        };
        bytes.put_byte(0); // the flags, once they are known
        bytes.put(delta);
        let thread = self.put_thread(&mut bytes, &mut flags, header, comm);
        self.put_site(&mut bytes, header);
        let mut seen = self.seen(thread);
        put_cpu(&mut bytes, &mut flags, &mut seen, header.cpu);
        self.put_data(bytes, flags, header, &seen, data);
        seen.follow(header.event_type, header.time.0);
        self.remember(thread, seen);
    }

    /// Returns the thread's index.
    #[inline]
    fn put_thread(
        &mut self,
        bytes: &mut Scratch,
        flags: &mut u8,
        header: &EventHeader,
        comm: &[u8],
    ) -> u32 {
        // Consecutive events mostly are of one thread: this comparison needs no key.
        if let Some(last) = self.last_thread
            && self
                .threads
                .last()
                .is_some_and(|thread| thread.is(header, comm))
        {
            return last;
        }
        let thread = Thread {
            pid: header.pid,
            tid: header.tid,
            thread_id: header.thread_id,
            comm: Comm::truncated_from(comm),
        };
        let entry = self.threads.enter(&thread);
        let index = entry.index();
        if self.last_thread == Some(index) {
            return index;
        }
        self.last_thread = Some(index);
        *flags |= flags::THREAD;
        bytes.put(u64::from(index));
        if let Entry::New(_) = entry {
            self.last_seen.push(LastSeen::default());
            bytes.put(u64::from(thread.pid.cast_unsigned()));
            bytes.put(u64::from(thread.tid.cast_unsigned()));
            bytes.put(thread.thread_id);
            let name = thread.comm.as_bytes();
            bytes.put(name.len() as u64);
            bytes.put_bytes(name);
        }
        index
    }

    #[inline]
    fn put_site(&mut self, bytes: &mut Scratch, header: &EventHeader) {
        let site = Site {
            event_type: header.event_type,
            program_address: header.program_address,
        };
        let entry = self.sites.enter(&site);
        bytes.put(u64::from(entry.index()));
        if let Entry::New(_) = entry {
            bytes.put(u64::from(site.event_type.0));
            bytes.put(site.program_address);
        }
    }

    #[inline]
    fn seen(&self, thread: u32) -> LastSeen {
        let index = usize::try_from(thread).ok();
        let seen = index.and_then(|thread| self.last_seen.get(thread));
        seen.copied().unwrap_or_default()
    }

    #[inline]
    fn remember(&mut self, thread: u32, seen: LastSeen) {
        let index = usize::try_from(thread).ok();
        if let Some(last) = index.and_then(|thread| self.last_seen.get_mut(thread)) {
            *last = seen;
        }
    }

    #[inline]
    fn put_data(
        &mut self,
        mut bytes: Scratch,
        mut flags: u8,
        header: &EventHeader,
        seen: &LastSeen,
        data: &[u8],
    ) {
        let id = header.event_type;
        let (data, ran) = match split_ran(id, data) {
            Some((data, ran)) => (data, Some(ran)),
            None => (data, None),
        };
        let may_be_common = !id.is_user() && (1..=LONGEST_COMMON_DATA).contains(&data.len());
        let entry = may_be_common.then(|| self.data.enter(data, &self.events));
        if let Some(entry) = entry {
            flags |= flags::COMMON_DATA;
            bytes.put(u64::from(entry.index()));
        }
        let is_inline = !matches!(entry, Some(Entry::Known(_)));
        if is_inline {
            bytes.put(data.len() as u64);
        }
        let mut tail = Scratch::default();
        if let Some(ran) = ran {
            if seen.ran_until(header.time.0) == Some(ran) {
                flags |= flags::RAN;
            } else {
                flags |= flags::INTEGER;
                tail.put(ran);
            }
        }
        bytes.set_first(flags);
        self.events.extend_from_slice(bytes.as_bytes());
        if is_inline {
            if entry.is_some() {
                self.data.note_span(self.events.len(), data.len());
            }
            self.events.extend_from_slice(data);
        }
        self.events.extend_from_slice(tail.as_bytes());
    }

    /// Returns the packet, and begins a new one, whose events go to `buffer`.
    pub fn seal(&mut self, mut buffer: Vec<u8>) -> SealedPacket {
        buffer.clear();
        let sealed = SealedPacket {
            events: std::mem::replace(&mut self.events, buffer),
            count: self.count,
            first_time: self.first_time,
            last_time: self.last_time,
            definitions: std::mem::take(&mut self.definitions),
        };
        self.clear();
        sealed
    }

    /// Forgets all events.
    pub fn clear(&mut self) {
        self.events.clear();
        self.count = 0;
        self.definitions.clear();
        self.defined.0.clear();
        self.threads.clear();
        self.last_seen.clear();
        self.last_thread = None;
        self.sites.clear();
        self.data.clear();
    }
}

#[inline]
fn put_cpu(bytes: &mut Scratch, flags: &mut u8, seen: &mut LastSeen, cpu: Option<u32>) {
    let Some(cpu) = cpu else {
        return;
    };
    if seen.cpu == Some(cpu) {
        *flags |= flags::SAME_CPU;
        return;
    }
    seen.cpu = Some(cpu);
    *flags |= flags::CPU;
    bytes.put(u64::from(cpu));
}

/// Splits the data of a switch-out into the part that repeats, and the time that the thread had
/// run.
#[inline]
fn split_ran(id: EventTypeId, data: &[u8]) -> Option<(&[u8], u64)> {
    let is_whole = id == EventTypeId::SWITCH_OUT && data.len() == size_of::<SwitchOutData>();
    let (rest, ran) = data.split_last_chunk().filter(|_| is_whole)?;
    Some((rest, u64::from_ne_bytes(*ran)))
}

/// A packet that takes no more events and has no offset yet.
#[derive(Clone, Debug)]
pub(super) struct SealedPacket {
    pub events: Vec<u8>,
    pub count: u32,
    pub first_time: MonotonicNs,
    pub last_time: MonotonicNs,
    definitions: Definitions,
}

/// Contents of a packet that are known only when it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketContext<'a> {
    pub log_id: LogId,
    pub sequence: u64,
    pub oldest_sequence: u64,
    pub realtime_offset: i64,
    pub losses: &'a LossCounts,
}

impl SealedPacket {
    /// Returns the most bytes that it takes, whatever the losses are.
    pub fn max_length(&self) -> usize {
        packet_bytes(self.definitions.len(), self.events.len())
    }

    /// Returns the number of bytes that it takes. It depends on which causes `losses` has, not on
    /// their counts.
    pub fn length(&self, losses: &LossCounts) -> usize {
        let mut preamble = Vec::with_capacity(preamble::max_bytes(self.definitions.len()));
        preamble::put(&mut preamble, &self.definitions, losses);
        aligned(PACKET_HEADER_BYTES + preamble.len() + self.events.len())
    }

    /// Writes the whole packet to `bytes`.
    pub fn write_to(&self, bytes: &mut Vec<u8>, context: &PacketContext<'_>) {
        bytes.clear();
        bytes.resize(PACKET_HEADER_BYTES, 0);
        preamble::put(bytes, &self.definitions, context.losses);
        let events_offset = bytes.len();
        bytes.extend_from_slice(&self.events);
        bytes.resize(aligned(bytes.len()), 0);
        let (before, events) = bytes.split_at(events_offset);
        let header = PacketHeader {
            length: bytes.len(),
            events_offset,
            events: self.count,
            preamble_crc: crc32c::crc32c(before.split_at(PACKET_HEADER_BYTES).1),
            sequence: context.sequence,
            oldest_sequence: context.oldest_sequence,
            first_time: self.first_time.0,
            last_time: self.last_time.0,
            realtime_offset: context.realtime_offset,
            events_crc: crc32c::crc32c(events),
        };
        let header = header.to_bytes(context.log_id);
        for (to, byte) in bytes.iter_mut().zip(header) {
            *to = byte;
        }
    }
}

/// Rounds up to the next multiple of the alignment.
pub(super) fn aligned(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}

const _: () = assert!(MAX_EVENT_OVERHEAD <= Scratch::CAPACITY);
// The integer is the last member, without padding behind it.
const _: () = assert!(offset_of!(SwitchOutData, ran_ns) + 8 == size_of::<SwitchOutData>());
