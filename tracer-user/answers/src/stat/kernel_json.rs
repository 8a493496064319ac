//! Page faults, signals and interrupts for programs. The last row, with `null` in place of its
//! key, sums up those that there were too many of.

use serde_json::{Value, json};
use tracer_analysis::{
    FaultTotal, Interrupt, InterruptKey, InterruptTotal, RequestKey, RequestTotal, SignalKey,
    SignalTotal, Thread, TotalsByKey,
};

use super::Statistics;
use super::json::render_durations;
use tracer_event::fields::until_null;
use tracer_event::value_names::{block_operation, softirq};
use tracer_text::signal_name;

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
