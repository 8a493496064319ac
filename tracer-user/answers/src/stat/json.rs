//! Statistics for programs.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use tracer_analysis::{CallKey, CallTotal, Durations, Thread, ThreadTotal, Unended};

use super::kernel::{faults, interrupts, requests, signals};
use super::locks::locks;
use super::{By, Group, SortBy, Statistics, View};
use crate::damage::damage;
use crate::queries::words::{call_name, inside};
use crate::queries::{Functions, SpanKind, tree};

/// Renders statistics as one object. Times are in nanoseconds; what is not known is `null`.
#[must_use]
pub fn json(statistics: &Statistics, view: View) -> impl Serialize {
    Whole {
        parts: parts(statistics, view),
        threads: Threads(statistics, view.sort),
    }
}

/// The object: threads are made one by one as they are written, since there may be many.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    parts: Value,
    threads: Threads<'a>,
}

struct Threads<'a>(&'a Statistics, SortBy);

impl Serialize for Threads<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(statistics, sort) = *self;
        let (start, functions) = (statistics.start.0, statistics.paths.functions());
        let threads = statistics.sorted(sort).into_iter();
        serializer.collect_seq(
            threads.map(|(thread, comm, total)| {
                render_thread((*thread, comm, total), start, functions)
            }),
        )
    }
}

/// Returns everything but the threads.
fn parts(statistics: &Statistics, view: View) -> Value {
    let (kinds, functions) = (statistics.paths.kinds(), statistics.paths.functions());
    let groups = statistics.groups(By::Comm, view.sort);
    let by_name = groups.iter().map(|group| render_group(group, functions));
    let by_name: Vec<Value> = by_name.collect();
    let spans: Vec<Value> = kinds
        .iter()
        .map(|kind| render_kind(kind, functions))
        .collect();
    let calls = statistics.calls.iter();
    let cpus = statistics.cpus.iter();
    let cpus: Vec<Value> = cpus
        .map(|(cpu, ns)| json!({ "cpu": cpu, "used_ns": ns }))
        .collect();
    let events = statistics
        .summary
        .events
        .iter()
        .map(|(name, count)| json!({ "name": String::from_utf8_lossy(name), "count": count }));
    let events: Vec<Value> = events.collect();
    let calls: Vec<Value> = calls.map(|(key, total)| render_call(*key, total)).collect();
    json!({
        "span_ns": statistics.span_ns,
        "stillness": statistics.paths.stillness(),
        "lost": statistics.lost,
        "damage": statistics.summary.damage().map(damage),
        "unrecorded": statistics.summary.unrecorded.json(),
        "not_reported": statistics.summary.not_reported(),
        "has_switches": statistics.has_switches,
        "has_wakeups": statistics.has_wakeups,
        "by_comm": by_name,
        "commands": commands(statistics),
        "throttled_by": throttled_by(&statistics.all(), functions),
        "wakeups": render_durations(&statistics.wakeups),
        "wakeup_ranges": ranges(&statistics.wakeups),
        "cpus": cpus,
        "spans": spans,
        "unended": render_unended(statistics.paths.unended()),
        "syscalls": calls,
        "locks": locks(statistics),
        "faults": faults(statistics),
        "requests": requests(statistics),
        "signals": signals(statistics),
        "interrupts": interrupts(statistics),
        "events": events,
    })
}

/// Returns the command lines that processes were started with, as far as they are known.
fn commands(statistics: &Statistics) -> Vec<Value> {
    let pids = statistics.threads.iter().map(|(thread, ..)| thread.pid);
    let pids: BTreeSet<i32> = pids.collect();
    let known = pids.into_iter().filter_map(|pid| {
        let (_, command) = statistics.command_of(pid)?;
        Some(json!({ "pid": pid, "command": command }))
    });
    known.collect()
}

fn render_thread(
    (thread, comm, total): (Thread, &[u8], &ThreadTotal),
    start: u64,
    functions: &Functions,
) -> Value {
    let mut row = json!({
        "pid": thread.pid,
        "tid": thread.tid,
        "comm": String::from_utf8_lossy(comm),
    });
    add_total(&mut row, total, functions);
    if total.waits.count() > 0
        && let Some(Value::Object(waits)) = row.get_mut("waits")
    {
        let at = total.longest_wait_at.0.saturating_sub(start);
        waits.insert("max_at_ns".to_owned(), at.into());
    }
    row
}

