//! Description of the stream and of the fields of its events, in the language of the format (TSDL).

use std::collections::BTreeMap;
use std::fmt::Write;

use tracer_common::event_type::SystemEventType;
use tracer_engine::ClockPair;
use tracer_event::fields::value;
use tracer_text::escape::{as_text, push_for_people};

use super::packet::MAGIC;
use super::{Class, TraceOrigin};
use crate::plain::{Plain, ValueShape, shape};

/// Returns the description. Every name of a field begins with an underscore, which readers remove:
/// so none is a word of the language.
pub fn text(
    origin: &TraceOrigin,
    uuid: &[u8; 16],
    classes: &BTreeMap<u32, (Vec<u8>, Class)>,
) -> String {
    let mut out = format!(
        "/* CTF 1.8 */\n\n{TYPES}\n{}{}{}{STREAM}",
        trace(uuid),
        environment(origin),
        clock(origin.anchor, uuid),
    );
    for (id, (name, class)) in classes {
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "\nevent {{\n\tname = {};\n\tid = {id};\n\tstream_id = 0;\n",
            literal(name)
        );
        match class {
            Class::Typed(shape) => shape.describe(&mut out),
            Class::System(entry) => {
                out.push_str("\tfields := struct {\n");
                push_fields(&mut out, entry);
            }
            Class::Bytes => {
                out.push_str("\tfields := struct {\n");
                out.push_str(&bytes_fields());
            }
        }
        out.push_str("\t};\n};\n");
    }
    out
}

const TYPES: &str = "\
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 64; align = 8; signed = true; } := int64_t;
typealias integer { size = 64; align = 8; signed = false; base = 16; } := address_t;
";

const STREAM: &str = "\
typealias integer {
	size = 64; align = 8; signed = false; map = clock.monotonic.value;
} := timestamp_t;

stream {
	id = 0;
	packet.context := struct {
		timestamp_t timestamp_begin;
		timestamp_t timestamp_end;
		uint64_t content_size;
		uint64_t packet_size;
		uint64_t packet_seq_num;
		uint64_t events_discarded;
	};
	event.header := struct {
		uint32_t id;
		timestamp_t timestamp;
	};
	event.context := struct {
		int32_t _pid;
		int32_t _tid;
		int32_t _cpu;
		uint8_t _truncated;
		address_t _prog_address;
		address_t _thread_id;
		string _comm;
	};
};
";

fn trace(uuid: &[u8; 16]) -> String {
    let order = if cfg!(target_endian = "little") {
        "le"
    } else {
        "be"
    };
    format!(
        "trace {{\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"{}\";\n\tbyte_order = {order};\n\
         \tpacket.header := struct {{\n\t\tuint32_t magic; /* 0x{MAGIC:x} */\n\
         \t\tuint8_t uuid[16];\n\t\tuint32_t stream_id;\n\t}};\n}};\n\n",
        hyphenated(uuid)
    )
}

fn environment(origin: &TraceOrigin) -> String {
    format!(
        "env {{\n\ttracer_name = \"tracer-user\";\n\ttracer_version = {};\n\ttrace_name = {};\n}};\n\n",
        literal(env!("CARGO_PKG_VERSION").as_bytes()),
        literal(origin.attributes.name().as_bytes()),
    )
}

/// Nanoseconds of a second: the frequency of the clock.
const NS_PER_SECOND: i64 = 1_000_000_000;

/// Returns the offset that leads from the clock to the date, in seconds and nanoseconds.
pub fn offset(anchor: ClockPair) -> (i64, i64) {
    let offset = i128::from(anchor.realtime.0) - i128::from(anchor.monotonic.0);
    let offset = i64::try_from(offset).unwrap_or(i64::MAX);
    (
        offset.div_euclid(NS_PER_SECOND),
        offset.rem_euclid(NS_PER_SECOND),
    )
}

