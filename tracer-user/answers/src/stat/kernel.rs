//! Page faults, signals and interrupts: tables for people, objects for programs. The last row of
//! these, with `null` in place of its key, sums up those that there were too many of.

use std::cmp::Reverse;

use serde_json::{Value, json};
use tracer_analysis::{
    FaultTotal, Interrupt, InterruptKey, InterruptTotal, RequestKey, RequestTotal, SignalKey,
    SignalTotal, Thread, TotalsByKey,
};
use tracer_event::fields::until_null;
use tracer_event::value_names::{block_operation, softirq};
use tracer_text::escape::push_for_people;
use tracer_text::signal_name;

use super::Statistics;
use super::json::render_durations;
use super::table::{TableColumn, push_table};
use crate::queries::words::{duration, thread};

const FAULTS: [TableColumn<FaultTotal>; 7] = [
    ("count", 10, |total| total.all().to_string()),
    ("user", 10, |total| total.user.to_string()),
    ("kernel", 10, |total| total.kernel.to_string()),
    ("write", 10, |total| total.writes.to_string()),
    ("fetch", 10, |total| total.fetches.to_string()),
    ("protection", 12, |total| total.protection.to_string()),
    ("from device", 13, |total| total.waited.to_string()),
];

pub fn push_faults(out: &mut String, statistics: &Statistics) {
    let totals = statistics.faults.totals();
    let names = statistics.paths.names();
    let rows = totals.sorted().into_iter();
    let mut rows: Vec<_> = rows
        .map(|(of, total)| (thread(of, names.get(of)), total.clone()))
        .collect();
    rows.sort_by_key(|(_, total)| Reverse(total.all()));
    let has_others = totals.others().is_some();
    push_table(out, "page faults", &FAULTS, &rows, has_others);
}

const REQUESTS: [TableColumn<RequestTotal>; 6] = [
    ("count", 10, |total| total.issued.to_string()),
    ("bytes", 14, |total| total.bytes.to_string()),
    ("failed", 10, |total| total.failed.to_string()),
    ("p50", 10, |total| known(total.took.quantile(0.5))),
    ("p99", 10, |total| known(total.took.quantile(0.99))),
    ("max", 10, |total| {
        known((total.took.count() > 0).then(|| total.took.longest()))
    }),
];

pub fn push_requests(out: &mut String, statistics: &Statistics) {
    let totals = statistics.requests.totals();
    let mut rows: Vec<_> = totals
        .sorted()
        .into_iter()
        .map(|(key, total)| {
            let operation = block_operation(key.operation);
            let operation = operation.map_or_else(|| key.operation.to_string(), str::to_owned);
            let label = format!("{}:{} {operation}", key.major, key.minor);
            (label, total.clone())
        })
        .collect();
    rows.sort_by_key(|(_, total)| Reverse(total.took.total()));
    let has_others = totals.others().is_some();
    push_table(out, "requests to a device", &REQUESTS, &rows, has_others);
}

/// A signal with its outcome.
type Signal = (u32, SignalTotal);

const SIGNALS: [TableColumn<Signal>; 8] = [
    ("signal", 12, |(signal, _)| {
        signal_name(*signal).map_or_else(|| signal.to_string(), str::to_owned)
    }),
    ("sent", 10, |(_, total)| total.sent.to_string()),
    ("ignored", 10, |(_, total)| {
        total.ignored.saturating_add(total.dropped).to_string()
    }),
    ("pending", 10, |(_, total)| total.pending.to_string()),
    ("lost", 10, |(_, total)| total.lost.to_string()),
    ("taken", 10, |(_, total)| total.taken.to_string()),
    ("handled", 10, |(_, total)| total.handled.to_string()),
    ("default", 10, |(_, total)| total.by_default.to_string()),
];

pub fn push_signals(out: &mut String, statistics: &Statistics) {
    let totals = statistics.signals.totals();
    let rows = totals.sorted().into_iter();
    let mut rows: Vec<(String, Signal)> = rows
        .filter(|(key, _)| statistics.scope.has_process(key.pid))
        .map(|(key, total)| {
            let leader = Thread {
                pid: key.pid,
                tid: key.pid,
            };
            let label = thread(leader, statistics.name_of(key, total));
            (label, (key.signal, total.clone()))
        })
        .collect();
    rows.sort_by_key(|(_, (_, total))| Reverse(total.sent.max(total.taken)));
    push_table(
        out,
        "signals to",
        &SIGNALS,
        &rows,
        totals.others().is_some(),
    );
}

/// Line above the interrupts of devices, and line below them.
const DEVICES: &str = "interrupts";
const NOT_AMONG_THEM: &str = "those of CPUs are not among them (LOC, RES, CAL, TLB, IWI): \
                              /proc/interrupts counts them\n";

/// A CPU with the time that an interrupt took there.
type OnCpu = (Option<u32>, InterruptTotal);

