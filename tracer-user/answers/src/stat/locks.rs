//! Waits for locks: their holders, and the threads that waited for these.

use serde_json::{Value, json};
use tracer_analysis::{LockKey, LockRelation, LockTotal, LockType, RelationTotal, Thread};

use super::Statistics;
use super::table::{LABEL, LISTED, TableColumn, push_table};
use crate::queries::LastNames;
use crate::queries::tree::task as task_json;
use crate::queries::words::{duration, lock_type, place, seconds, task, thread};

/// Holders and pairs of threads that are listed for a lock.
const LISTED_OF_LOCK: usize = 8;

/// Locks of which these are listed.
const LISTED_WITH_PAIRS: usize = 20;

const COLUMNS: [TableColumn<LockTotal>; 6] = [
    ("waits", 9, |total| total.waits.to_string()),
    ("total", 10, |total| duration(total.ns)),
    ("mean", 10, |total| {
        duration(total.ns.checked_div(total.waits).unwrap_or(0))
    }),
    ("longest", 10, |total| duration(total.longest)),
    ("held by", 9, |total| total.held().to_string()),
    ("type", 14, |total| lock_type(total.kind)),
];

/// Appends the locks that were waited for; where this is asked for, with their holders.
pub fn push_locks(out: &mut String, statistics: &Statistics, has_holders: bool) {
    let locks = statistics.locks.sorted();
    let rows: Vec<_> = locks
        .iter()
        .map(|(key, total)| (label(*key), (*total).clone()))
        .collect();
    let has_others = statistics.locks.others().is_some();
    push_table(out, "lock", &COLUMNS, &rows, has_others);
    if !has_holders {
        return;
    }
    for (key, total) in locks.iter().take(LISTED_WITH_PAIRS) {
        push_lock(out, statistics, *key, total);
    }
    let rest = rows.len().saturating_sub(LISTED_WITH_PAIRS.min(LISTED));
    if rest > 0 {
        out.push_str(&format!(
            "\nwho held the other {rest} locks, --format json has\n"
        ));
    }
}

/// Appends the holders of a lock, and the threads that waited for them.
fn push_lock(out: &mut String, statistics: &Statistics, key: LockKey, total: &LockTotal) {
    let names = statistics.paths.names();
    let leader = Thread {
        pid: key.pid,
        tid: key.pid,
    };
    let at = total.longest_at.0.saturating_sub(statistics.start.0);
    out.push_str(&format!(
        "\n{} {:#x} of {}: the longest wait ended at {}",
        lock_type(total.kind),
        key.address,
        thread(leader, names.get(leader)),
        seconds(at)
    ));
    if let Some(place) = place(total.function, statistics.paths.functions()) {
        out.push_str(&format!("; first waited for {place}"));
    }
    out.push('\n');
    if total.kind == LockType::ThreadEnd {
        // The thread is the lock.
        return push_ends(out, total, names);
    }
    for holder in total.holders().iter().take(LISTED_OF_LOCK) {
        let words = relation_words(holder.relation, names);
        let times = times(&holder.total);
        out.push_str(&format!("  {words}: {times}"));
        let functions = statistics.paths.functions();
        let most = holder.released_at.first();
        if let Some(place) = most.and_then(|(function, _)| place(*function, functions)) {
            out.push_str(&format!("; released {place}"));
        }
        out.push('\n');
    }
    let pairs = total.sorted_pairs();
    for ((waiter, relation), of_it) in pairs.iter().take(LISTED_OF_LOCK) {
        if let LockRelation::HeldBy(holder, _) = relation {
            let waiter = thread(*waiter, names.get(*waiter));
            let (holder, times) = (thread(*holder, names.get(*holder)), times(of_it));
            out.push_str(&format!("    {waiter} waited for {holder}: {times}\n"));
        }
    }
    let rest = pairs.len().saturating_sub(LISTED_OF_LOCK);
    if rest > 0 {
        out.push_str(&format!("    and {rest} other pairs (--format json)\n"));
    }
}

/// Appends the threads that waited for the end of a thread.
fn push_ends(out: &mut String, total: &LockTotal, names: &LastNames) {
    for ((waiter, relation), of_it) in total.sorted_pairs().iter().take(LISTED_OF_LOCK) {
        let waiter = thread(*waiter, names.get(*waiter));
        let whose = match relation {
            LockRelation::HeldBy(ended, _) => thread(*ended, names.get(*ended)),
            LockRelation::WokenBy(_) | LockRelation::Unknown => "an unknown thread".to_owned(),
        };
        let times = times(of_it);
        out.push_str(&format!("  {waiter} waited for {whose} to end: {times}\n"));
    }
}

