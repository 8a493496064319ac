//! The answer for programs.

use serde_json::{Value, json};

use super::look::LookedAt;
use super::waits::{ThreadActivity, ThreadWait, WaitHolder};
use super::{ThreadId, WaitSnapshot};

/// Renders the answer as one object; what is not known is `null`. With `has_stacks`, the functions
/// of each thread too.
#[must_use]
pub fn json(moment: &WaitSnapshot, has_stacks: bool) -> Value {
    let each = moment.threads.iter();
    let threads = each.map(|(id, looked)| thread(moment, *id, looked, has_stacks));
    let circles = moment.deadlocks.iter();
    let deadlocks = circles.map(|circle| circle.iter().map(|id| named(moment, *id)).collect());
    json!({
        "deadlocks": deadlocks.collect::<Vec<Vec<Value>>>(),
        "behind_deadlocks": moment.behind,
        "threads": threads.collect::<Vec<Value>>(),
        "refused": moment.missing.refused,
        "held": moment.missing.held,
        "processes_left_out": moment.missing.processes,
        "threads_left_out": moment.missing.threads,
    })
}

fn named(moment: &WaitSnapshot, id: ThreadId) -> Value {
    let looked = moment.threads.get(&id);
    let comm = looked.map(|looked| String::from_utf8_lossy(&looked.facts.comm));
    json!({ "pid": id.pid, "tid": id.tid, "comm": comm })
}

fn thread(moment: &WaitSnapshot, id: ThreadId, looked: &LookedAt, has_stacks: bool) -> Value {
    let facts = &looked.facts;
    let inside = Some(&facts.kernel_function).filter(|name| !name.is_empty());
    let mut one = json!({
        "pid": id.pid,
        "tid": id.tid,
        "comm": String::from_utf8_lossy(&facts.comm),
        "asked": moment.is_asked(id),
        "state": looked.activity.name(),
        "syscall": looked.system_call,
        "kernel_function": inside,
        "function": looked.place.function(),
        "trace_id": looked.context.map(|context| context.trace()),
        "span_id": looked.context.map(|context| context.span()),
        "waits_for": looked.activity.wait().map(|wait| waited_for(moment, wait)),
        "tracer": match &looked.activity {
            ThreadActivity::Traced(tracer) => Some(holder(moment, *tracer)),
            _ => None,
        },
    });
    if let (Some(one), true) = (one.as_object_mut(), has_stacks) {
        one.insert("stack".to_owned(), looked.place.json());
    }
    one
}

fn waited_for(moment: &WaitSnapshot, wait: &ThreadWait) -> Value {
    let holders = wait.holders.iter().map(|one| holder(moment, *one));
    json!({
        "kind": wait.kind.name(),
        "address": wait.address.map(|address| format!("{address:#x}")),
        "variable": wait.variable,
        "descriptor": wait.descriptor,
        "file": wait.file.as_ref().map(|file| String::from_utf8_lossy(file)),
        "has_timeout": wait.has_timeout,
        "holders": holders.collect::<Vec<Value>>(),
        "all_holders": wait.is_whole,
        "readers": Some(wait.readers).filter(|readers| *readers > 0),
        "unknown": wait.unknown,
    })
}

/// Renders a holder; where any thread of a process is one, its `tid` is `null`.
fn holder(moment: &WaitSnapshot, holder: WaitHolder) -> Value {
    match holder {
        WaitHolder::Thread(id) => named(moment, id),
        WaitHolder::Process(pid) => {
            let mut one = named(moment, ThreadId { pid, tid: pid });
            if let Some(one) = one.as_object_mut() {
                one.insert("tid".to_owned(), Value::Null);
            }
            one
        }
    }
}