const INTERRUPTS: [TableColumn<OnCpu>; 5] = [
    ("cpu", 6, |(cpu, _)| {
        cpu.map_or_else(|| "-".to_owned(), |cpu| cpu.to_string())
    }),
    ("count", 10, |(_, total)| total.count.to_string()),
    ("total", 12, |(_, total)| {
        known((total.ended > 0).then_some(total.took))
    }),
    ("mean", 12, |(_, total)| known(total.mean())),
    ("max", 12, |(_, total)| known(total.longest())),
];

pub fn push_interrupts(out: &mut String, statistics: &Statistics) {
    let totals = statistics.interrupts.totals();
    let (mut devices, mut soft) = (Vec::new(), Vec::new());
    for (key, total) in totals.sorted() {
        let row = (key.cpu, total.clone());
        match key.interrupt {
            Interrupt::Device(irq, name) => {
                let mut label = Vec::new();
                push_for_people(&mut label, until_null(&name));
                let label = String::from_utf8_lossy(&label);
                devices.push((format!("{irq} {label}"), row));
            }
            Interrupt::Soft(vector) => {
                let name = softirq(vector).map_or_else(|| vector.to_string(), str::to_owned);
                soft.push((name, row));
            }
        }
    }
    let has_others = totals.others().is_some();
    for (heading, mut rows) in [(DEVICES, devices), ("soft interrupts", soft)] {
        rows.sort_by_key(|(_, (_, total))| (Reverse(total.took), Reverse(total.count)));
        push_table(out, heading, &INTERRUPTS, &rows, has_others);
        if heading == DEVICES && !rows.is_empty() {
            out.push_str(NOT_AMONG_THEM);
        }
    }
}

fn known(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), duration)
}

/// Returns a row for each key, and one for the others.
fn rows<K, V>(rows: &TotalsByKey<K, V>, row: impl Fn(Option<K>, &V) -> Value) -> Vec<Value>
where
    K: Copy + Eq + Ord + std::hash::Hash,
    V: Default,
{
    let sorted = rows.sorted().into_iter();
    let sorted = sorted.map(|(key, total)| row(Some(key), total));
    sorted
        .chain(rows.others().map(|total| row(None, total)))
        .collect()
}

pub fn faults(statistics: &Statistics) -> Vec<Value> {
    let names = statistics.paths.names();
    rows(
        statistics.faults.totals(),
        |of: Option<Thread>, total: &FaultTotal| {
            json!({
                "pid": of.map(|of| of.pid),
                "tid": of.map(|of| of.tid),
                "comm": of.map(|of| String::from_utf8_lossy(names.get(of))),
                "count": total.all(),
                "user": total.user,
                "kernel": total.kernel,
                "write": total.writes,
                "fetch": total.fetches,
                "protection": total.protection,
                "from_device": total.waited,
            })
        },
    )
}

pub fn requests(statistics: &Statistics) -> Vec<Value> {
    rows(
        statistics.requests.totals(),
        |of: Option<RequestKey>, total: &RequestTotal| {
            json!({
                "major": of.map(|of| of.major),
                "minor": of.map(|of| of.minor),
                "operation": of.and_then(|of| block_operation(of.operation)),
                "count": total.issued,
                "bytes": total.bytes,
                "failed": total.failed,
                "took": render_durations(&total.took),
            })
        },
    )
}

pub fn signals(statistics: &Statistics) -> Vec<Value> {
    let is_asked = |row: &Value| {
        let pid = row["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        pid.is_none_or(|pid| statistics.scope.has_process(pid))
    };
    let mut rows = rows(
        statistics.signals.totals(),
        |of: Option<SignalKey>, total: &SignalTotal| {
            let comm = of.map(|of| statistics.name_of(of, total));
            json!({
                "pid": of.map(|of| of.pid),
                "comm": comm.map(String::from_utf8_lossy),
                "signal": of.map(|of| of.signal),
                "name": of.and_then(|of| signal_name(of.signal)),
                "sent": {
                    "count": total.sent,
                    "ignored": total.ignored,
                    "pending": total.pending,
                    "lost": total.lost,
                    "without_siginfo": total.without_info,
                },
                "taken": {
                    "count": total.taken,
                    "handled": total.handled,
                    "default": total.by_default,
                    "ignored": total.dropped,
                },
            })
        },
    );
    rows.retain(is_asked);
    rows
}

pub fn interrupts(statistics: &Statistics) -> Vec<Value> {
    rows(
        statistics.interrupts.totals(),
        |of: Option<InterruptKey>, total: &InterruptTotal| {
            let (kind, id, name) = match of.map(|of| of.interrupt) {
                Some(Interrupt::Device(irq, name)) => {
                    let name = String::from_utf8_lossy(until_null(&name)).into_owned();
                    (Some("irq"), Some(irq), Some(name))
                }
                Some(Interrupt::Soft(vector)) => {
                    let name = softirq(vector).map(str::to_owned);
                    (Some("softirq"), Some(vector), name)
                }
                None => (None, None, None),
            };
            json!({
                "cpu": of.and_then(|of| of.cpu),
                "kind": kind,
                "id": id,
                "name": name,
                "count": total.count,
                "took": {
                    "count": total.ended,
                    "total_ns": total.took,
                    "mean_ns": total.mean(),
                    "max_ns": total.longest(),
                },
            })
        },
    )
}
