//! Header of the page: all its data but the columns.

use std::collections::{BTreeSet, HashMap};
use std::iter;

use serde_json::{Value, json};
use tracer_analysis::{Interrupt, Thread};
use tracer_common::event_type::system_event_type;
use tracer_engine::EventTypes;
use tracer_engine::event::MonotonicNs;

use super::columns::Deflated;
use super::recording::ReportRows;
use crate::queries::words::{call_name, thread};
use crate::queries::{tree, words};
use crate::stat::Statistics;
use crate::why;
use tracer_event::fields::until_null;
use tracer_event::value_names::softirq;
use tracer_text::escape::push_for_people;
use tracer_text::push_short_name;

/// Limit of the lines of words about one span.
const MOST_LINES: usize = 40;

/// Origin of the log.
#[derive(Clone, Debug)]
pub struct LogOrigin {
    /// Name of the log.
    pub name: String,
    /// Time at which it was made.
    pub start: MonotonicNs,
    /// Date of that time, in UTC.
    pub date: String,
    /// System that it was made on.
    pub system: String,
}

/// Returns the header for these columns, without the tables of `stat`.
pub fn header(
    source: &LogOrigin,
    rows: &ReportRows,
    statistics: &Statistics,
    types: &EventTypes,
) -> Value {
    let (names, commands) = (statistics.paths.names(), statistics.paths.commands());
    let threads = rows.threads.entries().iter();
    let counts = rows.intervals.counts().iter();
    let threads: Vec<Value> = threads
        .zip(counts.chain(iter::repeat(&0)))
        .map(|(of, count)| json!([of.pid, of.tid, harmless(names.get(*of)), count]))
        .collect();
    // The name is that of the process, whichever thread is seen.
    let pids: BTreeSet<i32> = rows.threads.entries().iter().map(|of| of.pid).collect();
    let processes = pids.into_iter().map(|pid| {
        let leader = Thread { pid, tid: pid };
        json!([pid, harmless(names.get(leader)), commands.get(pid)])
    });
    let processes: Vec<Value> = processes.collect();
    let tasks = rows.tasks.entries().iter();
    let tasks: Vec<Value> = tasks
        .map(|task| {
            let Thread { pid, tid } = task.thread;
            json!([pid, tid, harmless(until_null(&task.comm))])
        })
        .collect();
    let codes: Vec<Value> = rows
        .codes
        .entries()
        .iter()
        .map(|code| code.json(statistics.paths.groups()))
        .collect();
    let calls: Vec<String> = rows
        .calls
        .entries()
        .iter()
        .map(|key| call_name(*key))
        .collect();
    let nodes = nodes(rows, statistics);
    let kinds = statistics.paths.kinds().iter();
    let kinds: Vec<String> = kinds.map(|kind| harmless(&kind.name)).collect();
    let mark_types: Vec<Value> = rows
        .types
        .entries()
        .iter()
        .map(|id| match system_event_type(*id) {
            Some(entry) => {
                let mut name = Vec::new();
                push_short_name(&mut name, entry.name);
                json!([String::from_utf8_lossy(&name), entry.family])
            }
            None => json!([harmless(types.name(*id).unwrap_or_default()), "user"]),
        })
        .collect();
    let interrupts: Vec<Value> = rows.interrupts.entries().iter().map(interrupt).collect();
    let events = statistics.summary.events.iter();
    let events: Vec<String> = events.map(|(name, _)| harmless(name)).collect();
    let first = statistics.first.0;
    json!({
        "format": 1,
        "version": env!("CARGO_PKG_VERSION"),
        "log": source.name,
        "date": source.date,
        "system": source.system,
        "first_ns": first.saturating_sub(source.start.0),
        "span_ns": statistics.span_ns,
        "threads": threads,
        "processes": processes,
        "tasks": tasks,
        "codes": codes,
        "calls": calls,
        "kinds": kinds,
        "nodes": nodes,
        "types": mark_types,
        "interrupts": interrupts,
        "event_names": events,
        "gaps": rows.gaps,
        "left_out": rows.left_out,
        "without_words": rows.without_words,
        "but_for": statistics.summary.but_for(),
        "missing_events": statistics.paths.missing_events(),
        "closing": statistics.summary.for_people(),
        "slowest": slowest(source.start.0, statistics),
    })
}

/// Returns the layout of the columns, in order.
pub fn layout(columns: &[Deflated]) -> Value {
    columns
        .iter()
        .map(|column| {
            let planes = column.planes.iter();
            let planes = planes.map(|(bytes, deflated)| (*bytes, deflated.len()));
            json!({
                "name": column.name,
                "count": column.count,
                "has_texts": column.has_texts,
                "planes": planes.collect::<Vec<_>>(),
            })
        })
        .collect()
}

/// Returns the spans that are explained, as `why` explains them.
fn slowest(start: u64, statistics: &Statistics) -> Vec<Value> {
    let paths = &statistics.paths;
    let shown = paths.shown().iter();
    shown
        .map(|shown| {
            let mut object = why::render_shown(paths, shown, start);
            let (mut text, mut left) = (String::new(), MOST_LINES);
            let span = &shown.span;
            let of = (&shown.blame, paths.functions());
            tree::push(&mut text, of, span.ns(), &mut left);
            if let Some(object) = object.as_object_mut() {
                object.insert("words".to_owned(), text.into());
                let of = thread(span.thread, &shown.comm);
                object.insert("of".to_owned(), of.into());
                object.insert("kind".to_owned(), shown.kind.into());
                let took = words::duration(span.ns());
                object.insert("took".to_owned(), took.into());
            }
            object
        })
        .collect()
}

/// Returns the nodes of robots: the name and process of each, and which kinds of spans are its
/// callbacks.
fn nodes(rows: &ReportRows, statistics: &Statistics) -> Vec<Value> {
    let kinds = statistics.paths.kinds().iter().enumerate();
    let kinds: HashMap<&[u8], usize> = kinds.map(|(index, kind)| (&kind.name[..], index)).collect();
    let nodes = (0_u32..).zip(rows.nodes.entries());
    nodes
        .map(|(index, (pid, name))| {
            let callbacks = rows
                .callbacks
                .range((index, Vec::new())..(index + 1, Vec::new()));
            let callbacks = callbacks.filter_map(|(_, span)| kinds.get(&span[..]));
            json!([
                harmless(name.as_bytes()),
                pid,
                callbacks.collect::<Vec<_>>()
            ])
        })
        .collect()
}

fn interrupt(interrupt: &Interrupt) -> Value {
    match interrupt {
        Interrupt::Device(irq, name) => json!(["irq", irq, harmless(until_null(name))]),
        Interrupt::Soft(vector) => json!(["softirq", vector, softirq(*vector)]),
    }
}

/// Escapes a name of any bytes, for people.
fn harmless(untrusted: &[u8]) -> String {
    let mut out = Vec::new();
    push_for_people(&mut out, untrusted);
    String::from_utf8_lossy(&out).into_owned()
}
