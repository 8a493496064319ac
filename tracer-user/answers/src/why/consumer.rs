//! Causes of the durations of spans of a running trace.

use anyhow::anyhow;
use tracer_text::say;

use super::{Why, json, text};
use crate::queries::{Answering, Paths, Question, SpanChoice};
use tracer_event::consumer::{Consumer, Lines};
use tracer_event::document::document;

/// Returns the consumer that answers a question at the end of a trace; the answer, or JSON, is
/// appended to `lines`.
#[must_use]
pub fn consumer(
    question: Question,
    choice: SpanChoice,
    (is_brief, is_json): (bool, bool),
    lines: Lines,
) -> Box<dyn Consumer> {
    let paths = Paths::new(question, choice);
    Box::new(Answering::new(paths, move |paths, summary| {
        let why = Why::finish(paths, summary);
        let unanswered = why.unanswered();
        if unanswered.is_none() {
            why.paths.unmet().iter().for_each(|unmet| say(unmet));
        }
        let shown = if is_json {
            document(&json(&why))
        } else {
            text(&why, is_brief)
        };
        lines.bytes().extend_from_slice(shown.as_bytes());
        match unanswered {
            Some(why) => Err(anyhow!(why)),
            None => Ok(()),
        }
    }))
}
