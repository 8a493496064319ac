//! Rules of system calls: too many small ones, those that fail, those that ask again and again.

use tracer_analysis::Thread;

use super::super::facts::{CallOf, CallSum, Crew, SMALL_BYTES, TraceFacts, returns_bytes};
use super::super::finding::{RuleFinding, Sure};
use super::support::{crew_name, place, share, thousandths};
use crate::queries::words::call_name;
use tracer_analysis::PathPart;
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

fn about(rule: &'static str, facts: &TraceFacts, of: CallOf, sum: &CallSum) -> Option<RuleFinding> {
    let leader = Thread {
        pid: of.pid,
        tid: of.pid,
    };
    let crew = facts
        .crews
        .find(sum.thread)
        .or_else(|| facts.crews.find(leader))?;
    let name = call_name(of.key);
    let at = facts.places.of_work(|thread, _| thread.pid == of.pid);
    Some(RuleFinding {
        rule,
        who: crew_name(crew),
        what: String::new(),
        place: place(at, u64::MAX),
        spot: at.map(|at| at.spot),
        line: None,
        object: facts
            .calls
            .main_object(of)
            .map(|(object, _)| object.to_string()),
        by: None,
        ns: sum.ns,
        share: 0,
        count: sum.count,
        longest: None,
        sure: match sum.sampled {
            Some(_) => Sure::Sampled,
            None => Sure::Measured,
        },
        sampled: sum.sampled,
        next: format!("stat --syscalls {name}"),
        is_on_cpu: true,
        comm: crew.comm.clone(),
    })
}

/// Returns the share of a process's calls that are of this kind, in thousandths.
fn part_of_calls(facts: &TraceFacts, of: CallOf, count: u64) -> u64 {
    let of_process = facts.calls.sorted().into_iter();
    let all = of_process.filter(|(other, _)| other.pid == of.pid);
    let all: u64 = all.map(|(_, sum)| sum.count).sum();
    thousandths(count, all)
}

/// Returns the share of the time in which a thread ran, by `part` thousandths of it.
fn of_running(facts: &TraceFacts, sum: &CallSum, part: u64) -> u64 {
    let Some(crew) = facts.crews.find(sum.thread) else {
        return 0;
    };
    let ran = share(facts, crew, crew.total.running, |leaf| {
        leaf.part == PathPart::Running
    });
    ran * part / 1000
}

/// Returns how long a crew ran, by `part` thousandths of it, in nanoseconds.
fn ran_for(crew: &Crew, part: u64) -> u64 {
    crew.total.running / 1000 * part
}

/// Finds many small reads or writes.
pub fn small(facts: &TraceFacts) -> Vec<RuleFinding> {
    let all = facts.calls.sorted().into_iter();
    let found = all.filter_map(|(of, sum)| {
        let name = call_name(of.key);
        if !returns_bytes(&name) || sum.small < MANY || sum.small * 10 < sum.count * 9 {
            return None;
        }
        let mut found = about("small-io", facts, of, sum)?;
        let crew = facts.crews.named(&found.comm)?;
        found.count = sum.small;
        found.ns = sum
            .small_ns
            .max(ran_for(crew, part_of_calls(facts, of, sum.small)));
        let in_calls = share(facts, crew, sum.small_ns, |_| false);
        let part = part_of_calls(facts, of, sum.small);
        // A program that does little else spends the time between them on them too.
        let around = if part >= 400 {
            of_running(facts, sum, part)
        } else {
            0
        };
        found.share = in_calls.max(around);
        let mean = sum.bytes.checked_div(sum.count).unwrap_or(0);
        let objects = facts.calls.count_objects(of);
        let on = match (&found.object, objects) {
            (Some(object), 1) => format!(" of {object}"),
            (Some(object), many) => format!(" of {object} and {} more", many - 1),
            (None, _) => String::new(),
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

/// Finds calls that fail again and again.
pub fn failing(facts: &TraceFacts) -> Vec<RuleFinding> {
    let all = facts.calls.sorted().into_iter();
    let found = all.filter_map(|(of, sum)| {
        let (error, count) = sum.main_error()?;
        if count < MANY || count * 2 < sum.count {
            return None;
        }
        let name = call_name(of.key);
        let mut found = about("failing", facts, of, sum)?;
        let part = part_of_calls(facts, of, count);
        found.share = of_running(facts, sum, if part >= 300 { part } else { 0 });
        let crew = facts.crews.named(&found.comm)?;
        found.share = found.share.max(share(facts, crew, sum.ns, |_| false));
        found.count = count;
        found.ns = found.ns.max(ran_for(crew, part));
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
        let mut found = about("polling", facts, of, sum)?;
        found.share = of_running(facts, sum, part);
        found.ns = ran_for(facts.crews.named(&found.comm)?, part);
        found.count = sum.zero;
        found.what = format!(
            "asked {name}() again and again without waiting, and there was nothing: it kept a CPU \
             busy"
        );
        Some(found)
    });
    found.collect()
}
