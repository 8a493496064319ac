//! Stacks whose events have not come yet.

use std::collections::HashMap;

use tracer_engine::event::{Event, EventHeader};

use super::Taken;

/// Stacks that wait at a time. Beyond that, all are forgotten: their events were not wanted.
const MOST: usize = 16_384;

/// Stacks by the time and thread of their events.
#[derive(Debug, Default)]
pub struct Pending(HashMap<(u64, i32), Vec<u8>>);

impl Pending {
    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes a stack that belongs to an event, until that comes; false where it is an event of its
    /// own.
    pub fn put(&mut self, event: &Event<'_>) -> bool {
        match Taken::of(event.data) {
            Some(taken) if taken.head.event_type != 0 => {
                if self.0.len() >= MOST {
                    self.0.clear();
                }
                let header = &event.header;
                self.0
                    .insert((header.time.0, header.tid), event.data.to_vec());
                true
            }
            _ => false,
        }
    }

    /// The stack of the event with this header.
    pub fn take(&mut self, header: &EventHeader) -> Option<Vec<u8>> {
        if self.0.is_empty() {
            return None;
        }
        let key = (header.time.0, header.tid);
        let taken = Taken::of(self.0.get(&key)?)?;
        if taken.head.event_type != header.event_type.0 {
            return None;
        }
        self.0.remove(&key)
    }
}
