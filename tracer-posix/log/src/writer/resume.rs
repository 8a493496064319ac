//! Continuing a log that is there already.

use std::fs::File;

use super::core::WriterCore;
use crate::encode::single_event_packet;
use crate::error::WriteError;
use crate::file_header::Content;
use crate::medium::{LogFile, Medium};
use crate::packet_scanner::Found;
use crate::reader::LogReader;
use crate::region::Region;
use tracer_engine::event::MonotonicNs;
use tracer_engine::{EventTypes, LogFullPolicy};

/// Reads the log to its last whole packet, and makes a writer that goes on there.
pub(super) fn resume(file: File) -> Result<(WriterCore<LogFile>, EventTypes), WriteError> {
    let mut reader = LogReader::open(file)?;
    let header = reader.file_header().clone();
    let options = header.options;
    let mut region = Region::new(options.policy, options.max_size);
    let mut last: Option<Found> = None;
    while reader.load_packet()? {
        if let Some(found) = reader.packet_at_hand() {
            let packet = found.header;
            let is_overwritten = packet.oldest_sequence > 0;
            if options.policy == LogFullPolicy::Loop && is_overwritten {
                return Err(WriteError::Overwritten);
            }
            region.found(found.offset, packet.length, packet.events, packet.sequence);
            last = Some(found);
        }
    }
    let losses = reader.losses();
    let was_full = reader
        .final_status()
        .is_some_and(|status| status.is_log_full);
    let types = reader.event_types().clone();

    let medium = LogFile(reader.into_bytes());
    let mut core = WriterCore::with_header(medium, header, region);
    core.losses = losses;
    core.losses_written = losses;
    core.losses_before = losses;
    if let Some(last) = last {
        core.sequence = last.header.sequence.saturating_add(1);
        core.go_on_after(&last);
    }
    let is_full = core.packet_limit < single_event_packet(0, None);
    if options.policy == LogFullPolicy::UntilFull && (was_full || is_full) {
        return Err(WriteError::Full);
    }
    core.header.content = Content {
        losses,
        ..Content::default()
    };
    core.write_header()?;
    let end = core.region.end();
    core.medium.set_len(end)?;
    core.reserve()?;
    Ok((core, types))
}

impl<M: Medium> WriterCore<M> {
    /// Makes the times of new events follow those of the log.
    fn go_on_after(&mut self, last: &Found) {
        let packet = &last.header;
        let realtime_offset = packet.realtime_offset;
        self.last_time = MonotonicNs(packet.last_time);
        self.last_realtime = packet.last_time.saturating_add_signed(realtime_offset);
        self.clocks_apart = realtime_offset;
        let now = self.medium.clocks();
        if now.monotonic.0 < packet.last_time {
            // The machine was restarted, and its clock with it. The times of the log continue as if
            // the clock had not stopped.
            let as_if = now
                .realtime
                .0
                .saturating_add_signed(realtime_offset.saturating_neg());
            let goes_on_at = as_if.max(packet.last_time);
            self.time_shift = goes_on_at - now.monotonic.0;
            self.clocks_apart = now.realtime_offset();
        }
    }
}
