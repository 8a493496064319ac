//! Rules, made from the spans that people type and from the event types.

use tracer_analysis::{Border, KeyOf, Pairs, SpanRule};
use tracer_common::event_type::{EventTypeId, FIRST_USER_EVENT};
use tracer_engine::EventTypes;
use tracer_event::robots::{DELIVERY, DELIVERY_KEYS};

use super::SpanSpec;
use super::span_spec::BorderSpec;

/// Returns the rules of the spans that are meant, as far as their types are known, each with the
/// name of the spans. Without any `specs`: all pairs of event types whose names show it.
pub fn rules(specs: &[SpanSpec], types: &EventTypes) -> Vec<(Vec<u8>, SpanRule)> {
    let mut wanted = Vec::new();
    let mut add = |name: Vec<u8>, begin, end, poll| {
        let is_kernels = [begin, end].iter().any(|border| is_kernels(types, border));
        let rule = SpanRule {
            begin,
            end,
            poll,
            is_kernels,
        };
        wanted.push((name, rule));
    };
    let is_by_name = |spec: &SpanSpec| matches!(spec, SpanSpec::Named(_) | SpanSpec::Function(..));
    if specs.is_empty() || specs.iter().any(is_by_name) {
        for (stem, begin, end) in Pairs::among(types, |_, _| true).all() {
            let is_meant = |spec: &SpanSpec| is_by_name(spec) && spec.may_be(stem);
            if !specs.is_empty() && !specs.iter().any(is_meant) {
                continue;
            }
            match lifetime(types, begin) {
                Some((new, close)) => {
                    let poll = (by_id(begin), by_id(end));
                    add(stem.to_vec(), by_id(new), by_id(close), Some(poll));
                }
                None => add(stem.to_vec(), event(begin), event(end), None),
            }
        }
    }
    for (topic, published, taken) in deliveries(types) {
        let name = [topic, b" delivery"].concat();
        let is_meant = |spec: &SpanSpec| is_by_name(spec) && spec.may_be(&name);
        if specs.is_empty() || specs.iter().any(is_meant) {
            let [at_begin, at_end] = DELIVERY_KEYS;
            let keyed = |id, bytes| Border {
                key: Some(KeyOf::Bytes(bytes)),
                ..event(id)
            };
            add(name, keyed(published, at_begin), keyed(taken, at_end), None);
        }
    }
    for spec in specs {
        match spec {
            SpanSpec::Named(_) | SpanSpec::Function(..) => {}
            SpanSpec::Call(name, nr) => {
                let of = |event_type| Border {
                    event_type,
                    syscall: Some(*nr),
                    key: None,
                };
                let (begin, end) = (EventTypeId::SYSCALL_ENTER, EventTypeId::SYSCALL_EXIT);
                add(name.clone().into_bytes(), of(begin), of(end), None);
            }
            SpanSpec::Between { name, begin, end } => {
                if let (Some(begin), Some(end)) = (border(types, begin), border(types, end)) {
                    add(name.clone(), begin, end, None);
                }
            }
        }
    }
    wanted
}

/// Returns the topics on which robots publish messages, with the types that say that one is
/// published, and that one is taken.
fn deliveries(types: &EventTypes) -> Vec<(&[u8], EventTypeId, EventTypeId)> {
    let [published, taken] = DELIVERY;
    let first = EventTypeId(FIRST_USER_EVENT);
    let ids = std::iter::successors(types.next_from(first), |id| {
        types.next_from(EventTypeId(id.0.saturating_add(1)))
    });
    let topics = ids.filter_map(|id| {
        let topic = types.name(id)?.strip_prefix(published)?;
        Some((topic, id, types.id(&[taken, topic].concat())?))
    });
    topics.collect()
}

/// Returns the types that say when a span of the `tracing` layer is made and when it is over, from
/// the type that says that one is entered.
fn lifetime(types: &EventTypes, enter: EventTypeId) -> Option<(EventTypeId, EventTypeId)> {
    let name = types.name(enter)?.strip_prefix(b"enter ")?;
    let of = |word: &[u8]| types.id(&[word, name].concat());
    Some((of(b"new ")?, of(b"close ")?))
}

/// Tells whether events of a border come from the kernel, as those of system calls and probes do.
fn is_kernels(types: &EventTypes, border: &Border) -> bool {
    const OF_PROBES: [&[u8]; 3] = [b"probe:", b"retprobe:", b"usdt:"];
    let name = types.name(border.event_type).unwrap_or_default();
    border.syscall.is_some() || OF_PROBES.iter().any(|prefix| name.starts_with(prefix))
}

fn event(event_type: EventTypeId) -> Border {
    Border {
        event_type,
        syscall: None,
        key: None,
    }
}

fn by_id(event_type: EventTypeId) -> Border {
    Border {
        key: Some(KeyOf::SpanId),
        ..event(event_type)
    }
}

fn border(types: &EventTypes, spec: &BorderSpec) -> Option<Border> {
    Some(Border {
        key: spec.key.map(KeyOf::Bytes),
        ..event(types.id(&spec.event)?)
    })
}
