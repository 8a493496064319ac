//! Rules of system calls: too many small ones, those that fail, those that ask again and again.

use std::collections::BTreeMap;

use tracer_analysis::Thread;

use super::super::facts::{CallOf, CallSum, Crew, SMALL_BYTES, TraceFacts, returns_bytes};
use super::super::finding::{RuleFinding, Sure};
use super::support::{names_of, place, share, thousandths};
use crate::queries::words::call_name;
use tracer_syscalls::names::error_name;

/// Calls of a kind before they are many.
const MANY: u64 = 500;

/// Calls that only ask whether something is there.
const ASK: [&str; 12] = [
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "sched_yield",
    "nanosleep",
    "clock_nanosleep",
    "gettimeofday",
    "clock_gettime",
];

/// Returns the threads of a name that had a CPU for longest in these calls, and how many of them
/// made some.
fn callers<'a>(
    facts: &'a TraceFacts,
    of: CallOf,
    sum: &CallSum,
) -> Option<(&'a Crew, Vec<Thread>)> {
    let mut crews: BTreeMap<&[u8], (u64, u64, &Crew, Vec<Thread>)> = BTreeMap::new();
    for (thread, (ns, calls)) in &sum.callers {
        let Some(crew) = facts.crews.find(*thread) else {
            continue;
        };
        let found = crews.entry(&crew.comm);
        let (all_ns, all_calls, _, threads) = found.or_insert((0, 0, crew, Vec::new()));
        *all_ns = all_ns.saturating_add(*ns);
        *all_calls = all_calls.saturating_add(*calls);
        threads.push(*thread);
    }
    let most = crews
        .into_values()
        .max_by_key(|(ns, calls, ..)| (*ns, *calls));
    let leader = Thread {
        pid: of.pid,
        tid: of.pid,
    };
    match most {
        Some((.., crew, threads)) => Some((crew, threads)),
        None => Some((facts.crews.find(leader)?, Vec::new())),
    }
}

fn about(
    rule: &'static str,
    facts: &TraceFacts,
    (of, sum): (CallOf, &CallSum),
    has_failed: bool,
) -> Option<RuleFinding> {
    let (crew, threads) = callers(facts, of, sum)?;
    let name = call_name(of.key);
    let at = facts.places.of_work(|thread, _| thread.pid == of.pid);
    let object = facts.calls.main_object(of, has_failed);
    Some(RuleFinding {
        rule,
        who: names_of(crew, &threads),
        what: String::new(),
        place: place(at, u64::MAX),
        spot: at.map(|at| at.spot),
        line: None,
        object: object.map(|(object, _)| object.to_string()),
        by: None,
        ns: sum.cpu_ns,
        share: 0,
        count: sum.count,
        longest: None,
        sure: match sum.sampled {
            Some(_) => Sure::Sampled,
            None => Sure::Measured,
        },
        sampled: sum.sampled,
        count_between: sum.count_between,
        next: format!("stat --syscalls {name}"),
        is_on_cpu: true,
        comm: crew.comm.clone(),
    })
}

/// Sets how many of the calls are meant: a part of all of them, of which the bounds are known.
fn set_count(found: &mut RuleFinding, count: u64) {
    let all = u128::from(found.count.max(1));
    let part = |bound: u64| {
        let part = u128::from(bound) * u128::from(count) / all;
        u64::try_from(part).unwrap_or(u64::MAX)
    };
    found.count_between = found
        .count_between
        .map(|(least, most)| (part(least), part(most)));
    found.count = count;
}

/// Returns the share of a process's calls that are of this kind, in thousandths.
fn part_of_calls(facts: &TraceFacts, of: CallOf, count: u64) -> u64 {
    let of_process = facts.calls.sorted().into_iter();
    let all = of_process.filter(|(other, _)| other.pid == of.pid);
    let all: u64 = all.map(|(_, sum)| sum.count).sum();
    thousandths(count, all)
}

/// Time on a CPU that calls take.
struct OnCpu {
    /// How long, in nanoseconds.
    ns: u64,
    /// The share of the time.
    share: u64,
}

/// Returns the time that so many calls of a crew take, which had a CPU for `in_calls` and are
/// `part` thousandths of its calls: that in the kernel, and where they are `most` thousandths
/// or more, that around them, as it prepares them and looks at what they return.
fn on_cpu(
    facts: &TraceFacts,
    crew: &Crew,
    (count, in_calls): (u64, u64),
    (part, most): (u64, u64),
) -> OnCpu {
    /// Time around a call that counts as its own, in nanoseconds: who does more between two calls
    /// does something else.
    const AROUND_NS: u64 = 2000;
    let running = crew.total.running;
    let with_around = in_calls.saturating_add(count.saturating_mul(AROUND_NS));
    let part = part.min(thousandths(with_around, running));
    let ran = share(facts, crew, running, |leaf| leaf.part.has_cpu());
    let around = if part >= most { ran * part / 1000 } else { 0 };
    OnCpu {
        ns: in_calls.max(running / 1000 * part),
        share: around.max(share(facts, crew, in_calls, |_| false)),
    }
}

