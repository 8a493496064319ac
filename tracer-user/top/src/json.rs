//! A screen as JSON, for programs.

use serde_json::{Value, json};
use tracer_analysis::{Interval, State};

use super::model::{Shot, SlowSpan, SpanRow, Sum, ThreadRow, WaitsFor};
use tracer_answers::queries::tree;
use tracer_answers::queries::words::inside;

/// Returns a screen as one object. Times are in nanoseconds; an unknown value is `null`.
#[must_use]
pub fn json(shot: &Shot) -> Value {
    let mut threads: Vec<&ThreadRow> = shot.threads.iter().collect();
    // Of threads that had the same ids one after the other, the first is first.
    threads.sort_by_key(|row| (row.thread, row.current.map(|current| current.to)));
    let mut spans: Vec<&SpanRow> = shot.spans.iter().collect();
    spans.sort_by_key(|row| &row.kind);
    let (has_switches, has_wakeups) = shot.has;
    json!({
        "at_ns": shot.at,
        "window_ns": shot.span,
        "events": shot.events,
        "lost": shot.losses.lost,
        "lost_ago_ns": shot.lost_ago.filter(|_| shot.losses.lost > 0),
        "not_reported": shot.losses.not_reported,
        "has_switches": has_switches,
        "has_wakeups": has_wakeups,
        "has_other_threads": shot.has_others,
        "threads": threads.into_iter().map(render_thread).collect::<Vec<_>>(),
        "spans": spans.into_iter().map(render_spans).collect::<Vec<_>>(),
    })
}

fn render_thread(row: &ThreadRow) -> Value {
    let sum: &Sum = &row.sum;
    json!({
        "pid": row.thread.pid,
        "tid": row.thread.tid,
        "comm": String::from_utf8_lossy(&row.comm),
        "running_ns": sum.running,
        "runnable_ns": sum.runnable,
        "blocked_ns": sum.blocked,
        "stopped_ns": sum.stopped,
        "unknown_ns": sum.unknown,
        "switches": sum.switches,
        "wakeups": sum.wakeups,
        "longest_wakeup_ns": sum.worst_wakeup,
        "syscalls": sum.calls,
        "user_events": sum.users,
        "ran_each_second_ns": row.minute,
        "now": row.current.as_ref().map(|current| render_state(row, current)),
        "waits_for": row.waits_for.map(render_waits_for),
    })
}

/// Returns the state of a thread and the time it has been in it.
fn render_state(row: &ThreadRow, current: &Interval) -> Value {
    let for_ns = current.ns();
    match current.state {
        State::Running => json!({ "state": "running", "for_ns": for_ns, "cpu": current.cpu }),
        State::Runnable(wait) => {
            json!({
                "state": "runnable",
                "for_ns": for_ns,
                "wait": tree::wait_word(wait),
                "group": row.group.as_deref(),
            })
        }
        State::Blocked(reason) => json!({
            "state": "blocked",
            "for_ns": for_ns,
            "in": inside(reason.inside),
            "io_wait": reason.is_io,
        }),
        State::Stopped => json!({ "state": "stopped", "for_ns": for_ns }),
        State::Unknown => json!({ "state": "unknown", "for_ns": for_ns }),
        State::Dead => json!({ "state": "ended", "for_ns": for_ns }),
    }
}

fn render_waits_for(waits_for: WaitsFor) -> Value {
    match waits_for {
        WaitsFor::Behind(who, is_alone) => {
            json!({ "behind": tree::task(&who), "or_others": !is_alone })
        }
        WaitsFor::LastWokenBy(waker) => json!({ "last_waker": tree::waker(&waker) }),
    }
}

fn render_spans(row: &SpanRow) -> Value {
    json!({
        "name": String::from_utf8_lossy(&row.kind),
        "took": {
            "count": row.count,
            "total_ns": row.total,
            "p50_ns": row.p50,
            "p99_ns": row.p99,
            "max_ns": row.longest,
        },
        "running_ns": row.split.running,
        "runnable_ns": row.split.runnable,
        "blocked_ns": row.split.blocked,
        "stopped_ns": row.split.stopped,
        "unpolled_ns": row.split.unpolled,
        "unknown_ns": row.split.unknown,
        "mean_each_second_ns": row.trend,
        "slowest": row.slowest.as_ref().map(render_slowest),
    })
}

fn render_slowest(span: &SlowSpan) -> Value {
    json!({
        "pid": span.thread.pid,
        "tid": span.thread.tid,
        "comm": String::from_utf8_lossy(&span.comm),
        "from_ns": span.at.0,
        "ns": span.ns,
        "parts": span.parts,
    })
}
