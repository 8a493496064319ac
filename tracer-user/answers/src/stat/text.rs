//! Statistics for people.

use std::collections::BTreeSet;

use tracer_analysis::{CallKey, CallTotal, Durations, ThreadTotal};
use tracer_common::event_type::predefined_event_type;

use super::kernel::{push_faults, push_interrupts, push_requests, push_signals};
use super::locks::push_locks;
use super::table::{LABEL, LISTED};
use super::{By, Statistics, View};
use crate::queries::words::{call_name, duration, inside, place, seconds, share};
use crate::queries::{Functions, SpanKind};
use tracer_text::escape::push_for_people;

/// Renders statistics as tables.
#[must_use]
pub fn text(statistics: &Statistics, view: View) -> String {
    let which = if statistics.scope.has_times() {
        "that are asked about"
    } else {
        "from the first event to the end"
    };
    let mut out = format!(
        "{} {which}, {} threads, {} events lost{}\n",
        duration(statistics.span_ns),
        statistics.threads.len(),
        statistics.lost,
        statistics.summary.but_for()
    );
    out.push_str(&statistics.summary.condition_lines());
    if let Some(stillness) = statistics.paths.stillness() {
        out.push_str(&format!("{stillness}\n"));
    }
    if statistics.has_switches {
        push_threads(&mut out, statistics, view);
        push_throttled(&mut out, statistics);
        push_commands(&mut out, statistics, view);
    }
    if let Some(missing) = statistics.paths.missing_events() {
        out.push_str(&format!("{missing}\n"));
    }
    push_wakeups(&mut out, &statistics.wakeups);
    push_cpus(&mut out, statistics);
    push_spans(&mut out, statistics);
    push_events(&mut out, statistics);
    if !statistics.calls.is_empty() {
        push_calls(&mut out, statistics);
    }
    push_locks(&mut out, statistics, view.has_holders);
    push_faults(&mut out, statistics);
    push_requests(&mut out, statistics);
    push_signals(&mut out, statistics);
    push_interrupts(&mut out, statistics);
    out
}

