//! Causes of the durations of spans: found, and said to people and to programs.

use anyhow::anyhow;
use serde_json::{Value, json};
use tracer_engine::event::MonotonicNs;
use tracer_event::consumer::{Consumer, Lines};
use tracer_event::summary::Summary;
use tracer_event::thread_contexts::ThreadContext;
use tracer_log_view::{Log, Walk, outcome};
use tracer_output::terminal::Outcome;
use tracer_text::escape::push_for_people;
use tracer_text::say;

use crate::budget::Budget;
use crate::damage::damage;
use crate::queries::words::{duration, seconds, share, thread};
use crate::queries::{Answering, Paths, Question, ShownSpan, SpanChoice, SpanKind, follow, tree};
use crate::stat::{render_kind, render_unended};

/// An answer.
#[derive(Debug)]
pub struct Why {
    /// The spans and their critical paths.
    pub paths: Paths,
    /// Time from which times are shown: as those of `read`, from the start of the log, or, live,
    /// from the first event.
    pub start: MonotonicNs,
    /// Events that the trace lost.
    pub lost: u64,
    /// Events by type, and counts of missing ones.
    pub summary: Summary,
}

impl Why {
    /// Looks for the answer in the events of `walk`.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn find<L: Log>(mut walk: Walk<L>, paths: Paths) -> anyhow::Result<Self> {
        let mut paths = paths.telling_objects();
        follow(&mut walk, &mut paths)?;
        let start = walk.anchor().monotonic;
        Ok(Self {
            start,
            ..Self::finish(paths, &walk.summary())
        })
    }

    /// Returns the findings.
    #[must_use]
    pub fn finish(mut paths: Paths, summary: &Summary) -> Self {
        paths.finish(|_| {});
        Self {
            start: paths.first(),
            paths,
            lost: summary.lost_in_trace(),
            summary: summary.clone(),
        }
    }

    /// Explains why there is no span at all; `None` where there is one, or where none was asked for
    /// by name and the answer is that nothing moved.
    #[must_use]
    pub fn unanswered(&self) -> Option<String> {
        let has_spans = self.paths.kinds().iter().any(|kind| kind.took.count() > 0);
        let is_still = !self.paths.has_named_spans() && self.paths.stillness().is_some();
        (!has_spans && !is_still).then(|| self.paths.unmet().join("; "))
    }

    /// Tells whether anything is missing.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        outcome(&self.summary, false)
    }
}

/// Returns the consumer that answers a question at the end of a trace; the answer, or JSON, is
/// appended to `lines`.
#[must_use]
pub fn consumer(
    question: Question,
    choice: SpanChoice,
    (is_brief, is_json, budget): (bool, bool, Budget),
    lines: Lines,
) -> Box<dyn Consumer> {
    let paths = Paths::new(question, choice).telling_objects();
    Box::new(Answering::new(paths, move |paths, summary| {
        let why = Why::finish(paths, summary);
        let unanswered = why.unanswered();
        if unanswered.is_none() {
            why.paths.unmet().iter().for_each(|unmet| say(unmet));
        }
        let shown = if is_json {
            budget.document(&json(&why))
        } else {
            budget.text_before_closing(text(&why, is_brief), summary)
        };
        lines.bytes().extend_from_slice(shown.as_bytes());
        match unanswered {
            Some(why) => Err(anyhow!(why)),
            None => Ok(()),
        }
    }))
}

/// Lines of the tree of one span, or of a kind of spans.
const LINES: usize = 40;

/// Lines of all of it, where it is to be brief, but for the line about missing events.
const BRIEF_LINES: usize = 39;

/// Renders the answer: all spans together, and the slowest one by one.
#[must_use]
pub fn text(why: &Why, is_brief: bool) -> String {
    let mut out = why.summary.condition_lines() + &answer(why, is_brief);
    // It takes nothing from the answer, and comes behind it.
    if why.lost == 0 && why.summary.not_reported() > 0 {
        out.push_str(&format!("0 events lost{}\n", why.summary.but_for()));
    }
    out
}

