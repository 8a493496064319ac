//! Conversion of the values of `tracing` to fields.

use std::error::Error;
use std::fmt::Debug;

use tracer_engine::fields::Writer;
use tracing::field::{Field, Visit};

/// Writes each value that it is shown, by its type.
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