/// A column of the table of threads: its heading, its width, and its text.
type Column = (&'static str, usize, fn(&ThreadTotal) -> String);

const COLUMNS: [Column; 11] = [
    ("running", 10, |total| duration(total.running)),
    ("runnable", 10, |total| duration(total.runnable)),
    ("throttled", 10, |total| duration(total.throttled)),
    ("blocked", 10, |total| duration(total.blocked)),
    ("stopped", 10, |total| duration(total.stopped)),
    ("unknown", 10, |total| duration(total.unknown)),
    ("waits", 9, |total| total.waits.count().to_string()),
    ("forced", 9, |total| total.preempted.to_string()),
    ("mean", 10, |total| known(total.waits.mean())),
    ("p99", 10, |total| known(total.waits.quantile(0.99))),
    ("max", 10, |total| longest(&total.waits)),
];

fn push_threads(out: &mut String, statistics: &Statistics, view: View) {
    let by = statistics.by(view);
    let groups = statistics.groups(by, view.sort);
    // What hardly ever happens takes no space where it did not.
    let threads = || statistics.threads.iter().map(|(.., total)| total);
    let is_shown = |(heading, ..): &&Column| match *heading {
        "throttled" => threads().any(|total| total.throttled > 0),
        "stopped" => threads().any(|total| total.stopped > 0),
        "unknown" => threads().any(|total| total.unknown > 0),
        _ => true,
    };
    let columns: Vec<&Column> = COLUMNS.iter().filter(is_shown).collect();
    out.push_str(&format!("\n{:<LABEL$}", heading(by)));
    for (heading, width, _) in &columns {
        out.push_str(&format!("{heading:>width$}"));
    }
    out.push_str("  until         mostly blocked in\n");
    for group in groups.iter().take(LISTED) {
        let total = &group.total;
        let label: String = group.label(by).chars().take(LABEL - 1).collect();
        out.push_str(&format!("{label:<LABEL$}"));
        for (_, width, says) in &columns {
            out.push_str(&format!("{:>width$}", says(total)));
        }
        if total.waits.count() > 0 {
            let at = total.longest_wait_at.0.saturating_sub(statistics.start.0);
            out.push_str(&format!("  {:<12}", seconds(at)));
        } else {
            out.push_str(&format!("  {:<12}", ""));
        }
        if let Some(mostly) = mostly_blocked_in(total, statistics.paths.functions()) {
            out.push_str(&format!("  {mostly}"));
        }
        let length = out.trim_end().len();
        out.truncate(length);
        out.push('\n');
    }
    let rest = groups.len().saturating_sub(LISTED);
    if rest > 0 {
        out.push_str(&format!(
            "and {rest} other {}, that come after these (--format json has all)\n",
            words_of(by)
        ));
    }
    if by == By::Comm && view.by.is_none() {
        out.push_str(&format!(
            "{} threads, by their names: --by thread lists them, --by process their processes\n",
            statistics.threads.len()
        ));
    }
    if statistics.others.all() > 0 {
        out.push_str("and others, of which there are too many\n");
    }
}

/// Appends the control groups whose time was used up, with how long threads waited for each.
fn push_throttled(out: &mut String, statistics: &Statistics) {
    let by = statistics.all().throttled_by_longest();
    if by.is_empty() {
        return;
    }
    let groups = statistics.paths.groups();
    let heading = "throttled";
    out.push_str(&format!("\n{heading:<LABEL$}by control group (cpu.max)\n"));
    for (group, ns) in by.iter().take(LISTED) {
        let name = groups.name(*group).map_or("unknown", |name| &**name);
        out.push_str(&format!("{:<LABEL$}{name}\n", duration(*ns)));
    }
}

/// Appends the command lines that the processes of the table of threads were started with, where
/// they are known.
fn push_commands(out: &mut String, statistics: &Statistics, view: View) {
    let by = statistics.by(view);
    if by == By::Comm {
        return;
    }
    let groups = statistics.groups(by, view.sort);
    let mut seen = BTreeSet::new();
    let pids = groups.iter().take(LISTED).map(|group| group.first.pid);
    let lines = pids.filter(|pid| seen.insert(*pid)).filter_map(|pid| {
        let (label, command) = statistics.command_of(pid)?;
        let label: String = label.chars().take(LABEL - 1).collect();
        Some(format!("{label:<LABEL$}{command}\n"))
    });
    let lines: String = lines.collect();
    if !lines.is_empty() {
        out.push_str(&format!(
            "\n{:<LABEL$}given by exec\n{lines}",
            "command line of"
        ));
    }
}

/// Describes what most of a thread's blocked time went into: `futex 83 %`, and in which function:
/// `futex 83 %, at wait_for_lock 61 %`.
fn mostly_blocked_in(total: &ThreadTotal, functions: &Functions) -> Option<String> {
    let (reason, ns) = total.blocked_in.iter().max_by_key(|(_, ns)| *ns)?;
    let what = inside(reason.inside)?;
    let device = if reason.is_io { " for a device" } else { "" };
    let at = total.functions_of(*reason).into_iter().find_map(|at| {
        let place = place(at.0, functions)?;
        Some(format!(", {place} {}", share(at.1, total.blocked)))
    });
    let at = at.unwrap_or_default();
    Some(format!("{what}{device} {}{at}", share(*ns, total.blocked)))
}

/// Most characters of a bar.
const BAR: u64 = 40;

fn push_wakeups(out: &mut String, wakeups: &Durations) {
    let ranges = wakeups.ranges();
    let Some(most) = ranges.iter().map(|(_, count)| *count).max() else {
        return;
    };
    out.push_str(&format!(
        "\n{:<LABEL$}{:>10}  p50 {}, p99 {}, longest {}\n",
        "woken until running",
        wakeups.count(),
        known(wakeups.quantile(0.5)),
        known(wakeups.quantile(0.99)),
        longest(wakeups),
    ));
    for (end, count) in ranges {
        let length = usize::try_from((count * BAR).div_ceil(most.max(1))).unwrap_or(0);
        let up_to = format!("up to {}", duration(end));
        let line = format!("{up_to:<LABEL$}{count:>10}  {}", "#".repeat(length));
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

fn push_cpus(out: &mut String, statistics: &Statistics) {
    if statistics.cpus.is_empty() {
        return;
    }
    out.push_str(&format!("\n{:<LABEL$}{:>10}\n", "cpu", "used"));
    for (cpu, ns) in &statistics.cpus {
        let used = share(*ns, statistics.span_ns);
        out.push_str(&format!("{cpu:<LABEL$}{:>10}{used:>8}\n", duration(*ns)));
    }
}

fn push_spans(out: &mut String, statistics: &Statistics) {
    let kinds = statistics.paths.kinds().iter();
    let mut kinds: Vec<&SpanKind> = kinds.filter(|kind| kind.took.count() > 0).collect();
    let unended = statistics.paths.unended_line();
    if kinds.is_empty() {
        if let Some(unended) = unended {
            out.push_str(&format!("\n{unended}\n"));
        }
        return;
    }
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.took.total()));
    // Most spans are of one thread, which works on them all the time.
    let has_unpolled = kinds.iter().any(|kind| kind.split.unpolled > 0);
    let unpolled = |share: &str| {
        if has_unpolled {
            format!("{share:>9}")
        } else {
            String::new()
        }
    };
    out.push_str(&format!(
        "\n{:<LABEL$}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>9}{:>9}{:>9}{}{:>9}\n",
        "span",
        "count",
        "total",
        "p50",
        "p95",
        "p99",
        "max",
        "running",
        "runnable",
        "blocked",
        unpolled("unpolled"),
        "unknown"
    ));
    for kind in kinds.into_iter().take(LISTED) {
        let (took, split) = (&kind.took, kind.split);
        let of_all = |ns| share(ns, took.total());
        out.push_str(&format!(
            "{:<LABEL$}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>9}{:>9}{:>9}{}{:>9}\n",
            shortened(&kind.name),
            took.count(),
            duration(took.total()),
            known(took.quantile(0.5)),
            known(took.quantile(0.95)),
            known(took.quantile(0.99)),
            longest(took),
            of_all(split.running),
            of_all(split.runnable),
            of_all(split.blocked.saturating_add(split.stopped)),
            unpolled(&of_all(split.unpolled)),
            of_all(split.unknown),
        ));
    }
    if let Some(unended) = unended {
        out.push_str(&format!("{unended}\n"));
    }
}

fn push_events(out: &mut String, statistics: &Statistics) {
    let events = statistics.summary.events.iter();
    let is_users = |name: &[u8]| predefined_event_type(name).is_none();
    let mut events: Vec<_> = events.filter(|(name, _)| is_users(name)).collect();
    if events.is_empty() {
        return;
    }
    events.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), name.clone()));
    out.push_str(&format!(
        "\n{:<LABEL$}{:>10}{:>12}\n",
        "user event", "count", "a second"
    ));
    for (name, count) in events.into_iter().take(LISTED) {
        let rate = u128::from(*count) * 1_000_000_000 / u128::from(statistics.span_ns.max(1));
        out.push_str(&format!(
            "{:<LABEL$}{count:>10}{rate:>12}\n",
            shortened(name)
        ));
    }
}

