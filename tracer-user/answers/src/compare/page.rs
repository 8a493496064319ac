//! A comparison as a page that is one file: both timelines from the same beginning and by the same
//! scale, and tables of what differs. It has no script, and loads nothing.

use std::fmt::Write as _;

use super::Comparison;
use super::beside::{Beside, LockTime, StackDifferences};
use super::run::RunCalls;
use super::subject::{CallDifference, Difference};
use super::text::{heading, numbers, people, signed};
use super::timeline::Timeline;
use crate::html_report::page::{escaped, hash};
use crate::queries::words::duration;

/// Subjects that are shown.
const SUBJECTS: usize = 64;

/// Rows of a table.
const ROWS: usize = 40;

/// Causes of a subject that have a colour of their own.
const COLOURS: usize = 8;

/// Width of a timeline, which is stretched to that of the page.
const WIDTH: u64 = 100_000;

/// The colours of causes are those of the page of a report (`slices` of `page/colours.js`).
const STYLE: &str = "\
:root { --page: #ffffff; --ink: #1b1f24; --faint: #59636e; --line: #d5dae0; --band: #eef1f4; color-scheme: light dark;
  font: 14px/1.45 system-ui, \"DejaVu Sans\", sans-serif;
  --c0: #56b4e9; --c1: #f0e442; --c2: #7fc9b0; --c3: #f3b56b; --c4: #c9a3d6; --c5: #9fb7d9; --c6: #d9c58b; --c7: #a9d18e; }
@media (prefers-color-scheme: dark) { :root { --page: #15181c; --ink: #e8ebee; --faint: #9aa5b1; --line: #363d45;
  --band: #20252b; --c0: #3b86b8; --c1: #a89c2a; --c2: #3f8f75; --c3: #b07a3c; --c4: #8a689a; --c5: #5f7ca5;
  --c6: #8f7f4d; --c7: #6b9453; } }
body { margin: 0; padding: 10px 16px 24px; background: var(--page); color: var(--ink); }
h1 { font-size: 18px; margin: 0; } h2 { font-size: 15px; margin: 22px 0 2px; overflow-wrap: anywhere; }
p { margin: 2px 0; color: var(--faint); overflow-wrap: anywhere; }
.lost { color: var(--ink); border-left: 4px solid #d55e00; padding-left: 8px; }
.lanes { display: grid; grid-template-columns: max-content 1fr; gap: 2px 8px; margin: 6px 0; align-items: center; }
.lanes svg { display: block; width: 100%; height: 34px; background: var(--band); }
.axis { display: flex; justify-content: space-between; color: var(--faint); font-size: 12px; }
rect, i { fill: var(--faint); }
.c0 { fill: var(--c0); background: var(--c0); } .c1 { fill: var(--c1); background: var(--c1); }
.c2 { fill: var(--c2); background: var(--c2); } .c3 { fill: var(--c3); background: var(--c3); }
.c4 { fill: var(--c4); background: var(--c4); } .c5 { fill: var(--c5); background: var(--c5); }
.c6 { fill: var(--c6); background: var(--c6); } .c7 { fill: var(--c7); background: var(--c7); }
.rest { fill: var(--faint); background: var(--faint); }
i { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin-right: 6px; vertical-align: -1px; }
table { border-collapse: collapse; margin: 6px 0 10px; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: 4px 0; }
th, td { padding: 2px 10px; text-align: left; border-bottom: 1px solid var(--line); }
th { color: var(--faint); font-weight: normal; } td:first-child { overflow-wrap: anywhere; max-width: 60em; }
.figure { text-align: right; white-space: nowrap; } tbody tr:hover { background: var(--band); }
";

/// Renders the page.
#[must_use]
pub fn page(comparison: &Comparison) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{}'; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>What became slower</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>What became slower</h1>\n",
        hash(STYLE)
    );
    for (letter, runs) in [("A", &comparison.a), ("B", &comparison.b)] {
        for run in runs {
            let file = run.file.to_string_lossy();
            push(&mut out, &format!("<p>{letter}: {}</p>\n", escaped(&file)));
            if run.lost > 0 {
                let lost = format!("<p class=\"lost\">{} events were lost</p>\n", run.lost);
                push(&mut out, &lost);
            }
            if let Some(missing) = run.missing {
                let missing = escaped(missing);
                push(&mut out, &format!("<p class=\"lost\">{missing}</p>\n"));
            }
        }
    }
    for difference in comparison.differences.iter().take(SUBJECTS) {
        push_difference(&mut out, difference);
    }
    let rest = comparison.differences.len().saturating_sub(SUBJECTS);
    if rest > 0 {
        push(
            &mut out,
            &format!("<p>and {rest} others (--format json has all)</p>\n"),
        );
    }
    push_calls(&mut out, "System calls of all threads", &comparison.calls);
    push_locks(&mut out, &comparison.locks);
    comparison
        .stacks
        .iter()
        .for_each(|of_kind| push_stacks(&mut out, of_kind));
    for (side, names) in ["A", "B"].iter().zip(&comparison.only_in) {
        if !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| people(name)).collect();
            let names = escaped(&names.join(", "));
            push(
                &mut out,
                &format!("<p>spans of {side} alone: {names}</p>\n"),
            );
        }
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn push(out: &mut String, html: &str) {
    out.push_str(html);
}

fn push_difference(out: &mut String, difference: &Difference) {
    push(
        out,
        &format!("<h2>{}</h2>\n", escaped(&heading(difference))),
    );
    for line in numbers(difference) {
        push(out, &format!("<p>{}</p>\n", escaped(&line)));
    }
    let colours = Colours::from_difference(difference);
    let [before, after] = &difference.timelines;
    let most = [before, after]
        .into_iter()
        .flatten()
        .map(|one| one.ns)
        .max();
    if let Some(most) = most.filter(|most| *most > 0) {
        push(out, "<div class=\"lanes\">");
        for (letter, timeline) in [("A", before), ("B", after)] {
            push(out, &format!("<span>{letter}</span>"));
            match timeline {
                Some(timeline) => push_timeline(out, timeline, most, &colours),
                None => push(out, "<p>no timeline</p>"),
            }
        }
        push(out, "<span></span><div class=\"axis\">");
        for quarter in 0..=4_u64 {
            let at = u128::from(most) * u128::from(quarter) / 4;
            let at = duration(u64::try_from(at).unwrap_or(u64::MAX));
            push(out, &format!("<span>{at}</span>"));
        }
        push(out, "</div></div>\n");
    }
    push_causes(out, difference, &colours);
}

/// Colours of the causes of a subject.
struct Colours<'a>(Vec<&'a str>);

