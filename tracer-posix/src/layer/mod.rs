//! Spans and events of the `tracing` crate as user events.
//!
//! ```no_run
//! use tracing_subscriber::prelude::*;
//!
//! tracing_subscriber::registry().with(tracer_posix::layer()).init();
//! ```
//!
//! A span gives four event types: `new NAME`, when it is made; `enter NAME` and `exit NAME`, of
//! which a span of an asynchronous function has many, on any thread; and `close NAME`, when it is
//! over. An event gives one, which is called by its target and line where it has no name of its
//! own. The data is text: `level=INFO span=3` and then the fields; of `new` and `close`, only
//! `span=3`. The span of an event is the one that it is in; its id is the subscriber's, which gives
//! it to another once the span is closed.
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
use names::{Moment, full_name};
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
        if emitter::is_traced() {
            self.on_lifetime(id, attributes.metadata(), Moment::New);
        }
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
        let user_event = self.types(metadata).enter;
        let span = context.event_span(event).map(|span| span.id());
        let mut text = head(user_event, metadata, Moment::Enter, span.as_ref());
        event.record(&mut text);
        user_event.emit(text.as_bytes());
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        self.on_border(id, &context, Moment::Enter);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        self.on_border(id, &context, Moment::Exit);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        // To ask for its metadata costs more than all the rest of a span that nobody traces.
        if emitter::is_traced()
            && let Some(metadata) = context.metadata(&id)
        {
            self.on_lifetime(&id, metadata, Moment::Close);
        }
    }
}

impl TraceLayer {
    fn types(&self, metadata: &'static Metadata<'static>) -> Types {
        self.callsites
            .find(metadata)
            .unwrap_or_else(|| self.callsites.define(metadata))
    }

    /// A span was made, or is over, in a process that is traced. Not in line: its text would take
    /// space on the stack of those that are not.
    #[inline(never)]
    fn on_lifetime(&self, id: &Id, metadata: &'static Metadata<'static>, moment: Moment) {
        let event = self.types(metadata).of(moment);
        let mut text = Text::default();
        push_name(&mut text, event, metadata, moment);
        push_span(&mut text, id);
        event.emit(text.as_bytes());
    }

    fn on_border<S>(&self, id: &Id, context: &Context<'_, S>, moment: Moment)
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        if !emitter::is_traced() {
            return;
        }
        let Some(metadata) = context.metadata(id) else {
            return;
        };
        let event = self.types(metadata).of(moment);
        let mut text = head(event, metadata, moment, Some(id));
        with_fields(context, id, |fields| {
            text.push(" ");
            text.push(fields);
        });
        event.emit(text.as_bytes());
    }
}

/// How the data of most events begins.
fn head(event: UserEvent, metadata: &Metadata<'_>, moment: Moment, span: Option<&Id>) -> Text {
    let mut text = Text::default();
    push_name(&mut text, event, metadata, moment);
    text.field("level", format_args!("{}", metadata.level()));
    if let Some(span) = span {
        push_span(&mut text, span);
    }
    text
}

/// The name, where the type has none.
fn push_name(text: &mut Text, event: UserEvent, metadata: &Metadata<'_>, moment: Moment) {
    if event == UserEvent::UNNAMED {
        text.field("name", format_args!("{}", full_name(metadata, moment)));
    }
}

fn push_span(text: &mut Text, span: &Id) {
    text.field("span", format_args!("{}", span.into_u64()));
}

/// The event types of a callsite; those of an event are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Types {
    new: UserEvent,
    enter: UserEvent,
    exit: UserEvent,
    close: UserEvent,
}

impl Types {
    fn of(self, moment: Moment) -> UserEvent {
        match moment {
            Moment::New => self.new,
            Moment::Enter => self.enter,
            Moment::Exit => self.exit,
            Moment::Close => self.close,
        }
    }
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
