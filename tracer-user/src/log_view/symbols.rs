//! The names of addresses that a log has. They are at its end: whoever shows stacks asks for them
//! before.

use std::path::Path;

use tracer_common::event_type::EventTypeId;
use tracer_engine::event::Event;

use super::open;

/// Hands over each event that names an address.
pub fn each_symbol(log: &Path, mut each: impl FnMut(&Event<'_>)) {
    let Ok(mut log) = open(log) else { return };
    while let Ok(Some(record)) = log.next_record() {
        if record.event.header.event_type == EventTypeId::SYMBOL {
            each(&record.event);
        }
    }
}
