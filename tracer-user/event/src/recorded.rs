//! Data of an event that is fields with names and types, as the `tracing` layer writes them
//! ([`tracer_engine::fields`]). This is the one file that knows that of any view.

use tracer_engine::event::{Event, Truncation};
use tracer_engine::fields::{Field, Record, Value};

use tracer_text::digits::{push_decimal, push_hex};
use tracer_text::escape::{is_harmless_line, push_json_string};

/// Returns the fields of a user event, if it has any.
#[must_use]
pub fn recorded<'a>(event: &Event<'a>) -> Option<Record<'a>> {
    let record = match event.header.truncation {
        Truncation::None => parse(event.data),
        Truncation::Record => Record::parse_beginning(looks_so(event.data)?),
    };
    record.filter(Record::has_head)
}

fn parse(data: &[u8]) -> Option<Record<'_>> {
    Record::parse(looks_so(data)?)
}

/// Returns data that may be fields. Most data is of another kind: then nothing is read.
fn looks_so(data: &[u8]) -> Option<&[u8]> {
    let words: [&[u8]; 3] = [b"level=", b"span=", b"name="];
    words
        .iter()
        .any(|word| data.starts_with(word))
        .then_some(data)
}

/// Appends the data of a user event for people, where it is fields: as it is, for no value can be
/// taken for anything else there.
pub fn push_recorded(out: &mut Vec<u8>, data: &[u8]) -> Option<()> {
    parse(data).filter(Record::has_head)?;
    let text = std::str::from_utf8(data).ok()?;
    is_harmless_line(text).then(|| out.extend_from_slice(data))
}

/// Appends members of a JSON object, each with a comma behind it.
pub fn push_recorded_json(out: &mut Vec<u8>, record: &Record<'_>) {
    if let Some(name) = &record.name {
        push_key(out, "name");
        push_json_string(out, name.as_bytes());
        out.push(b',');
    }
    if let Some(level) = record.level {
        push_key(out, "level");
        push_json_string(out, level.word().as_bytes());
        out.push(b',');
    }
    for (key, id) in [("span", record.span), ("parent", record.parent)] {
        if let Some(id) = id {
            push_key(out, key);
            push_decimal(out, id);
            out.push(b',');
        }
    }
    if !record.follows.is_empty() {
        push_key(out, "follows");
        push_all(out, *b"[]", &record.follows, |out, id| {
            push_decimal(out, *id)
        });
        out.push(b',');
    }
    if let Some(message) = &record.message {
        push_key(out, "message");
        push_json_string(out, message.as_bytes());
        out.push(b',');
    }
    push_key(out, "fields");
    push_all(out, *b"{}", &record.fields, |out, Field { name, value }| {
        push_key(out, name);
        push_value(out, value);
    });
    out.push(b',');
}

fn push_key(out: &mut Vec<u8>, key: &str) {
    push_json_string(out, key.as_bytes());
    out.push(b':');
}

fn push_all<T>(
    out: &mut Vec<u8>,
    [open, close]: [u8; 2],
    all: &[T],
    push: impl Fn(&mut Vec<u8>, &T),
) {
    out.push(open);
    for (index, one) in all.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push(out, one);
    }
    out.push(close);
}

fn push_value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Signed(value) => push_decimal(out, *value),
        Value::Unsigned(value) => push_decimal(out, *value),
        // Readers of JSON hold no such integers exactly, and know no NaN.
        Value::LongSigned(_) | Value::LongUnsigned(_) => push_text(out, value),
        Value::Float(value) if value.is_finite() => {
            out.extend_from_slice(format!("{value:?}").as_bytes());
        }
        Value::Float(_) | Value::Text(_) | Value::Debug(_) | Value::Bytes(_) => {
            push_text(out, value);
        }
        Value::Flag(truth) => out.extend_from_slice(if *truth { b"true" } else { b"false" }),
        Value::Error(errors) => push_all(out, *b"[]", errors, |out, error| {
            push_json_string(out, error.as_bytes());
        }),
    }
}

fn push_text(out: &mut Vec<u8>, value: &Value<'_>) {
    push_json_string(out, as_text(value).as_bytes());
}

/// Returns a value as text, for formats that have no other types.
#[must_use]
pub fn as_text(value: &Value<'_>) -> String {
    match value {
        Value::Signed(value) => value.to_string(),
        Value::Unsigned(value) => value.to_string(),
        Value::LongSigned(value) => value.to_string(),
        Value::LongUnsigned(value) => value.to_string(),
        Value::Float(value) => format!("{value:?}"),
        Value::Flag(value) => value.to_string(),
        Value::Text(text) | Value::Debug(text) => text.clone().into_owned(),
        Value::Error(errors) => errors.join(": "),
        Value::Bytes(bytes) => {
            let mut digits = Vec::new();
            push_hex(&mut digits, bytes);
            String::from_utf8_lossy(&digits).into_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::EventTypeId;
    use tracer_engine::event::{EventHeader, MonotonicNs};

    use super::*;

    const DATA: &str = concat!(
        r#"level=WARN span=3 parent=2 follows=1 "it\nworks" a=-1 b=2u c=1.5 d=NaN e=true "#,
        r#"f="bob x=1\nlevel=ERROR" g=?"Some(3)" h=!"one"!"other" i=x"0aff" j=7u128 @"span"=9"#
    );

    fn event(data: &[u8], truncation: Truncation) -> Event<'_> {
        let header = EventHeader {
            time: MonotonicNs(7),
            event_type: EventTypeId(300),
            pid: 10,
            tid: 11,
            cpu: None,
            thread_id: 5,
            program_address: 6,
            truncation,
        };
        Event { header, data }
    }

    fn json(data: &[u8], truncation: Truncation) -> Option<serde_json::Value> {
        let mut out = b"{".to_vec();
        push_recorded_json(&mut out, &recorded(&event(data, truncation))?);
        out.pop();
        out.push(b'}');
        Some(serde_json::from_slice(&out).unwrap())
    }

    #[test]
    fn fields_have_their_types_in_json() {
        let expected = serde_json::json!({
            "level": "WARN", "span": 3, "parent": 2, "follows": [1], "message": "it\nworks",
            "fields": {
                "a": -1, "b": 2, "c": 1.5, "d": "NaN", "e": true, "f": "bob x=1\nlevel=ERROR",
                "g": "Some(3)", "h": ["one", "other"], "i": "0aff", "j": "7", "span": 9
            }
        });
        assert_eq!(json(DATA.as_bytes(), Truncation::None), Some(expected));
    }

    #[test]
    fn people_see_them_on_one_line() {
        let mut out = Vec::new();
        push_recorded(&mut out, DATA.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), DATA);

        let hostile = "level=INFO a=\"\u{202e}\"";
        assert_eq!(push_recorded(&mut Vec::new(), hostile.as_bytes()), None);
    }

    #[test]
    fn of_data_that_the_stream_has_truncated_there_is_what_is_whole() {
        let beginning = &DATA.as_bytes()[..DATA.find("c=1.5").unwrap() + 4];
        assert_eq!(json(beginning, Truncation::None), None);
        let found = json(beginning, Truncation::Record).unwrap();
        assert_eq!(found["fields"], serde_json::json!({"a": -1, "b": 2}));
    }

    #[test]
    fn other_text_is_none() {
        for other in ["worker=1", "it works", "level=INFO it works", "", "span=x"] {
            assert_eq!(json(other.as_bytes(), Truncation::None), None, "{other}");
        }
    }
}
