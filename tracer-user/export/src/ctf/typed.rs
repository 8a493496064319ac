//! Events that say themselves what their fields are called and how they are stored: tracepoints of
//! the kernel, functions with types, the instrumentation of robots.
//!
//! Events of one type may have other fields than those before: each shape is a class of its own,
//! with the same name.

use std::fmt::Write;

use serde_json::Value;
use tracer_event::event_view::{EventView, NamespaceIds};
use tracer_text::escape::push_for_people;
use tracer_text::self_describing::{Typed, TypedValue};

use super::second;

/// Most shapes of a trace: what comes in further ones is bytes.
pub const MOST_SHAPES: usize = 1024;

/// Most shapes of an event type: each event is compared with them.
pub const MOST_OF_TYPE: usize = 32;

/// Most fields of a shape.
const MOST_FIELDS: usize = 256;

/// Prefix of the events of robots, whose readers ask for the context that LTTng gives them.
const OF_ROBOTS: &[u8] = b"ros2:";

/// How a field is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    Signed,
    Unsigned,
    Address,
    Truth,
    Float,
    Text,
    Array {
        unit: u8,
        signed: bool,
        count: usize,
    },
}

/// Fields of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedShape {
    fields: Vec<(String, Stored)>,
    /// Whether events have the context of LTTng's.
    has_context: bool,
}

impl TypedShape {
    /// Returns the shape of an event of this type; `None` for one that the format has no words for:
    /// a name is none of its names, or there are two.
    pub fn from_event(type_name: &[u8], typed: Typed<'_>) -> Option<Self> {
        let mut fields: Vec<(String, Stored)> = Vec::new();
        for (name, value) in typed.iter() {
            let is_new = fields.iter().all(|(other, _)| other != name);
            if !is_new || !is_identifier(name) || fields.len() >= MOST_FIELDS {
                return None;
            }
            fields.push((name.to_owned(), stored(&value)));
        }
        Some(Self {
            fields,
            has_context: type_name.starts_with(OF_ROBOTS),
        })
    }

    /// Tells whether an event of the shape's type has it.
    pub fn is_of(&self, typed: Typed<'_>) -> bool {
        let mut fields = self.fields.iter();
        let fits = typed.iter().all(|(name, value)| {
            let field = fields.next();
            field.is_some_and(|(of, how)| of == name && *how == stored(&value))
        });
        fits && fields.next().is_none()
    }

    /// Appends the context and the fields of an event that has the shape. As LTTng's, its process
    /// and thread are as their own pid namespace knows them.
    pub fn push(&self, out: &mut Vec<u8>, entry: &EventView<'_>, typed: Typed<'_>) {
        if self.has_context {
            let header = &entry.event.header;
            let inside = entry.inside.unwrap_or(NamespaceIds {
                pid: header.pid,
                tid: header.tid,
            });
            out.extend_from_slice(&inside.pid.to_ne_bytes());
            out.extend_from_slice(&inside.tid.to_ne_bytes());
            let cpu = header.cpu.and_then(|cpu| i32::try_from(cpu).ok());
            out.extend_from_slice(&cpu.unwrap_or(-1).to_ne_bytes());
            push_for_people(out, entry.comm.unwrap_or(b"?"));
            out.push(0);
        }
        for (_, value) in typed.iter() {
            push_value(out, value);
        }
    }

    /// Describes the class, in the format's language: context and fields.
    pub fn describe(&self, out: &mut String) {
        if self.has_context {
            out.push_str(
                "\tcontext := struct {\n\t\tint32_t _vpid;\n\t\tint32_t _vtid;\n\
                 \t\tint32_t _cpu_id;\n\t\tstring _procname;\n\t};\n",
            );
        }
        out.push_str("\tfields := struct {\n");
        for (name, how) in &self.fields {
            // Writing to a string cannot fail.
            let _ = match how {
                Stored::Signed => writeln!(out, "\t\tint64_t _{name};"),
                Stored::Unsigned => writeln!(out, "\t\tuint64_t _{name};"),
                Stored::Address => writeln!(out, "\t\taddress_t _{name};"),
                Stored::Truth => writeln!(out, "\t\tuint8_t _{name};"),
                Stored::Float => writeln!(
                    out,
                    "\t\tfloating_point {{ exp_dig = 11; mant_dig = 53; align = 8; }} _{name};"
                ),
                Stored::Text => writeln!(out, "\t\tstring _{name};"),
                Stored::Array {
                    unit,
                    signed,
                    count,
                } => writeln!(
                    out,
                    "\t\tinteger {{ size = {}; align = 8; signed = {signed}; }} _{name}[{count}];",
                    u32::from(*unit) * 8
                ),
            };
        }
    }
}

impl TypedShape {
    /// Describes the class for version 2 of the format: its context, where it has one, and its
    /// fields.
    pub fn describe_second(&self) -> (Option<Value>, Value) {
        let context = self.has_context.then(|| {
            second::structure([
                ("vpid".to_owned(), second::integer(32, true)),
                ("vtid".to_owned(), second::integer(32, true)),
                ("cpu_id".to_owned(), second::integer(32, true)),
                ("procname".to_owned(), second::string()),
            ])
        });
        let fields = self.fields.iter().map(|(name, how)| {
            let class = match how {
                Stored::Signed => second::integer(64, true),
                Stored::Unsigned => second::integer(64, false),
                Stored::Address => second::address(),
                Stored::Truth => second::integer(8, false),
                Stored::Float => second::float(),
                Stored::Text => second::string(),
                Stored::Array {
                    unit,
                    signed,
                    count,
                } => second::array(*count, u32::from(*unit) * 8, *signed),
            };
            (name.clone(), class)
        });
        (context, second::structure(fields))
    }
}

