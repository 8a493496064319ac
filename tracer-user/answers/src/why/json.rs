//! An answer for programs.

use serde_json::{Value, json};

use super::Why;
use crate::queries::{Paths, ShownSpan, tree_json};
use crate::stat::{render_kind, render_unended};

/// Renders the answer as one object. Times are in nanoseconds; what is not known is `null`.
#[must_use]
pub fn json(why: &Why) -> Value {
    let kinds = why.paths.kinds().iter();
    let functions = why.paths.functions();
    let kinds: Vec<Value> = kinds.map(|kind| render_kind(kind, functions)).collect();
    let start = why.start.0;
    let shown: Vec<Value> = why
        .paths
        .shown()
        .iter()
        .map(|shown| render_shown(&why.paths, shown, start))
        .collect();
    let (has_switches, has_wakeups) = why.paths.has_switches_and_wakeups();
    json!({
        "lost": why.lost,
        "not_reported": why.summary.not_reported(),
        "has_switches": has_switches,
        "has_wakeups": has_wakeups,
        "not_followed": why.paths.unfollowed(),
        "interrupted": why.paths.interrupted(),
        "unended": render_unended(why.paths.unended()),
        "spans": kinds,
        "slowest": shown,
    })
}

/// Renders a span that is explained by itself; times count from `start` on.
#[must_use]
pub fn render_shown(paths: &Paths, shown: &ShownSpan, start: u64) -> Value {
    let span = &shown.span;
    let kind = paths.kinds().get(shown.kind);
    let mut one = json!({
        "name": kind.map(|kind| String::from_utf8_lossy(&kind.name)),
        "pid": span.thread.pid,
        "tid": span.thread.tid,
        "comm": String::from_utf8_lossy(&shown.comm),
        "begun_by": { "pid": span.begun_by.pid, "tid": span.begun_by.tid },
        "from_ns": span.from.0.saturating_sub(start),
        "ns": span.ns(),
        "parts": tree_json::tree(&shown.blame, paths.functions()),
    });
    if let (Some(one), true) = (one.as_object_mut(), paths.has_segments()) {
        let segments = tree_json::segments(&shown.segments, paths.functions(), start);
        one.insert("segments".to_owned(), segments);
    }
    one
}
