//! Names of addresses that a log has. They are at its end, and asked for before stacks are shown.

use std::path::Path;

use tracer_common::event_type::EventTypeId;
use tracer_engine::event::Event;

use super::open;

/// Hands over each event that names an address.
pub fn each_symbol(log: &Path, each: &mut dyn FnMut(&Event<'_>)) {
    let Ok(mut log) = open(log) else { return };
    while let Ok(Some(record)) = log.next_record() {
        if record.event.header.event_type == EventTypeId::SYMBOL {
            each(&record.event);
        }
    }
}
