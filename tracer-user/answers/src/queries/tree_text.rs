//! Causes of time, as a tree of lines.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use tracer_analysis::{Blame, Node, PathPart, Task, Waker};

use super::Functions;
use super::words::{duration, part, share};
use tracer_event::fields::until_null;
use tracer_text::escape::push_for_people;

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
        let what = match others {
            1 => "another, shorter".to_owned(),
            _ => format!(
                "{others} others, each shorter{}",
                mostly(nodes.iter().skip(shown))
            ),
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
