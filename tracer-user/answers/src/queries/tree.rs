//! Causes of time as a tree: lines for people, objects for programs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use tracer_analysis::{
    Blame, Interrupt, Node, PathPart, Reason, Step, Task, Then, Thread, UnknownReason, Wait, Waker,
};
use tracer_event::fields::until_null;
use tracer_text::escape::push_for_people;

use super::Functions;
use super::words::{duration, inside, interrupt_name, part, share};

/// A part that is shorter than this part of the whole is not worth a line.
const LEAST_SHARE: u64 = 100;

/// Most lines below another one.
const MOST_LINES_WITHIN: usize = 12;

/// Deepest level to which lines are indented.
const DEEPEST: usize = 12;

/// Appends the tree, of which the whole took `total`; at most `left` lines, which are counted down.
pub fn push(
    out: &mut String,
    (blame, functions): (&Blame, &Functions),
    total: u64,
    left: &mut usize,
) {
    let of = (blame, functions);
    push_nodes(out, of, &blame.roots(), total, 0, left);
}

fn push_nodes(
    out: &mut String,
    (blame, functions): (&Blame, &Functions),
    nodes: &[&Node],
    total: u64,
    depth: usize,
    left: &mut usize,
) {
    let is_worth = |node: &&&Node| node.ns >= total / LEAST_SHARE;
    let lines = nodes.iter().take_while(is_worth).count();
    let lines = lines.clamp(usize::from(!nodes.is_empty()), MOST_LINES_WITHIN);
    let mut shown = 0;
    for node in nodes.iter().take(lines) {
        // The last line is for all the rest, so that the lines add up.
        let is_last = shown + 1 == nodes.len();
        if *left == 0 || (*left == 1 && !is_last) {
            break;
        }
        *left -= 1;
        shown += 1;
        let children = blame.children(node);
        let times = match node.count {
            1 => String::new(),
            count => format!(" ({count} times)"),
        };
        let what = part(&node.part, !children.is_empty(), functions);
        push_line(out, node.ns, total, depth, &format!("{what}{times}"));
        let for_rest = usize::from(!is_last).min(*left);
        *left -= for_rest;
        if depth < DEEPEST {
            push_nodes(out, (blame, functions), &children, total, depth + 1, left);
        }
        *left += for_rest;
    }
    let rest = nodes.iter().skip(shown).map(|node| node.ns);
    let rest = rest.fold(0, u64::saturating_add);
    if rest > 0 && *left > 0 {
        *left -= 1;
        let others = nodes.len() - shown;
        let is_unknown = |node: &&&Node| matches!(node.part, PathPart::Unknown(_));
        let unknown = nodes.iter().skip(shown).filter(is_unknown);
        let unknown: Vec<&Node> = unknown.copied().collect();
        let unknown_ns = unknown.iter().map(|node| node.ns).sum::<u64>();
        let what = match (others, unknown.first()) {
            (1, Some(unknown)) => part(&unknown.part, false, functions),
            (1, None) => "another, shorter".to_owned(),
            _ => format!(
                "{others} others, each shorter{}",
                mostly(nodes.iter().skip(shown))
            ),
        };
        let what = if others > 1 && unknown_ns > 0 {
            format!("{what}; {} unknown", duration(unknown_ns))
        } else {
            what
        };
        push_line(out, rest, total, depth, &what);
    }
}

/// Most names in the line that sums up parts too short for lines of their own.
const MOST_NAMES: usize = 2;

/// Names the threads that parts are mostly about: `, mostly sed (400 processes), tr (400)`.
fn mostly<'a>(nodes: impl Iterator<Item = &'a &'a Node>) -> String {
    let mut names: BTreeMap<&[u8], (u64, BTreeSet<i32>)> = BTreeMap::new();
    for node in nodes {
        let Some(task) = task_of(&node.part) else {
            continue;
        };
        let (ns, pids) = names.entry(until_null(&task.comm)).or_default();
        *ns = ns.saturating_add(node.ns);
        pids.insert(task.thread.pid);
    }
    names.remove(b"".as_slice());
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by_key(|(name, (ns, _))| (Reverse(*ns), *name));
    let mut words = String::new();
    for (index, (name, (_, pids))) in names.iter().take(MOST_NAMES).enumerate() {
        let mut shown = Vec::new();
        push_for_people(&mut shown, name);
        let processes = match (index, pids.len()) {
            (_, 0 | 1) => String::new(),
            (0, count) => format!(" ({count} processes)"),
            (_, count) => format!(" ({count})"),
        };
        let before = if index == 0 { ", mostly" } else { "," };
        words.push_str(&format!(
            "{before} {}{processes}",
            String::from_utf8_lossy(&shown)
        ));
    }
    words
}

