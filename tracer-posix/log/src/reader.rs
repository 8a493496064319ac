//! Reading a log.

#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, reason = "the file may say anything")
)]

use std::borrow::Cow;
use std::fs::File;
use std::io;

use super::bytes::LogBytes;
use super::decode::{Packet, Undecoded};
use super::error::OpenError;
use super::file_header::{COPY_BYTES, FileHeader, HeaderFault};
use super::layout::{HEADER_COPIES, PACKET_HEADER_BYTES, REGION_START, VERSION};
use super::losses::LossCounts;
use super::packet_cursor::{Damage, PacketCursor, Rejected, View};
use super::packet_header::PacketHeader;
use super::packet_scanner::{Found, PacketScanner};
use super::{FinalStatus, LogHeader, LogOptions, System, preamble, trailer};
use tracer_engine::EventTypes;
use tracer_engine::event::{Event, EventName, KnownNames, MonotonicNs, OwnedEvent, RealtimeNs};
use tracer_engine::fields::Record;
use tracer_engine::source::LossCause;

/// An event of a log.
#[derive(Clone, Copy)]
pub struct LogRecord<'a> {
    /// The event.
    pub event: Event<'a>,
    /// The name of its thread at that time; empty where unknown.
    pub comm: &'a [u8],
    /// Its time on `CLOCK_REALTIME`; never decreases within a log.
    pub realtime: RealtimeNs,
    /// The event types of the log.
    pub types: &'a EventTypes,
}

impl std::fmt::Debug for LogRecord<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogRecord")
            .field("name", &self.name())
            .field("event", &self.event)
            .field("comm", &String::from_utf8_lossy(self.comm))
            .field("realtime", &self.realtime)
            .finish()
    }
}

impl<'a> LogRecord<'a> {
    /// Returns the name of the event's type as text. A type without a name gives its identifier, as
    /// in `#300`.
    #[must_use]
    pub fn name(&self) -> Cow<'a, str> {
        match self.name_bytes() {
            Some(name) => String::from_utf8_lossy(name),
            None => Cow::Owned(format!("#{}", self.event.header.event_type.0)),
        }
    }

    /// Returns the name of the event's type, if it has one. It may be any bytes.
    #[must_use]
    pub fn name_bytes(&self) -> Option<&'a [u8]> {
        self.types.name(self.event.header.event_type)
    }

    /// Returns the fields in its data, if it has any ([`fields`](tracer_engine::fields)).
    #[must_use]
    pub fn fields(&self) -> Option<Record<'a>> {
        self.event.fields()
    }

    /// Copies the record into memory of its own.
    #[must_use]
    pub fn to_owned(&self) -> OwnedEvent {
        let name = EventName::from_types(self.types, self.event.header.event_type);
        self.owned(name)
    }

    fn owned(&self, name: EventName) -> OwnedEvent {
        let mut owned = OwnedEvent::new(&self.event, self.realtime, name);
        owned.comm = (!self.comm.is_empty()).then(|| self.comm.to_vec());
        owned
    }
}

/// The events of a log, each with memory of its own. They end with an error, if one occurs.
#[derive(Debug)]
pub struct Records<'r, B = File> {
    reader: &'r mut LogReader<B>,
    names: KnownNames,
    has_failed: bool,
}

impl<B: LogBytes> Iterator for Records<'_, B> {
    type Item = io::Result<OwnedEvent>;

    fn next(&mut self) -> Option<io::Result<OwnedEvent>> {
        if self.has_failed {
            return None;
        }
        match self.reader.next_record() {
            Ok(record) => record.map(|record| {
                let name = self
                    .names
                    .name(record.types, record.event.header.event_type);
                Ok(record.owned(name))
            }),
            Err(error) => {
                self.has_failed = true;
                Some(Err(error))
            }
        }
    }
}

/// Reads a log, event by event, while it is written or afterwards.
///
/// The file may hold anything. The reader checks a whole packet before it returns the packet's
/// first event. It skips packets that fail a check, and counts them in [`damage`](Self::damage).
/// Memory does not grow with the log.
#[derive(Debug)]
pub struct LogReader<B = File> {
    scanner: PacketScanner<B>,
    header: Box<FileHeader>,
    types: EventTypes,
    cursor: PacketCursor,
    packet: Packet,
    position: Position,
    losses: LossCounts,
    skip_before: MonotonicNs,
}

