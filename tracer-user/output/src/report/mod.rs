//! Formats of events: text for people, JSON lines and CSV for programs.

mod calls;
mod columns;
mod csv;
mod json;
mod text;

pub use calls::CallTimes;
pub use csv::Csv;
pub use json::{JsonLines, push_data, push_field};
pub use text::{TextLines, TextLook, TextStyle, TimeColumn};

use tracer_engine::event::MonotonicNs;

use tracer_event::consumer::{Consumer, Lines};
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::summary::Summary;

/// Format that shows events as lines. People and programs never share one.
pub trait LineFormat {
    /// Appends the lines before the first event.
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    /// Notes that events are missing before the next one.
    fn gap(&mut self) {}

    /// Appends lines that wait to be shown, as no event has come up to `now`.
    fn idle(&mut self, _out: &mut Vec<u8>, _now: MonotonicNs) {}

    /// Appends one event, with its line end.
    fn event(&mut self, out: &mut Vec<u8>, view: &EventView<'_>);

    /// Appends the lines after the last event.
    fn end(&mut self, out: &mut Vec<u8>, summary: &Summary);
}

/// Consumer that shows events as lines of one format.
pub struct Report<F> {
    format: F,
    lines: Lines,
    has_begun: bool,
}

impl<F: LineFormat> Report<F> {
    /// Returns a report that appends to `lines`.
    pub fn new(format: F, lines: Lines) -> Self {
        Self {
            format,
            lines,
            has_begun: false,
        }
    }
}

impl<F: LineFormat> Consumer for Report<F> {
    fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.format.begin(&mut self.lines.bytes());
        }
    }

    fn gap(&mut self, _: &Gap) {
        self.format.gap();
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        self.begin();
        self.format.event(&mut self.lines.bytes(), view);
        Ok(())
    }

    fn idle(&mut self, now: MonotonicNs) {
        self.format.idle(&mut self.lines.bytes(), now);
    }

    fn finish(mut self: Box<Self>, summary: &Summary) -> anyhow::Result<()> {
        self.format.end(&mut self.lines.bytes(), summary);
        Ok(())
    }
}
