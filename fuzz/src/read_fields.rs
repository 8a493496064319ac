//! Any bytes as fields: what is read can be written, and is read as the same again.

use tracer_posix::fields::{Record, Value, Writer, span_id};

/// Reads bytes as fields.
pub fn read_fields(untrusted: &[u8]) {
    let _ = span_id(untrusted);
    let _ = Record::parse_beginning(untrusted);
    let Some(record) = Record::parse(untrusted) else {
        return;
    };
    let mut data = Writer::new();
    if let Some(name) = &record.name {
        data.name(format_args!("{name}"));
    }
    if let Some(level) = record.level {
        data.level(level);
    }
    if let Some(span) = record.span {
        data.span(span);
    }
    if let Some(parent) = record.parent {
        data.parent(parent);
    }
    for follows in &record.follows {
        data.follows(*follows);
    }
    if let Some(message) = &record.message {
        data.message(format_args!("{message}"));
    }
    for field in &record.fields {
        match &field.value {
            Value::Signed(value) => data.signed(&field.name, *value),
            Value::Unsigned(value) => data.unsigned(&field.name, *value),
            Value::LongSigned(value) => data.long_signed(&field.name, *value),
            Value::LongUnsigned(value) => data.long_unsigned(&field.name, *value),
            // Nothing is equal to NaN.
            Value::Float(value) if value.is_nan() => return,
            Value::Float(value) => data.float(&field.name, *value),
            Value::Flag(value) => data.flag(&field.name, *value),
            Value::Text(value) => data.text(&field.name, value),
            Value::Debug(value) => data.debug(&field.name, format_args!("{value}")),
            Value::Bytes(value) => data.bytes(&field.name, value),
            // Errors are made by programs.
            Value::Error(_) => return,
        }
    }
    if !data.is_truncated() && !record.is_truncated {
        assert_eq!(Record::parse(data.as_bytes()), Some(record));
    }
}
