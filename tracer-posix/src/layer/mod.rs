//! Spans and events of the `tracing` crate as user events.
//!
//! ```no_run
//! use tracing_subscriber::prelude::*;
//!
//! tracing_subscriber::registry().with(tracer_posix::layer()).init();
//! ```
//!
//! A span gives two event types, `enter NAME` and `exit NAME`, whose data is the span's fields. An
//! event gives one, with its fields as data. An event without a name of its own is called by its
//! target and line. Names are cut to `{TRACE_EVENT_NAME_MAX}` bytes, and data to what the layer
//! keeps: 512 bytes.
//!
//! While nobody traces the process, each costs a load and a branch more than without the layer. An
//! event allocates nothing; a span keeps its fields' text while it lives.

mod callsites;
mod text;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::area::emitter;
use crate::emit::UserEvent;
use callsites::Callsites;
use text::Text;

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

/// The text of a span's fields, kept with the span.
struct SpanFields(Box<str>);

impl<S> Layer<S> for TraceLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.callsites.define(metadata);
        // Whether anybody traces changes all the time, and is asked at each event.
        Interest::always()
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if !emitter::is_traced() {
            return;
        }
        let mut text = Text::default();
        attributes.record(&mut text);
        keep(&context, id, &text);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if !emitter::is_traced() {
            return;
        }
        let mut text = Text::default();
        with_fields(&context, id, |fields| text.push(fields));
        values.record(&mut text);
        keep(&context, id, &text);
    }

    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        if !emitter::is_traced() {
            return;
        }
        let mut text = Text::default();
        event.record(&mut text);
        self.types(event.metadata()).begin.emit(text.as_bytes());
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        self.on_border(id, &context, |types| types.begin);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        self.on_border(id, &context, |types| types.end);
    }
}

impl TraceLayer {
    fn types(&self, metadata: &'static Metadata<'static>) -> Types {
        // A callsite that was there before the layer was made is defined by its first event.
        self.callsites
            .find(metadata)
            .unwrap_or_else(|| self.callsites.define(metadata))
    }

    fn on_border<S>(
        &self,
        id: &Id,
        context: &Context<'_, S>,
        which: impl FnOnce(Types) -> UserEvent,
    ) where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        if !emitter::is_traced() {
            return;
        }
        let Some(metadata) = context.metadata(id) else {
            return;
        };
        let event = which(self.types(metadata));
        let mut is_emitted = false;
        with_fields(context, id, |fields| {
            event.emit(fields.as_bytes());
            is_emitted = true;
        });
        if !is_emitted {
            event.emit(b"");
        }
    }
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
