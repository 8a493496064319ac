//! An explanation for people: at most 40 lines and 4 kB.

use super::facts::TraceFacts;
use super::overview::USES;
use super::rules::Rule;
use super::{Explanation, RuleFinding};
use crate::budget::Budget;
use crate::queries::words::{duration, share};

/// Longest text of one kind, in characters: what traced programs call themselves has no end.
const MOST_CHARACTERS: usize = 300;

/// Rules that found nothing and are named.
const MOST_NOT: usize = 12;

/// Renders the explanation.
#[must_use]
pub fn text(explanation: &Explanation) -> String {
    let mut out = String::new();
    push_overview(&mut out, explanation);
    let findings = explanation.findings();
    if findings.is_empty() {
        out.push_str("\nNothing that the rules know explains a tenth of the time.\n");
        if let Some(longest) = &explanation.longest {
            let line = format!("The longest waits: {}", short(longest));
            out.push_str(&format!("{}\n", wrapped(&line, "  ").trim_start()));
        }
    }
    for (position, found) in findings.iter().enumerate() {
        push_finding(&mut out, position + 1, found, &explanation.facts);
    }
    let more = explanation.judged.in_all.saturating_sub(findings.len());
    if more > 0 {
        out.push_str(&format!(
            "({more} more explain a tenth of the time or more)\n"
        ));
    }
    out.push('\n');
    push_not(&mut out, &explanation.judged.not);
    if let Some(machine) = &explanation.trace.machine {
        out.push_str(&format!("The machine: {}\n", machine.words()));
    }
    push_list(&mut out, "Not seen", &explanation.unseen);
    if let Some(cost) = &explanation.trace.cost {
        let line = format!("Cost: {cost}");
        out.push_str(&format!("{}\n", wrapped(&line, "  ").trim_start()));
    }
    if !explanation.next.is_empty() {
        // A part of its own, whose first lines stay where there is little room.
        out.push('\n');
    }
    push_list(&mut out, "Next", &explanation.next);
    on_a_screen(out)
}

/// Lines and bytes of a screen.
const MOST_LINES: usize = 40;
const MOST_BYTES: usize = 4096;

/// Cuts what is too long for a screen: what programs call themselves may be.
fn on_a_screen(mut out: String) -> String {
    let mut bytes = MOST_BYTES;
    while (out.lines().count() > MOST_LINES || out.len() > MOST_BYTES) && bytes > 0 {
        let budget = Budget {
            bytes: Some(bytes),
            rest: Some("--format json".to_owned()),
            screen: None,
        };
        out = budget.text(out);
        bytes = bytes.saturating_sub(MOST_BYTES / 16);
    }
    out
}

fn push_overview(out: &mut String, explanation: &Explanation) {
    let (facts, overview) = (&explanation.facts, &explanation.overview);
    let events = &facts.statistics.summary.events;
    let events: u64 = events.iter().map(|(_, count)| *count).sum();
    let basis = match &facts.path {
        Some(path) => format!(
            "{}, with those it waited for",
            super::rules::support::harmless(&path.comm)
        ),
        None => format!("{} threads together", facts.statistics.threads.len()),
    };
    out.push_str(&format!(
        "{} and {events} events of {}:\n",
        time_in_words(facts),
        short(&basis)
    ));
    let all = overview.all();
    // Less than a thousandth says nothing.
    let parts = USES.iter().zip(overview.ns);
    let parts = parts.filter(|(_, ns)| *ns > 0 && *ns >= all / 1000);
    let parts: Vec<String> = parts
        .map(|((_, word, _), ns)| format!("{word} {}", share(ns, all)))
        .collect();
    out.push_str(&format!("{}\n", wrapped(&parts.join(", "), "  ")));
}

/// Returns how long the trace was, and how much of it was recorded, where that is not all.
fn time_in_words(facts: &TraceFacts) -> String {
    let wall = duration(facts.wall());
    match facts.statistics.summary.unrecorded.switches {
        None => wall,
        Some((recorded, _)) => format!("{wall}, of which {} in windows,", duration(recorded)),
    }
}

