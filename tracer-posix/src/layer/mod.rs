//! Spans and events of the `tracing` crate as user events.
//!
//! ```no_run
//! use tracing_subscriber::prelude::*;
//!
//! tracing_subscriber::registry().with(tracer_posix::layer()).init();
//! ```
//!
//! A span has four event types: `new NAME`, when it is made; `enter NAME` and `exit NAME`, which a
//! span of an asynchronous function emits many times, on any thread; and `close NAME`, when it is
//! over. `NAME` is the span's target and its own name, as in `server::http::request`. The target is
//! the path of the span's module, unless the program gives another. An event has one type, which is
//! named in the same way, or by its target and line if it has no name of its own.
//!
//! The data is text that a reader gets back exactly ([`fields`](tracer_engine::fields)):
//! `level=INFO span=3 "it works" code=3`. A `new` event has the span's parent, an `enter` event
//! also the spans that it follows from. Both, and `exit` events, have the span's fields; a `close`
//! event has them if some were recorded that no other event has shown. An event of the type
//! `follows_from` says that a span follows from another. An event of the program has the span that
//! it is in. The ids of spans are the subscriber's, which uses an id again once its span is closed.
//!
//! A name that is longer than `{TRACE_EVENT_NAME_MAX}` has a hash instead of a part of it. These
//! types do not count among the `{TRACE_USER_EVENT_MAX}` that a process may open; a process and its
//! family may have 32,766 names. When these are used up, events have the unnamed type, and their
//! data begins with their name. A callsite takes its types when one of its events is traced for the
//! first time. Data is recorded up to 1024 bytes; truncated data says so.
//!
//! While no stream traces the process, an event costs a load and a branch more than without the
//! layer. A span keeps the text of its fields, if it has any, while it lives, so that a stream that
//! begins later has them.

mod callsites;
mod held;
mod names;

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use tracer_engine::fields::{Level, Writer};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::emit::UserEvent;
use callsites::Callsites;
use held::Held;
use held::Visitor;
use names::{Moment, full_name};
use tracer_area::emitter;
use tracer_common::event_type::EventTypeId;

/// The layer that [`layer()`] makes.
#[derive(Debug)]
pub struct TraceLayer {
    callsites: &'static Callsites,
}

/// Returns a layer that turns spans and events into user events of this process.
#[must_use]
pub fn layer() -> TraceLayer {
    TraceLayer {
        callsites: callsites::all(),
    }
}

