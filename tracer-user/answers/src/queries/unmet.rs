//! Explanations why spans that were asked for were not found, and what there is instead.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tracer_analysis::{CallKey, Counts, Pairs, Unended};
use tracer_common::event_type::{EventTypeId, FIRST_USER_EVENT};
use tracer_engine::EventTypes;

use super::SpanSpec;
use super::relatives::relatives;
use super::span_spec::BorderSpec;
use super::words::call_name;
use tracer_syscalls::names::{Table, syscall_number};
use tracer_text::escape::push_for_people;
use tracer_text::suggest;

/// Names that are listed.
const LISTED: usize = 8;

/// Type of events without a name, which does not say what they are.
const UNNAMED: &str = "posix_trace_unnamed_userevent";

/// Facts about the events.
pub struct KnownEvents<'a> {
    /// Their types.
    pub types: &'a EventTypes,
    /// The native system calls that were entered, and how often.
    pub calls: &'a BTreeMap<i32, u64>,
    /// Spans that began and never ended.
    pub unended: Unended,
    /// Spans that were open when events were lost.
    pub interrupted: u64,
}

/// Explains why there is no span of this kind, of which this many began and ended.
pub fn unmet(spec: &SpanSpec, counts: Counts, known: &KnownEvents<'_>) -> String {
    if counts.ended > 0 {
        return format!(
            "{}: {} spans have ended, none of them of what is asked about (--longer-than, --at, \
             --pid)",
            called(spec),
            counts.ended
        );
    }
    if counts.begun > 0 {
        return format!(
            "{}: {} began and none has ended{}",
            called(spec),
            counts.begun,
            why_unended(known)
        );
    }
    match spec {
        SpanSpec::Named(name) => named(&text(name), known),
        SpanSpec::Function(typed, called) => {
            let begin = [b"probe:", called.as_slice()].concat();
            if known.types.id(&begin).is_some() {
                format!("{} was not called", text(called))
            } else {
                format!(
                    "no probe of {} was recorded: `tracer-user why --span {typed}` with --pid or a \
                     command sets it",
                    text(called)
                )
            }
        }
        SpanSpec::Call(name, _) => call(name, known),
        SpanSpec::Between { name, begin, end } => between(&text(name), begin, end, known),
    }
}

/// Explains why there is no span at all, where none was named.
pub fn none_named(counts: Counts, known: &KnownEvents<'_>) -> String {
    if counts.ended > 0 {
        return format!(
            "{} spans have ended, none of them of what is asked about (--longer-than, --at, --pid)",
            counts.ended
        );
    }
    if counts.begun > 0 {
        return format!(
            "{} spans began and none has ended{}",
            counts.begun,
            why_unended(known)
        );
    }
    format!(
        "no two event types are a pair by their names (x begin and x end, enter x and exit x), of \
         which events were recorded; {}, or --whole",
        what_else(known)
    )
}

/// Names other spans that may be asked for.
fn what_else(known: &KnownEvents<'_>) -> String {
    let mut ways = Vec::new();
    let types = user_types(known.types);
    if !types.is_empty() {
        ways.push(format!(
            "--span NAME=BEGIN..END with two of the event types ({})",
            listed(types.iter().map(|name| text(name)))
        ));
    }
    let calls = calls_made(known);
    if !calls.is_empty() {
        ways.push(format!("--span syscall:NAME ({})", listed(calls)));
    }
    ways.push("--span FILE:FUNCTION, live".to_owned());
    format!("try {}", ways.join(", "))
}

/// Explains, as far as is known, why spans have not ended: `: their threads ended before`.
fn why_unended(known: &KnownEvents<'_>) -> String {
    let why = unended_words(known.unended, known.interrupted);
    if why.is_empty() {
        String::new()
    } else {
        format!(": {}", why.join(", "))
    }
}

/// Explains why spans have not ended, cause by cause.
pub fn unended_words(unended: Unended, interrupted: u64) -> Vec<String> {
    let causes = [
        (
            unended.thread_ended,
            "of threads or processes that ended first (what is left by longjmp, an exception or \
             exit has no end)",
        ),
        (unended.too_deep, "within which too many others began"),
        (unended.begun_again, "that began again with the same key"),
        (unended.open, "open when the trace ended"),
        (interrupted, "open when events were lost"),
    ];
    let causes = causes.into_iter().filter(|(count, _)| *count > 0);
    causes
        .map(|(count, why)| format!("{count} {why}"))
        .collect()
}

