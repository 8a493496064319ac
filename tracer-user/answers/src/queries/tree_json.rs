//! Causes of time, for programs.

use serde_json::{Map, Value, json};
use tracer_analysis::{
    Blame, Node, PathPart, Reason, Step, Task, Then, Thread, UnknownReason, Wait, Waker,
};

use super::Functions;
use super::words::inside;
use tracer_event::fields::until_null;

/// Renders the tree: parts, the longest first, with the parts within each.
#[must_use]
pub fn tree(blame: &Blame, functions: &Functions) -> Value {
    nodes(blame, functions, &blame.roots())
}

fn nodes(blame: &Blame, functions: &Functions, of: &[&Node]) -> Value {
    of.iter()
        .map(|node| {
            let mut object = part(&node.part, functions);
            object.insert("ns".to_owned(), node.ns.into());
            object.insert("count".to_owned(), node.count.into());
            let children = blame.children(node);
            if !children.is_empty() {
                object.insert("within".to_owned(), nodes(blame, functions, &children));
            }
            Value::Object(object)
        })
        .collect()
}

/// Returns the parts of a path that no others lie within: their sum is its length. Times count from
/// `start` on.
#[must_use]
pub fn segments(segments: &[Step], functions: &Functions, start: u64) -> Value {
    segments
        .iter()
        .map(|step| {
            let mut object = part(&step.part, functions);
            let since = step.from.0.saturating_sub(start);
            object.insert("pid".to_owned(), step.thread.pid.into());
            object.insert("tid".to_owned(), step.thread.tid.into());
            object.insert("from_ns".to_owned(), since.into());
            object.insert("ns".to_owned(), step.ns().into());
            object.insert("depth".to_owned(), step.depth.into());
            Value::Object(object)
        })
        .collect()
}

fn part(part: &PathPart, functions: &Functions) -> Map<String, Value> {
    let object = match part {
        PathPart::Running => json!({ "state": "running" }),
        PathPart::Runnable(wait, behind) => json!({
            "state": "runnable",
            "wait": wait_word(*wait),
            "group": functions.groups.of_wait(*wait).map(|name| &**name),
            "behind": behind.as_ref().map(|behind| task(&behind.task)),
            "behind_others": behind.as_ref().and_then(|behind| behind.others),
        }),
        PathPart::Blocked(reason, of) => json!({
            "state": "blocked",
            "in": inside(reason.inside),
            "function": name(reason, functions),
            "innermost": is_innermost(reason, functions),
            "io_wait": reason.is_io,
            "lock": lock(reason, Some(of), functions),
            "waker": waker(of),
        }),
        PathPart::StillBlocked(reason, at) => json!({
            "state": "blocked",
            "in": inside(reason.inside),
            "function": name(reason, functions),
            "innermost": is_innermost(reason, functions),
            "io_wait": reason.is_io,
            "lock": lock(reason, None, functions),
            "waker": null,
            "still_at": then(*at),
        }),
        PathPart::StillStopped(at) => json!({
            "state": "stopped", "waker": null, "still_at": then(*at),
        }),
        PathPart::Underway => json!({ "state": "waking" }),
        PathPart::Stopped(of) => json!({ "state": "stopped", "waker": waker(of) }),
        PathPart::Unmade(by) => json!({ "state": "unmade", "maker": task(by) }),
        PathPart::Unpolled(next) => json!({ "state": "unpolled", "next": task(next) }),
        PathPart::Unknown(why) => json!({
            "state": "unknown",
            "why": match why {
                UnknownReason::Lost => "lost",
                UnknownReason::NotSeen => "not_seen",
                UnknownReason::TooLong => "too_long",
            },
        }),
    };
    match object {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// Returns the word for the reason why a thread waits for a CPU.
#[must_use]
pub fn wait_word(wait: Wait) -> &'static str {
    match wait {
        Wait::New => "new",
        Wait::Woken => "woken",
        Wait::Preempted => "preempted",
        Wait::Yielded => "yielded",
        Wait::Throttled(_) => "throttled",
        Wait::OutOfBudget => "out_of_budget",
        Wait::Unsaid => "unknown",
    }
}

/// Returns the lock that a thread waits for, and who has it; `null` where no lock was recorded.
fn lock(reason: &Reason, waker: Option<&Waker>, functions: &Functions) -> Option<Value> {
    let lock = functions.locks.get(reason.lock)?;
    Some(json!({
        "kind": lock.kind.name(),
        "pid": lock.key.pid,
        "program": lock.key.program,
        "address": lock.key.address,
        "holder": lock.holder(waker).as_ref().map(task),
        "readers": lock.readers,
    }))
}

/// Returns the function in which a thread waits, where that is known.
fn name<'a>(reason: &Reason, functions: &'a Functions) -> Option<&'a str> {
    let place = functions.place(reason.function)?;
    Some(&place.name)
}

/// Tells whether that is the innermost one of the program.
fn is_innermost(reason: &Reason, functions: &Functions) -> Option<bool> {
    let place = functions.place(reason.function)?;
    Some(place.is_innermost)
}

fn then(at: Then) -> &'static str {
    match at {
        Then::TraceEnd => "trace_end",
        Then::PathEnd => "path_end",
    }
}

/// Returns the waker of a thread; `null` where it is not known.
#[must_use]
pub fn waker(of: &Waker) -> Value {
    match of {
        Waker::Unknown => Value::Null,
        Waker::Thread(of) => json!({ "kind": "thread", "thread": task(of) }),
        Waker::Interrupt => json!({ "kind": "irq" }),
        Waker::SoftInterrupt => json!({ "kind": "softirq" }),
        Waker::Timer => json!({ "kind": "timer" }),
    }
}

/// Renders a thread: its name alone where it means all of that name.
#[must_use]
pub fn task(task: &Task) -> Value {
    let comm = String::from_utf8_lossy(until_null(&task.comm)).into_owned();
    if task.thread == Thread::default() && !comm.is_empty() {
        return json!({ "comm": comm });
    }
    json!({ "pid": task.thread.pid, "tid": task.thread.tid, "comm": comm })
}
