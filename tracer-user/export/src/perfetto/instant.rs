//! Events as parts of tracks: instants, and slices with a beginning and an end.

use std::borrow::Cow;

use tracer_common::event_type::SystemEventType;

use super::schema::{AnnotationValue, DebugAnnotation, TrackEvent};
use super::tracks::TRACE_TRACK;
use super::tracks::text;
use crate::carried::{Carried, Item};
use crate::slices::Key;
use tracer_event::event_view::EventView;
use tracer_text::push_short_name;

/// `TrackEvent.Type`.
mod kind {
    pub const SLICE_BEGIN: i32 = 1;
    pub const SLICE_END: i32 = 2;
    pub const INSTANT: i32 = 3;
}

/// Returns the instant of an event, with its data.
pub fn build(entry: &EventView<'_>, track: u64) -> TrackEvent {
    let (category, name) = match entry.entry {
        Some(system) => ("system", short_name(system)),
        None => ("user", text(entry.name)),
    };
    TrackEvent {
        debug_annotations: annotations(&Carried::from_event(entry)),
        ..named(kind::INSTANT, track, category, name)
    }
}

/// Returns the beginning of a slice.
pub fn beginning(key: Key, name: &[u8], carried: &Carried, track: u64) -> TrackEvent {
    let category = match key {
        Key::Call(_) => "syscall",
        Key::Interrupt(_) => "irq",
        Key::SoftInterrupt(_) => "softirq",
        Key::Idle => "idle",
        Key::Pair(_) => "user",
    };
    TrackEvent {
        debug_annotations: annotations(carried),
        ..named(kind::SLICE_BEGIN, track, category, text(name))
    }
}

/// Returns the end of a slice.
pub fn end(carried: &Carried, track: u64) -> TrackEvent {
    TrackEvent {
        debug_annotations: annotations(carried),
        r#type: Some(kind::SLICE_END),
        track_uuid: Some(track),
        ..TrackEvent::default()
    }
}

/// Returns the instant for the stack of an event of the scheduler, which has no instant itself.
pub fn build_stack(entry: &EventView<'_>, track: u64) -> TrackEvent {
    let name = entry.entry.map_or_else(String::new, short_name);
    named(kind::INSTANT, track, "stack", name)
}

/// Returns one side of a wake-up: that of the waker or that of the woken thread. It names the
/// other.
pub fn build_wakeup(name: &str, other: &[u8], track: u64) -> TrackEvent {
    let name = format!("{name} {}", text(other));
    named(kind::INSTANT, track, "wakeup", name.trim_end().to_owned())
}

/// Returns the instant at which `count` events are known to be lost.
pub fn build_loss(count: u64) -> TrackEvent {
    TrackEvent {
        debug_annotations: vec![annotation(
            Cow::Borrowed("count"),
            AnnotationValue::Uint(count),
        )],
        ..named(
            kind::INSTANT,
            TRACE_TRACK,
            "system",
            "events lost".to_owned(),
        )
    }
}

/// Returns the instant at which the trace ended.
pub fn build_end() -> TrackEvent {
    let name = "the trace ended".to_owned();
    named(kind::INSTANT, TRACE_TRACK, "system", name)
}

fn named(kind: i32, track: u64, category: &str, name: String) -> TrackEvent {
    TrackEvent {
        r#type: Some(kind),
        track_uuid: Some(track),
        categories: vec![category.to_owned()],
        name: Some(name),
        ..TrackEvent::default()
    }
}

fn short_name(system: &SystemEventType) -> String {
    let mut out = Vec::new();
    push_short_name(&mut out, system.name);
    String::from_utf8_lossy(&out).into_owned()
}

fn annotations(carried: &Carried) -> Vec<DebugAnnotation> {
    let items = carried.0.iter();
    items
        .map(|(name, item)| {
            let name = name.clone();
            match item {
                Item::Signed(value) => annotation(name, AnnotationValue::Int(*value)),
                Item::Unsigned(value) => annotation(name, AnnotationValue::Uint(*value)),
                Item::Truth(truth) => annotation(name, AnnotationValue::Bool(*truth)),
                Item::Pointer(address) => annotation(name, AnnotationValue::Pointer(*address)),
                Item::Text(bytes) => annotation(name, AnnotationValue::String(text(bytes))),
                Item::Words(words) => annotation(name, AnnotationValue::String(words.clone())),
                Item::Integers(values) => annotate_integers(name, values),
            }
        })
        .collect()
}

fn annotate_integers(name: Cow<'_, str>, values: &[i64]) -> DebugAnnotation {
    let element = |value: &i64| DebugAnnotation {
        value: Some(AnnotationValue::Int(*value)),
        ..DebugAnnotation::default()
    };
    DebugAnnotation {
        name: Some(name.into_owned()),
        array_values: values.iter().map(element).collect(),
        value: None,
    }
}

/// Returns the functions of a stack, the innermost first, by the ids of their names.
pub fn annotate_frames(names: &[u64]) -> DebugAnnotation {
    let element = |name: &u64| DebugAnnotation {
        value: Some(AnnotationValue::Interned(*name)),
        ..DebugAnnotation::default()
    };
    DebugAnnotation {
        name: Some("stack".to_owned()),
        array_values: names.iter().map(element).collect(),
        value: None,
    }
}

fn annotation(name: Cow<'_, str>, value: AnnotationValue) -> DebugAnnotation {
    DebugAnnotation {
        name: Some(name.into_owned()),
        array_values: Vec::new(),
        value: Some(value),
    }
}