impl<'a> Colours<'a> {
    /// Gives colours to the causes with the most time on either side.
    fn from_difference(difference: &'a Difference) -> Self {
        let mut causes: Vec<_> = difference
            .causes
            .iter()
            .filter(|one| !one.is_unknown)
            .collect();
        causes.sort_by_key(|one| std::cmp::Reverse(one.ns.into_iter().max()));
        let causes = causes.into_iter().take(COLOURS);
        Self(causes.map(|one| one.cause.as_str()).collect())
    }

    /// Returns the class of a cause.
    fn class(&self, cause: &str) -> String {
        let nth = self.0.iter().position(|one| *one == cause);
        nth.map_or_else(|| "rest".to_owned(), |nth| format!("c{nth}"))
    }
}

/// Appends a timeline; the whole width has `most` nanoseconds.
fn push_timeline(out: &mut String, timeline: &Timeline, most: u64, colours: &Colours<'_>) {
    let at = |ns: u64| {
        let at = u128::from(ns) * u128::from(WIDTH) / u128::from(most.max(1));
        u64::try_from(at).unwrap_or(WIDTH)
    };
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} 1\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{}\">",
        duration(timeline.ns)
    );
    for piece in &timeline.pieces {
        let (from, to) = (at(piece.from), at(piece.to));
        let more = if piece.words.is_empty() {
            format!("mostly {}", piece.cause)
        } else {
            piece.words.clone()
        };
        let took = duration(piece.to.saturating_sub(piece.from));
        let title = format!("{more}, {took}, from {} on", duration(piece.from));
        let _ = write!(
            out,
            "<rect class=\"{}\" x=\"{from}\" y=\"0\" width=\"{}\" height=\"1\"><title>{}</title></rect>",
            colours.class(&piece.cause),
            to.saturating_sub(from).max(1),
            escaped(&title)
        );
    }
    out.push_str("</svg>");
}

fn push_causes(out: &mut String, difference: &Difference, colours: &Colours<'_>) {
    let rows = difference.causes.iter().take(ROWS).map(|cause| {
        let name = format!(
            "<i class=\"{}\"></i>{}",
            colours.class(&cause.cause),
            escaped(&cause.cause)
        );
        let [before, after] = cause.ns;
        (
            name,
            vec![duration(before), duration(after), signed(cause.ns)],
        )
    });
    push_table(out, ("", &["cause", "A", "B", "difference"]), rows);
    for cause in difference.causes.iter().take(3) {
        let parts = cause.details.iter();
        let parts = parts.filter(|(words, _)| *words != cause.cause);
        let parts = parts.map(|(words, ns)| {
            let [before, after] = *ns;
            (
                escaped(words),
                vec![duration(before), duration(after), signed(*ns)],
            )
        });
        let title = format!("{}: its parts", cause.cause);
        push_table(out, (&title, &["part", "A", "B", "difference"]), parts);
        if !cause.calls.is_empty() {
            push_calls(
                out,
                &format!("{}: its system calls", cause.cause),
                &cause.calls,
            );
        }
    }
}

