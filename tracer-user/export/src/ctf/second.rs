//! Description of the stream and of the fields of its events for version 2 of the format: fragments
//! of JSON. The packets are those of version 1.8.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tracer_text::escape::push_for_people;

use super::metadata::{BYTES, TEXT, hyphenated, offset};
use super::{Class, TraceOrigin};
use crate::plain::{ValueShape, shape};

/// Byte before each fragment (RFC 7464).
const SEPARATOR: char = '\x1e';

/// Identifiers of the clock and of the only class of streams.
const CLOCK: &str = "monotonic";
const STREAM: u32 = 0;

/// Returns the description.
pub fn text(
    origin: &TraceOrigin,
    uuid: &[u8; 16],
    classes: &BTreeMap<u32, (Vec<u8>, Class)>,
) -> String {
    let mut fragments = vec![
        json!({ "type": "preamble", "version": 2, "uuid": uuid }),
        trace(origin, uuid),
        clock(origin),
        stream(),
    ];
    fragments.extend(classes.iter().map(|(id, (name, class))| {
        let mut event = json!({
            "type": "event-record-class",
            "id": id,
            "data-stream-class-id": STREAM,
            "name": harmless(name),
        });
        let (context, payload) = match class {
            Class::Typed(shape) => shape.describe_second(),
            Class::System(entry) => {
                let fields = entry.fields.iter();
                let fields = fields.flat_map(|field| system_field(field.name, shape(field.kind)));
                (None, structure(fields))
            }
            Class::Bytes => (None, bytes()),
        };
        if let Some(event) = event.as_object_mut() {
            event.insert("payload-field-class".to_owned(), payload);
            if let Some(context) = context {
                event.insert("specific-context-field-class".to_owned(), context);
            }
        }
        event
    }));
    let texts = fragments.iter().map(|one| format!("{SEPARATOR}{one}\n"));
    texts.collect()
}

fn trace(origin: &TraceOrigin, uuid: &[u8; 16]) -> Value {
    json!({
        "type": "trace-class",
        "uid": hyphenated(uuid),
        "environment": {
            "tracer_name": "tracer-user",
            "tracer_version": env!("CARGO_PKG_VERSION"),
            "trace_name": harmless(origin.attributes.name().as_bytes()),
        },
        "packet-header-field-class": structure([
            ("magic".to_owned(), with_role(integer(32, false), "packet-magic-number")),
            ("uuid".to_owned(), json!({
                "type": "static-length-blob",
                "length": 16,
                "roles": ["metadata-stream-uuid"],
            })),
            ("stream_id".to_owned(), with_role(integer(32, false), "data-stream-class-id")),
        ]),
    })
}

fn clock(origin: &TraceOrigin) -> Value {
    let (seconds, cycles) = offset(origin.anchor);
    json!({
        "type": "clock-class",
        "id": CLOCK,
        "name": CLOCK,
        "description": "CLOCK_MONOTONIC; its offset leads to CLOCK_REALTIME",
        "frequency": 1_000_000_000,
        "origin": "unix-epoch",
        "offset-from-origin": { "seconds": seconds, "cycles": cycles },
    })
}

fn stream() -> Value {
    let of = |name: &str, role| (name.to_owned(), with_role(integer(64, false), role));
    let plain = |name: &str, class| (name.to_owned(), class);
    json!({
        "type": "data-stream-class",
        "id": STREAM,
        "default-clock-class-id": CLOCK,
        "packet-context-field-class": structure([
            of("timestamp_begin", "default-clock-timestamp"),
            of("timestamp_end", "packet-end-default-clock-timestamp"),
            of("content_size", "packet-content-length"),
            of("packet_size", "packet-total-length"),
            of("packet_seq_num", "packet-sequence-number"),
            of("events_discarded", "discarded-event-record-counter-snapshot"),
        ]),
        "event-record-header-field-class": structure([
            plain("id", with_role(integer(32, false), "event-record-class-id")),
            of("timestamp", "default-clock-timestamp"),
        ]),
        "event-record-common-context-field-class": structure([
            plain("pid", integer(32, true)),
            plain("tid", integer(32, true)),
            plain("cpu", integer(32, true)),
            plain("truncated", integer(8, false)),
            plain("prog_address", address()),
            plain("thread_id", address()),
            plain("comm", string()),
        ]),
    })
}

fn system_field(name: &str, shape: ValueShape) -> Vec<(String, Value)> {
    let class = match shape {
        ValueShape::Signed => integer(64, true),
        ValueShape::Unsigned => integer(64, false),
        ValueShape::Truth => integer(8, false),
        ValueShape::Text => string(),
        ValueShape::Integers => {
            let length = format!("{name}_length");
            let array = json!({
                "type": "dynamic-length-array",
                "element-field-class": integer(64, true),
                "length-field-location": {
                    "origin": "event-record-payload",
                    "path": [length],
                },
            });
            return vec![(length, integer(32, false)), (name.to_owned(), array)];
        }
    };
    vec![(name.to_owned(), class)]
}