fn answer(why: &Why, is_brief: bool) -> String {
    let mut out = String::new();
    let kinds = why.paths.kinds().iter();
    let mut kinds: Vec<&SpanKind> = kinds.filter(|kind| kind.took.count() > 0).collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.took.total()));
    if why.lost > 0 {
        let but_for = why.summary.but_for();
        out.push_str(&format!("{} events were lost{but_for}\n", why.lost));
    }
    if why.paths.interrupted() > 0 {
        let count = why.paths.interrupted();
        out.push_str(&format!(
            "{count} spans were open then: nothing is said of them\n"
        ));
    }
    if let Some(stillness) = why.paths.stillness() {
        out.push_str(&format!("{stillness}\n"));
    }
    if let Some(missing) = why.paths.missing_events() {
        out.push_str(&format!("{missing}\n"));
    }
    if let Some(at) = why.paths.used_again() {
        let since = seconds(at.0.saturating_sub(why.start.0));
        out.push_str(&format!(
            "another thread has this tid from {since} on: --from asks about that one\n"
        ));
    }
    if let Some(unended) = why.paths.unended_line() {
        out.push_str(&format!("{unended}\n"));
    }
    let many = kinds.len().max(1);
    let lines = if is_brief {
        BRIEF_LINES / 2 / many
    } else {
        LINES
    };
    let spans: u64 = kinds.iter().map(|kind| kind.took.count()).sum();
    // Of one span the sum is the span, with its threads apart.
    if let (1, [only]) = (spans, why.paths.shown()) {
        push_shown(&mut out, why, 1, only, lines);
        return out;
    }
    for kind in &kinds {
        push_kind(&mut out, why, kind, lines.saturating_sub(2).max(1));
        if is_brief && out.lines().count() > BRIEF_LINES / 2 {
            break;
        }
    }
    for (position, shown) in why.paths.shown().iter().enumerate() {
        let used = out.lines().count();
        let left = if is_brief {
            BRIEF_LINES.saturating_sub(used + 3).min(8)
        } else {
            LINES
        };
        if left == 0 {
            break;
        }
        out.push('\n');
        push_shown(&mut out, why, position + 1, shown, left);
    }
    out
}

fn push_kind(out: &mut String, why: &Why, kind: &SpanKind, mut lines: usize) {
    let took = &kind.took;
    let known = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
    out.push_str(&format!(
        "{}: {} spans, {} in all, p50 {}, p99 {}, longest {}\n",
        name(&kind.name),
        took.count(),
        duration(took.total()),
        known(took.quantile(0.5)),
        known(took.quantile(0.99)),
        duration(took.longest()),
    ));
    let of = (&kind.blame, why.paths.functions());
    tree::push(out, of, took.total(), &mut lines);
}

fn push_shown(out: &mut String, why: &Why, position: usize, shown: &ShownSpan, mut lines: usize) {
    let span = &shown.span;
    let kind = why.paths.kinds().get(shown.kind);
    let all = kind.map_or(0, |kind| kind.took.total());
    let at = span.from.0.saturating_sub(why.start.0);
    let begun_by = if span.begun_by == span.thread {
        String::new()
    } else {
        format!(", begun by {}", thread(span.begun_by, b""))
    };
    out.push_str(&format!(
        "{position}. {} {} of {}, {} of all, at {}{begun_by}{}\n",
        name(kind.map_or(&[], |kind| &kind.name)),
        duration(span.ns()),
        thread(span.thread, &shown.comm),
        share(span.ns(), all),
        seconds(at),
        shown.context.as_ref().map_or_else(String::new, working_for)
    ));
    let of = (&shown.blame, why.paths.functions());
    tree::push(out, of, span.ns(), &mut lines);
}