fn called(spec: &SpanSpec) -> String {
    match spec {
        SpanSpec::Named(name) | SpanSpec::Function(_, name) | SpanSpec::Between { name, .. } => {
            text(name)
        }
        SpanSpec::Call(name, _) => name.clone(),
    }
}

fn named(name: &str, known: &KnownEvents<'_>) -> String {
    let pairs = Pairs::among(known.types, |_, _| true);
    let all = pairs.all();
    let has_type = |prefix: &str| {
        let whole = format!("{prefix}{name}");
        known.types.id(whole.as_bytes()).is_some()
    };
    if let Some(id) = known.types.id(name.as_bytes()) {
        let of_pair = all
            .iter()
            .find(|(_, begin, end)| *begin == id || *end == id);
        return match of_pair {
            Some((stem, ..)) => {
                format!(
                    "{name} is one of a pair of event types: --span {}",
                    text(stem)
                )
            }
            None => format!(
                "{name} is an event type and no pair: --span NAME={name}..END with the one that \
                 ends it"
            ),
        };
    }
    if let Some((_, begin, _)) = all.iter().find(|(stem, ..)| *stem == name.as_bytes()) {
        let begin = known.types.name(*begin).unwrap_or_default();
        return format!("no event {} was recorded", text(begin));
    }
    if has_type("probe:") || has_type("retprobe:") {
        return format!(
            "of the function {name} only one side was recorded: --span FILE:{name}, live, or \
             --probe and --retprobe"
        );
    }
    if syscall_number(Table::Native, name).is_some() {
        let was_made = made(name, known);
        let else_made = others_made(name, known);
        return match (was_made, else_made) {
            (false, Some(other)) => format!(
                "{name} is a system call, which was not made here; {other} was: --span \
                 syscall:{other}"
            ),
            _ => format!("{name} is a system call: --span syscall:{name}"),
        };
    }
    let relatives = relatives(name);
    if let Some(other) = others_made(name, known).or_else(|| relatives.first().copied()) {
        return format!("{name} is here the system call {other}: --span syscall:{other}");
    }
    let stems: Vec<String> = all.iter().map(|(stem, ..)| text(stem)).collect();
    let meant = suggest(name, stems.iter().map(String::as_str));
    let (is_meant, pairs) = match (meant, stems.is_empty()) {
        (Some(meant), _) => (format!("; is {meant} meant?"), String::new()),
        (None, true) => (String::new(), "; no pair of events was recorded".to_owned()),
        (None, false) => (String::new(), format!("; there are {}", listed(stems))),
    };
    format!(
        "no pair of events is called {name}{is_meant}{pairs}; a function needs its file (--span \
         FILE:{name}), a system call its word (--span syscall:NAME)"
    )
}

fn call(name: &str, known: &KnownEvents<'_>) -> String {
    if known.calls.is_empty() {
        let others = relatives(name);
        let instead = match others.first() {
            Some(first) => format!(
                "; {} may be made instead: --span syscall:{first}",
                others.join(" or ")
            ),
            None => String::new(),
        };
        return format!("{name} was not made, or not recorded (--syscalls {name}){instead}");
    }
    match others_made(name, known) {
        Some(other) => {
            format!("{name} was not made here; {other} was: --span syscall:{other}")
        }
        None => format!(
            "{name} was not made, or not recorded; these were: {}",
            listed(calls_made(known))
        ),
    }
}

fn between(name: &str, begin: &BorderSpec, end: &BorderSpec, known: &KnownEvents<'_>) -> String {
    for border in [begin, end] {
        if known.types.id(&border.event).is_some() {
            continue;
        }
        let typed = text(&border.event);
        let types: Vec<String> = user_types(known.types)
            .iter()
            .map(|name| text(name))
            .collect();
        let meant = suggest(&typed, types.iter().map(String::as_str));
        let instead = match meant {
            Some(meant) => format!("is {meant} meant?"),
            None if types.is_empty() => "no user event was recorded".to_owned(),
            None => format!("there are {}", listed(types.iter().cloned())),
        };
        return format!("{name}: no event type is called {typed}; {instead}");
    }
    let key = if begin.key.is_some() {
        " with the bytes of the key"
    } else {
        ""
    };
    format!("{name}: no event {}{key} was recorded", text(&begin.event))
}

