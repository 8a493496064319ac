//! Counts for programs.

use serde_json::{Map, Value, json};
use tracer_analysis::Thread;
use tracer_common::kernel::counted;

use super::Part;
use super::table::{Sum, SumOwner, SumsByKind, What};
use super::text::sorted;
use crate::queries::words::call_name;

/// Activities of threads, and page faults: name of the member, and of that for what the sum also
/// counts.
const KINDS: [(u32, &str, Option<&str>); 6] = [
    (counted::RUNNING, "running", Some("forced")),
    (counted::RUNNABLE, "runnable", Some("forced")),
    (counted::BLOCKED, "blocked", None),
    (counted::STOPPED, "stopped", None),
    (counted::FAULT_USER, "user", Some("write")),
    (counted::FAULT_KERNEL, "kernel", Some("write")),
];

/// Renders a part of the time as one object.
pub fn json(part: &Part<'_>) -> Value {
    let sums = sorted(part).into_iter();
    let sums: Vec<Value> = sums.map(|(who, sums)| row(part, who, sums)).collect();
    json!({
        "counted": true,
        "is_interval": part.is_interval,
        "from_ns": part.from_ns,
        "until_ns": part.until_ns,
        "sums": sums,
        "without_space": {
            "events": part.table.not_counted.events,
            "threads": part.table.not_counted.threads,
        },
        "lost": part.lost,
    })
}

fn row(part: &Part<'_>, who: &SumOwner, sums: &SumsByKind) -> Value {
    let mut members = Map::new();
    let name = |thread| String::from_utf8_lossy(part.names.get(thread)).into_owned();
    let (pid, tid, comm) = match who {
        SumOwner::All => (None, None, None),
        SumOwner::Process(pid) => {
            let leader = Thread {
                pid: *pid,
                tid: *pid,
            };
            (Some(*pid), None, Some(name(leader)))
        }
        SumOwner::Thread(thread) => (Some(thread.pid), Some(thread.tid), Some(name(*thread))),
        SumOwner::Comm(comm) => (None, None, Some(String::from_utf8_lossy(comm).into_owned())),
    };
    members.insert("pid".to_owned(), pid.into());
    members.insert("tid".to_owned(), tid.into());
    members.insert("comm".to_owned(), comm.into());
    let calls = sums.iter().filter_map(|(what, sum)| match what {
        What::Call(key) => {
            let mut call = json!({
                "name": call_name(*key),
                "compat": key.is_compat,
                "count": sum.ended.count,
                "errors": sum.ended.also,
            });
            add_took(&mut call, sum);
            Some(call)
        }
        _ => None,
    });
    members.insert("syscalls".to_owned(), calls.collect::<Vec<_>>().into());
    let points = sums.iter().filter_map(|(what, sum)| {
        let name = part.point(*what)?;
        Some(json!({ "name": name, "count": sum.ended.count }))
    });
    members.insert("points".to_owned(), points.collect::<Vec<_>>().into());
    let mut faults = Map::new();
    for (kind, name, also) in KINDS {
        let Some(sum) = sums.get(&What::Kind(kind)) else {
            continue;
        };
        let mut value = json!({ "count": sum.ended.count });
        if let (Some(also), Value::Object(value)) = (also, &mut value) {
            value.insert(also.to_owned(), sum.ended.also.into());
        }
        if matches!(kind, counted::FAULT_USER | counted::FAULT_KERNEL) {
            faults.insert(name.to_owned(), value);
            continue;
        }
        if let Value::Object(value) = &mut value {
            value.insert("total_ns".to_owned(), sum.total_ns().into());
            value.insert("open".to_owned(), sum.open.into());
        }
        add_took(&mut value, sum);
        members.insert(name.to_owned(), value);
    }
    members.insert("faults".to_owned(), faults.into());
    members.into()
}

/// Adds how long it took, as often as it has ended and that is known.
fn add_took(to: &mut Value, sum: &Sum) {
    let ranges = sum.ranges().into_iter();
    let ranges = ranges.map(|(end, count)| json!({ "up_to_ns": end, "count": count }));
    let took = json!({
        "count": sum.timed(),
        "total_ns": sum.ended.total_ns,
        "mean_ns": sum.mean_ns(),
        "max_ns": sum.longest_ns(),
        "ranges": ranges.collect::<Vec<_>>(),
    });
    if let Value::Object(to) = to {
        to.insert("took".to_owned(), took);
    }
}
