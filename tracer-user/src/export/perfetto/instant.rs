//! Events as instants on the tracks of their threads.

use tracer_common::event_type::{Field, SystemEventType};
use tracer_posix::event::Truncation;

use super::schema::{AnnotationValue, DebugAnnotation, TrackEvent};
use super::tracks::TRACE_TRACK;
use crate::export::plain::Plain;
use crate::log_view::Entry;
use crate::report::escape::{as_text, push_for_people};
use crate::report::fields::value;
use crate::report::numbers::push_hex;
use crate::report::push_short_name;

/// `TrackEvent.TYPE_INSTANT`.
const INSTANT: i32 = 3;

/// The instant of an event, with what it carries.
pub fn of(entry: &Entry<'_>, track: u64) -> TrackEvent {
    let line = &entry.line;
    let header = &line.event.header;
    let mut annotations = match line.entry {
        Some(system) => of_fields(system, line.event.data),
        None => of_bytes(line.event.data),
    };
    if header.truncation != Truncation::None {
        annotations.push(annotation("truncated", AnnotationValue::Bool(true)));
    }
    if header.program_address != 0 {
        let address = AnnotationValue::Pointer(header.program_address);
        annotations.push(annotation("address", address));
    }
    let (category, name) = match line.entry {
        Some(system) => ("system", short_name(system)),
        None => ("user", text(line.name)),
    };
    TrackEvent {
        debug_annotations: annotations,
        r#type: Some(INSTANT),
        track_uuid: Some(track),
        categories: vec![category.to_owned()],
        name: Some(name),
    }
}

/// The instant at which so many events are known to be lost.
pub fn of_loss(count: u64) -> TrackEvent {
    TrackEvent {
        debug_annotations: vec![annotation("count", AnnotationValue::Uint(count))],
        r#type: Some(INSTANT),
        track_uuid: Some(TRACE_TRACK),
        categories: vec!["system".to_owned()],
        name: Some("events lost".to_owned()),
    }
}

/// Bytes that a target chose, made harmless, as the text of `read` shows them.
pub fn text(untrusted: &[u8]) -> String {
    let mut out = Vec::new();
    push_for_people(&mut out, untrusted);
    String::from_utf8_lossy(&out).into_owned()
}

fn short_name(system: &SystemEventType) -> String {
    let mut out = Vec::new();
    push_short_name(&mut out, system.name);
    String::from_utf8_lossy(&out).into_owned()
}

/// The fields that the data has; data that is too short for a field does without.
fn of_fields(system: &SystemEventType, data: &[u8]) -> Vec<DebugAnnotation> {
    let fields = system.fields.iter();
    fields.filter_map(|field| of_field(field, data)).collect()
}

fn of_field(field: &Field, data: &[u8]) -> Option<DebugAnnotation> {
    let value = match Plain::from(value(field, data)?) {
        Plain::Signed(number) => AnnotationValue::Int(number),
        Plain::Unsigned(number) => AnnotationValue::Uint(number),
        Plain::Truth(truth) => AnnotationValue::Bool(truth),
        Plain::Text(bytes) => AnnotationValue::String(text(&bytes)),
        Plain::Numbers(numbers) => {
            let number = |number: &u64| DebugAnnotation {
                value: Some(AnnotationValue::Uint(*number)),
                ..DebugAnnotation::default()
            };
            return Some(DebugAnnotation {
                name: Some(field.name.to_owned()),
                array_values: numbers.iter().map(number).collect(),
                value: None,
            });
        }
    };
    Some(annotation(field.name, value))
}

fn of_bytes(data: &[u8]) -> Vec<DebugAnnotation> {
    if data.is_empty() {
        return Vec::new();
    }
    let (name, shown) = match as_text(data) {
        Some(text) => ("text", text.to_owned()),
        None => {
            let mut hex = Vec::new();
            push_hex(&mut hex, data);
            ("hex", String::from_utf8_lossy(&hex).into_owned())
        }
    };
    vec![annotation(name, AnnotationValue::String(shown))]
}

fn annotation(name: &str, value: AnnotationValue) -> DebugAnnotation {
    DebugAnnotation {
        name: Some(name.to_owned()),
        array_values: Vec::new(),
        value: Some(value),
    }
}
