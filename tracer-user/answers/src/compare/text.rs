//! A comparison for people.

use tracer_text::escape::push_for_people;

use super::beside::{Beside, LockTime, StackDifferences};
use super::change::Change;
use super::subject::{CallDifference, CauseDifference, Difference};
use super::{Comparison, Run};
use crate::queries::words::duration;

/// Most causes, details of a cause, locks, or stacks that are listed.
const CAUSES: usize = 3;

/// Most subjects that are listed.
const SUBJECTS: usize = 8;

/// Most names of spans of one side alone that are listed.
const NAMES: usize = 20;

/// Least part of a difference, in hundredths, for which a cause counts.
const COUNTS_FROM: u64 = 5;

/// Time from which a difference of a lock, or of a stack, is worth a line.
const LEAST_NS: u64 = 1_000_000;

/// Parts of a stack, its thread and its frames, beyond which the outer frames are left out.
const FRAMES: usize = 5;

/// Renders a comparison.
#[must_use]
pub fn text(comparison: &Comparison) -> String {
    let mut out = String::new();
    for (letter, runs) in [("A", &comparison.a), ("B", &comparison.b)] {
        push_side(&mut out, letter, runs);
    }
    if let Some(systems) = other_systems(comparison) {
        out.push_str(&systems);
    }
    let all = &comparison.differences;
    let is_alike = |one: &Difference| matches!(one.verdict, Change::Same | Change::Unsure);
    if all.is_empty() {
        out.push_str("\nnothing to compare: no span or program is on both sides\n");
    } else if all.iter().all(is_alike) {
        out.push_str("\nnothing is clearly slower or faster\n");
    }
    for difference in all.iter().take(SUBJECTS) {
        push_difference(&mut out, difference);
    }
    if all.len() > SUBJECTS {
        let rest = all.len() - SUBJECTS;
        out.push_str(&format!("\nand {rest} others (--format json has all)\n"));
    }
    push_locks(&mut out, &comparison.locks);
    for stacks in &comparison.stacks {
        push_stacks(&mut out, stacks);
    }
    for (side, names) in ["A", "B"].iter().zip(&comparison.only_in) {
        if !names.is_empty() {
            let shown: Vec<String> = names.iter().take(NAMES).map(|name| people(name)).collect();
            let rest = match names.len() - shown.len() {
                0 => String::new(),
                rest => format!(", and {rest} others (--format json has all)"),
            };
            let shown = shown.join(", ");
            out.push_str(&format!("\nspans of {side} alone: {shown}{rest}\n"));
        }
    }
    out
}

/// Says that the logs are not all of one kind of machine and one kernel.
fn other_systems(comparison: &Comparison) -> Option<String> {
    let mut runs = comparison.a.iter().chain(&comparison.b);
    let first = &runs.next()?.system;
    let other = &runs.find(|run| run.system != *first)?.system;
    let [first, other] = [first, other].map(|system| {
        let [kernel, machine] = system.each_ref().map(|part| people(part));
        format!("Linux {kernel} on {machine}")
    });
    Some(format!(
        "recorded on different systems ({first}, and {other}): that makes a difference too\n"
    ))
}

fn push_side(out: &mut String, letter: &str, runs: &[Run]) {
    let files: Vec<String> = runs
        .iter()
        .map(|run| people(run.file.as_os_str().as_encoded_bytes()))
        .collect();
    out.push_str(&format!("{letter}: {}\n", files.join(", ")));
    for run in runs {
        let file = people(run.file.as_os_str().as_encoded_bytes());
        if run.lost > 0 {
            out.push_str(&format!("   {file}: {} events were lost\n", run.lost));
        }
        for line in run.condition.lines() {
            out.push_str(&format!("   {file}: {line}\n"));
        }
        if let Some(missing) = run.missing {
            out.push_str(&format!("   {file}: {missing}\n"));
        }
    }
}

