//! Tally of a round's events: read, lost, in order.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use tracer_engine::ActiveStream;
use tracer_posix::EventTypeId;

use crate::world::{HANDLERS, filling_of, world};

/// Outcome of a round.
#[derive(Default)]
pub struct Tally {
    pub seen: u64,
    pub lost: u64,
    pub has_seen_start: bool,
    next: HashMap<u64, u64>,
}

impl Tally {
    /// Reads what is there, but no longer than this: others may emit faster than it is read.
    pub fn read(&mut self, stream: &mut ActiveStream, until: Instant) -> anyhow::Result<()> {
        while Instant::now() < until
            && let Some(event) = stream.try_next_event()
        {
            if event.header.event_type == EventTypeId::START {
                self.has_seen_start = true;
            }
            if event.header.event_type != world().event.id() {
                continue;
            }
            let (sender, rest) = event.data.split_first_chunk().context("no sender")?;
            let (sequence, filling) = rest.split_first_chunk().context("no sequence number")?;
            let sender = u64::from_ne_bytes(*sender);
            let sequence = u64::from_ne_bytes(*sequence);
            let byte = u8::try_from(sequence % 251)?;
            ensure!(
                filling.len() == filling_of(sequence) && filling.iter().all(|is| *is == byte),
                "event {sequence} of sender {sender} has another's data"
            );
            if sender != HANDLERS as u64 {
                let next = self.next.entry(sender).or_default();
                ensure!(
                    sequence >= *next,
                    "event {sequence} of sender {sender} came after {next}"
                );
                *next = sequence + 1;
            }
            self.seen += 1;
        }
        Ok(())
    }
}