impl<S> Layer<S> for TraceLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn register_callsite(&self, _metadata: &'static Metadata<'static>) -> Interest {
        // The process may be traced from any moment on: each event asks.
        Interest::always()
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if !attributes.values().is_empty() {
            hold_fields(attributes, id, &context);
        }
        if emitter::is_traced() {
            self.on_lifetime(id, attributes.metadata(), &context, Moment::New);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut fields = Held::writer();
        values.record(&mut Visitor::for_span(&mut fields));
        if !fields.is_empty() {
            with_held(&context, id, |held| held.record(&fields));
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        with_held(&context, id, |held| held.follow(follows.into_u64()));
        if emitter::is_traced() {
            emit_follows(id, follows);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if !emitter::is_traced() {
            return;
        }
        let metadata = event.metadata();
        let user_event = self.types(metadata).enter;
        let mut data = Writer::new();
        push_name(&mut data, user_event, metadata, Moment::Enter);
        data.level(level_of(metadata));
        if let Some(span) = context.event_span(event) {
            data.span(span.id().into_u64());
        }
        event.record(&mut Visitor::for_event(&mut data));
        user_event.emit(data.as_bytes());
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if emitter::is_traced() {
            self.on_border(id, &context, Moment::Enter);
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        if emitter::is_traced() {
            self.on_border(id, &context, Moment::Exit);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        // Looking up the metadata costs more than all the rest of a span that is not traced.
        if emitter::is_traced()
            && let Some(metadata) = context.metadata(&id)
        {
            self.on_lifetime(&id, metadata, &context, Moment::Close);
        }
    }
}

impl TraceLayer {
    fn types(&self, metadata: &'static Metadata<'static>) -> Types {
        self.callsites
            .find(metadata)
            .unwrap_or_else(|| self.callsites.define(metadata))
    }

    /// Emits that a span was made, or is over, in a traced process. Not inlined: its buffer would
    /// take space on the stack of processes that are not traced.
    #[inline(never)]
    fn on_lifetime<S>(
        &self,
        id: &Id,
        metadata: &'static Metadata<'static>,
        context: &Context<'_, S>,
        moment: Moment,
    ) where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let event = self.types(metadata).select(moment);
        let mut data = Writer::new();
        push_name(&mut data, event, metadata, moment);
        if moment == Moment::New {
            data.level(level_of(metadata));
        }
        data.span(id.into_u64());
        if let Some(span) = context.span(id) {
            if moment == Moment::New {
                push_parent(&mut data, &span);
            }
            if let Some(held) = span.extensions().get::<Held>() {
                match moment {
                    Moment::New => held.push_fields(&mut data),
                    Moment::Enter | Moment::Exit | Moment::Close => held.push_unshown(&mut data),
                }
            }
        }
        event.emit(data.as_bytes());
    }

    /// Emits that a span is entered, or left.
    #[inline(never)]
    fn on_border<S>(&self, id: &Id, context: &Context<'_, S>, moment: Moment)
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let Some(span) = context.span(id) else {
            return;
        };
        let metadata = span.metadata();
        let event = self.types(metadata).select(moment);
        let mut data = Writer::new();
        push_name(&mut data, event, metadata, moment);
        data.level(level_of(metadata));
        data.span(id.into_u64());
        let is_entered = moment == Moment::Enter;
        if is_entered {
            push_parent(&mut data, &span);
        }
        if let Some(held) = span.extensions().get::<Held>() {
            if is_entered {
                held.push_follows(&mut data);
            }
            held.push_fields(&mut data);
        }
        event.emit(data.as_bytes());
    }
}

/// Appends the name, where the type has none.
fn push_name(data: &mut Writer, event: UserEvent, metadata: &Metadata<'_>, moment: Moment) {
    if event == UserEvent::UNNAMED {
        data.name(format_args!("{}", full_name(metadata, moment)));
    }
}

/// Appends the span that contains it, if there is one.
fn push_parent<S>(data: &mut Writer, span: &SpanRef<'_, S>)
where
    S: for<'a> LookupSpan<'a>,
{
    if let Some(parent) = span.parent() {
        data.parent(parent.id().into_u64());
    }
}

fn level_of(metadata: &Metadata<'_>) -> Level {
    match *metadata.level() {
        tracing::Level::TRACE => Level::Trace,
        tracing::Level::DEBUG => Level::Debug,
        tracing::Level::INFO => Level::Info,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::ERROR => Level::Error,
    }
}

/// Records that a span follows from another.
#[inline(never)]
fn emit_follows(id: &Id, follows: &Id) {
    /// Its type; 0 until it was opened.
    static TYPE: AtomicU32 = AtomicU32::new(0);
    let event = match TYPE.load(Relaxed) {
        0 => {
            let event = UserEvent::open("follows_from").unwrap_or(UserEvent::UNNAMED);
            // Another thread may have done the same.
            TYPE.store(event.id().0, Relaxed);
            event
        }
        known => UserEvent::from_id(EventTypeId(known)),
    };
    let mut data = Writer::new();
    if event == UserEvent::UNNAMED {
        data.name(format_args!("follows_from"));
    }
    data.span(id.into_u64());
    data.follows(follows.into_u64());
    event.emit(data.as_bytes());
}

/// The event types of a callsite. All four are the same for a callsite of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Types {
    new: UserEvent,
    enter: UserEvent,
    exit: UserEvent,
    close: UserEvent,
}

impl Types {
    fn select(self, moment: Moment) -> UserEvent {
        match moment {
            Moment::New => self.new,
            Moment::Enter => self.enter,
            Moment::Exit => self.exit,
            Moment::Close => self.close,
        }
    }
}

/// Stores the fields of a new span in its extensions.
#[inline(never)]
fn hold_fields<S>(attributes: &Attributes<'_>, id: &Id, context: &Context<'_, S>)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let mut fields = Held::writer();
    attributes.record(&mut Visitor::for_span(&mut fields));
    if !fields.is_empty()
        && let Some(span) = context.span(id)
    {
        span.extensions_mut().replace(Held::from_writer(&fields));
    }
}

/// Changes the data that the layer stores for a span. Makes it first if there is none.
fn with_held<S>(context: &Context<'_, S>, id: &Id, change: impl FnOnce(&mut Held))
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let Some(span) = context.span(id) else {
        return;
    };
    let mut extensions = span.extensions_mut();
    if extensions.get_mut::<Held>().is_none() {
        extensions.insert(Held::default());
    }
    if let Some(held) = extensions.get_mut::<Held>() {
        change(held);
    }
}