fn push_difference(out: &mut String, difference: &Difference) {
    out.push_str(&format!("\n{}\n", heading(difference)));
    for line in numbers(difference) {
        out.push_str(&format!("  {line}\n"));
    }
    let total = total(difference);
    for (nth, cause) in counting_causes(difference).enumerate() {
        push_cause(out, nth + 1, cause, total);
    }
}

/// Says what differs, and how much.
pub fn heading(difference: &Difference) -> String {
    let [a, b] = &difference.sides;
    let (before, after) = (a.mean(), b.mean());
    let what = if difference.is_of_spans {
        format!("span {}", people(&difference.name))
    } else {
        format!("all of {}", people(&difference.name))
    };
    let judged = match &difference.other {
        Some(other) => format!(
            "not to be compared by itself with {}, another program",
            people(other)
        ),
        None => verdict(difference.verdict, before, after),
    };
    format!(
        "{what}: {judged}, {}, {} before",
        duration(after),
        duration(before)
    )
}

/// Returns by how much the means differ, in nanoseconds.
pub fn total(difference: &Difference) -> u64 {
    let [a, b] = &difference.sides;
    a.mean().abs_diff(b.mean())
}

/// Returns the causes that explain a difference; none where the difference does not count.
fn counting_causes(difference: &Difference) -> impl Iterator<Item = &CauseDifference> {
    let [a, b] = &difference.sides;
    let (total, is_longer) = (total(difference), b.mean() > a.mean());
    let counts = move |cause: &&CauseDifference| {
        (cause.longer() > 0) == is_longer
            && cause.longer().unsigned_abs() >= total / 100 * COUNTS_FROM
            && cause.longer() != 0
    };
    let most = match difference.verdict {
        Change::Same => 0,
        _ => CAUSES,
    };
    difference.causes.iter().filter(counts).take(most)
}

fn verdict(verdict: Change, before: u64, after: u64) -> String {
    let times = ratio(before.min(after), before.max(after));
    match verdict {
        Change::Same => "no difference that counts".to_owned(),
        Change::Slower => format!("slower, {times} times as long"),
        Change::Faster => format!("faster, {times} times as fast"),
        Change::Unsure => "different, which may be chance".to_owned(),
    }
}