/// Names the span of OpenTelemetry for which a thread worked.
fn working_for(context: &ThreadContext) -> String {
    let mut out = b", for ".to_vec();
    context.push(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn name(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    push_for_people(&mut out, bytes);
    String::from_utf8_lossy(&out).into_owned()
}

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
        "damage": why.summary.damage().map(damage),
        "unrecorded": why.summary.unrecorded.json(),
        "not_reported": why.summary.not_reported(),
        "has_switches": has_switches,
        "has_wakeups": has_wakeups,
        "not_followed": why.paths.unfollowed(),
        "interrupted": why.paths.interrupted(),
        "used_again_ns": why.paths.used_again().map(|at| at.0.saturating_sub(start)),
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
        "parts": tree::tree(&shown.blame, paths.functions()),
    });
    let Some(members) = one.as_object_mut() else {
        return one;
    };
    if let Some(context) = &shown.context {
        members.insert("trace_id".to_owned(), context.trace().into());
        members.insert("span_id".to_owned(), context.span().into());
    }
    if paths.has_segments() {
        let segments = tree::segments(&shown.segments, paths.functions(), start);
        members.insert("segments".to_owned(), segments);
    }
    one
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::EventTypeId;
    use tracer_common::kernel::{ForkData, SwitchInData, SwitchOutData};
    use tracer_engine::event::{Event, EventHeader, Truncation};
    use tracer_event::event_view::EventView;
    use zerocopy::{FromZeros as _, IntoBytes as _};

    use super::*;

    /// Answers about thread 7: that of process 7 runs from 10 to 40, and one of process 5 from 100
    /// to 180. The end of the first is recorded where `has_end`.
    fn of_two(from: Option<u64>, has_end: bool) -> Why {
        let mut paths = Paths::new(
            Question::Thread {
                tid: Some(7),
                from: from.map(MonotonicNs),
                until: None,
            },
            SpanChoice {
                slowest: 3,
                ..SpanChoice::default()
            },
        );
        let mut feed = |at, event_type, (pid, tid), data: &[u8]| {
            let header = EventHeader {
                time: MonotonicNs(at),
                event_type,
                pid,
                tid,
                thread_id: 0,
                program_address: 0,
                cpu: Some(u32::from(tid != 7)),
                truncation: Truncation::None,
            };
            let view = EventView::bare(Event { header, data }, b"x");
            paths.event(&view).unwrap();
        };
        let left = |ran_ns| {
            let mut data = SwitchOutData::new_zeroed();
            (data.state, data.ran_ns) = (0x80, ran_ns);
            data
        };
        let (got, first, second) = (SwitchInData::new_zeroed(), (7, 7), (5, 7));
        feed(10, EventTypeId::SWITCH_IN, first, got.as_bytes());
        if has_end {
            feed(40, EventTypeId::EXIT, first, b"");
            // The kernel has freed its memory.
            feed(55, EventTypeId::SWITCH_OUT, first, left(45).as_bytes());
        }
        let mut made = ForkData::new_zeroed();
        (made.child_pid, made.child_tid) = (5, 7);
        feed(90, EventTypeId::THREAD_CREATE, (5, 5), made.as_bytes());
        feed(100, EventTypeId::SWITCH_IN, second, got.as_bytes());
        feed(180, EventTypeId::SWITCH_OUT, second, left(80).as_bytes());
        Why::finish(paths, &Summary::default())
    }

    /// Process, beginning and length of what is explained.
    fn explained(why: &Why) -> (i32, u64, u64) {
        let span = &why.paths.shown()[0].span;
        (span.thread.pid, span.from.0, span.ns())
    }

    #[test]
    fn a_tid_that_is_used_again_is_that_of_another_thread() {
        let first = of_two(None, true);
        assert_eq!(explained(&first), (7, 10, 45));
        assert_eq!(json(&first)["used_again_ns"], 80);
        let words = "another thread has this tid from 0.000000 s on";
        assert!(text(&first, false).contains(words));

        let unended = of_two(None, false);
        assert_eq!(
            explained(&unended),
            (7, 10, 80),
            "until the tid was given anew"
        );

        let second = of_two(Some(60), true);
        assert_eq!(explained(&second), (5, 60, 120));
        assert!(json(&second)["used_again_ns"].is_null());
    }
}
