//! Counts for people.

use std::cmp::Reverse;

use tracer_analysis::Thread;
use tracer_common::kernel::counted;

use super::Part;
use super::table::{Sum, SumOwner, SumsByKind, What};
use crate::queries::words::{call_name, duration, thread};
use crate::stat::SortBy;
use crate::stat::table::{LABEL, LISTED, TableColumn, push_table};
use tracer_text::escape::push_for_people;

/// Calls whose durations are listed.
const WITH_RANGES: usize = 8;

/// Renders a part of the time as tables.
pub fn text(part: &Part<'_>) -> String {
    let rows = sorted(part);
    let mut out = format!(
        "{} counted",
        duration(part.until_ns.saturating_sub(part.from_ns))
    );
    if part.is_interval {
        out.push_str(&format!(", until {}", duration(part.until_ns)));
    } else if part.view.interval.is_some() {
        out.push_str(", all of the time");
    }
    out.push('\n');
    for (who, sums) in rows.iter().take(LISTED) {
        if let Some(label) = label(part, who) {
            out.push_str(&format!("\n== {label}\n"));
        }
        push_sums(&mut out, part, sums);
    }
    let rest = rows.len().saturating_sub(LISTED);
    if rest > 0 {
        out.push_str(&format!("\nand {rest} others (--format json has all)\n"));
    }
    if rows.is_empty() {
        out.push_str("nothing happened that is counted\n");
    }
    push_missing(&mut out, part);
    out
}

/// Returns what is counted, by whose it is, in the order that is asked for.
pub fn sorted<'a>(part: &Part<'a>) -> Vec<(&'a SumOwner, &'a SumsByKind)> {
    let mut rows: Vec<_> = part.table.sums.iter().collect();
    let sort = part.view.sort;
    let name = |who: &SumOwner| match who {
        SumOwner::All | SumOwner::Process(0) => Vec::new(),
        SumOwner::Process(pid) => {
            let (pid, tid) = (*pid, *pid);
            part.names.get(Thread { pid, tid }).to_vec()
        }
        SumOwner::Thread(thread) => part.names.get(*thread).to_vec(),
        SumOwner::Comm(comm) => comm.clone(),
    };
    rows.sort_by_cached_key(|(who, sums)| {
        let name = (sort == SortBy::Name).then(|| name(who));
        (Reverse(most(sort, sums)), name, (*who).clone())
    });
    rows
}

/// Returns the value by which rows are sorted, the largest first.
fn most(sort: SortBy, sums: &SumsByKind) -> u64 {
    let of = |kind| sums.get(&What::Kind(kind)).copied().unwrap_or_default();
    match sort {
        SortBy::Runnable => of(counted::RUNNABLE).total_ns(),
        SortBy::Blocked => of(counted::BLOCKED).total_ns(),
        SortBy::Stopped => of(counted::STOPPED).total_ns(),
        SortBy::Waits => of(counted::RUNNABLE).ended.count,
        SortBy::Forced => of(counted::RUNNING).ended.also,
        SortBy::Mean => of(counted::RUNNABLE).mean_ns().unwrap_or(0),
        SortBy::P99 => of(counted::RUNNABLE).up_to_ns(0.99).unwrap_or(0),
        SortBy::Max => of(counted::RUNNABLE).ended.longest_ns,
        SortBy::Name | SortBy::Pid => 0,
        // What is not known has no sum. Where threads are not counted, calls decide.
        SortBy::Running | SortBy::Unknown => {
            let running = of(counted::RUNNING).total_ns();
            let calls = || sums.values().map(|sum| sum.ended.total_ns);
            if running > 0 { running } else { calls().sum() }
        }
    }
}

fn label(part: &Part<'_>, who: &SumOwner) -> Option<String> {
    let named = |of: Thread| thread(of, part.names.get(of));
    match who {
        SumOwner::All => None,
        SumOwner::Process(pid) => Some(named(Thread {
            pid: *pid,
            tid: *pid,
        })),
        SumOwner::Thread(of) => Some(named(*of)),
        SumOwner::Comm(comm) if comm.is_empty() => Some("(no name)".to_owned()),
        SumOwner::Comm(comm) => {
            let mut name = Vec::new();
            push_for_people(&mut name, comm);
            Some(String::from_utf8_lossy(&name).into_owned())
        }
    }
}

const CALLS: [TableColumn<Sum>; 7] = [
    ("count", 12, |sum| sum.ended.count.to_string()),
    ("errors", 12, |sum| sum.ended.also.to_string()),
    ("total", 10, |sum| duration(sum.ended.total_ns)),
    ("mean", 10, |sum| known(sum.mean_ns())),
    ("half to", 10, |sum| known(sum.up_to_ns(0.5))),
    ("99% to", 10, |sum| known(sum.up_to_ns(0.99))),
    ("max", 10, longest),
];

