//! Statistics for people.

use tracer_analysis::{CallKey, CallTotal, Durations, Thread, ThreadTotal};

use super::Statistics;
use crate::report::escape::push_for_people;
use crate::syscall_names::{Table, name};

/// Threads, and system calls, that are listed; the JSON lists all.
const LISTED: usize = 40;

/// How wide the names of threads, and of system calls, are.
const LABEL: usize = 24;

/// Statistics as tables.
#[must_use]
pub fn text(statistics: &Statistics) -> String {
    let mut out = format!(
        "{} from the first event to the last, {} threads, {} events lost\n",
        duration(statistics.span_ns),
        statistics.threads.len(),
        statistics.lost
    );
    if statistics.has_switches {
        push_threads(&mut out, statistics);
        if !statistics.has_wakeups {
            out.push_str("no wake-ups were recorded (--events switch,wakeup): since when threads could run is unknown\n");
        }
    } else {
        out.push_str(
            "no switches were recorded (--events switch,wakeup): what threads did is unknown\n",
        );
    }
    if !statistics.calls.is_empty() {
        push_calls(&mut out, statistics);
    }
    out
}

/// A column of the table of threads: its heading, how wide it is, and what it says.
type Column = (&'static str, usize, fn(&ThreadTotal) -> String);

const COLUMNS: [Column; 10] = [
    ("running", 10, |total| duration(total.running)),
    ("runnable", 10, |total| duration(total.runnable)),
    ("blocked", 10, |total| duration(total.blocked)),
    ("stopped", 10, |total| duration(total.stopped)),
    ("unknown", 10, |total| duration(total.unknown)),
    ("waits", 9, |total| total.waits.count().to_string()),
    ("forced", 9, |total| total.preempted.to_string()),
    ("mean", 10, |total| known(total.waits.mean())),
    ("p99", 10, |total| known(total.waits.quantile(0.99))),
    ("max", 10, |total| longest(&total.waits)),
];

fn push_threads(out: &mut String, statistics: &Statistics) {
    // What hardly ever happens takes no space where it did not.
    let threads = || statistics.threads.iter().map(|(.., total)| total);
    let is_shown = |(heading, ..): &&Column| match *heading {
        "stopped" => threads().any(|total| total.stopped > 0),
        "unknown" => threads().any(|total| total.unknown > 0),
        _ => true,
    };
    let columns: Vec<&Column> = COLUMNS.iter().filter(is_shown).collect();
    out.push_str(&format!("\n{:<LABEL$}", "thread"));
    for (heading, width, _) in &columns {
        out.push_str(&format!("{heading:>width$}"));
    }
    out.push_str("  until\n");
    for (thread, comm, total) in statistics.threads.iter().take(LISTED) {
        out.push_str(&format!("{:<LABEL$}", label(*thread, comm)));
        for (_, width, says) in &columns {
            out.push_str(&format!("{:>width$}", says(total)));
        }
        if total.waits.count() > 0 {
            let at = total.longest_wait_at.0.saturating_sub(statistics.first.0);
            out.push_str(&format!("  {}", seconds(at)));
        }
        out.push('\n');
    }
    let rest = statistics.threads.get(LISTED..).unwrap_or_default();
    if !rest.is_empty() {
        out.push_str(&format!(
            "and {} other threads, that ran less (--format json has all)\n",
            rest.len()
        ));
    }
    if statistics.others.all() > 0 {
        out.push_str("and others, of which there are too many\n");
    }
}

fn push_calls(out: &mut String, statistics: &Statistics) {
    out.push_str(&format!(
        "\n{:<LABEL$}{:>10}{:>9}{:>10}{:>10}{:>10}{:>10}\n",
        "system call", "calls", "errors", "total", "p50", "p99", "max"
    ));
    for (key, total) in statistics.calls.iter().take(LISTED) {
        out.push_str(&of_call(*key, total));
    }
    let rest = statistics.calls.get(LISTED..).unwrap_or_default();
    if !rest.is_empty() {
        out.push_str(&format!(
            "and {} other calls, that took less (--format json has all)\n",
            rest.len()
        ));
    }
}

fn of_call(key: CallKey, total: &CallTotal) -> String {
    format!(
        "{:<LABEL$}{:>10}{:>9}{:>10}{:>10}{:>10}{:>10}\n",
        call_name(key),
        total.count,
        total.errors,
        duration(total.took.total()),
        known(total.took.quantile(0.5)),
        known(total.took.quantile(0.99)),
        longest(&total.took),
    )
}

/// The name of a system call, here and in JSON.
pub fn call_name(key: CallKey) -> String {
    let table = if key.is_compat {
        Table::Compat
    } else {
        Table::Native
    };
    match name(table, key.nr) {
        Some(name) => name.to_owned(),
        None => format!("syscall_{}", key.nr),
    }
}

/// `4711 nginx`, `4711/4713 worker`.
fn label(thread: Thread, comm: &[u8]) -> String {
    let mut out = Vec::new();
    push_for_people(&mut out, comm);
    let comm = String::from_utf8_lossy(&out);
    let Thread { pid, tid } = thread;
    let label = if pid == tid {
        format!("{pid} {comm}")
    } else {
        format!("{pid}/{tid} {comm}")
    };
    label.chars().take(LABEL - 1).collect()
}

fn known(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), duration)
}

fn longest(durations: &Durations) -> String {
    known((durations.count() > 0).then(|| durations.longest()))
}

fn seconds(ns: u64) -> String {
    format!("{}.{:06} s", ns / 1_000_000_000, ns % 1_000_000_000 / 1000)
}

/// A duration with four digits at most that count: `999 ns`, `1.234 us`, `12.34 ms`, `123.4 s`.
fn duration(ns: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let Some((unit, name)) = UNITS.into_iter().find(|(unit, _)| ns >= *unit) else {
        return format!("{ns} ns");
    };
    let whole = ns / unit;
    let digits = match whole {
        0..=9 => 3,
        10..=99 => 2,
        100..=999 => 1,
        _ => return format!("{whole} {name}"),
    };
    let part = ns % unit / (unit / 10_u64.pow(digits));
    format!("{whole}.{part:0width$} {name}", width = digits as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_four_digits() {
        for (ns, expected) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.000 us"),
            (12_345, "12.34 us"),
            (123_456_789, "123.4 ms"),
            (9_009_999_999, "9.009 s"),
            (12_345_000_000_000, "12345 s"),
        ] {
            assert_eq!(duration(ns), expected);
        }
    }

    #[test]
    fn a_name_of_any_bytes_is_harmless() {
        let thread = Thread { pid: 1, tid: 2 };
        assert_eq!(label(thread, b"a\x1b[2Jb"), "1/2 a\\u{1b}[2Jb");
    }
}
