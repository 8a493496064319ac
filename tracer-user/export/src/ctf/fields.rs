//! Fields of events, as the description declares them.

use tracer_common::event_type::SystemEventType;

use crate::plain::Plain;
use tracer_event::fields::value;
use tracer_text::escape::{as_text, push_for_people};

/// Choice for data that is bytes.
pub const BYTES: u8 = 0;
/// Choice for data that is text.
pub const TEXT: u8 = 1;

/// Appends the fields of a system event; returns `None`, with `out` half-filled, when its data does
/// not have all of them.
pub fn push_system(out: &mut Vec<u8>, entry: &SystemEventType, data: &[u8]) -> Option<()> {
    for field in entry.fields {
        match Plain::from(value(field, data)?) {
            Plain::Signed(value) => out.extend_from_slice(&value.to_ne_bytes()),
            Plain::Unsigned(value) => out.extend_from_slice(&value.to_ne_bytes()),
            Plain::Truth(truth) => out.push(u8::from(truth)),
            Plain::Text(text) => {
                // Without nulls, and harmless where a reader prints it.
                push_for_people(out, &text);
                out.push(0);
            }
            Plain::Integers(values) => {
                out.extend_from_slice(&length(values.len()).to_ne_bytes());
                for value in values {
                    out.extend_from_slice(&value.to_ne_bytes());
                }
            }
        }
    }
    Some(())
}

/// Appends bytes, as text when they are text. Some readers show an empty text as the value of the
/// event before.
pub fn push_bytes(out: &mut Vec<u8>, data: &[u8]) {
    if let Some(text) = as_text(data).filter(|text| !text.is_empty()) {
        out.push(TEXT);
        out.extend_from_slice(text.as_bytes());
        out.push(0);
    } else {
        out.push(BYTES);
        out.extend_from_slice(&length(data.len()).to_ne_bytes());
        out.extend_from_slice(data);
    }
}

fn length(length: usize) -> u32 {
    // An event's data has at most some 64 KiB.
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::SYSTEM_EVENT_TYPES;

    use super::*;

    #[test]
    fn data_of_any_length_is_written_whole_or_refused() {
        for entry in SYSTEM_EVENT_TYPES {
            let end = entry.fields.iter().map(|field| field.offset).max();
            for length in 0..400 {
                let mut out = Vec::new();
                let pushed = push_system(&mut out, entry, &vec![0xa5; length]);
                assert!(
                    pushed.is_none() || length >= end.unwrap_or(0),
                    "{} of {length} bytes",
                    entry.name
                );
            }
        }
    }

    #[test]
    fn user_data_is_text_or_counted_bytes() {
        let pushed = |data| {
            let mut out = Vec::new();
            push_bytes(&mut out, data);
            out
        };
        assert_eq!(pushed(b"a\"b\n\0"), b"\x01a\"b\n\0");
        assert_eq!(pushed(b"\0\xff")[..1], [BYTES]);
        assert_eq!(pushed(b"\0\xff")[1..5], 2_u32.to_ne_bytes());
        assert_eq!(pushed(b"\0\xff")[5..], *b"\0\xff");
    }
}