/// Where in time reading is.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    /// The end of the last packet: none may begin before.
    last_time: u64,
    realtime_offset: i64,
    last_realtime: u64,
    /// How often a packet was looked for.
    loaded: u64,
    /// The packet at hand.
    found: Option<Found>,
}

impl<B: LogBytes> LogReader<B> {
    /// Opens the log that `bytes` holds from offset 0 on. Reads at offsets only: the position of a
    /// file does not matter and does not move.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(bytes: B) -> Result<Self, OpenError> {
        let scanner = PacketScanner::new(bytes);
        let header = read_header(&scanner)?.map_err(open_error)?;
        let cursor = PacketCursor::new(header.options.policy);
        let mut reader = Self {
            scanner,
            header,
            types: EventTypes::default(),
            cursor,
            packet: Packet::default(),
            position: Position::default(),
            losses: LossCounts::default(),
            skip_before: MonotonicNs(0),
        };
        reader.learn_types()?;
        Ok(reader)
    }

    /// Returns the contents of the log's start.
    #[must_use]
    pub fn header(&self) -> &LogHeader {
        &self.header.info
    }

    /// Returns the system that the log was made on.
    #[must_use]
    pub fn system(&self) -> &System {
        &self.header.system
    }

    /// Returns how the log is laid out: its policy and its limit.
    #[must_use]
    pub fn options(&self) -> LogOptions {
        self.header.options
    }

    /// Returns its event types: all of them where the log was completed, else those of the packets
    /// that are there.
    #[must_use]
    pub fn event_types(&self) -> &EventTypes {
        &self.types
    }

    /// Returns the status at the end; `None` when the log was never completed, or is being written.
    #[must_use]
    pub fn final_status(&self) -> Option<FinalStatus> {
        self.header.content.status
    }

    /// Returns the number of events that the log holds, if it was completed: as many can be read
    /// where nothing is damaged.
    #[must_use]
    pub fn events_at_end(&self) -> Option<u64> {
        let content = &self.header.content;
        content.status.map(|_| content.events)
    }

    /// Returns when the trace ended, at the last event or later; `None` where the log does not say
    /// it: it was not completed, or is of an earlier version.
    #[must_use]
    pub fn ended(&self) -> Option<MonotonicNs> {
        self.header.content.ended
    }

    /// Returns the next event, oldest first; `None` at the end of what is there now. A later call
    /// continues with what was written since. If the log was cleared meanwhile, the reader begins
    /// at its new start.
    ///
    /// # Errors
    ///
    /// The file could not be read.
    #[inline]
    pub fn next_record(&mut self) -> io::Result<Option<LogRecord<'_>>> {
        Ok(if self.advance()? { self.record() } else { None })
    }

    /// Goes on to the next event, oldest first; false at the end of what is there now, as
    /// [`next_record`](Self::next_record).
    ///
    /// # Errors
    ///
    /// The file could not be read.
    #[inline]
    pub fn advance(&mut self) -> io::Result<bool> {
        while !self.packet.has_next() {
            if !self.load_packet()? {
                return Ok(false);
            }
        }
        let Some(time) = self.packet.advance() else {
            return Ok(false);
        };
        let position = &mut self.position;
        let realtime = time.saturating_add_signed(position.realtime_offset);
        position.last_realtime = position.last_realtime.max(realtime);
        Ok(true)
    }

    /// Returns the event at hand: the one that [`advance`](Self::advance) has gone on to; `None`
    /// where there is none.
    #[inline]
    #[must_use]
    pub fn record(&self) -> Option<LogRecord<'_>> {
        let (event, comm) = self.packet.at_hand()?;
        Some(LogRecord {
            event,
            comm,
            realtime: RealtimeNs(self.position.last_realtime),
            types: &self.types,
        })
    }

    /// Returns a number that is another one when the losses or the damage up to the event at hand
    /// may be more than before.
    #[inline]
    #[must_use]
    pub fn losses_version(&self) -> u64 {
        self.position.loaded
    }

    /// Returns the events from the next one on, up to the end of what is there now, each with
    /// memory of its own.
    pub fn records(&mut self) -> Records<'_, B> {
        Records {
            reader: self,
            names: KnownNames::default(),
            has_failed: false,
        }
    }

    /// Makes the oldest event the next one.
    pub fn rewind(&mut self) {
        self.cursor = PacketCursor::new(self.header.options.policy);
        self.packet.forget();
        self.position = Position {
            loaded: self.position.loaded,
            ..Position::default()
        };
        self.losses = LossCounts::default();
        self.skip_before = MonotonicNs(0);
    }

    /// Skips packets that end before `time` without decoding them; events before it may still
    /// follow.
    pub fn skip_to(&mut self, time: MonotonicNs) {
        self.skip_before = time;
        if self.position.last_time < time.0 {
            self.packet.forget();
        }
    }

    /// Returns the damage up to the event at hand.
    #[must_use]
    pub fn damage(&self) -> Damage {
        self.cursor.damage()
    }

    /// Returns the number of events that the trace lost for this cause, up to the packet at hand:
    /// lost before they came into the log.
    #[must_use]
    pub fn lost(&self, cause: LossCause) -> u64 {
        self.losses.lost(cause)
    }

    /// Returns the number of events that the trace lost for causes that only a later version knows.
    #[must_use]
    pub fn lost_for_other_causes(&self) -> u64 {
        self.losses.other
    }

    /// Returns the number of events that the log had to overwrite or discard because it was full or
    /// could not be written.
    #[must_use]
    pub fn lost_in_log(&self) -> u64 {
        self.losses.in_log()
    }

    /// Returns the number of events in the log that newer ones have overwritten (`LOOP`).
    #[must_use]
    pub fn overwritten_in_log(&self) -> u64 {
        self.losses.overwritten
    }

    /// Returns the bytes of the log up to the event at hand, and of the whole log as it is now: for
    /// a progress bar.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        let length = self.scanner.file_length().unwrap_or(0);
        let all = length
            .min(View::from_header(&self.header).region_end)
            .saturating_sub(REGION_START);
        (self.cursor.passed().min(all), all)
    }

    /// Returns the file's header, as it was read last.
    pub(super) fn file_header(&self) -> &FileHeader {
        &self.header
    }

    /// Returns the time at which the losses up to the packet at hand were counted: the losses were
    /// before it. `None` where that is not known.
    #[must_use]
    pub fn losses_counted_by(&self) -> Option<MonotonicNs> {
        (self.losses.counted_by > 0).then_some(MonotonicNs(self.losses.counted_by))
    }

    pub(super) fn losses(&self) -> LossCounts {
        self.losses
    }

    /// Goes to the next packet that is whole, and decodes it. The packet may have no events.
    /// Returns whether there is such a packet.
    #[cold]
    pub(super) fn load_packet(&mut self) -> io::Result<bool> {
        self.packet.forget();
        self.position.loaded = self.position.loaded.wrapping_add(1);
        loop {
            let view = View::from_header(&self.header);
            let Some(found) = self.cursor.find(&self.scanner, &view)? else {
                if self.look_at_header()? {
                    continue;
                }
                return Ok(false);
            };
            let is_in_order = found.header.first_time >= self.position.last_time;
            let is_skipped = found.header.last_time < self.skip_before.0;
            if is_in_order && (is_skipped || self.decode(&found)?) {
                self.cursor.accept(&found);
                self.position.last_time = found.header.last_time;
                self.position.realtime_offset = found.header.realtime_offset;
                self.position.found = Some(found);
                if !is_skipped {
                    return Ok(true);
                }
            } else if self.cursor.reject(&found, &self.scanner, &view)? == Rejected::Perhaps
                && !self.look_at_header()?
            {
                return Ok(false);
            }
        }
    }

    /// Returns the packet that was loaded last.
    pub(super) fn packet_at_hand(&self) -> Option<Found> {
        self.position.found
    }

    /// Decodes a packet, and returns whether it is whole.
    fn decode(&mut self, found: &Found) -> io::Result<bool> {
        let length = found.header.length;
        let buffer = self.packet.buffer(length)?;
        let read = self.scanner.read_at(buffer, found.offset)?;
        // The writer may have overwritten the packet since its header was read.
        let header = PacketHeader::from_bytes(read, self.header.log_id);
        if read.len() != length || header != Some(found.header) {
            self.packet.forget();
            return Ok(false);
        }
        match self.packet.decode(&found.header, &mut self.types) {
            Ok(losses) => {
                self.losses.raise_to(&losses);
                Ok(true)
            }
            Err(Undecoded::NoMemory) => Err(io::ErrorKind::OutOfMemory.into()),
            Err(Undecoded::Malformed) => Ok(false),
        }
    }

    /// Checks, at the end of the packets, whether the log was completed or cleared meanwhile.
    /// Returns whether it is worth looking for packets again.
    fn look_at_header(&mut self) -> io::Result<bool> {
        // A log that was made anew in the same file counts its headers from the beginning.
        let newer = read_header(&self.scanner)?.ok().filter(|header| {
            header.generation > self.header.generation || header.log_id != self.header.log_id
        });
        let Some(header) = newer else {
            self.losses.raise_to(&self.header.content.losses);
            return Ok(false);
        };
        let is_cleared = header.log_id != self.header.log_id;
        self.header = header;
        if is_cleared {
            self.rewind();
            self.types = EventTypes::default();
        }
        if is_cleared || self.header.content.status.is_some() {
            self.learn_types()?;
        }
        Ok(true)
    }

    /// Takes the types from the trailer; where there is none, from the packets.
    fn learn_types(&mut self) -> io::Result<()> {
        let view = View::from_header(&self.header);
        if view.trailer != 0 {
            let untrusted = self.scanner.trailer_at(view.trailer)?;
            if let Some(types) = trailer::types_of(&untrusted, view.log_id) {
                self.types = types;
                return Ok(());
            }
        }
        let mut cursor = PacketCursor::new(self.header.options.policy);
        while let Some(found) = cursor.find(&self.scanner, &view)? {
            self.learn_types_of(&found)?;
            cursor.accept(&found);
        }
        Ok(())
    }

    fn learn_types_of(&mut self, found: &Found) -> io::Result<()> {
        let length = found
            .header
            .events_offset
            .saturating_sub(PACKET_HEADER_BYTES);
        let buffer = self.packet.buffer(length)?;
        let start = found.offset.saturating_add(PACKET_HEADER_BYTES as u64);
        let untrusted = self.scanner.read_at(buffer, start)?;
        if crc32c::crc32c(untrusted) == found.header.preamble_crc {
            // If this preamble contradicts an earlier one, `decode` rejects its packet later.
            let _ = preamble::read(untrusted, &mut self.types);
        }
        Ok(())
    }

    /// Gives the file back.
    pub(super) fn into_bytes(self) -> B {
        self.scanner.into_bytes()
    }
}

/// Returns the newer of the file's headers that are whole.
#[inline(never)]
fn read_header(
    scanner: &PacketScanner<impl LogBytes>,
) -> io::Result<Result<Box<FileHeader>, HeaderFault>> {
    // Not on the stack: a thread may have little.
    let mut copies = vec![0; 2 * COPY_BYTES];
    let (one, other) = copies.split_at_mut(COPY_BYTES);
    let one = scanner.read_at(one, HEADER_COPIES[0])?;
    let other = scanner.read_at(other, HEADER_COPIES[1])?;
    Ok(FileHeader::newest([one, other]))
}

fn open_error(fault: HeaderFault) -> OpenError {
    match fault {
        HeaderFault::NoMagic => OpenError::NotALog,
        HeaderFault::Damaged => OpenError::HeaderDamaged,
        HeaderFault::TooNew { needed } => OpenError::TooNew {
            needed,
            known: VERSION,
        },
        HeaderFault::Foreign {
            byte_order,
            word_bytes,
        } => OpenError::Foreign {
            is_big_endian: byte_order == super::file_header::BIG,
            word_bits: u32::from(word_bytes) * 8,
        },
    }
}
