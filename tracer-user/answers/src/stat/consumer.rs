//! Sums over a running trace.

use tracer_text::say;

use super::{Statistics, Sums, View, json, text};
use crate::queries::{Answering, SpanSpec};
use tracer_event::consumer::{Consumer, Lines};
use tracer_event::document::document;

/// Returns the consumer that sums up a trace; the tables, or JSON, are appended to `lines` at its
/// end.
#[must_use]
pub fn consumer(
    spans: Vec<SpanSpec>,
    view: View,
    is_json: bool,
    lines: Lines,
) -> Box<dyn Consumer> {
    Box::new(Answering::new(Sums::new(spans), move |sums, summary| {
        let statistics = Statistics::finish(sums, summary);
        if statistics.paths.has_named_spans() {
            statistics.paths.unmet().iter().for_each(|unmet| say(unmet));
        }
        let shown = if is_json {
            document(&json(&statistics, view))
        } else {
            text(&statistics, view)
        };
        lines.bytes().extend_from_slice(shown.as_bytes());
        Ok(())
    }))
}
