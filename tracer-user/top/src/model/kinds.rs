//! Retained spans of one kind.

use std::collections::VecDeque;

use tracer_analysis::Durations;
use tracer_engine::event::MonotonicNs;

use super::lived::MINUTE;
use super::shot::{SlowSpan, SpanRow};
use super::{Window, harmless};
use tracer_answers::queries::{Explained, Functions, ShownSpan, SpanKind, Split, tree};

/// Limit of retained spans of one kind: beyond it the newest are retained.
const MOST_SPANS: usize = 1 << 18;

/// Limit of lines of a path.
const MOST_LINES: usize = 200;

/// Spans that ended recently.
#[derive(Debug, Default)]
pub struct Lately {
    spans: VecDeque<Explained>,
    /// Total time and number of spans in each second of the last minute.
    trend: VecDeque<(u64, u64)>,
    second: (u64, u64),
    /// Slowest span of each second.
    slowest: VecDeque<ShownSpan>,
    /// Slowest span of all.
    slowest_of_all: Option<SlowSpan>,
}

impl Lately {
    /// Adds a span that has ended. Spans that ended before `from` are no longer needed.
    pub fn add(&mut self, explained: Explained, from: MonotonicNs) {
        while self.spans.front().is_some_and(|first| first.to <= from)
            || self.spans.len() >= MOST_SPANS
        {
            self.spans.pop_front();
        }
        self.second.0 = self.second.0.saturating_add(explained.ns);
        self.second.1 += 1;
        self.spans.push_back(explained);
    }

    /// Adds the slowest span since the last call.
    pub fn add_slowest(&mut self, shown: ShownSpan, told: ShownOrigin<'_>, from: MonotonicNs) {
        let is_slower = |of_all: &SlowSpan| shown.span.ns() > of_all.ns;
        if self.slowest_of_all.as_ref().is_none_or(is_slower) {
            self.slowest_of_all = Some(explained(&shown, told));
        }
        while self.slowest.front().is_some_and(|one| one.span.to <= from) {
            self.slowest.pop_front();
        }
        self.slowest.push_back(shown);
    }

    /// Ends the current second.
    pub fn end_second(&mut self) {
        if self.trend.len() >= MINUTE {
            self.trend.pop_front();
        }
        self.trend.push_back(std::mem::take(&mut self.second));
    }

    /// Returns the row that is shown for this kind.
    pub fn row(
        &self,
        kind: &SpanKind,
        window: Window,
        told: ShownOrigin<'_>,
        now: MonotonicNs,
    ) -> SpanRow {
        let name = harmless(&kind.name);
        let trend = self.trend.iter();
        let trend: Vec<u64> = trend
            .map(|(total, count)| total.checked_div(*count).unwrap_or(0))
            .collect();
        let Window::Last(ns) = window else {
            return SpanRow {
                name,
                kind: kind.name.clone(),
                trend,
                slowest: self.slowest_of_all.clone(),
                ..summarize(&kind.took, kind.split)
            };
        };
        let from = MonotonicNs(now.0.saturating_sub(ns));
        let (mut took, mut split) = (Durations::default(), Split::default());
        let before = self.spans.partition_point(|one| one.to <= from);
        for one in self.spans.range(before..) {
            took.add(one.ns);
            split.add_all(&one.split);
        }
        let slowest = self.slowest.iter().filter(|one| one.span.to > from);
        let slowest = slowest.max_by_key(|one| one.span.ns());
        SpanRow {
            name,
            kind: kind.name.clone(),
            trend,
            slowest: slowest.map(|shown| explained(shown, told)),
            ..summarize(&took, split)
        }
    }
}

fn summarize(took: &Durations, split: Split) -> SpanRow {
    SpanRow {
        count: took.count(),
        total: took.total(),
        p50: took.quantile(0.5),
        p99: took.quantile(0.99),
        longest: (took.count() > 0).then(|| took.longest()),
        split,
        ..SpanRow::default()
    }
}

/// Start of the times that are shown, and the names of functions.
pub type ShownOrigin<'a> = (MonotonicNs, &'a Functions);

fn explained(shown: &ShownSpan, (start, functions): ShownOrigin<'_>) -> SlowSpan {
    let span = &shown.span;
    let (mut text, mut left) = (String::new(), MOST_LINES);
    tree::push(&mut text, (&shown.blame, functions), span.ns(), &mut left);
    SlowSpan {
        at: MonotonicNs(span.from.0.saturating_sub(start.0)),
        ns: span.ns(),
        thread: span.thread,
        comm: shown.comm.clone(),
        parts: tree::tree(&shown.blame, functions),
        lines: text.lines().map(str::to_owned).collect(),
    }
}
