//! Conversion of logs and running traces to the formats of other tools, event by event: memory does
//! not grow with their number.
//!
//! - each [`ExportFormat`] is a consumer of events: [`perfetto`], [`chrome`], [`ctf`], [`parquet`];
//! - `parts` finds out which events begin and end slices (system calls, interrupts, `pairs` of user
//!   events), and `slices` puts them below each other;
//! - `plain` reduces the fields of system events to the few kinds of values that formats have.

// Whatever comes from outside is no reason to end the program.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stdout
    )
)]

mod carried;
pub mod chrome;
pub mod ctf;
mod format;
mod live;
mod names;
pub mod parquet;
mod parts;
pub mod perfetto;
mod plain;
mod run;
mod slices;
#[cfg(test)]
mod testing;

pub use format::{ExportFormat, FORMATS};
pub use live::LiveExport;
pub use run::{ExportSetup, export};

use std::rc::Rc;

use tracer_engine::Attributes;
use tracer_engine::ClockPair;
use tracer_log::System;
use tracer_tables::TableDefinition;

use tracer_common::event_type::EventTypeId;

/// Function that tells whether an event type is looked at.
pub type IsWanted = Rc<dyn Fn(EventTypeId, &[u8]) -> bool>;

/// Facts about a trace that are known before its first event.
#[derive(Clone)]
pub struct TraceOrigin {
    /// Attributes of its stream.
    pub attributes: Attributes,
    /// Clock pair of the moment when it was made.
    pub anchor: ClockPair,
    /// System that it was made on.
    pub system: System,
    /// Choice of the user event types that are looked at, by identifier and name.
    pub is_wanted: IsWanted,
    /// Table that is made, by a format of tables.
    pub table: TableChoice,
}

/// Table that is made of a trace, and what its rows say of where they are from.
#[derive(Clone, Debug)]
pub struct TableChoice {
    /// The table.
    pub table: &'static TableDefinition,
    /// Name of the host, where it is known.
    pub host: Option<String>,
    /// Boot of the host, where it is known.
    pub boot_id: Option<String>,
}

impl Default for TableChoice {
    fn default() -> Self {
        Self {
            table: TableDefinition::events(),
            host: None,
            boot_id: None,
        }
    }
}