/// Renders a name of any bytes, as long as there is space.
fn shortened(name: &[u8]) -> String {
    let mut out = Vec::new();
    push_for_people(&mut out, name);
    let name = String::from_utf8_lossy(&out);
    name.chars().take(LABEL - 1).collect()
}

fn push_calls(out: &mut String, statistics: &Statistics) {
    out.push_str(&format!(
        "\n{:<LABEL$}{:>10}{:>9}{:>10}{:>10}{:>10}{:>10}\n",
        "system call", "calls", "errors", "total", "p50", "p99", "max"
    ));
    for (key, total) in statistics.calls.iter().take(LISTED) {
        out.push_str(&render_call(*key, total));
    }
    let rest = statistics.calls.get(LISTED..).unwrap_or_default();
    if !rest.is_empty() {
        out.push_str(&format!(
            "and {} other calls, that took less (--format json has all)\n",
            rest.len()
        ));
    }
}

fn render_call(key: CallKey, total: &CallTotal) -> String {
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

/// Returns the heading of the first column of threads.
fn heading(by: By) -> &'static str {
    match by {
        By::Thread => "thread",
        By::Process => "process",
        By::Comm => "name (processes)",
    }
}

/// Returns the word for several rows of threads.
fn words_of(by: By) -> &'static str {
    match by {
        By::Thread => "threads",
        By::Process => "processes",
        By::Comm => "names",
    }
}

fn known(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), duration)
}

fn longest(durations: &Durations) -> String {
    known((durations.count() > 0).then(|| durations.longest()))
}
