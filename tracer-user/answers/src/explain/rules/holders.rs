//! Holders of locks, where they were recorded (`--locks`).

use std::collections::BTreeMap;

use tracer_analysis::{FunctionId, LockKey, LockRelation, LockType, Thread};

use super::super::facts::TraceFacts;
use super::support::{CrewWaits, most};
use crate::queries::words::{lock_type, place, thread};

/// Holder that a crew waited for longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedHolder {
    /// The thread.
    pub by: String,
    /// The lock: `mutex 0x55912b9f4060`.
    pub lock: String,
    /// Where it let go of it, in words, where that is known.
    pub released: Option<String>,
}

/// Returns the holder that the threads of these waits waited for longest; `None` where most of
/// their time has no known holder.
pub fn recorded(facts: &TraceFacts, waits: &CrewWaits) -> Option<RecordedHolder> {
    let locks = facts.statistics.locks.sorted();
    let mut by_lock: BTreeMap<(LockKey, Thread), (u64, LockType, FunctionId)> = BTreeMap::new();
    for (key, total) in locks {
        // Who is joined has no lock.
        if total.kind == LockType::ThreadEnd {
            continue;
        }
        for ((waiter, relation), of_it) in total.sorted_pairs() {
            if let LockRelation::HeldBy(holder, released_at) = relation
                && waits.threads.contains(&waiter)
            {
                let entry = by_lock.entry((key, holder));
                let sum = entry.or_insert((0, total.kind, released_at));
                sum.0 = sum.0.saturating_add(of_it.ns);
            }
        }
    }
    let times: BTreeMap<(LockKey, Thread), u64> =
        by_lock.iter().map(|(key, (ns, ..))| (*key, *ns)).collect();
    let all: u64 = times.values().sum();
    let ((key, holder), _) = most(&times)?;
    if all.saturating_mul(2) < waits.total.ns {
        return None;
    }
    let (_, kind, released_at) = by_lock.get(&(*key, *holder))?;
    let functions = facts.statistics.paths.functions();
    Some(RecordedHolder {
        by: thread(*holder, facts.crews.name(*holder)),
        lock: format!("{} {:#x}", lock_type(*kind), key.address),
        released: place(*released_at, functions),
    })
}
