//! An answer for people.

use super::Why;
use crate::queries::words::{duration, seconds, share, thread};
use crate::queries::{ShownSpan, SpanKind, tree_text};
use tracer_text::escape::push_for_people;

/// Lines of the tree of one span, or of a kind of spans.
const LINES: usize = 40;

/// Lines of all of it, where it is to be brief, but for the line about missing events.
const BRIEF_LINES: usize = 39;

/// Renders the answer: all spans together, and the slowest one by one.
#[must_use]
pub fn text(why: &Why, is_brief: bool) -> String {
    let mut out = answer(why, is_brief);
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
    tree_text::push(out, of, took.total(), &mut lines);
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
        "{position}. {} {} of {}, {} of all, at {}{begun_by}\n",
        name(kind.map_or(&[], |kind| &kind.name)),
        duration(span.ns()),
        thread(span.thread, &shown.comm),
        share(span.ns(), all),
        seconds(at),
    ));
    let of = (&shown.blame, why.paths.functions());
    tree_text::push(out, of, span.ns(), &mut lines);
}

fn name(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    push_for_people(&mut out, bytes);
    String::from_utf8_lossy(&out).into_owned()
}