/// Finds many small reads or writes.
pub fn small(facts: &TraceFacts) -> Vec<RuleFinding> {
    let all = facts.calls.sorted().into_iter();
    let found = all.filter_map(|(of, sum)| {
        let name = call_name(of.key);
        // The last read of each file has nothing.
        let few = sum.small.saturating_add(sum.zero);
        if !returns_bytes(&name) || sum.small < MANY || few * 10 < sum.count * 9 {
            return None;
        }
        let mut found = about("small-io", facts, (of, sum), false)?;
        let crew = facts.crews.named(&found.comm)?;
        set_count(&mut found, sum.small);
        let part = part_of_calls(facts, of, sum.small);
        let taken = on_cpu(facts, crew, (sum.small, sum.small_ns), (part, 400));
        (found.ns, found.share) = (taken.ns, taken.share);
        let mean = sum.bytes.checked_div(sum.small).unwrap_or(0);
        if let Some(whole) = small_files(facts, of, sum) {
            let part = part_of_calls(facts, of, whole.calls);
            let taken = on_cpu(facts, crew, (whole.calls, whole.ns), (part, 400));
            (found.ns, found.share) = (taken.ns, taken.share);
            set_count(&mut found, whole.opened);
            found.what = format!(
                "opened many files for a few bytes each: {mean} bytes in the mean, by {} calls a \
                 file, such as {name}()",
                whole.calls.checked_div(whole.opened).unwrap_or(0)
            );
            found.next = "stat --syscalls %file,%desc".to_owned();
            return Some(found);
        }
        let on = match facts.calls.main_object(of, false) {
            Some((object, 1)) => format!(" of {object}"),
            Some((object, many)) => format!(" of {object} and {} more", many.saturating_sub(1)),
            None => String::new(),
        };
        found.what = format!(
            "made many small calls of {name}(){on}: {mean} bytes each in the mean, and at most \
             {SMALL_BYTES}"
        );
        found.next = format!("stat --syscalls {name}");
        Some(found)
    });
    found.collect()
}

/// Files that are opened for a few bytes each.
struct SmallFiles {
    /// How many were opened.
    opened: u64,
    /// Calls that open, look at, read and close them.
    calls: u64,
    /// How long threads had a CPU in these, in nanoseconds.
    ns: u64,
}

/// Returns the files that a process opens for one or two of these calls each.
fn small_files(facts: &TraceFacts, of: CallOf, sum: &CallSum) -> Option<SmallFiles> {
    const OPEN: [&str; 3] = ["open", "openat", "openat2"];
    const BESIDE: [&str; 10] = [
        "close",
        "fstat",
        "newfstatat",
        "stat",
        "lstat",
        "statx",
        "lseek",
        "ioctl",
        "fadvise64",
        "read",
    ];
    let mut files = SmallFiles {
        opened: 0,
        calls: 0,
        ns: 0,
    };
    let all = facts.calls.sorted().into_iter();
    for (other, calls) in all.filter(|(other, _)| other.pid == of.pid) {
        let name = call_name(other.key);
        let is_open = OPEN.contains(&name.as_str());
        if is_open {
            let failed: u64 = calls.errors.iter().map(|(_, count)| *count).sum();
            files.opened += calls.count.saturating_sub(failed);
        }
        if is_open || other == of || BESIDE.contains(&name.as_str()) {
            files.calls = files.calls.saturating_add(calls.count);
            files.ns = files.ns.saturating_add(calls.cpu_ns);
        }
    }
    (files.opened >= MANY && files.opened.saturating_mul(2) >= sum.small).then_some(files)
}

/// Finds calls that fail again and again.
pub fn failing(facts: &TraceFacts) -> Vec<RuleFinding> {
    let all = facts.calls.sorted().into_iter();
    let found = all.filter_map(|(of, sum)| {
        let (error, count) = sum.main_error()?;
        if count < MANY || count * 2 < sum.count {
            return None;
        }
        let name = call_name(of.key);
        let mut found = about("failing", facts, (of, sum), true)?;
        let part = part_of_calls(facts, of, count);
        let crew = facts.crews.named(&found.comm)?;
        let taken = on_cpu(facts, crew, (count, sum.failed_ns), (part, 300));
        (found.ns, found.share) = (taken.ns, taken.share);
        set_count(&mut found, count);
        let error = error_name(i32::try_from(error).unwrap_or(0)).unwrap_or("an error");
        let on = found
            .object
            .as_ref()
            .map_or_else(String::new, |on| format!(" of {on}"));
        found.what = format!("called {name}(){on} again and again, and it failed with {error}");
        found.next = format!("stat --syscalls {name}");
        Some(found)
    });
    found.collect()
}

/// Finds programs that ask again and again, and do not wait.
pub fn polling(facts: &TraceFacts) -> Vec<RuleFinding> {
    let all = facts.calls.sorted().into_iter();
    let found = all.filter_map(|(of, sum)| {
        let name = call_name(of.key);
        let is_asking = ASK.contains(&name.as_str());
        let mean = sum.ns.checked_div(sum.count).unwrap_or(u64::MAX);
        if !is_asking || sum.zero < MANY || sum.zero * 10 < sum.count * 9 || mean > 20_000 {
            return None;
        }
        let part = part_of_calls(facts, of, sum.zero);
        if part < 400 {
            return None;
        }
        let mut found = about("polling", facts, (of, sum), false)?;
        let crew = facts.crews.named(&found.comm)?;
        let taken = on_cpu(facts, crew, (sum.zero, sum.cpu_ns), (part, 0));
        (found.ns, found.share) = (taken.ns, taken.share);
        set_count(&mut found, sum.zero);
        found.what = format!(
            "asked {name}() again and again without waiting, and there was nothing: it kept a CPU \
             busy"
        );
        Some(found)
    });
    found.collect()
}
