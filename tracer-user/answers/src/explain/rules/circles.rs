//! Circles of waits: threads that each have a lock which another one of them waits for, while the
//! rest of the program goes on.

use std::collections::BTreeMap;

use tracer_analysis::{EndedBy, FunctionId, Thread, WaitedLock};

use super::super::facts::{TraceFacts, WaitClass};
use super::super::finding::{RuleFinding, Sure};
use super::support::{by_crew, of_waits, thousandths};
use crate::queries::words::{lock_type, thread};

/// Shortest wait, in nanoseconds: one that has just begun may be for a lock that another thread has
/// by now.
const SHORTEST_NS: u64 = 1_000_000_000;

/// Most threads that are named.
const MOST_NAMED: usize = 4;

/// Wait for a lock that lasts at the end, and has no time limit.
#[derive(Clone, Copy, Debug)]
struct OpenWait<'a> {
    lock: &'a WaitedLock,
    /// Thread that has it.
    holder: Thread,
    ns: u64,
}

/// Finds the circle whose threads wait longest.
pub fn circles(facts: &TraceFacts) -> Vec<RuleFinding> {
    // Of what was lost, some may have ended a wait.
    if facts.is_lossy() {
        return Vec::new();
    }
    let waits = open_waits(facts);
    let circles = waits.keys().filter_map(|first| circle(*first, &waits));
    let shortest = |circle: &Vec<(Thread, OpenWait<'_>)>| {
        let times = circle.iter().map(|(_, wait)| wait.ns);
        times.min().unwrap_or(0)
    };
    let found = circles.max_by_key(|circle| shortest(circle));
    let found = found.and_then(|circle| finding(facts, &circle, shortest(&circle)));
    found.into_iter().collect()
}

/// Returns the waits that last, by thread.
fn open_waits(facts: &TraceFacts) -> BTreeMap<Thread, OpenWait<'_>> {
    let locks = &facts.statistics.paths.functions().locks;
    let open = facts.waits.iter().filter_map(|(key, total)| {
        let detail = facts.detail(key);
        // Whether it has a time limit is known by what the call was given.
        let is_known = key.reason.function != FunctionId::NONE && !detail.is_inferred;
        let is_unlimited = is_known && matches!(detail.class, WaitClass::Lock | WaitClass::Futex);
        if key.by != EndedBy::Nothing || !is_unlimited || total.longest < SHORTEST_NS {
            return None;
        }
        let lock = locks.get(key.reason.lock)?;
        let wait = OpenWait {
            lock,
            holder: lock.holder(None)?.thread,
            ns: total.longest,
        };
        Some((key.thread, wait))
    });
    open.collect()
}

/// Returns the circle that a thread is the first one of, from who waits to who has the lock; `None`
/// where it is in none, or not the first.
fn circle<'a>(
    first: Thread,
    waits: &BTreeMap<Thread, OpenWait<'a>>,
) -> Option<Vec<(Thread, OpenWait<'a>)>> {
    let mut circle = Vec::new();
    let mut at = first;
    while circle.len() < waits.len() {
        let wait = waits.get(&at)?;
        circle.push((at, *wait));
        at = wait.holder;
        if at == first {
            return Some(circle);
        }
        if at < first {
            return None;
        }
    }
    None
}

fn finding(
    facts: &TraceFacts,
    circle: &[(Thread, OpenWait<'_>)],
    shortest: u64,
) -> Option<RuleFinding> {
    let is_in = |of: Thread| circle.iter().any(|(member, _)| *member == of);
    let crews = by_crew(facts, |key, _| {
        key.by == EndedBy::Nothing && is_in(key.thread)
    });
    let (crew, waits) = crews.into_iter().next()?;
    let mut found = of_waits(facts, "hung", crew, &waits);
    let name = |of: Thread| thread(of, facts.name(of));
    let named = circle.iter().take(MOST_NAMED).map(|(member, wait)| {
        let (kind, address) = (lock_type(wait.lock.kind), wait.lock.key.address);
        let holder = name(wait.holder);
        format!(
            "{} wants {kind} {address:#x}, which {holder} had",
            name(*member)
        )
    });
    let mut named: Vec<String> = named.collect();
    let others = circle.len().saturating_sub(MOST_NAMED);
    if others > 0 {
        named.push(format!("and so on, {others} more"));
    }
    found.what = format!("may wait for each other without end: {}", named.join("; "));
    found.count = circle.len() as u64;
    found.share = thousandths(shortest, facts.seen());
    found.sure = Sure::Inferred("each had the lock as another one began to wait for it");
    found.next = "why --now".to_owned();
    Some(found)
}
