//! Results as text for a terminal.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::outcome::{Contender, Measure, Outcome, Unit, Verdict};
use super::results::{Curve, Micro, Results};
use super::spread::Spread;

/// Writes the text of [`all`] beside the JSON at `path`.
pub fn save_beside(results: &Results, path: &Path) -> anyhow::Result<()> {
    let beside = path.with_extension("txt");
    fs::write(&beside, all(results)).with_context(|| beside.display().to_string())
}

/// Formats all results of a run.
pub fn all(results: &Results) -> String {
    let machine = &results.machine;
    let mut text = format!(
        "{}, {} CPUs, {} MiB; {}; clock {}\ncommit {}, {}{}\npeers: {}\n",
        machine.processor,
        machine.cpus,
        machine.memory_mib,
        machine.kernel,
        machine.clock,
        machine.commit,
        machine.date,
        if results.is_quick {
            ", a quick run"
        } else {
            ""
        },
        machine.peers.join("; "),
    );
    for one in &results.outcomes {
        let _ = write!(text, "\n== {}\n{}", one.name, outcome(one));
    }
    for one in &results.curves {
        let _ = write!(text, "\n== {}\n{}", one.name, curve(one));
    }
    if !results.micro.is_empty() {
        let _ = write!(
            text,
            "\n== {}\n{}",
            super::results::MICRO,
            micro(&results.micro)
        );
    }
    text
}

/// Formats one contest: a line for each contestant, then the goals.
pub fn outcome(outcome: &Outcome) -> String {
    let mut text = format!("{}\n", outcome.question);
    for contender in &outcome.contenders {
        let _ = writeln!(text, "  {}", line(outcome, contender));
        if !contender.facts.is_empty() {
            let _ = writeln!(text, "      {}", facts(contender));
        }
        if let Some(failure) = &contender.failure {
            let _ = writeln!(text, "      failed: {failure}");
        }
    }
    for missing in &outcome.missing {
        let _ = writeln!(text, "  missing: {missing}");
    }
    for verdict in &outcome.verdicts {
        let _ = writeln!(text, "  {}", judged(verdict));
    }
    text
}

fn line(outcome: &Outcome, contender: &Contender) -> String {
    let spread = |spread: Option<Spread>| {
        spread.map_or_else(
            || "-".to_owned(),
            |spread| {
                let [min, median, max] = [spread.min, spread.median, spread.max]
                    .map(|value| formatted(value, outcome.unit));
                format!("{min} / {median} / {max} {}", outcome.unit.sign())
            },
        )
    };
    let mut line = format!("{:<34} {}", contender.name, spread(contender.spread));
    if let Some(measured) = contender.measured {
        let _ = match outcome.measure {
            Measure::AddedPercent => write!(
                line,
                "; added {:.2} / {:.2} / {:.2} %",
                measured.min, measured.median, measured.max
            ),
            Measure::Value | Measure::Added => write!(line, "; added {}", spread(Some(measured))),
        };
    }
    if let Some(ratio) = contender.ratio {
        let _ = write!(
            line,
            "; the ratio to it is {:.3} / {:.3} / {:.3}",
            ratio.min, ratio.median, ratio.max
        );
    }
    line
}

/// Formats the further figures.
pub fn facts(contender: &Contender) -> String {
    let all = contender.facts.iter();
    let all_said: Vec<_> = all
        .map(|(name, value)| format!("{name} {}", plain(*value)))
        .collect();
    all_said.join(", ")
}

/// Formats a goal and whether it was reached.
pub fn judged(verdict: &Verdict) -> String {
    let mark = match verdict.holds {
        Some(true) => "reached",
        Some(false) => "not reached",
        None => "not measured",
    };
    let measured = verdict
        .measured
        .map_or_else(String::new, |value| format!(" ({})", plain(value)));
    format!("{mark}: {}{measured}", verdict.goal)
}

/// Formats the growth of a cost.
pub fn curve(curve: &Curve) -> String {
    let mut text = format!("{}\n", curve.question);
    for (x, y) in &curve.points {
        let _ = writeln!(
            text,
            "  {} {:<12} {} {}",
            curve.x,
            plain(*x),
            plain(*y),
            curve.y
        );
    }
    match curve.exponent {
        Some(exponent) => {
            let _ = writeln!(
                text,
                "  grows with the power {exponent:.2} (linear growth: {})",
                curve.linear
            );
        }
        None => text += "  too few sizes for an exponent\n",
    }
    text
}

/// Formats the micro-benchmarks.
pub fn micro(all: &[Micro]) -> String {
    let mut text = String::new();
    for one in all {
        let _ = writeln!(
            text,
            "  {:<44} {:>12} ns ({} to {})",
            one.name,
            plain(one.ns),
            plain(one.low),
            plain(one.high)
        );
    }
    text
}

/// Formats a value in its unit, with as many digits as are useful.
pub fn formatted(value: f64, unit: Unit) -> String {
    match unit {
        Unit::PerSecond => plain(value.round()),
        Unit::Seconds => format!("{value:.3}"),
        Unit::Ns | Unit::Bytes | Unit::Megabytes | Unit::Percent => plain(value),
    }
}

/// Formats a value with four significant digits, or all digits before the point.
pub fn plain(value: f64) -> String {
    let size = value.abs();
    if value == value.trunc() && size < 1e15 {
        format!("{value}")
    } else if size >= 1000.0 {
        format!("{value:.0}")
    } else if size >= 100.0 {
        format!("{value:.1}")
    } else if size >= 1.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_digits_that_say_something() {
        let shown = [0.123_456, 1.234_56, 123.456, 12345.678, 5.0, -0.5].map(plain);

        assert_eq!(shown, ["0.123", "1.23", "123.5", "12346", "5", "-0.500"]);
    }
}
