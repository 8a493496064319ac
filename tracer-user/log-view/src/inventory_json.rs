//! Contents of a log, as one JSON object.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tracer_log::FinalStatus;

use super::Inventory;
use super::inventory::ThreadCount;
use super::inventory_text::{date, inheritance, log_policy, stream_policy};

/// Renders the contents of a log as JSON. Bytes of names that are not UTF-8 become U+FFFD.
#[must_use]
pub fn json(inventory: &Inventory) -> Value {
    let summary = &inventory.summary;
    let condition = summary.log.unwrap_or_default();
    // Names that differ only in what is not UTF-8 share an entry.
    let mut events = BTreeMap::<String, u64>::new();
    for (name, count) in &summary.events {
        *events.entry(lossy(name)).or_default() += count;
    }
    let lost: Map<String, Value> = summary
        .lost
        .iter()
        .map(|(cause, count)| (cause.name().to_owned(), json!(count)))
        .collect();
    let threads: Vec<Value> = inventory.threads.iter().map(thread).collect();
    json!({
        "attributes": attributes(inventory),
        "clock": {
            "monotonic_ns": inventory.anchor.monotonic.0,
            "time": date(inventory.anchor.realtime),
        },
        "completed": inventory.status.is_some(),
        "status": inventory.status.map(status),
        "events": events,
        "event_count": inventory.events(),
        "first": inventory.span.map(|span| date(span.first.1)),
        "last": inventory.span.map(|span| date(span.last.1)),
        "ended": inventory.ended.map(date),
        "span_ns": inventory.span.map(|span| span.ns()),
        "bytes": inventory.bytes,
        "data_bytes": inventory.data_bytes,
        "lost": lost,
        "lost_for_other_causes": condition.lost_for_other_causes,
        "lost_in_log": condition.lost_in_log,
        "damage": {
            "places": condition.damage.sites,
            "bytes": condition.damage.bytes,
            "packets_missing": condition.damage.packets_missing,
        },
        "threads": threads,
        "events_of_other_threads": inventory.events_of_other_threads,
    })
}

fn attributes(inventory: &Inventory) -> Value {
    let attributes = &inventory.attributes;
    json!({
        "name": lossy(attributes.name().as_bytes()),
        "generation_version": lossy(attributes.generation_version().as_bytes()),
        "creation_time": date(attributes.creation_time()),
        "clock_resolution_ns": attributes.clock_resolution_ns(),
        "stream_full_policy": stream_policy(attributes.stream_full_policy()),
        "stream_min_size": attributes.stream_min_size(),
        "log_full_policy": log_policy(attributes.log_full_policy()),
        "log_max_size": attributes.log_max_size(),
        "max_data_size": attributes.max_data_size(),
        "children": inheritance(attributes.inheritance()),
    })
}

fn status(status: FinalStatus) -> Value {
    json!({
        "full": status.is_full,
        "overrun": status.is_overrun,
        "flush_error": status.flush_error,
        "log_full": status.is_log_full,
        "log_overrun": status.is_log_overrun,
    })
}

fn thread(thread: &ThreadCount) -> Value {
    json!({
        "pid": thread.pid,
        "tid": thread.tid,
        "comm": lossy(&thread.comm),
        "events": thread.events,
    })
}

fn lossy(untrusted: &[u8]) -> String {
    String::from_utf8_lossy(untrusted).into_owned()
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::EventTypeId;

    use super::*;
    use crate::test_log::TestLog;
    use crate::{Walk, WantedEvents};

    #[test]
    fn everything_is_reported() {
        let mut log = TestLog {
            late: 3,
            status: Some(FinalStatus::default()),
            ..TestLog::default()
        };
        let hostile = log.define(b"a\n\xff");
        log.push(100, EventTypeId::FORK, (7, 7), b"");
        log.push(130, hostile, (7, 8), b"12345");
        let shown = json(&Inventory::take(Walk::new(log, WantedEvents::default()), 2).unwrap());

        assert_eq!(shown["attributes"]["name"], "made up");
        assert_eq!(shown["clock"]["monotonic_ns"], 100);
        assert_eq!(shown["completed"], true);
        assert_eq!(shown["status"]["flush_error"], 0);
        assert_eq!(
            shown["events"],
            json!({"linux_trace_fork": 1, "a\n\u{fffd}": 1})
        );
        assert_eq!(shown["first"], "2001-09-09T01:46:40.000000000Z");
        assert_eq!(shown["span_ns"], 30);
        assert_eq!(shown["lost"]["late"], 3);
        assert_eq!(
            shown["threads"][1],
            json!({"pid": 7, "tid": 8, "comm": "worker", "events": 1})
        );
    }

    #[test]
    fn a_log_without_events_has_no_times() {
        let shown = json(
            &Inventory::take(Walk::new(TestLog::default(), WantedEvents::default()), 2).unwrap(),
        );
        assert_eq!(shown["first"], Value::Null);
        assert_eq!(shown["completed"], false);
        assert_eq!(shown["status"], Value::Null);
    }
}