const THREADS: [TableColumn<Sum>; 7] = [
    ("count", 12, |sum| sum.ended.count.to_string()),
    ("forced", 12, |sum| sum.ended.also.to_string()),
    ("total", 10, |sum| duration(sum.total_ns())),
    ("mean", 10, |sum| known(sum.mean_ns())),
    ("half to", 10, |sum| known(sum.up_to_ns(0.5))),
    ("99% to", 10, |sum| known(sum.up_to_ns(0.99))),
    ("max", 10, longest),
];

const FAULTS: [TableColumn<Sum>; 2] = [
    ("count", 12, |sum| sum.ended.count.to_string()),
    ("by a write", 12, |sum| sum.ended.also.to_string()),
];

/// Activities of threads, in words.
const ACTIVITIES: [(u32, &str); 4] = [
    (counted::RUNNING, "on a CPU"),
    (counted::RUNNABLE, "waits for a CPU"),
    (counted::BLOCKED, "blocked"),
    (counted::STOPPED, "stopped"),
];

const OF_FAULTS: [(u32, &str); 2] = [
    (counted::FAULT_USER, "of the program"),
    (counted::FAULT_KERNEL, "of the kernel"),
];

fn push_sums(out: &mut String, part: &Part<'_>, sums: &SumsByKind) {
    let mut calls: Vec<(String, Sum)> = sums
        .iter()
        .filter_map(|(what, sum)| match what {
            What::Call(key) => Some((call_name(*key), *sum)),
            _ => None,
        })
        .collect();
    calls.sort_by_key(|(_, sum)| Reverse((sum.ended.total_ns, sum.ended.count)));
    push_table(out, "system call", &CALLS, &calls, false);
    let of = |kinds: &[(u32, &str)]| -> Vec<(String, Sum)> {
        let known = kinds.iter();
        let known = known.filter_map(|(kind, word)| {
            let sum = sums.get(&What::Kind(*kind))?;
            Some(((*word).to_owned(), *sum))
        });
        known.collect()
    };
    let threads = of(&ACTIVITIES);
    push_table(out, "threads", &THREADS, &threads, false);
    push_table(out, "page faults", &FAULTS, &of(&OF_FAULTS), false);
    push_points(out, part, sums);
    let calls = calls.into_iter().take(WITH_RANGES);
    push_ranges(out, calls.chain(threads));
}

/// Appends how often probes and tracepoints were passed, with their whole names.
fn push_points(out: &mut String, part: &Part<'_>, sums: &SumsByKind) {
    let points = sums.iter().filter_map(|(what, sum)| {
        let name = part.point(*what)?;
        Some((sum.ended.count, name))
    });
    let mut points: Vec<(u64, &str)> = points.collect();
    points.sort_by_key(|(count, name)| (Reverse(*count), *name));
    if !points.is_empty() {
        out.push_str(&format!("\n{:>12}  probe or tracepoint\n", "count"));
    }
    for (count, name) in points {
        let mut shown = Vec::new();
        push_for_people(&mut shown, name.as_bytes());
        let name = String::from_utf8_lossy(&shown);
        out.push_str(&format!("{count:>12}  {name}\n"));
    }
}

/// Appends how many durations are up to each power of two.
fn push_ranges(out: &mut String, rows: impl Iterator<Item = (String, Sum)>) {
    let mut rows = rows.filter(|(_, sum)| sum.timed() > 0).peekable();
    if rows.peek().is_some() {
        out.push_str(&format!(
            "\n{:<LABEL$}how many took so long, up to\n",
            "durations"
        ));
    }
    for (label, sum) in rows {
        let label: String = label.chars().take(LABEL - 1).collect();
        let ranges = sum.ranges().into_iter().filter(|(_, count)| *count > 0);
        let ranges: Vec<String> = ranges
            .map(|(end, count)| format!("{}: {count}", duration(end)))
            .collect();
        out.push_str(&format!("{label:<LABEL$}{}\n", ranges.join(", ")));
    }
}

/// Appends what is in no sum.
fn push_missing(out: &mut String, part: &Part<'_>) {
    let not_counted = part.table.not_counted;
    if not_counted.events > 0 {
        out.push_str(&format!(
            "\n{} more events are in no sum: there are too many sums (fewer with --by comm, or without --by)\n",
            not_counted.events
        ));
    }
    if not_counted.threads > 0 {
        out.push_str(&format!(
            "\nof {} events it is not known how long they took: there were more than 65,536 threads at a time\n",
            not_counted.threads
        ));
    }
    if part.lost > 0 {
        out.push_str(&format!(
            "\n{} events were lost: names may be missing, and counts be too low\n",
            part.lost
        ));
    }
}

fn known(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), duration)
}

/// Returns the longest time; where it is only known up to which power of two it is, that.
fn longest(sum: &Sum) -> String {
    match (sum.longest_ns(), sum.up_to_ns(1.0)) {
        (Some(ns), _) => duration(ns),
        (None, Some(end)) => format!("<{}", duration(end)),
        (None, None) => "-".to_owned(),
    }
}
