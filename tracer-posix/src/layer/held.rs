//! Data that a span carries while it lives: values of `tracing` as fields.

use std::error::Error;
use std::fmt::Debug;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use tracer_engine::fields::{MOST_BYTES, Writer};
use tracing::field::{Field, Visit};

/// Space for what comes in front of the fields.
const HEAD_BYTES: usize = 192;

/// Most spans that one span is recorded to follow from: the first ones.
const MOST_FOLLOWED: usize = 4;

/// Data that the layer stores for a span, if there is any.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Its fields, as they are written.
    fields: Box<str>,
    /// Spans that it follows from.
    follows: Vec<u64>,
    /// Whether fields were recorded that no event has shown.
    is_unshown: AtomicBool,
}

impl Held {
    /// Returns a writer for fields that a span is to hold.
    pub fn writer() -> Writer {
        Writer::within(MOST_BYTES - HEAD_BYTES)
    }

    /// Makes the data of a new span with these fields.
    pub fn from_writer(fields: &Writer) -> Self {
        Self {
            fields: fields.as_str().into(),
            ..Self::default()
        }
    }

    /// Adds fields that were recorded: a field that was there already gets the new value.
    pub fn record(&mut self, fields: &Writer) {
        let mut all = Self::writer();
        all.replaced(&self.fields, fields.as_str());
        self.fields = all.as_str().into();
        self.is_unshown.store(true, Relaxed);
    }

    /// Notes that it follows from the span `id`.
    pub fn follow(&mut self, id: u64) {
        if self.follows.len() < MOST_FOLLOWED {
            self.follows.push(id);
        }
    }

    /// Appends the spans that it follows from.
    pub fn push_follows(&self, data: &mut Writer) {
        for id in &self.follows {
            data.follows(*id);
        }
    }

    /// Appends its fields.
    pub fn push_fields(&self, data: &mut Writer) {
        data.words(&self.fields);
        if self.is_unshown.load(Relaxed) {
            self.is_unshown.store(false, Relaxed);
        }
    }

    /// Appends its fields if some were recorded that no event has shown.
    pub fn push_unshown(&self, data: &mut Writer) {
        if self.is_unshown.load(Relaxed) {
            self.push_fields(data);
        }
    }
}

/// Writes each value that `tracing` passes to it, by its type.
pub(super) struct Visitor<'a> {
    writer: &'a mut Writer,
    /// Whether the value `message` is the text of an event.
    is_event: bool,
}

impl<'a> Visitor<'a> {
    pub fn for_span(writer: &'a mut Writer) -> Self {
        Self {
            writer,
            is_event: false,
        }
    }

    pub fn for_event(writer: &'a mut Writer) -> Self {
        Self {
            writer,
            is_event: true,
        }
    }

    fn is_message(&self, field: &Field) -> bool {
        self.is_event && field.name() == "message"
    }
}

impl Visit for Visitor<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.writer.float(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.writer.signed(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.writer.unsigned(field.name(), value);
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.writer.long_signed(field.name(), value);
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.writer.long_unsigned(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.writer.flag(field.name(), value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if self.is_message(field) {
            self.writer.message(format_args!("{value}"));
        } else {
            self.writer.text(field.name(), value);
        }
    }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        self.writer.bytes(field.name(), value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.writer.error(field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if self.is_message(field) {
            self.writer.message(format_args!("{value:?}"));
        } else {
            self.writer.debug(field.name(), format_args!("{value:?}"));
        }
    }
}
