//! A comparison for programs.

use serde_json::{Value, json};

use super::beside::{Beside, LockTime, StackDifferences};
use super::subject::{CallDifference, CauseDifference, Difference, SubjectSide};
use super::{Comparison, Run};
use crate::damage::damage;
use crate::flame::FlameKind;

/// Stacks of a kind that are listed.
const MOST_STACKS: usize = 100;

/// Renders a comparison as one object. Times are in nanoseconds; what is not known is `null`.
#[must_use]
pub fn json(comparison: &Comparison) -> Value {
    let names = |names: &[Vec<u8>]| -> Value {
        let names = names.iter().map(|name| String::from_utf8_lossy(name));
        names.collect()
    };
    json!({
        "a": runs(&comparison.a),
        "b": runs(&comparison.b),
        "subjects": comparison.differences.iter().map(difference).collect::<Value>(),
        "syscalls": comparison.calls.iter().map(call).collect::<Value>(),
        "locks": comparison.locks.iter().map(lock).collect::<Value>(),
        "stacks": comparison.stacks.iter().flat_map(stacks).collect::<Value>(),
        "only_in_a": names(&comparison.only_in[0]),
        "only_in_b": names(&comparison.only_in[1]),
    })
}

fn runs(runs: &[Run]) -> Value {
    let runs = runs.iter().map(|run| {
        let [kernel, machine] = &run.system;
        json!({
            "file": run.file.to_string_lossy(),
            "kernel_release": String::from_utf8_lossy(kernel),
            "machine": String::from_utf8_lossy(machine),
            "lost": run.lost,
            "damage": run.damage.map(damage),
            "unrecorded": run.unrecorded,
            "missing": run.missing,
        })
    });
    runs.collect()
}

fn difference(difference: &Difference) -> Value {
    let [a, b] = &difference.sides;
    json!({
        "name": String::from_utf8_lossy(&difference.name),
        "other_name": difference.other.as_ref().map(|name| String::from_utf8_lossy(name)),
        "kind": if difference.is_of_spans { "span" } else { "whole" },
        "verdict": difference.verdict.word(),
        "chance": difference.chance,
        "a": took(a),
        "b": took(b),
        "causes": difference.causes.iter().map(cause).collect::<Value>(),
    })
}

fn took(side: &SubjectSide) -> Value {
    json!({
        "runs": side.runs,
        "count": side.took.count(),
        "mean_ns": side.took.mean(),
        "p50_ns": side.took.quantile(0.5),
        "p99_ns": side.took.quantile(0.99),
        "max_ns": side.took.longest(),
        "total_ns": side.took.total(),
    })
}

fn cause(cause: &CauseDifference) -> Value {
    let details = cause.details.iter();
    let details = details.map(|(words, [a, b])| json!({ "what": words, "a_ns": a, "b_ns": b }));
    json!({
        "cause": cause.cause,
        "a_ns": cause.ns[0],
        "b_ns": cause.ns[1],
        "longer_ns": cause.longer(),
        "parts": details.collect::<Value>(),
        "syscalls": cause.calls.iter().map(call).collect::<Value>(),
    })
}

fn lock(lock: &Beside<LockTime>) -> Value {
    let [a, b] = lock.sides.map(
        |side| json!({ "waits": side.waits, "total_ns": side.ns, "longest_ns": side.longest }),
    );
    json!({ "name": lock.name, "a": a, "b": b })
}

fn stacks(of_kind: &StackDifferences) -> impl Iterator<Item = Value> {
    let kind = match of_kind.kind {
        FlameKind::OnCpu => "on_cpu",
        FlameKind::OffCpu | FlameKind::Wakeup => "off_cpu",
    };
    of_kind.stacks.iter().take(MOST_STACKS).map(move |stack| {
        let [a, b] = stack.sides;
        json!({ "kind": kind, "stack": stack.name, "a_ns": a, "b_ns": b })
    })
}

fn call(call: &CallDifference) -> Value {
    let [a, b] = call
        .sides
        .map(|side| json!({ "count": side.count, "errors": side.errors, "total_ns": side.ns }));
    json!({ "name": call.name, "a": a, "b": b })
}