fn push_finding(out: &mut String, position: usize, found: &RuleFinding, facts: &TraceFacts) {
    let what = format!("{} {}", short(&found.who), short(&found.what));
    // What was lost may have more of it.
    let least = if facts.is_lossy() { "at least " } else { "" };
    // Processes and their ends are recorded all the time.
    let has_windows = facts.statistics.summary.unrecorded.switches.is_some();
    let (of, in_all) = if has_windows && found.rule != "processes" {
        ("in windows: ", "")
    } else {
        ("", " in all")
    };
    out.push_str(&format!(
        "\n{position}. {least}{} [{}] {}\n",
        share(found.share, 1000),
        found.rule,
        wrapped(&what, "   ").trim_start()
    ));
    let mut said = Vec::new();
    match found.count_between {
        Some((least, most)) => {
            said.push(format!("about {} times ({least} to {most})", found.count))
        }
        None if found.count > 0 => said.push(format!("{} times", found.count)),
        None => {}
    }
    said.push(format!("{}{in_all}", duration(found.ns)));
    if let Some(longest) = found.longest {
        said.push(format!("longest {}", duration(longest)));
    }
    said.extend(found.place.as_deref().map(|place| match &found.line {
        Some(line) => short(&format!("{place} at {line}")),
        None => short(place),
    }));
    said.extend(found.object.as_deref().map(short));
    let sure = match (found.sure.signs(), found.sampled) {
        (Some(signs), _) => format!("{}: {signs}", found.sure.word()),
        (None, Some(part)) => format!("{} in {} of the time", found.sure.word(), share(part, 1000)),
        (None, None) => found.sure.word().to_owned(),
    };
    said.push(sure);
    let said = format!("{of}{}", said.join("; "));
    out.push_str(&format!("{}\n", wrapped(&said, "   ")));
}

fn push_not(out: &mut String, not: &[(&'static Rule, u64)]) {
    let named = not.iter().take(MOST_NOT);
    let named: Vec<String> = named
        .map(|(rule, found)| match found {
            0 => rule.about.to_owned(),
            found => format!("{} ({})", rule.about, share(*found, 1000)),
        })
        .collect();
    if !named.is_empty() {
        let line = format!("Not the reason: {}", named.join(", "));
        out.push_str(&format!("{}\n", wrapped(&line, "  ").trim_start()));
    }
}

fn push_list(out: &mut String, head: &str, all: &[String]) {
    if all.is_empty() {
        return;
    }
    out.push_str(&format!("{head}:\n"));
    for one in all {
        out.push_str(&format!("  {}\n", short(one)));
    }
}

fn short(words: &str) -> String {
    if words.chars().count() <= MOST_CHARACTERS {
        return words.to_owned();
    }
    let short: String = words.chars().take(MOST_CHARACTERS).collect();
    format!("{short}…")
}

/// Breaks a text into lines of at most 100 characters, each of which begins with `indent`.
fn wrapped(words: &str, indent: &str) -> String {
    const WIDTH: usize = 100;
    let mut out = indent.to_owned();
    let mut width = indent.chars().count();
    let mut is_first = true;
    // A number and its unit stay together.
    let words = words.replace(" %", "\u{a0}%");
    for word in words.split(' ') {
        let length = word.chars().count();
        if !is_first && width + 1 + length > WIDTH {
            out.push('\n');
            out.push_str(indent);
            width = indent.chars().count();
        } else if !is_first {
            out.push(' ');
            width += 1;
        }
        out.push_str(word);
        width += length;
        is_first = false;
    }
    out.replace("\u{a0}%", " %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words() {
        let words = "abc ".repeat(60);
        let lines = wrapped(words.trim(), "  ");
        assert!(lines.lines().count() == 3, "{lines}");
        assert!(
            lines
                .lines()
                .all(|line| line.starts_with("  abc") && line.len() <= 100)
        );
    }

    #[test]
    fn a_screen_has_no_more_than_it_can_show() {
        let long = on_a_screen("a line of it\n".repeat(500));
        assert!(
            long.lines().count() <= MOST_LINES && long.len() <= MOST_BYTES,
            "{long}"
        );
        assert!(long.contains("truncated: "), "{long}");
        assert_eq!(on_a_screen("a line\n".to_owned()), "a line\n");
    }
}