fn push_calls(out: &mut String, title: &str, calls: &[CallDifference]) {
    let mean = |side: &RunCalls| {
        let mean = side.ns.checked_div(side.count);
        mean.map_or_else(|| "-".to_owned(), duration)
    };
    let rows = calls.iter().take(ROWS).map(|call| {
        let [a, b] = &call.sides;
        let numbers = [a, b]
            .into_iter()
            .flat_map(|side| [side.count.to_string(), side.errors.to_string(), mean(side)]);
        let numbers = numbers.chain([duration(a.ns), duration(b.ns), signed([a.ns, b.ns])]);
        (escaped(&call.name), numbers.collect())
    });
    let heads = [
        "call",
        "A: times",
        "errors",
        "each",
        "B: times",
        "errors",
        "each",
        "A: all",
        "B: all",
        "difference",
    ];
    push_table(out, (title, &heads), rows);
}

fn push_locks(out: &mut String, locks: &[Beside<LockTime>]) {
    let rows = locks.iter().take(ROWS).map(|lock| {
        let [a, b] = &lock.sides;
        let numbers = [a, b]
            .into_iter()
            .flat_map(|side| [side.waits.to_string(), duration(side.longest)]);
        let numbers = numbers.chain([duration(a.ns), duration(b.ns), signed([a.ns, b.ns])]);
        (escaped(&lock.name), numbers.collect())
    });
    let heads = [
        "lock",
        "A: waits",
        "longest",
        "B: waits",
        "longest",
        "A: all",
        "B: all",
        "difference",
    ];
    push_table(
        out,
        ("Waits for locks, all threads of a run together", &heads),
        rows,
    );
}

fn push_stacks(out: &mut String, of_kind: &StackDifferences) {
    let rows = of_kind.stacks.iter().take(ROWS).map(|stack| {
        let [before, after] = stack.sides;
        let numbers = vec![duration(before), duration(after), signed(stack.sides)];
        (escaped(&stack.name), numbers)
    });
    let title = format!(
        "Stacks: {}, all threads of a run together",
        of_kind.kind.title()
    );
    push_table(out, (&title, &["stack", "A", "B", "difference"]), rows);
}

/// Appends a table, if it has rows. The first cell of each is HTML, the others are figures.
fn push_table(
    out: &mut String,
    (title, heads): (&str, &[&str]),
    rows: impl Iterator<Item = (String, Vec<String>)>,
) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    push(out, "<table>");
    if !title.is_empty() {
        push(out, &format!("<caption>{}</caption>", escaped(title)));
    }
    push(out, "<thead><tr>");
    for (nth, head) in heads.iter().enumerate() {
        let class = if nth > 0 { " class=\"figure\"" } else { "" };
        push(out, &format!("<th{class}>{head}</th>"));
    }
    push(out, "</tr></thead><tbody>\n");
    for (name, figures) in rows {
        push(out, &format!("<tr><td>{name}</td>"));
        for figure in figures {
            push(out, &format!("<td class=\"figure\">{figure}</td>"));
        }
        push(out, "</tr>\n");
    }
    push(out, "</tbody></table>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_colours_are_those_of_the_page_of_a_report() {
        let page = include_str!("../../page/colours.js");
        let mut places = page.split("slices: [").skip(1);
        for of_page in STYLE.split("--c0:").skip(1) {
            let slices = places.next().unwrap().split(']').next().unwrap();
            let slices: Vec<&str> = slices
                .split(',')
                .map(|one| one.trim().trim_matches('"'))
                .collect();
            let own = format!("--c0:{of_page}");
            for (nth, colour) in slices.iter().enumerate() {
                assert!(
                    own.contains(&format!("--c{nth}: {colour};")),
                    "{nth} {colour}"
                );
            }
        }
        assert!(places.next().is_none());
    }

    #[test]
    fn names_of_others_are_no_markup() {
        let mut out = String::new();
        let timeline = Timeline {
            ns: 10,
            pieces: vec![super::super::timeline::TimelinePiece {
                from: 0,
                to: 10,
                cause: "<script>".to_owned(),
                words: "blocked, woken by <img src=x onerror=alert(1)>".to_owned(),
            }],
        };
        push_timeline(&mut out, &timeline, 20, &Colours(vec!["<script>"]));
        assert!(!out.contains("<img") && !out.contains("<script"), "{out}");
        // Half of the width: the other side took twice as long.
        assert!(
            out.contains("class=\"c0\" x=\"0\" y=\"0\" width=\"50000\""),
            "{out}"
        );
    }
}
