//! Statistics for programs.

use serde_json::{Value, json};
use tracer_analysis::{CallKey, CallTotal, Durations, Thread, ThreadTotal};

use super::Statistics;
use super::text::call_name;

/// Statistics as one object. Times are in nanoseconds; what is not known is `null`.
#[must_use]
pub fn json(statistics: &Statistics) -> Value {
    let threads = statistics.threads.iter();
    let threads: Vec<Value> = threads
        .map(|(thread, comm, total)| of_thread(*thread, comm, total, statistics.first.0))
        .collect();
    let calls = statistics.calls.iter();
    let calls: Vec<Value> = calls.map(|(key, total)| of_call(*key, total)).collect();
    json!({
        "span_ns": statistics.span_ns,
        "lost": statistics.lost,
        "has_switches": statistics.has_switches,
        "has_wakeups": statistics.has_wakeups,
        "threads": threads,
        "syscalls": calls,
    })
}

fn of_thread(thread: Thread, comm: &[u8], total: &ThreadTotal, first: u64) -> Value {
    let mut waits = of_durations(&total.waits);
    if let (Some(waits), true) = (waits.as_object_mut(), total.waits.count() > 0) {
        let at = total.longest_wait_at.0.saturating_sub(first);
        waits.insert("max_at_ns".to_owned(), at.into());
    }
    json!({
        "pid": thread.pid,
        "tid": thread.tid,
        "comm": String::from_utf8_lossy(comm),
        "running_ns": total.running,
        "runnable_ns": total.runnable,
        "blocked_ns": total.blocked,
        "stopped_ns": total.stopped,
        "unknown_ns": total.unknown,
        "preemptions": total.preempted,
        "waits": waits,
        "wakeups": of_durations(&total.wakeups),
    })
}

fn of_call(key: CallKey, total: &CallTotal) -> Value {
    json!({
        "name": call_name(key),
        "compat": key.is_compat,
        "count": total.count,
        "errors": total.errors,
        "took": of_durations(&total.took),
    })
}

fn of_durations(durations: &Durations) -> Value {
    json!({
        "count": durations.count(),
        "total_ns": durations.total(),
        "mean_ns": durations.mean(),
        "p50_ns": durations.quantile(0.5),
        "p95_ns": durations.quantile(0.95),
        "p99_ns": durations.quantile(0.99),
        "max_ns": (durations.count() > 0).then(|| durations.longest()),
    })
}