/// Returns the other thread that a part is about.
fn task_of(part: &PathPart) -> Option<&Task> {
    match part {
        PathPart::Runnable(_, behind) => behind.as_ref().map(|behind| &behind.task),
        PathPart::Blocked(_, waker) | PathPart::Stopped(waker) => match waker {
            Waker::Thread(task) => Some(task),
            Waker::Unknown | Waker::Interrupt | Waker::SoftInterrupt | Waker::Timer => None,
        },
        PathPart::Unmade(task) | PathPart::Unpolled(task) => Some(task),
        PathPart::Running
        | PathPart::Faulting
        | PathPart::Gap
        | PathPart::Interrupted(_)
        | PathPart::Busy(_)
        | PathPart::Underway
        | PathPart::StillBlocked(..)
        | PathPart::StillStopped(_)
        | PathPart::Unknown(_) => None,
    }
}

fn push_line(out: &mut String, ns: u64, total: u64, depth: usize, what: &str) {
    out.push_str(&format!(
        "{:>11} {:>6}  {:indent$}{what}\n",
        duration(ns),
        share(ns, total),
        "",
        indent = 2 * depth
    ));
}

/// Renders the tree: parts, the longest first, with the parts within each.
#[must_use]
pub fn tree(blame: &Blame, functions: &Functions) -> Value {
    nodes(blame, functions, &blame.roots())
}

fn nodes(blame: &Blame, functions: &Functions, of: &[&Node]) -> Value {
    of.iter()
        .map(|node| {
            let mut object = of_part(&node.part, functions);
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
            let mut object = of_part(&step.part, functions);
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

fn of_part(part: &PathPart, functions: &Functions) -> Map<String, Value> {
    let object = match part {
        PathPart::Running => json!({ "state": "running" }),
        PathPart::Faulting => json!({ "state": "running", "page_faults": true }),
        PathPart::Gap => json!({ "state": "running", "cpu_gap": true }),
        PathPart::Interrupted(by) => json!({
            "state": "running",
            "interrupt": interrupt_name(by),
            "interrupt_kind": match by {
                Interrupt::Device(..) => "irq",
                Interrupt::Soft(_) => "softirq",
            },
        }),
        PathPart::Busy(with) => json!({
            "state": "busy",
            "span": functions.place(*with).map(|place| &*place.name),
        }),
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
            "object": object(reason, functions),
            "waker": waker_of(reason, of, functions),
        }),
        PathPart::StillBlocked(reason, at) => json!({
            "state": "blocked",
            "in": inside(reason.inside),
            "function": name(reason, functions),
            "innermost": is_innermost(reason, functions),
            "io_wait": reason.is_io,
            "lock": lock(reason, None, functions),
            "object": object(reason, functions),
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
        Wait::OutOfRealTime => "out_of_real_time",
        Wait::Outranked => "outranked",
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

/// Returns the object of the system call in which a thread waits, where that is known.
fn object(reason: &Reason, functions: &Functions) -> Option<Value> {
    Some(functions.objects.get(reason.object)?.json())
}

/// Returns the waker that has ended a wait for this reason; `null` where it is not known.
fn waker_of(reason: &Reason, of: &Waker, functions: &Functions) -> Value {
    let mut value = waker(of);
    let object = functions.objects.get(reason.object);
    if let (Waker::SoftInterrupt, Some(from), Some(members)) = (
        of,
        object.and_then(|object| object.remote()),
        value.as_object_mut(),
    ) {
        members.insert("packet_from".to_owned(), from.into());
    }
    value
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

#[cfg(test)]
mod tests {
    use tracer_analysis::ThreadGrouping;
    use tracer_engine::event::MonotonicNs;

    use super::*;

    /// Returns the lines about steps of these lengths, one after the other.
    fn lines(parts: &[(u64, PathPart)]) -> Vec<String> {
        let mut at = 0;
        let steps: Vec<Step> = parts
            .iter()
            .map(|(ns, part)| {
                let from = MonotonicNs(at);
                at += ns;
                Step {
                    depth: 0,
                    thread: Thread { pid: 7, tid: 7 },
                    from,
                    to: MonotonicNs(at),
                    part: *part,
                }
            })
            .collect();
        let mut blame = Blame::new(ThreadGrouping::Apart);
        blame.add(&steps);
        let mut out = String::new();
        push(&mut out, (&blame, &Functions::default()), at, &mut 40);
        out.lines().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_unknown_is_said_however_short_it_is() {
        let unknown = PathPart::Unknown(UnknownReason::Lost);
        let alone = lines(&[(1_000_000, PathPart::Running), (500, unknown)]);
        assert!(alone.len() == 2, "{alone:?}");
        assert!(alone[1].contains("unknown: events were lost"), "{alone:?}");
        let beside = lines(&[
            (1_000_000, PathPart::Running),
            (700, PathPart::Underway),
            (500, unknown),
        ]);
        assert!(beside.len() == 2, "{beside:?}");
        assert!(
            beside[1].contains("2 others") && beside[1].ends_with("; 500 ns unknown"),
            "{beside:?}"
        );
        let known = lines(&[(1_000_000, PathPart::Running), (500, PathPart::Underway)]);
        assert!(!known.join("").contains("unknown"), "{known:?}");
    }
}
