//! Rules of waits for other threads: locks with their holders, where these were recorded
//! (`--locks`), children, and what never comes.

use std::collections::BTreeMap;

use tracer_analysis::{
    EndedBy, FunctionId, LockKey, LockRelation, LockType, PathPart, Thread, Waker,
};

use super::super::facts::{Leaf, TraceFacts, WaitClass};
use super::super::finding::{RuleFinding, Sure};
use super::circles::circles;
use super::support::{
    CrewWaits, by_crew, harmless, is_wait_of, most, of_waits, share, share_on_path, thousandths,
};
use crate::queries::words::{inside, lock_type, place, thread};

/// Waits with a time limit before they are those of a lock.
const MANY: u64 = 20;

/// Finds locks that threads wait for.
pub fn locks(facts: &TraceFacts) -> Vec<RuleFinding> {
    const CLASSES: [WaitClass; 3] = [WaitClass::Lock, WaitClass::TimedLock, WaitClass::FileLock];
    let crews = by_crew(facts, |_, detail| CLASSES.contains(&detail.class));
    let known = crews.into_iter().map(|(crew, waits)| {
        let mut found = of_waits(facts, "lock", crew, &waits);
        found.share = share(facts, crew, waits.total.ns, |leaf| {
            is_wait_of(facts, leaf, &CLASSES)
        });
        found.by = waits.waker();
        found.what = format!("waited for a lock in {}", call(&waits));
        match (recorded(facts, &waits), &found.by) {
            (Some(holder), _) => {
                let RecordedHolder { by, lock, released } = holder;
                found.what = format!("{}, which {by} had", found.what);
                if let Some(released) = released {
                    found.what = format!("{} until it let go of it {released}", found.what);
                }
                found.object = Some(lock);
                found.by = Some(by);
                found.next = "stat --locks".to_owned();
            }
            (None, Some(by)) => found.what = format!("{}, which {by} let go of", found.what),
            (None, None) => {}
        }
        if let Some(meanwhile) = meanwhile(facts, &crew.comm, &CLASSES) {
            found.what = format!("{}; {meanwhile}", found.what);
        }
        found
    });
    known.chain(timed_locks(facts)).collect()
}

/// Finds locks of interpreters: they are asked for with a time limit, again and again.
fn timed_locks(facts: &TraceFacts) -> Vec<RuleFinding> {
    const CLASSES: [WaitClass; 1] = [WaitClass::TimedFutex];
    let crews = by_crew(facts, |_, detail| detail.class == WaitClass::TimedFutex);
    let found = crews.into_iter().filter_map(|(crew, waits)| {
        let path = facts.path.as_ref()?;
        // What they wait for computes: with an empty queue no thread would be at work.
        let ran = path.own_ns(|leaf| {
            let outer = leaf.within.and_then(|within| path.parts.get(within));
            leaf.part.has_cpu()
                || matches!(leaf.part, PathPart::Runnable(..))
                    && outer.is_some_and(|outer| {
                        outer.comm == crew.comm && is_wait_of(facts, outer, &CLASSES)
                    })
        });
        let is_one = |leaf: &Leaf| leaf.comm == crew.comm && is_wait_of(facts, leaf, &CLASSES);
        // One that its time limit ends says only that it is asked for again.
        let is_given = |leaf: &Leaf| {
            is_one(leaf) && matches!(leaf.part, PathPart::Blocked(_, Waker::Thread(_)))
        };
        let count = |is_meant: &dyn Fn(&Leaf) -> bool| {
            let meant = path.parts.iter().filter(|leaf| is_meant(leaf));
            meant.count()
        };
        let is_lock = waits.total.count > MANY
            && ran.saturating_mul(2) > path.outer_ns(is_given)
            && count(&is_given) * 4 > count(&is_one);
        if !is_lock {
            return None;
        }
        let mut found = of_waits(facts, "lock", crew, &waits);
        found.share = share(facts, crew, waits.total.ns, |leaf| {
            is_wait_of(facts, leaf, &CLASSES)
        });
        found.by = waits.waker();
        found.sure =
            Sure::Inferred("asked for with a time limit, and who let go of it ran meanwhile");
        let by = found.by.clone().unwrap_or_default();
        found.what = format!(
            "waited for its turn in {}, which {by} gave it; {by} ran meanwhile",
            call(&waits)
        );
        Some(found)
    });
    found.collect()
}

fn call(waits: &CrewWaits) -> String {
    waits.call().unwrap_or_else(|| "the kernel".to_owned())
}

/// Says what those did who let threads of a crew wait.
fn meanwhile(facts: &TraceFacts, comm: &[u8], classes: &[WaitClass]) -> Option<String> {
    let path = facts.path.as_ref()?;
    let mut ran = 0_u64;
    let mut slept = 0_u64;
    let mut device = 0_u64;
    let mut all = 0_u64;
    for leaf in &path.parts {
        let outer = leaf.within.and_then(|within| path.parts.get(within));
        let is_within =
            outer.is_some_and(|outer| outer.comm == comm && is_wait_of(facts, outer, classes));
        if !is_within {
            continue;
        }
        all = all.saturating_add(leaf.ns);
        match leaf.part {
            part if part.has_cpu() => ran = ran.saturating_add(leaf.ns),
            PathPart::Blocked(reason, _) if reason.is_io => device = device.saturating_add(leaf.ns),
            PathPart::Blocked(reason, _) if facts.details.get(reason).class == WaitClass::Sleep => {
                slept = slept.saturating_add(leaf.ns);
            }
            _ => {}
        }
    }
    let words = [
        (ran, "ran"),
        (slept, "slept"),
        (device, "waited for a device"),
    ];
    let (ns, word) = words.into_iter().max_by_key(|(ns, _)| *ns)?;
    (ns > 0 && ns * 2 > all).then(|| format!("who had it {word} meanwhile"))
}