/// Describes data that is bytes, or text where it is text.
fn bytes() -> Value {
    let mut kind = integer(8, false);
    if let Some(kind) = kind.as_object_mut() {
        let mappings = json!({ "bytes": [[BYTES, BYTES]], "text": [[TEXT, TEXT]] });
        kind.insert("mappings".to_owned(), mappings);
    }
    // A location without an origin begins in the structure that the field is in.
    let counted = structure([
        ("length".to_owned(), integer(32, false)),
        (
            "bytes".to_owned(),
            json!({
                "type": "dynamic-length-array",
                "element-field-class": integer(8, false),
                "length-field-location": { "path": ["length"] },
            }),
        ),
    ]);
    let option = |name, of: u8, class: Value| json!({ "name": name, "selector-field-ranges": [[of, of]], "field-class": class });
    structure([
        ("kind".to_owned(), kind),
        (
            "data".to_owned(),
            json!({
                "type": "variant",
                "selector-field-location": {
                    "origin": "event-record-payload",
                    "path": ["kind"],
                },
                "options": [option("bytes", BYTES, counted), option("text", TEXT, string())],
            }),
        ),
    ])
}

/// Describes fields one after the other.
pub fn structure(members: impl IntoIterator<Item = (String, Value)>) -> Value {
    let members = members.into_iter();
    let members = members.map(|(name, class)| json!({ "name": name, "field-class": class }));
    json!({ "type": "structure", "member-classes": members.collect::<Vec<_>>() })
}

/// Describes an integer of so many bits.
pub fn integer(bits: u32, is_signed: bool) -> Value {
    let sign = if is_signed { "signed" } else { "unsigned" };
    json!({
        "type": format!("fixed-length-{sign}-integer"),
        "length": bits,
        "alignment": 8,
        "byte-order": byte_order(),
    })
}

/// Describes an address.
pub fn address() -> Value {
    let mut class = integer(64, false);
    if let Some(class) = class.as_object_mut() {
        class.insert("preferred-display-base".to_owned(), 16.into());
    }
    class
}

/// Describes a floating-point number of 64 bits.
pub fn float() -> Value {
    json!({
        "type": "fixed-length-floating-point-number",
        "length": 64,
        "alignment": 8,
        "byte-order": byte_order(),
    })
}

/// Describes a text that a null ends.
pub fn string() -> Value {
    json!({ "type": "null-terminated-string" })
}

/// Describes an array of so many integers of so many bits.
pub fn array(count: usize, bits: u32, is_signed: bool) -> Value {
    json!({
        "type": "static-length-array",
        "length": count,
        "element-field-class": integer(bits, is_signed),
    })
}

fn with_role(mut class: Value, role: &str) -> Value {
    if let Some(class) = class.as_object_mut() {
        class.insert("roles".to_owned(), json!([role]));
    }
    class
}

fn byte_order() -> &'static str {
    if cfg!(target_endian = "little") {
        "little-endian"
    } else {
        "big-endian"
    }
}

/// Returns a text that a target chose, harmless where a reader prints it.
fn harmless(untrusted: &[u8]) -> String {
    let mut harmless = Vec::new();
    push_for_people(&mut harmless, untrusted);
    String::from_utf8_lossy(&harmless).into_owned()
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::SYSTEM_EVENT_TYPES;
    use tracer_engine::event::{MonotonicNs, RealtimeNs};
    use tracer_engine::{Attributes, ClockPair};

    use super::*;

    #[test]
    fn every_type_is_a_fragment_of_json_and_no_name_leaves_its_own() {
        let origin = TraceOrigin {
            attributes: Attributes::default().with_name("a\"\x1e\n{b"),
            anchor: ClockPair {
                monotonic: MonotonicNs(1),
                realtime: RealtimeNs(3_000_000_000),
            },
            system: tracer_log::System::default(),
            is_wanted: std::rc::Rc::new(|_, _| true),
            table: crate::TableChoice::default(),
        };
        let system = SYSTEM_EVENT_TYPES.iter();
        let mut classes: BTreeMap<_, _> = system
            .map(|entry| (entry.id.0, (entry.name.into(), Class::System(entry))))
            .collect();
        classes.insert(5000, (b"\x1e\"}\n\xff".to_vec(), Class::Bytes));
        let text = text(&origin, &[0xab; 16], &classes);

        let fragments: Vec<Value> = text
            .split(SEPARATOR)
            .skip(1)
            .map(|fragment| serde_json::from_str(fragment).unwrap())
            .collect();
        assert_eq!(fragments.len(), 4 + classes.len());
        assert_eq!(fragments[0]["version"], 2);
        assert_eq!(
            fragments[2]["offset-from-origin"],
            json!({ "seconds": 2, "cycles": 999_999_999 })
        );
        for (fragment, entry) in fragments[4..].iter().zip(SYSTEM_EVENT_TYPES) {
            let members = fragment["payload-field-class"]["member-classes"].as_array();
            let names: Vec<_> = members.unwrap().iter().map(|one| &one["name"]).collect();
            for field in entry.fields {
                assert!(names.contains(&&json!(field.name)), "{fragment}");
            }
        }
        let name = fragments.last().unwrap()["name"].as_str().unwrap();
        assert!(!name.contains(SEPARATOR) && !name.contains('\n'), "{name}");
    }
}