/// Renders the threads of one name.
fn render_group(group: &Group, functions: &Functions) -> Value {
    let mut row = json!({
        "comm": String::from_utf8_lossy(&group.comm),
        "processes": group.processes,
        "threads": group.threads,
    });
    add_total(&mut row, &group.total, functions);
    row
}

/// Adds the activity of a row's threads.
fn add_total(row: &mut Value, total: &ThreadTotal, functions: &Functions) {
    let members = json!({
        "running_ns": total.running,
        "runnable_ns": total.runnable,
        "throttled_ns": total.throttled,
        "throttled_by": throttled_by(total, functions),
        "blocked_ns": total.blocked,
        "stopped_ns": total.stopped,
        "unknown_ns": total.unknown,
        "blocked_in": blocked_in(total, functions),
        "preemptions": total.preempted,
        "migrations": total.migrations,
        "waits": render_durations(&total.waits),
        "wakeups": render_durations(&total.wakeups),
    });
    if let (Value::Object(row), Value::Object(members)) = (row, members) {
        row.extend(members);
    }
}

/// Returns the control groups by which threads were throttled, the longest first; a group that is
/// not known is `null`.
fn throttled_by(total: &ThreadTotal, functions: &Functions) -> Vec<Value> {
    let by = total.throttled_by_longest().into_iter();
    by.map(|(group, ns)| json!({ "group": functions.groups.name(group).map(|name| &**name), "ns": ns }))
        .collect()
}

/// Returns the reasons why a thread was blocked, the longest first.
fn blocked_in(total: &ThreadTotal, functions: &Functions) -> Vec<Value> {
    let mut reasons = total.blocked_in.clone();
    reasons.sort_by_key(|(reason, ns)| (std::cmp::Reverse(*ns), *reason));
    let reasons = reasons.into_iter().map(|(reason, ns)| {
        let at = total.functions_of(reason).into_iter();
        let at = at.filter_map(|(function, ns)| {
            let place = functions.place(function)?;
            let (name, is_innermost) = (&*place.name, place.is_innermost);
            Some(json!({ "function": name, "innermost": is_innermost, "ns": ns }))
        });
        let at: Vec<Value> = at.collect();
        json!({ "in": inside(reason.inside), "io_wait": reason.is_io, "ns": ns, "at": at })
    });
    reasons.collect()
}

/// Returns the counts of durations that are up to each power of two, and above the one before.
fn ranges(durations: &Durations) -> Vec<Value> {
    let ranges = durations.ranges().into_iter();
    ranges
        .map(|(end, count)| json!({ "up_to_ns": end, "count": count }))
        .collect()
}

/// Renders the spans that began and have not ended, by the reason.
#[must_use]
pub fn render_unended(unended: Unended) -> Value {
    json!({
        "thread_ended": unended.thread_ended,
        "too_deep": unended.too_deep,
        "begun_again": unended.begun_again,
        "open": unended.open,
    })
}

/// Renders the spans of one kind, with the activity of their own threads.
pub fn render_kind(kind: &SpanKind, functions: &Functions) -> Value {
    json!({
        "name": String::from_utf8_lossy(&kind.name),
        "took": render_durations(&kind.took),
        "running_ns": kind.split.running,
        "runnable_ns": kind.split.runnable,
        "blocked_ns": kind.split.blocked,
        "stopped_ns": kind.split.stopped,
        "unpolled_ns": kind.split.unpolled,
        "unknown_ns": kind.split.unknown,
        "parts": tree::tree(&kind.blame, functions),
    })
}

fn render_call(key: CallKey, total: &CallTotal) -> Value {
    json!({
        "name": call_name(key),
        "compat": key.is_compat,
        "count": total.count,
        "errors": total.errors,
        "took": render_durations(&total.took),
    })
}

/// Renders durations, with their percentiles.
pub fn render_durations(durations: &Durations) -> Value {
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
