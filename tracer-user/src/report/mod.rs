//! How events are shown: text for people, JSON lines and CSV for programs.

pub mod call_shape;
mod call_times;
mod calls;
mod columns;
mod csv;
pub mod digits;
pub mod escape;
pub mod fields;
mod gap;
mod json;
pub mod kernel_words;
pub mod probe;
pub mod recorded;
mod results;
mod short_name;
mod shorten;
mod signals;
mod summary;
pub mod task_state;
mod text;
pub mod typed;
pub mod value_names;
pub mod waits_in;
mod wall_clock;
pub mod words;

pub use csv::Csv;
pub use gap::{Gap, Missing};
pub use json::{JsonLines, push_data};
pub use short_name::push_short_name;
pub use signals::{signal_name, signal_number};
pub use summary::{LogCondition, Summary, Written, but_for};
pub use text::{Look, Text, TextStyle, TimeColumn};
pub use wall_clock::WallClock;

use tracer_engine::event::MonotonicNs;
use tracer_engine::{EventTypes, Ledger};

use crate::event_view::EventView;

/// One way of showing events. People and programs never share one.
pub trait Report {
    /// Appends what goes before the first event.
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    /// Event types have come: these are all that are known.
    fn learn(&mut self, _types: &EventTypes) {}

    /// Events are missing before the next one.
    fn lose(&mut self, _gap: Gap) {}

    /// So much was lost by now, by cause.
    fn count_losses(&mut self, _lost: &Ledger) {}

    /// No event has come for a while: appends what waits to be shown since then.
    fn wait(&mut self, _out: &mut Vec<u8>, _now: MonotonicNs) {}

    /// Appends one event, with its line end.
    fn event(&mut self, out: &mut Vec<u8>, line: &EventView<'_>);

    /// Appends what follows the last event.
    fn end(&mut self, out: &mut Vec<u8>, summary: &Summary);

    /// Why there is no answer to what was asked, once, after the end; `None` where there is one.
    fn unanswered(&mut self) -> Option<String> {
        None
    }
}
