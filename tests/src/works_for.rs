//! The program `works_for.c`, whose threads work for traces and spans of OpenTelemetry, and a
//! comparison of the contexts that it prints with those of its events.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::dist::{self, Linkage};

/// First half of the identifier of each trace of the program.
const TRACE: &str = "4bf92f3577b34da6";

/// Second half of a trace's identifier, and a span's identifier; zeroes for none.
pub type Context = (u64, u64);

/// Changes of context by thread, as the program prints them: the times between which the change was
/// made, and the new context.
pub type Changes = BTreeMap<i64, BTreeSet<(u64, u64, Context)>>;

/// Compiles the program, or its library, to `name` in `folder`. Among programs that are compiled
/// already (see [`dist::compile`]), its name is `works_for-NAME`.
///
/// # Errors
///
/// It cannot be compiled.
pub fn compile(folder: &Path, name: &str, options: &[&str]) -> anyhow::Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/works_for.c");
    let made = folder.join(name);
    if dist::take_compiled(&format!("works_for-{name}"), &made)? {
        return Ok(made);
    }
    let options = [&["-Wall", "-Wextra", "-Werror"], options].concat();
    dist::compile_file("cc", &source, &made, &options, Linkage::Shared)?;
    Ok(made)
}

/// Reads lines of JSON.
///
/// # Errors
///
/// The bytes are not lines of JSON.
pub fn lines_of(bytes: &[u8]) -> anyhow::Result<Vec<Value>> {
    let lines = bytes.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| Ok(serde_json::from_slice(line)?))
        .collect()
}

fn hex(digits: Option<&str>) -> anyhow::Result<u64> {
    Ok(u64::from_str_radix(digits.context("no number")?, 16)?)
}

/// Returns the context of an event.
///
/// # Errors
///
/// The event is for a trace of another program.
pub fn context_of(event: &Value) -> anyhow::Result<Context> {
    let Some(trace) = event["trace_id"].as_str() else {
        return Ok((0, 0));
    };
    let half = trace.strip_prefix(TRACE);
    Ok((hex(half)?, hex(event["span_id"].as_str())?))
}

/// Reads the changes that the program prints.
///
/// # Errors
///
/// The line of a change has another form.
pub fn changes(said: &[u8]) -> anyhow::Result<Changes> {
    let mut changes = Changes::new();
    for line in String::from_utf8_lossy(said).lines() {
        let Some(rest) = line.strip_prefix("set ") else {
            continue;
        };
        let mut words = rest.split(' ');
        let mut next = || words.next().context("no word");
        let (tid, from, until) = (next()?.parse()?, next()?.parse()?, next()?.parse()?);
        let change = (from, until, (hex(words.next())?, hex(words.next())?));
        changes.entry(tid).or_default().insert(change);
    }
    Ok(changes)
}

/// Compares each event with what the program says. Returns how many events have a context, and how
/// many rightly have none.
///
/// After a switch that the kernel has not reported, the context of a thread is unknown until the
/// thread's next call: this concerns a few switches at most. With the service, the context may be
/// unknown at that call too: a context that has not changed is not recorded again.
///
/// # Errors
///
/// An event has another context than the program says, or too many events have none, or too few
/// wake-ups and signals have one.
pub fn compare(
    events: &[Value],
    changes: &Changes,
    is_of_service: bool,
) -> anyhow::Result<[u64; 2]> {
    let (mut unknown, mut not_off) = (0, 0);
    let mut of: BTreeMap<&str, u64> = BTreeMap::new();
    let mut begun: BTreeMap<i64, Context> = BTreeMap::new();
    let (mut with, mut without) = (0, 0);
    for event in events {
        let (Some(kind), Some(tid)) = (event["type"].as_str(), event["tid"].as_i64()) else {
            continue;
        };
        let data = &event["data"];
        let argument = |nth: usize| data["args"][nth].as_u64().context("no argument");
        let expected = match (data["name"].as_str(), kind) {
            (Some("kcmp"), "linux_trace_syscall_enter") => {
                begun.insert(tid, (argument(3)?, argument(4)?));
                begun.get(&tid).copied()
            }
            (Some("kcmp"), "linux_trace_syscall_exit") => begun.remove(&tid),
            // The memory of a thread is gone when it leaves for good.
            (_, "linux_trace_switch_out") if data["state"] == "X" => None,
            // Threads send themselves signals.
            (
                _,
                "linux_trace_switch_in"
                | "linux_trace_switch_out"
                | "linux_trace_wakeup"
                | "linux_trace_signal_generate"
                | "linux_trace_signal_deliver",
            ) => {
                let at = event["ns"].as_u64().context("no time")?;
                let last = changes.get(&tid).and_then(|all| {
                    all.range(..(at, u64::MAX, (u64::MAX, u64::MAX)))
                        .next_back()
                });
                // While the program makes a change, the event may have either context.
                last.filter(|(_, until, _)| at > *until)
                    .map(|(_, _, context)| *context)
            }
            _ => None,
        };
        let Some(expected) = expected else { continue };
        let found = context_of(event)?;
        let is_unknown = expected != (0, 0) && found == (0, 0);
        if is_unknown && (is_of_service || kind.starts_with("linux_trace_switch")) {
            unknown += 1;
            continue;
        }
        // A thread may be woken before it leaves its CPU, and its context is read as it leaves.
        if is_unknown && kind == "linux_trace_wakeup" {
            not_off += 1;
            continue;
        }
        ensure!(found == expected, "{expected:?}: {event}");
        if expected == (0, 0) {
            without += 1;
        } else {
            with += 1;
            *of.entry(kind).or_default() += 1;
        }
    }
    ensure!(unknown * 100 <= with, "{unknown} of {with}, {without}");
    let count = |kind: &str| of.get(kind).copied().unwrap_or(0);
    let woken = count("linux_trace_wakeup");
    ensure!(
        woken > 100 && not_off * 10 <= woken,
        "{not_off} beside {of:?}"
    );
    for kind in ["linux_trace_signal_generate", "linux_trace_signal_deliver"] {
        ensure!(count(kind) > 20, "{of:?}");
    }
    Ok([with, without])
}
