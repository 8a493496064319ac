//! The logic of a writer, over any medium.

use tracer_common::event_type::{EventTypeId, TRACE_EVENT_NAME_MAX};

use super::pending::Pending;
use crate::encode::{PacketBuilder, PacketContext, single_event_packet};
use crate::error::WriteError;
use crate::file_header::{Content, FileHeader};
use crate::layout::{HEADER_COPIES, MAX_PACKET_BYTES, REGION_START};
use crate::losses::LossCounts;
use crate::medium::{Medium, new_log_id};
use crate::region::Region;
use crate::{FinalStatus, LogHeader, LogOptions, sys, trailer};
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation, stop};
use tracer_engine::{ClockPair, EventTypes, Ledger, LogFullPolicy, sizes};

/// Bytes that packets are filled up to: enough that the packet's header hardly matters, and few
/// enough that a damaged packet is no great loss. 64 KiB would hold thousands of events.
const PACKET_TARGET: usize = 16 * 1024;

/// A packet of a `LOOP` log takes at most this fraction of the log: a new packet overwrites no more
/// than that at once.
const LOOP_PARTS: u64 = 8;

/// Space that an `UNTIL_FULL` log reserves for its STOP.
const STOP_RESERVE: usize = 1024;

/// Largest difference, in nanoseconds, between two readings of both clocks that counts as an error
/// of reading: beyond it, the date was set. Errors of reading must not change dates, which would
/// then differ from what the header says.
const READ_APART_NS: u64 = 10_000;

/// Returns the smallest limit of a log whose events have at most `max_data_size` bytes of user
/// data.
pub(crate) fn least_size(max_data_size: usize) -> u64 {
    let data = max_data_size.max(sizes::MAX_SYSTEM_DATA);
    let event = single_event_packet(data, Some(&[0; TRACE_EVENT_NAME_MAX]));
    event.saturating_add(STOP_RESERVE) as u64
}

/// A log that is being written.
#[derive(Debug)]
pub(super) struct WriterCore<M> {
    pub medium: M,
    pub header: FileHeader,
    /// The header in the file differs from `header`.
    pub is_header_stale: bool,
    pub builder: PacketBuilder,
    /// Most bytes that the current packet should get.
    pub packet_limit: usize,
    pub pending: Pending,
    /// The last write failed: only a flush tries again.
    pub is_stalled: bool,
    pub region: Region,
    pub sequence: u64,
    pub losses: LossCounts,
    /// The losses that the file states.
    pub losses_written: LossCounts,
    /// The losses of the log's earlier streams.
    pub losses_before: LossCounts,
    /// Losses of the stream when it was last written.
    stream_losses: LossCounts,
    /// Losses of the stream when the log was cleared.
    losses_cleared: LossCounts,
    /// `UNTIL_FULL`, and the STOP has been added.
    pub is_closed: bool,
    pub is_overrun: bool,
    pub last_time: MonotonicNs,
    /// Up to when all events were added, as [`advance`](Self::advance) last said.
    pub ended: Option<MonotonicNs>,
    /// Added to every time, so that a log that is continued goes on after its end.
    pub time_shift: u64,
    /// When the last packet that was written ends, on `CLOCK_REALTIME`.
    pub last_realtime: u64,
    /// Nanoseconds from `CLOCK_MONOTONIC` to `CLOCK_REALTIME`, as last found.
    pub clocks_apart: i64,
    pub packet: Vec<u8>,
}

impl<M: Medium> WriterCore<M> {
    pub fn create(
        mut medium: M,
        info: &LogHeader,
        options: LogOptions,
    ) -> Result<Self, WriteError> {
        let max_size = options.max_size;
        if options.policy != LogFullPolicy::Append {
            let least = least_size(info.attributes.max_data_size());
            if max_size < least {
                return Err(WriteError::TooSmall { max_size, least });
            }
            let end = REGION_START
                .saturating_add(max_size)
                .saturating_add(MAX_PACKET_BYTES as u64);
            if end > i64::MAX as u64 {
                return Err(WriteError::TooLarge { max_size });
            }
        }
        medium.set_len(0)?;
        let header = FileHeader {
            generation: 0,
            log_id: new_log_id(),
            info: info.clone(),
            options,
            system: sys::system(),
            content: Content::default(),
        };
        let region = Region::new(options.policy, max_size);
        let mut core = Self::with_header(medium, header, region);
        if let Err(error) = core.reserve() {
            // Some file systems keep the space that they found before they failed.
            core.medium.set_len(0)?;
            return Err(error);
        }
        core.write_header()?;
        Ok(core)
    }