fn stored(value: &TypedValue<'_>) -> Stored {
    match value {
        TypedValue::Signed(_) => Stored::Signed,
        TypedValue::Unsigned(_) | TypedValue::Character(_) => Stored::Unsigned,
        TypedValue::Address(_) => Stored::Address,
        TypedValue::Flag(_) => Stored::Truth,
        TypedValue::Float(_) => Stored::Float,
        TypedValue::Unread | TypedValue::Text { .. } => Stored::Text,
        TypedValue::Bytes { bytes, .. } => Stored::Array {
            unit: 1,
            signed: false,
            count: bytes.len(),
        },
        TypedValue::Integers(integers) => Stored::Array {
            unit: integers.unit(),
            signed: integers.is_signed(),
            count: integers.bytes().len() / usize::from(integers.unit()).max(1),
        },
    }
}

fn push_value(out: &mut Vec<u8>, value: TypedValue<'_>) {
    match value {
        TypedValue::Signed(value) => out.extend_from_slice(&value.to_ne_bytes()),
        TypedValue::Unsigned(value) | TypedValue::Address(value) => {
            out.extend_from_slice(&value.to_ne_bytes());
        }
        TypedValue::Character(byte) => out.extend_from_slice(&u64::from(byte).to_ne_bytes()),
        TypedValue::Flag(truth) => out.push(u8::from(truth)),
        TypedValue::Float(value) => out.extend_from_slice(&value.to_ne_bytes()),
        // As LTTng says it of a text that is not there.
        TypedValue::Unread => out.extend_from_slice(b"(null)\0"),
        TypedValue::Text { bytes, has_more } => {
            push_for_people(out, bytes);
            if has_more {
                out.extend_from_slice("…".as_bytes());
            }
            out.push(0);
        }
        TypedValue::Bytes { bytes, .. } => out.extend_from_slice(bytes),
        TypedValue::Integers(integers) => out.extend_from_slice(integers.bytes()),
    }
}

/// Tells whether the format's language has such a name.
fn is_identifier(name: &str) -> bool {
    let is_of_one = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(is_of_one)
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::EventTypeId;
    use tracer_common::kernel::{probe_kind, typed_data};
    use tracer_engine::event::{Event, EventHeader, MonotonicNs, Truncation};
    use tracer_text::self_describing::Encoder;

    use super::*;

    fn data(gid: &[u8], topic: Option<&[u8]>) -> Vec<u8> {
        let mut out = Encoder::new(probe_kind::PROGRAMS_OWN);
        out.value("handle", typed_data::ADDRESS, &7_u64.to_ne_bytes());
        out.array("gid", typed_data::UNSIGNED, 1, gid, false);
        match topic {
            Some(topic) => out.text("topic", topic, false),
            None => out.unread("topic", typed_data::TEXT),
        }
        out.finish()
    }

    fn typed(data: &[u8]) -> Typed<'_> {
        Typed::parse_event(b"ros2:x", data).unwrap()
    }

    #[test]
    fn events_of_one_shape_have_one_class() {
        let (one, other) = (data(&[1, 2], Some(b"/a")), data(&[3, 4], None));
        let shape = TypedShape::from_event(b"ros2:x", typed(&one)).unwrap();
        assert!(shape.is_of(typed(&one)) && shape.is_of(typed(&other)));
        assert!(!shape.is_of(typed(&data(&[1], Some(b"/a")))));

        let mut text = String::new();
        shape.describe(&mut text);
        assert!(text.contains("int32_t _vtid;"), "{text}");
        assert!(text.contains("address_t _handle;"), "{text}");
        assert!(text.contains("signed = false; } _gid[2];"), "{text}");
        assert!(text.contains("string _topic;"), "{text}");
        let header = EventHeader {
            time: MonotonicNs(1),
            event_type: EventTypeId(300),
            pid: 5,
            tid: 6,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        let event = Event {
            header,
            data: &other,
        };
        let mut out = Vec::new();
        shape.push(&mut out, &EventView::bare(event, b"node"), typed(&other));
        assert!(
            out.ends_with(b"\x07\0\0\0\0\0\0\0\x03\x04(null)\0"),
            "{out:?}"
        );
    }

    #[test]
    fn what_the_language_has_no_name_for_has_no_shape() {
        for names in [["a b", "c"], ["a", "a"], ["", "c"], ["a;}", "c"]] {
            let mut out = Encoder::new(probe_kind::TRACEPOINT);
            for name in names {
                out.value(name, typed_data::SIGNED, &1_i64.to_ne_bytes());
            }
            let data = out.finish();
            let typed = Typed::parse_event(b"tracepoint:x:y", &data).unwrap();
            assert_eq!(
                TypedShape::from_event(b"tracepoint:x:y", typed),
                None,
                "{names:?}"
            );
        }
    }
}