fn relation_words(relation: LockRelation, names: &LastNames) -> String {
    match relation {
        LockRelation::HeldBy(holder, _) => {
            format!("held by {}", thread(holder, names.get(holder)))
        }
        LockRelation::WokenBy(waker) => format!("holder unknown, woken by {}", task(&waker)),
        LockRelation::Unknown => "holder unknown".to_owned(),
    }
}

fn times(of_it: &RelationTotal) -> String {
    let waits = if of_it.waits == 1 { "wait" } else { "waits" };
    format!(
        "{} {waits}, {}, longest {}",
        of_it.waits,
        duration(of_it.ns),
        duration(of_it.longest)
    )
}

fn label(key: LockKey) -> String {
    let label = format!("{:#x} {}", key.address, key.pid);
    label.chars().take(LABEL - 1).collect()
}

/// Renders the locks that were waited for, the longest first; a row with a `null` address has what
/// there was too much of.
pub fn locks(statistics: &Statistics) -> Vec<Value> {
    let locks = statistics.locks.sorted().into_iter();
    let rows = locks.map(|(key, total)| row(statistics, Some(key), total));
    let others = statistics.locks.others();
    rows.chain(others.map(|total| row(statistics, None, total)))
        .collect()
}

fn row(statistics: &Statistics, key: Option<LockKey>, total: &LockTotal) -> Value {
    let names = statistics.paths.names();
    let functions = statistics.paths.functions();
    let place = functions.place(total.function);
    let at = total.longest_at.0.saturating_sub(statistics.start.0);
    let holders = total.holders().into_iter().map(|holder| {
        let mut row = relation_json(holder.relation, names);
        add(&mut row, &holder.total);
        let released = holder.released_at.iter().filter_map(|(function, waits)| {
            let place = functions.place(*function)?;
            Some(json!({ "function": &*place.name, "waits": waits }))
        });
        if let Value::Object(row) = &mut row {
            row.insert("released_at".to_owned(), released.collect());
        }
        row
    });
    let pairs = total.sorted_pairs().into_iter();
    let pairs = pairs.map(|((waiter, relation), of_it)| {
        let mut pair = relation_json(relation, names);
        if let Value::Object(pair) = &mut pair {
            pair.insert("waiter".to_owned(), thread_json(waiter, names));
        }
        add(&mut pair, &of_it);
        pair
    });
    json!({
        "pid": key.map(|key| key.pid),
        "program": key.map(|key| key.program),
        "address": key.map(|key| key.address),
        "kind": total.kind.name(),
        "function": place.map(|place| &*place.name),
        "innermost": place.map(|place| place.is_innermost),
        "waits": total.waits,
        "total_ns": total.ns,
        "blocked_ns": total.blocked,
        "longest_ns": total.longest,
        "longest_at_ns": at,
        "unended": total.unended,
        "holders": holders.collect::<Vec<Value>>(),
        "pairs": pairs.collect::<Vec<Value>>(),
        "other_pairs": total.other_pairs.waits,
    })
}

fn thread_json(thread: Thread, names: &LastNames) -> Value {
    json!({
        "pid": thread.pid,
        "tid": thread.tid,
        "comm": String::from_utf8_lossy(names.get(thread)),
    })
}

fn relation_json(relation: LockRelation, names: &LastNames) -> Value {
    let (holder, waker) = match relation {
        LockRelation::HeldBy(holder, _) => (Some(thread_json(holder, names)), None),
        LockRelation::WokenBy(waker) => (None, Some(task_json(&waker))),
        LockRelation::Unknown => (None, None),
    };
    json!({ "holder": holder, "waker": waker })
}

fn add(row: &mut Value, of_it: &RelationTotal) {
    if let Value::Object(row) = row {
        row.insert("waits".to_owned(), of_it.waits.into());
        row.insert("total_ns".to_owned(), of_it.ns.into());
        row.insert("longest_ns".to_owned(), of_it.longest.into());
        row.insert("confirmed".to_owned(), of_it.confirmed.into());
    }
}