fn clock(anchor: ClockPair, uuid: &[u8; 16]) -> String {
    let (seconds, rest) = offset(anchor);
    format!(
        "clock {{\n\tname = \"monotonic\";\n\tuuid = \"{}\";\n\
         \tdescription = \"CLOCK_MONOTONIC; its offset leads to CLOCK_REALTIME\";\n\
         \tfreq = {NS_PER_SECOND};\n\tprecision = 0;\n\toffset_s = {seconds};\n\
         \toffset = {rest};\n\tabsolute = true;\n}};\n\n",
        hyphenated(uuid),
    )
}

fn push_fields(out: &mut String, entry: &SystemEventType) {
    for field in entry.fields {
        let name = field.name;
        let _ = match shape(field.kind) {
            ValueShape::Signed => writeln!(out, "\t\tint64_t _{name};"),
            ValueShape::Unsigned => writeln!(out, "\t\tuint64_t _{name};"),
            ValueShape::Truth => writeln!(out, "\t\tuint8_t _{name};"),
            ValueShape::Text => writeln!(out, "\t\tstring _{name};"),
            ValueShape::Integers => writeln!(
                out,
                "\t\tuint32_t _{name}_length;\n\t\tint64_t _{name}[_{name}_length];"
            ),
        };
    }
}

fn bytes_fields() -> String {
    format!(
        "\t\tenum : uint8_t {{ \"bytes\" = {BYTES}, \"text\" = {TEXT} }} _kind;\n\
         \t\tvariant <_kind> {{\n\t\t\tstruct {{\n\t\t\t\tuint32_t _length;\n\
         \t\t\t\tuint8_t _bytes[_length];\n\t\t\t}} bytes;\n\t\t\tstring text;\n\t\t}} _data;\n"
    )
}

/// Returns a string of the language. Text that a target chose is made harmless first, and every
/// reader shows it as the text of `read` does.
fn literal(untrusted: &[u8]) -> String {
    let mut harmless = Vec::new();
    push_for_people(&mut harmless, untrusted);
    let escaped = String::from_utf8_lossy(&harmless)
        .replace('\\', "\\\\")
        .replace('"', "\\\"");
    format!("\"{escaped}\"")
}

/// Returns an identifier as people write it.
pub fn hyphenated(uuid: &[u8; 16]) -> String {
    let mut text = String::new();
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

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
    use tracer_engine::Attributes;
    use tracer_engine::event::{MonotonicNs, RealtimeNs};

    use super::*;

    fn described(classes: &BTreeMap<u32, (Vec<u8>, Class)>) -> String {
        let origin = TraceOrigin {
            attributes: Attributes::default().with_name("a\"b"),
            anchor: ClockPair {
                monotonic: MonotonicNs(1),
                realtime: RealtimeNs(3_000_000_000),
            },
            system: tracer_log::System::default(),
            is_wanted: std::rc::Rc::new(|_, _| true),
            table: crate::TableChoice::default(),
        };
        text(&origin, &[0xab; 16], classes)
    }

    #[test]
    fn the_clock_leads_to_the_date() {
        let text = described(&BTreeMap::new());
        assert!(
            text.contains("\toffset_s = 2;\n\toffset = 999999999;\n"),
            "{text}"
        );
        assert!(text.contains("uuid = \"abababab-abab-abab-abab-abababababab\";"));
    }

    #[test]
    fn every_type_of_the_table_is_described_field_by_field() {
        let classes = SYSTEM_EVENT_TYPES
            .iter()
            .map(|entry| (entry.id.0, (entry.name.into(), Class::System(entry))))
            .collect();
        let text = described(&classes);
        for entry in SYSTEM_EVENT_TYPES {
            assert!(text.contains(&format!("name = \"{}\";", entry.name)));
            for field in entry.fields {
                assert!(
                    text.contains(&format!(" _{}", field.name)),
                    "{}",
                    field.name
                );
            }
        }
    }

    #[test]
    fn a_hostile_name_cannot_leave_its_string() {
        assert_eq!(literal(b"a\";\nb\\"), "\"a\\\";\\\\nb\\\\\\\\\"");
    }

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