    /// Returns a writer that has written nothing yet.
    pub fn with_header(medium: M, header: FileHeader, region: Region) -> Self {
        let clocks_apart = header.info.anchor.realtime_offset();
        let mut core = Self {
            medium,
            header,
            is_header_stale: true,
            builder: PacketBuilder::default(),
            packet_limit: 0,
            pending: Pending::default(),
            is_stalled: false,
            region,
            sequence: 0,
            losses: LossCounts::default(),
            losses_written: LossCounts::default(),
            losses_before: LossCounts::default(),
            stream_losses: LossCounts::default(),
            losses_cleared: LossCounts::default(),
            is_closed: false,
            is_overrun: false,
            last_time: MonotonicNs(0),
            ended: None,
            time_shift: 0,
            last_realtime: 0,
            clocks_apart,
            packet: Vec::new(),
        };
        core.set_packet_limit();
        core
    }

    /// Reserves space for the whole region, where the file system can.
    pub fn reserve(&mut self) -> Result<(), WriteError> {
        let Some(bytes) = self.region.capacity() else {
            return Ok(());
        };
        let Err(source) = self.medium.reserve(REGION_START + bytes) else {
            return Ok(());
        };
        match source.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => {
                Err(WriteError::NoSpace { bytes, source })
            }
            // The file system cannot reserve space: a write will fail if there is none.
            _ => Ok(()),
        }
    }

    pub fn append(
        &mut self,
        header: &EventHeader,
        data: &[u8],
        comm: &[u8],
        types: &EventTypes,
    ) -> Result<(), WriteError> {
        if self.is_closed {
            self.count_discarded();
            return Ok(());
        }
        let time = MonotonicNs(header.time.0.saturating_add(self.time_shift));
        let header = &EventHeader { time, ..*header };
        if time < self.last_time {
            self.count_unwritten(1);
            let late_ns = self.last_time.0 - time.0;
            return Err(WriteError::OutOfOrder { late_ns });
        }
        let mut result = Ok(());
        if self.builder.size_with(header.event_type, data, types) > self.packet_limit {
            let fits;
            (fits, result) = self.make_space(header, data, types);
            if !fits {
                return result;
            }
        }
        self.builder.push(header, data, comm, types);
        self.last_time = time;
        result
    }

    /// Records that all events up to this moment, on the clock of the events, were added.
    pub fn advance(&mut self, to: MonotonicNs) {
        let to = MonotonicNs(to.0.saturating_add(self.time_shift));
        self.ended = self.ended.max(Some(to));
    }

    /// Ends the current packet and finds out whether the event fits into a new one. If not, counts
    /// the event as lost.
    #[cold]
    fn make_space(
        &mut self,
        header: &EventHeader,
        data: &[u8],
        types: &EventTypes,
    ) -> (bool, Result<(), WriteError>) {
        if self.builder.count() > 0 {
            if self.pending.is_full() {
                // The flush that failed has returned the error.
                self.count_unwritten(1);
                return (false, Ok(()));
            }
            self.seal();
        }
        let mut result = Ok(());
        if !self.is_stalled {
            result = self.write_pending();
        }
        self.set_packet_limit();
        let needed = self.builder.size_with(header.event_type, data, types);
        if needed <= self.longest_packet(self.pending.bytes()) {
            return (true, result);
        }
        let policy = self.header.options.policy;
        if policy == LogFullPolicy::UntilFull && needed <= self.longest_packet_of_empty_log() {
            self.count_discarded();
            let stopped = self.stop(header.time, types);
            return (false, result.and(stopped));
        }
        self.count_unwritten(1);
        let max = self.longest_packet_of_empty_log();
        let max = max.saturating_sub(needed.saturating_sub(data.len()));
        let length = data.len();
        (false, Err(WriteError::EventTooLong { length, max }))
    }

    /// Returns the most bytes of a packet that can be written after `pending` bytes of others.
    fn longest_packet(&self, pending: usize) -> usize {
        self.without_reserve(self.region.space(pending))
            .min(MAX_PACKET_BYTES)
    }

    fn longest_packet_of_empty_log(&self) -> usize {
        let capacity = self.region.capacity().unwrap_or(u64::MAX);
        self.without_reserve(usize::try_from(capacity).unwrap_or(usize::MAX))
            .min(MAX_PACKET_BYTES)
    }

    fn without_reserve(&self, space: usize) -> usize {
        match self.header.options.policy {
            LogFullPolicy::UntilFull => space.saturating_sub(STOP_RESERVE),
            LogFullPolicy::Loop | LogFullPolicy::Append => space,
        }
    }

    /// Ends the log with a STOP: it is full.
    fn stop(&mut self, time: MonotonicNs, types: &EventTypes) -> Result<(), WriteError> {
        let header = EventHeader {
            time,
            event_type: EventTypeId::STOP,
            pid: 0,
            tid: 0,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        self.is_closed = true;
        self.last_time = time;
        self.builder
            .push(&header, &stop::AUTOMATIC.to_ne_bytes(), b"", types);
        self.seal();
        if self.is_stalled {
            Ok(())
        } else {
            self.write_pending()
        }
    }

    fn seal(&mut self) {
        let buffer = self.pending.buffer();
        self.pending.push(self.builder.seal(buffer));
    }

    pub fn set_packet_limit(&mut self) {
        let part = match (self.header.options.policy, self.region.capacity()) {
            (LogFullPolicy::Loop, Some(capacity)) => {
                usize::try_from(capacity / LOOP_PARTS).unwrap_or(usize::MAX)
            }
            _ => usize::MAX,
        };
        self.packet_limit = PACKET_TARGET
            .min(part)
            .min(self.longest_packet(self.pending.bytes()));
    }

    fn count_discarded(&mut self) {
        self.losses.discarded = self.losses.discarded.saturating_add(1);
        self.is_overrun = true;
    }

    fn count_unwritten(&mut self, events: u64) {
        self.losses.unwritten = self.losses.unwritten.saturating_add(events);
        self.is_overrun |= events > 0;
    }

    /// Records what was lost so far: every packet states the losses before its events.
    pub fn count_losses(&mut self, lost: &Ledger) {
        self.stream_losses = LossCounts::from_ledger(lost);
        self.losses.set_stream(
            &self.losses_before,
            &self.losses_cleared,
            &self.stream_losses,
        );
    }

    pub fn flush(&mut self, lost: &Ledger) -> Result<(), WriteError> {
        self.count_losses(lost);
        self.write_pending()?;
        if self.builder.count() > 0 {
            self.seal();
            self.write_pending()?;
        }
        self.set_packet_limit();
        if self.losses != self.losses_written {
            self.header.content.losses = self.losses;
            self.write_header()?;
            self.losses_written = self.losses;
        }
        Ok(())
    }

    /// Writes what is sealed. After an error the rest waits for the next flush.
    fn write_pending(&mut self) -> Result<(), WriteError> {
        self.is_stalled = true;
        if self.is_header_stale {
            self.write_header()?;
        }
        while self.write_first_pending()? {}
        self.is_stalled = false;
        Ok(())
    }

    /// Returns whether there was something to be written.
    fn write_first_pending(&mut self) -> Result<bool, WriteError> {
        let Some(packet) = self.pending.first() else {
            return Ok(false);
        };
        let length = packet.length(&self.losses);
        let (offset, overwritten) = self.region.allocate(length);
        self.losses.overwritten = self.losses.overwritten.saturating_add(overwritten);
        self.is_overrun |= overwritten > 0;
        let clocks = self.medium.clocks();
        self.losses.counted_by = clocks.monotonic.0;
        let realtime_offset = self.realtime_offset(clocks.realtime_offset(), packet.first_time);
        let Some(packet) = self.pending.first() else {
            return Ok(false);
        };
        let context = PacketContext {
            log_id: self.header.log_id,
            sequence: self.sequence,
            oldest_sequence: self.region.oldest_sequence(self.sequence),
            realtime_offset,
            losses: &self.losses,
        };
        packet.write_to(&mut self.packet, &context);
        // The next attempt overwrites a torn write: it goes to the same offset.
        self.medium.write_all_at(&self.packet, offset)?;
        self.region
            .written(self.packet.len(), packet.count, self.sequence);
        self.last_realtime = packet.last_time.0.saturating_add_signed(realtime_offset);
        self.sequence = self.sequence.saturating_add(1);
        self.losses_written = self.losses;
        self.pending.pop();
        Ok(true)
    }

    /// Returns the nanoseconds to add to the times of a packet to have them on `CLOCK_REALTIME`.
    /// Where that clock was set back, time pauses between two packets rather than going back.
    fn realtime_offset(&mut self, read: i64, first_time: MonotonicNs) -> i64 {
        if read.abs_diff(self.clocks_apart) > READ_APART_NS {
            self.clocks_apart = read;
        }
        let now = self.clocks_apart.saturating_sub_unsigned(self.time_shift);
        let missing = self
            .last_realtime
            .saturating_sub(first_time.0.saturating_add_signed(now));
        now.saturating_add_unsigned(missing)
    }

    pub fn write_header(&mut self) -> Result<(), WriteError> {
        self.is_header_stale = true;
        self.header.generation = self.header.generation.saturating_add(1);
        let bytes = self.header.to_bytes();
        // The second copy first: one of them is whole at any moment.
        for offset in HEADER_COPIES.into_iter().rev() {
            self.medium.write_all_at(&bytes, offset)?;
        }
        self.is_header_stale = false;
        Ok(())
    }

    pub fn begin_at(&mut self, anchor: ClockPair) -> Result<(), WriteError> {
        self.header.info.anchor = anchor;
        self.header.info.attributes.creation_time = anchor.realtime;
        self.clocks_apart = anchor.realtime_offset();
        // A reader that has read the header takes the log for another one now.
        self.header.log_id = new_log_id();
        self.write_header()
    }

    pub fn clear(&mut self) -> Result<(), WriteError> {
        let options = self.header.options;
        self.builder.clear();
        self.pending.clear();
        self.region = Region::new(options.policy, options.max_size);
        self.set_packet_limit();
        self.sequence = 0;
        self.losses = LossCounts::default();
        self.losses_written = LossCounts::default();
        self.losses_before = LossCounts::default();
        self.losses_cleared = self.stream_losses;
        self.is_closed = false;
        self.is_stalled = false;
        self.is_overrun = false;
        self.ended = None;
        self.header.log_id = new_log_id();
        self.header.content = Content::default();
        self.write_header()?;
        if options.policy == LogFullPolicy::Loop {
            // Readers skip packets with another log's id: the file keeps its length.
            return Ok(());
        }
        self.medium.set_len(REGION_START)?;
        self.reserve()
    }

    pub fn is_full(&self) -> bool {
        self.is_closed || self.region.is_overwriting()
    }

    pub fn take_overrun(&mut self) -> bool {
        std::mem::take(&mut self.is_overrun)
    }

    pub fn lost_in_log(&self) -> u64 {
        self.losses.in_log()
    }

    pub fn complete(
        &mut self,
        types: &EventTypes,
        lost: &Ledger,
        mut status: FinalStatus,
    ) -> Result<(), WriteError> {
        let mut result = self.flush(lost);
        if let Err(error) = &result {
            if status.flush_error == 0 {
                status.flush_error = error.error_number();
            }
            self.give_up_pending();
        }
        status.is_log_full |= self.is_full();
        status.is_log_overrun |= self.is_overrun;
        let trailer = self.write_trailer(types, status);
        if trailer.is_err() {
            self.truncate_file();
        }
        self.header.content = Content {
            status: Some(status),
            packets: self.sequence,
            oldest: self.region.oldest_sequence(self.sequence),
            events: self.region.events(),
            trailer: *trailer.as_ref().unwrap_or(&0),
            losses: self.losses,
            ended: self.ended(),
        };
        result = result.and(trailer.map(|_offset| ()));
        result.and(self.write_header())
    }

    /// Returns when the trace in the log ended; `None` if [`advance`](Self::advance) was never
    /// called.
    fn ended(&self) -> Option<MonotonicNs> {
        let ended = self.ended?.max(self.last_time);
        // Events after the log was full are not in it.
        Some(if self.is_closed {
            self.last_time
        } else {
            ended
        })
    }

    /// Counts the events that still could not be written as lost, and frees the space of a torn
    /// write.
    fn give_up_pending(&mut self) {
        self.count_unwritten(self.pending.events() + u64::from(self.builder.count()));
        self.pending.clear();
        self.builder.clear();
        self.truncate_file();
    }

    /// Removes the bytes of a write that failed. If this fails too, readers skip them.
    fn truncate_file(&mut self) {
        let _ = self.medium.set_len(self.region.end());
    }

    /// Writes the trailer, and returns its offset.
    fn write_trailer(
        &mut self,
        types: &EventTypes,
        status: FinalStatus,
    ) -> Result<u64, WriteError> {
        let bytes = trailer::to_bytes(types, status, self.header.log_id);
        let offset = self.region.trailer();
        self.medium.write_all_at(&bytes, offset)?;
        // Frees space that was reserved and not used.
        self.medium.set_len(offset + bytes.len() as u64)?;
        Ok(offset)
    }
}