/// Returns the second number as a multiple of the first, with two decimals.
fn ratio(one: u64, other: u64) -> String {
    let hundredths = u128::from(other) * 100 / u128::from(one.max(1));
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Returns lines of numbers of a difference.
pub fn numbers(difference: &Difference) -> Vec<String> {
    let [a, b] = &difference.sides;
    let mut lines = Vec::new();
    if difference.is_of_spans {
        let of = |part: f64| {
            let at = |side: &super::subject::SubjectSide| {
                side.took
                    .quantile(part)
                    .map_or_else(|| "-".to_owned(), duration)
            };
            format!("{} ({})", at(b), at(a))
        };
        lines.push(format!(
            "p50 {}, p99 {}, count {} ({})",
            of(0.5),
            of(0.99),
            b.took.count(),
            a.took.count()
        ));
    }
    let sure = match difference.chance {
        Some(chance) if difference.is_short && difference.verdict == Change::Unsure => format!(
            "by chance alone within these runs in {} of 1000 cases; one short run each: how much \
             runs differ is not known (give several: --a, --b)",
            thousandths(chance)
        ),
        Some(chance) => format!("by chance alone in {} of 1000 cases", thousandths(chance)),
        None if difference.is_of_spans => "too few to tell whether that is chance".to_owned(),
        None => {
            "one run each: whether that is chance is not known (give several: --a, --b)".to_owned()
        }
    };
    let runs = a.runs.max(b.runs);
    if runs > 1 {
        lines.push(format!("{} and {} runs; {sure}", a.runs, b.runs));
    } else {
        lines.push(sure);
    }
    lines
}

fn thousandths(chance: f64) -> String {
    let thousandths = chance * 1000.0;
    if thousandths < 1.0 {
        "less than 1".to_owned()
    } else {
        format!("{thousandths:.0}")
    }
}

/// Renders a difference with its sign.
pub fn signed([before, after]: [u64; 2]) -> String {
    let sign = if after >= before { '+' } else { '-' };
    format!("{sign}{}", duration(before.abs_diff(after)))
}

fn push_cause(out: &mut String, nth: usize, cause: &CauseDifference, total: u64) {
    let longer = cause.longer().unsigned_abs();
    let hundredths = u128::from(longer) * 100 / u128::from(total.max(1));
    out.push_str(&format!(
        "  {nth}. {}: {} ({hundredths} % of the difference): {}, {} before\n",
        cause.cause,
        signed(cause.ns),
        duration(cause.ns[1]),
        duration(cause.ns[0])
    ));
    for call in &cause.calls {
        out.push_str(&format!("     {}\n", call_words(call)));
    }
    let is_said = |words: &str| words == cause.cause;
    let details = cause.details.iter().filter(|(words, _)| !is_said(words));
    for (words, [before, after]) in details.take(CAUSES) {
        out.push_str(&format!(
            "     {words}: {}, {} before\n",
            duration(*after),
            duration(*before)
        ));
    }
}

/// Tells whether two times differ enough for a line: by a tenth, and by a millisecond.
fn differs([before, after]: [u64; 2]) -> bool {
    let by = before.abs_diff(after);
    by >= LEAST_NS && by >= before.max(after) / 10
}

fn push_locks(out: &mut String, locks: &[Beside<LockTime>]) {
    let differ = |lock: &&Beside<LockTime>| differs(lock.sides.map(|side| side.ns));
    let mut locks = locks.iter().filter(differ).take(CAUSES).peekable();
    if locks.peek().is_some() {
        out.push_str("\nwaits for locks, all threads of a run together\n");
    }
    for lock in locks {
        let [before, after] = lock.sides;
        out.push_str(&format!(
            "  {}: {}: {}, {} before; {} waits ({}), longest {} ({})\n",
            lock.name,
            signed([before.ns, after.ns]),
            duration(after.ns),
            duration(before.ns),
            after.waits,
            before.waits,
            duration(after.longest),
            duration(before.longest)
        ));
    }
}

fn push_stacks(out: &mut String, of_kind: &StackDifferences) {
    let differ = |stack: &&Beside<u64>| differs(stack.sides);
    let mut stacks = of_kind.stacks.iter().filter(differ).take(CAUSES).peekable();
    if stacks.peek().is_some() {
        let title = of_kind.kind.title();
        out.push_str(&format!(
            "\nstacks: {title}, all threads of a run together\n"
        ));
    }
    for stack in stacks {
        let [before, after] = stack.sides;
        out.push_str(&format!(
            "  {}: {}, {} before: {}\n",
            signed(stack.sides),
            duration(after),
            duration(before),
            shortened(&stack.name)
        ));
    }
}

/// Returns the thread of a stack and its innermost frames.
fn shortened(stack: &str) -> String {
    let frames: Vec<&str> = stack.split(';').collect();
    match frames[..] {
        [thread, .., third, second, first] if frames.len() > FRAMES => {
            format!("{thread};…;{third};{second};{first}")
        }
        _ => stack.to_owned(),
    }
}

fn call_words(call: &CallDifference) -> String {
    let [before, after] = call.sides;
    let mean = |side: super::run::RunCalls| {
        let mean = side.ns.checked_div(side.count);
        mean.map_or_else(|| "-".to_owned(), duration)
    };
    let errors = if before.errors + after.errors > 0 {
        format!(", {} errors ({} before)", after.errors, before.errors)
    } else {
        String::new()
    };
    format!(
        "system call {}: {} times ({} before), {} each ({} before){errors}",
        call.name,
        after.count,
        before.count,
        mean(after),
        mean(before)
    )
}

/// Returns a name as harmless text.
pub fn people(name: &[u8]) -> String {
    let mut out = Vec::new();
    push_for_people(&mut out, name);
    String::from_utf8_lossy(&out).into_owned()
}