/// Returns the name of the threads that most of the waits of a crew was for, directly or since
/// others waited for them, and what they did; `None` where no name has half of it.
fn busiest_within<'a>(
    facts: &'a TraceFacts,
    comm: &[u8],
    classes: &[WaitClass],
) -> Option<(&'a [u8], &'static str)> {
    let path = facts.path.as_ref()?;
    let mut is_within: Vec<bool> = Vec::with_capacity(path.parts.len());
    let mut times: BTreeMap<&[u8], BTreeMap<&'static str, u64>> = BTreeMap::new();
    let mut all = 0_u64;
    for leaf in &path.parts {
        let outer = leaf.within.and_then(|within| is_within.get(within));
        let is_inner = outer.copied().unwrap_or(false);
        is_within.push(is_inner || leaf.comm == comm && is_wait_of(facts, leaf, classes));
        if !is_inner {
            continue;
        }
        all = all.saturating_add(leaf.own_ns);
        let did = match leaf.part {
            PathPart::Running => "ran",
            PathPart::Runnable(..) => "waited for a CPU",
            PathPart::Blocked(reason, _) if reason.is_io => "waited for a device",
            PathPart::Blocked(reason, _) if facts.details.get(reason).class == WaitClass::Sleep => {
                "slept"
            }
            _ => continue,
        };
        let sum = times.entry(&leaf.comm).or_default().entry(did).or_default();
        *sum = sum.saturating_add(leaf.own_ns);
    }
    let sums = times
        .iter()
        .map(|(name, of_it)| (*name, of_it.values().sum()));
    let sums: BTreeMap<&[u8], u64> = sums.collect();
    let (name, ns) = most(&sums)?;
    let (did, _) = most(times.get(name)?)?;
    (ns.saturating_mul(2) > all).then_some((name, *did))
}

/// Finds children that a program waits for.
pub fn children(facts: &TraceFacts) -> Vec<RuleFinding> {
    const CLASSES: [WaitClass; 1] = [WaitClass::Child];
    let crews = by_crew(facts, |key, detail| {
        detail.class == WaitClass::Child && key.by != EndedBy::Nothing
    });
    let found = crews.into_iter().map(|(crew, waits)| {
        let mut found = of_waits(facts, "child", crew, &waits);
        // A thread may wait for a command beside what the program does.
        let share = share_on_path(facts, crew, waits.total.ns, |leaf| {
            is_wait_of(facts, leaf, &CLASSES)
        });
        // What the child waits for explains more, where a rule knows it.
        found.share = share * 19 / 20;
        // Each command is a process of its own.
        let is_one = waits.total.count == 1;
        let name = waits.waker_name();
        found.by = if is_one { waits.waker() } else { name.clone() };
        found.what = match &found.by {
            Some(by) => format!("waited in {} for the command {by}", call(&waits)),
            None => format!("waited in {} for a command", call(&waits)),
        };
        if let Some((busiest, did)) = busiest_within(facts, &crew.comm, &CLASSES) {
            let busiest = harmless(busiest);
            let is_it = name.as_ref() == Some(&busiest);
            let who = if is_it { "that" } else { &busiest };
            found.what = format!("{}; {who} {did} meanwhile", found.what);
        }
        found
    });
    found.collect()
}

/// Finds waits without end: of all threads, or of some for each other.
pub fn hung(facts: &TraceFacts) -> Vec<RuleFinding> {
    let of_all = all_hang(facts);
    if of_all.is_empty() {
        return circles(facts);
    }
    of_all
}

/// Finds that nothing moves: all threads wait, from the beginning to the end.
fn all_hang(facts: &TraceFacts) -> Vec<RuleFinding> {
    let Some(still) = facts.statistics.paths.stillness() else {
        return Vec::new();
    };
    let open = by_crew(facts, |key, _| key.by == EndedBy::Nothing);
    // What has a time limit comes.
    let mut classes = facts.waits.iter().map(|(key, _)| facts.detail(key).class);
    if classes.any(WaitClass::has_limit) {
        return Vec::new();
    }
    // Without what the call was given, it is not known whether it has one.
    let is_known = facts
        .waits
        .iter()
        .all(|(key, _)| key.reason.function != FunctionId::NONE);
    let is_for_work = facts.waits.iter().all(|(key, _)| {
        let class = facts.detail(key).class;
        class.is_for_work() && class != WaitClass::Futex
    });
    let Some((crew, waits)) = open.into_iter().next() else {
        return Vec::new();
    };
    if is_for_work {
        return Vec::new();
    }
    let mut found = of_waits(facts, "hung", crew, &waits);
    let where_to = most(&waits.inside).and_then(|(longest, _)| inside(*longest));
    found.what = format!(
        "waits for what does not come: {}",
        still.trim_end_matches('.')
    );
    found.share = thousandths(waits.total.longest, facts.seen());
    if !is_known {
        found.sure = Sure::Inferred("whether these waits have a time limit was not recorded");
    }
    found.place = found.place.or(where_to.map(|name| format!("in {name}")));
    found.next = "why --now".to_owned();
    found.count = waits.threads.len() as u64;
    vec![found]
}

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