/// Returns the names of the event types of programs and probes.
fn user_types(types: &EventTypes) -> Vec<&[u8]> {
    let first = EventTypeId(FIRST_USER_EVENT);
    let ids = std::iter::successors(types.next_from(first), |id| {
        types.next_from(EventTypeId(id.0.saturating_add(1)))
    });
    let names = ids.filter_map(|id| types.name(id));
    names.filter(|name| *name != UNNAMED.as_bytes()).collect()
}

fn made(name: &str, known: &KnownEvents<'_>) -> bool {
    let nr = syscall_number(Table::Native, name).and_then(|nr| i32::try_from(nr).ok());
    nr.is_some_and(|nr| known.calls.contains_key(&nr))
}

/// Returns a call that was made and does what the other one does.
fn others_made(name: &str, known: &KnownEvents<'_>) -> Option<&'static str> {
    let mut others = relatives(name).into_iter();
    others.find(|other| made(other, known))
}

/// Returns the calls that were made, the most frequent first.
fn calls_made(known: &KnownEvents<'_>) -> Vec<String> {
    let mut calls: Vec<(i32, u64)> = known.calls.iter().map(|(nr, n)| (*nr, *n)).collect();
    calls.sort_by_key(|(nr, count)| (Reverse(*count), *nr));
    let calls = calls.into_iter().map(|(nr, _)| {
        call_name(CallKey {
            is_compat: false,
            nr,
        })
    });
    calls.collect()
}

/// Joins names in a list: `a, b and 7 others`.
fn listed(names: impl IntoIterator<Item = String>) -> String {
    let names: Vec<String> = names.into_iter().collect();
    let rest = names.len().saturating_sub(LISTED);
    let shown = names.get(..LISTED).unwrap_or(&names).join(", ");
    if rest > 0 {
        format!("{shown} and {rest} others")
    } else {
        shown
    }
}

fn text(name: &[u8]) -> String {
    let mut out = Vec::new();
    push_for_people(&mut out, name);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(typed: &str, counts: Counts) -> String {
        let mut types = EventTypes::default();
        for name in ["query-start", "query-done", "tick", "probe:f"] {
            types.define_user(name.as_bytes(), None);
        }
        let nr = |name| i32::try_from(syscall_number(Table::Native, name).unwrap()).unwrap();
        let calls = BTreeMap::from([(nr("openat"), 3), (nr("read"), 9), (nr("epoll_pwait"), 1)]);
        let known = KnownEvents {
            types: &types,
            calls: &calls,
            unended: Unended {
                thread_ended: 4,
                ..Unended::default()
            },
            interrupted: 0,
        };
        unmet(&SpanSpec::parse(typed).unwrap(), counts, &known)
    }

    #[test]
    fn each_reason_is_its_own_and_has_what_to_do() {
        let none = Counts::default();
        for (typed, says) in [
            ("qurey", "is query meant?"),
            ("request", "there are query"),
            ("request", "--span FILE:request"),
            ("query", "no event query-start was recorded"),
            ("query-done", "--span query"),
            ("tick", "--span NAME=tick..END"),
            ("f", "only one side was recorded"),
            ("read", "--span syscall:read"),
            ("nanosleep_", "--span FILE:nanosleep_"),
            ("sem_wait", "--span syscall:futex"),
            ("syscall:epoll_pwait2", "these were: read, openat"),
            ("libc.so.6:usleep", "no probe of usleep was recorded"),
            ("x=tickk..query-done", "is tick meant?"),
            ("x=tick[0:8]..query-done[0:8]", "with the bytes of the key"),
        ] {
            let said = why(typed, none);
            assert!(said.contains(says), "{typed}: {said}");
        }
        if cfg!(target_arch = "x86_64") {
            let said = why("syscall:epoll_wait", none);
            assert!(said.contains("--span syscall:epoll_pwait"), "{said}");
        }
        let begun = Counts { begun: 4, ended: 0 };
        let said = why("query", begun);
        assert!(
            said.contains("4 began and none has ended: 4 of threads"),
            "{said}"
        );
        let said = why("query", Counts { begun: 4, ended: 3 });
        assert!(said.contains("3 spans have ended, none of them"), "{said}");
    }
}
