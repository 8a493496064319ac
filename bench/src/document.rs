//! `docs/performance.md`, from the results.

use std::fmt::Write as _;
use std::fs;

use anyhow::Context as _;

use super::outcome::{Contender, Measure, Outcome, Verdict};
use super::results::{Curve, MICRO, Results};
use super::spread::Spread;
use super::{plot, text};
use xtask::workspace;

/// Writes the document, and a plot of what grows.
///
/// Remarks that a person wrote about a question are in `bench/notes.md` and are copied unchanged.
pub fn write(results: &Results) -> anyhow::Result<()> {
    let plots = workspace::root().join("docs/performance");
    let _nothing_there = fs::remove_dir_all(&plots);
    fs::create_dir_all(&plots).with_context(|| plots.display().to_string())?;
    let notes = workspace::root().join("bench/notes.md");
    let notes = fs::read_to_string(&notes).with_context(|| notes.display().to_string())?;
    let mut page = introduction(results);
    summary(&mut page, results);
    page += "\n## Questions\n";
    for outcome in &results.outcomes {
        question(&mut page, outcome);
        note(&mut page, &notes, &outcome.name);
    }
    if !results.curves.is_empty() {
        page += "\n## Growth\n\n![growth](performance/growth.svg)\n";
        plot::curves(&results.curves, &plots.join("growth.svg"))?;
    }
    for curve in &results.curves {
        growth(&mut page, curve);
        note(&mut page, &notes, &curve.name);
    }
    if !results.micro.is_empty() {
        micro(&mut page, results);
        note(&mut page, &notes, MICRO);
    }
    let path = workspace::root().join("docs/performance.md");
    fs::write(&path, page).with_context(|| path.display().to_string())
}

fn introduction(results: &Results) -> String {
    let machine = &results.machine;
    let mut again = String::new();
    for (name, machine) in &results.again {
        let _ = writeln!(
            again,
            "- Asked at another time, {}, at commit {}, on {}, {} CPUs, {}, load before it {:.2}: {name}",
            machine.date,
            machine.commit,
            machine.processor,
            machine.cpus,
            machine.kernel,
            machine.load,
        );
    }
    let kind = if results.is_quick {
        " This was a quick run: a tenth of the work."
    } else {
        ""
    };
    format!(
        "# Performance\n\n\
         Made by `cargo xtask bench` from `bench/results/latest.json`; do not edit. The project beside the tools that a \
         user would take instead, on the same work. Contestants run in turn, A B C A B C, at least five times; the tables \
         give minimum / median / maximum, and ratios are taken round by round. Ratios mean more than figures: another \
         machine has others.{kind}\n\n\
         - Machine: {}, {} CPUs, {} MiB of memory, clock source {}, load before the run {:.2}\n\
         - Kernel: {}\n\
         - Commit: {}, {}\n\
         - Peers: {}\n{again}",
        machine.processor,
        machine.cpus,
        machine.memory_mib,
        machine.clock,
        machine.load,
        machine.kernel,
        machine.commit,
        machine.date,
        machine.peers.join(", "),
    )
}

fn summary(page: &mut String, results: &Results) {
    *page += "\n## Goals\n\n| question | goal | measured | |\n|---|---|---|---|\n";
    for outcome in &results.outcomes {
        for Verdict {
            goal,
            measured,
            holds,
        } in &outcome.verdicts
        {
            let _ = writeln!(
                page,
                "| [{0}](#{0}) | {goal} | {1} | {2} |",
                outcome.name,
                measured.map_or_else(|| "-".to_owned(), text::plain),
                match holds {
                    Some(true) => "reached",
                    Some(false) => "**not reached**",
                    None => "not measured",
                }
            );
        }
    }
}

fn question(page: &mut String, outcome: &Outcome) {
    let _ = write!(page, "\n### {}\n\n{}\n\n", outcome.name, outcome.question);
    let added = match outcome.measure {
        Measure::Value => "",
        Measure::Added => " added |",
        Measure::AddedPercent => " added, % |",
    };
    let _ = writeln!(
        page,
        "| | {} |{added} ratio to this | beside |",
        outcome.unit.sign()
    );
    *page += if added.is_empty() {
        "|---|---|---|---|\n"
    } else {
        "|---|---|---|---|---|\n"
    };
    for contender in &outcome.contenders {
        row(page, outcome, contender);
    }
    for missing in &outcome.missing {
        let _ = write!(page, "\nMissing: {missing}.\n");
    }
}

fn row(page: &mut String, outcome: &Outcome, contender: &Contender) {
    let three = |spread: Option<Spread>| {
        spread.map_or_else(
            || "-".to_owned(),
            |Spread { min, median, max }| {
                let [min, median, max] =
                    [min, median, max].map(|value| text::formatted(value, outcome.unit));
                format!("{min} / {median} / {max}")
            },
        )
    };
    let name = if contender.is_ours {
        format!("**{}**", contender.name)
    } else {
        contender.name.clone()
    };
    let _ = write!(page, "| {name} | {} |", three(contender.spread));
    if outcome.measure != Measure::Value {
        let _ = write!(page, " {} |", three(contender.measured));
    }
    let beside = match &contender.failure {
        Some(failure) => format!("failed: {}", failure.replace(['\n', '|'], " ")),
        None => text::facts(contender),
    };
    let ratio = contender.ratio.map_or_else(
        || "-".to_owned(),
        |Spread { min, median, max }| format!("{min:.3} / {median:.3} / {max:.3}"),
    );
    let _ = writeln!(page, " {ratio} | {beside} |");
}

fn growth(page: &mut String, curve: &Curve) {
    let _ = write!(page, "\n### {}\n\n{}", curve.name, curve.question);
    if let Some(exponent) = curve.exponent {
        let _ = write!(
            page,
            " It grows with the power {exponent:.2}; {} would be linear.",
            curve.linear
        );
    }
    *page += "\n\n";
    let _ = writeln!(page, "| {} | {} |\n|---|---|", curve.x, curve.y);
    for (x, y) in &curve.points {
        let _ = writeln!(page, "| {} | {} |", text::plain(*x), text::plain(*y));
    }
}

fn micro(page: &mut String, results: &Results) {
    *page += "\n## Micro-benchmarks\n\nBy criterion, through the Rust interface; nanoseconds of one \
              event, with the bounds of the 95 % interval of the median.\n\n\
              | | ns | from | to |\n|---|---|---|---|\n";
    for one in &results.micro {
        let [ns, low, high] = [one.ns, one.low, one.high].map(text::plain);
        let _ = writeln!(page, "| {} | {ns} | {low} | {high} |", one.name);
    }
}

/// Appends the remarks that a person wrote about a question, if there are any.
fn note(page: &mut String, notes: &str, name: &str) {
    if let Some(text) = section(notes, name) {
        let _ = write!(page, "\n{text}\n");
    }
}

/// Returns what is below a heading of the second level, until the next one.
fn section<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let mut sections = text.split("\n## ").skip(1);
    sections.find_map(|section| {
        let (name, below) = section.split_once('\n')?;
        (name == heading).then(|| below.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::section;

    #[test]
    fn a_remark_is_found_by_the_name_of_its_question() {
        let text = "# Remarks\n\n## a-b\n\none\n\n### more\n\ntwo\n\n## a\n\nthree\n";
        assert_eq!(section(text, "a-b"), Some("one\n\n### more\n\ntwo"));
        assert_eq!(section(text, "a"), Some("three"));
        assert_eq!(section(text, "b"), None);
    }
}
