//! Spans and events of the `tracing` crate as user events.
//!
//! ```no_run
//! use tracing_subscriber::prelude::*;
//!
//! tracing_subscriber::registry().with(tracer_posix::layer()).init();
//! ```
//!
//! A span gives two event types, `enter NAME` and `exit NAME`; an event gives one, which is called
//! by its target and line where it has no name of its own. The data is text: `level=INFO span=3`
//! and then the fields. The span of an event is the one that it is in; its id is the subscriber's,
//! which gives it to another once the span is closed.
//!
//! A name that is longer than `{TRACE_EVENT_NAME_MAX}` has a hash instead of its middle. When all
//! `{TRACE_USER_EVENT_MAX}` types are used up, events have the unnamed type, and their data begins
//! with their name. A callsite takes its types with the first of its events that is traced. Data is
//! recorded up to 512 bytes; what was truncated ends with an ellipsis.
//!
//! While nobody traces the process, an event costs a load and a branch more than without the layer.
//! A span keeps the text of its fields, if it has any, while it lives: a stream that begins later
//! shows them.

mod callsites;
mod names;
mod text;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::emit::UserEvent;
use callsites::Callsites;
use names::{Border, full_name};
use text::Text;
use tracer_area::emitter;

/// What [`layer()`] makes.
#[derive(Debug)]
pub struct TraceLayer {
    callsites: &'static Callsites,
}

/// A layer that makes spans and events user events of this process.
#[must_use]
pub fn layer() -> TraceLayer {
    TraceLayer {
        callsites: callsites::all(),
    }
}

/// The text of a span's fields, stored with the span.
struct SpanFields(Box<str>);

impl<S> Layer<S> for TraceLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn register_callsite(&self, _metadata: &'static Metadata<'static>) -> Interest {
        // Whether anybody traces changes all the time, and is asked at each event.
        Interest::always()
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut text = Text::default();
        attributes.record(&mut text);
        keep(&context, id, &text);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut text = Text::default();
        with_fields(&context, id, |fields| text.push(fields));
        values.record(&mut text);
        keep(&context, id, &text);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if !emitter::is_traced() {
            return;
        }
        let metadata = event.metadata();
        let user_event = self.types(metadata).begin;
        let span = context.event_span(event).map(|span| span.id());
        let mut text = head(user_event, metadata, Border::Begin, span.as_ref());
        event.record(&mut text);
        user_event.emit(text.as_bytes());
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        self.on_border(id, &context, Border::Begin);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        self.on_border(id, &context, Border::End);
    }
}

impl TraceLayer {
    fn types(&self, metadata: &'static Metadata<'static>) -> Types {
        self.callsites
            .find(metadata)
            .unwrap_or_else(|| self.callsites.define(metadata))
    }

    fn on_border<S>(&self, id: &Id, context: &Context<'_, S>, border: Border)
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        if !emitter::is_traced() {
            return;
        }
        let Some(metadata) = context.metadata(id) else {
            return;
        };
        let types = self.types(metadata);
        let event = match border {
            Border::Begin => types.begin,
            Border::End => types.end,
        };
        let mut text = head(event, metadata, border, Some(id));
        with_fields(context, id, |fields| {
            text.push(" ");
            text.push(fields);
        });
        event.emit(text.as_bytes());
    }
}

/// How the data of each event begins.
fn head(event: UserEvent, metadata: &Metadata<'_>, border: Border, span: Option<&Id>) -> Text {
    let mut text = Text::default();
    if event == UserEvent::UNNAMED {
        text.field("name", format_args!("{}", full_name(metadata, border)));
    }
    text.field("level", format_args!("{}", metadata.level()));
    if let Some(span) = span {
        text.field("span", format_args!("{}", span.into_u64()));
    }
    text
}

/// The event types of a callsite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Types {
    /// Of an event, or of entering a span.
    begin: UserEvent,
    /// Of leaving a span.
    end: UserEvent,
}

fn keep<S>(context: &Context<'_, S>, id: &Id, text: &Text)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    if text.is_empty() {
        return;
    }
    if let Some(span) = context.span(id) {
        let fields = SpanFields(text.as_str().into());
        span.extensions_mut().replace(fields);
    }
}

fn with_fields<S>(context: &Context<'_, S>, id: &Id, act: impl FnOnce(&str))
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    if let Some(span) = context.span(id)
        && let Some(fields) = span.extensions().get::<SpanFields>()
    {
        act(&fields.0);
    }
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.field(field.name(), format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.field(field.name(), format_args!("{value:?}"));
    }
}
