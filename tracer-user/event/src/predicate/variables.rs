//! Names that an expression may use.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use tracer_common::event_type::{SYSTEM_EVENT_TYPES, SystemEventType};

use tracer_syscalls::arguments::{Pointed, names, pointed};
use tracer_syscalls::names::all_names;

/// Starts the name of an argument of a system call, where it is to be that and nothing else.
pub const ARGUMENTS: &str = "arguments.";

/// Starts the name of an argument that a call has filled in.
pub const FILLED: &str = "filled.";

/// Aspect of a variable that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked<'a> {
    /// Its value.
    Value(&'a str),
    /// Whether it has one.
    Presence(&'a str),
}

impl<'a> Asked<'a> {
    /// Start of the name made for a value in an expression that was checked. It cannot be typed;
    /// and names that are types of the language (`type`, `list`) are not taken for those.
    const VALUE: char = '$';
    const PRESENCE: char = '?';

    /// Reads that name.
    pub fn read(written: &'a str) -> Option<Self> {
        let value = written.strip_prefix(Self::VALUE).map(Self::Value);
        value.or_else(|| written.strip_prefix(Self::PRESENCE).map(Self::Presence))
    }

    /// Writes that name.
    pub fn written(self) -> String {
        match self {
            Self::Value(name) => format!("{}{name}", Self::VALUE),
            Self::Presence(name) => format!("{}{name}", Self::PRESENCE),
        }
    }
}

/// Variables of every event, where they are known. A name that means several things means these.
pub const OF_ALL: [&str; 12] = [
    "type",
    "class",
    "pid",
    "tid",
    "comm",
    "cpu",
    "time",
    "ns",
    "truncated",
    "thread_id",
    "prog_address",
    "ns_pid",
];

/// Thread id in the pid namespace of the thread.
pub const NS_TID: &str = "ns_tid";

/// Variables of a system call, beside fields and arguments.
pub const OF_CALLS: [&str; 5] = ["syscall", "ret", "result", "error", "duration"];

/// Variables of a system call that are known once it has ended.
const OF_EXITS: [&str; 4] = ["ret", "result", "error", "duration"];

/// Variables of user events.
pub const OF_USER_EVENTS: [&str; 9] = [
    "text", "hex", "arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "ret",
];

/// Tells whether each event may have it.
pub fn is_of_all(name: &str) -> bool {
    OF_ALL.contains(&name) || name == NS_TID
}

/// Tells whether events of a type have a field of this name that can be compared.
pub fn is_field(entry: &SystemEventType, name: &str) -> bool {
    entry.fields.iter().any(|field| field.name == name)
}

/// Returns the names of arguments of all calls.
fn arguments() -> &'static BTreeSet<&'static str> {
    static ARGUMENTS: LazyLock<BTreeSet<&'static str>> =
        LazyLock::new(|| all_names().flat_map(names).collect());
    &ARGUMENTS
}

/// Returns the names of arguments that some call fills in.
fn filled() -> &'static BTreeSet<&'static str> {
    static FILLED: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
        let of_call = |call: &'static str| {
            let filled = names(call).zip(pointed(call));
            filled.filter_map(|(name, points_to)| {
                matches!(points_to, Pointed::Filled | Pointed::FilledText).then_some(name)
            })
        };
        all_names().flat_map(of_call).collect()
    });
    &FILLED
}

/// Tells whether events have fields of this name that are no system calls.
fn is_of_other_events(name: &str) -> bool {
    let is_call = |entry: &SystemEventType| entry.family == "syscall";
    OF_USER_EVENTS.contains(&name)
        || SYSTEM_EVENT_TYPES
            .iter()
            .any(|entry| !is_call(entry) && is_field(entry, name))
}

/// Tells whether a name is that of a variable.
pub fn is_known(name: &str) -> bool {
    if let Some(argument) = name.strip_prefix(ARGUMENTS) {
        return arguments().contains(argument) || is_nameless(argument);
    }
    if let Some(argument) = name.strip_prefix(FILLED) {
        return filled().contains(argument);
    }
    is_of_all(name)
        || OF_CALLS.contains(&name)
        || OF_USER_EVENTS.contains(&name)
        || arguments().contains(name)
        || SYSTEM_EVENT_TYPES.iter().any(|entry| is_field(entry, name))
}

/// Tells whether this is a name of arguments whose own names are not known.
pub fn is_nameless(argument: &str) -> bool {
    matches!(
        argument,
        "arg0" | "arg1" | "arg2" | "arg3" | "arg4" | "arg5"
    )
}

/// Returns every name, for the one that is most like the typed one.
pub fn all() -> impl Iterator<Item = &'static str> {
    let fields = SYSTEM_EVENT_TYPES.iter().flat_map(|entry| entry.fields);
    OF_ALL
        .into_iter()
        .chain([NS_TID])
        .chain(OF_CALLS)
        .chain(OF_USER_EVENTS)
        .chain(fields.map(|field| field.name))
        .chain(arguments().iter().copied())
}

/// Tells whether only system calls have it.
pub fn is_of_calls(name: &str) -> bool {
    if name.starts_with(ARGUMENTS) || name.starts_with(FILLED) {
        return true;
    }
    let is_of_a_call = OF_CALLS.contains(&name) || arguments().contains(name);
    is_of_a_call && !is_of_all(name) && (OF_CALLS.contains(&name) || !is_of_other_events(name))
}

/// Tells whether it may be known of a system call only when that has ended.
pub fn needs_exit(name: &str) -> bool {
    if name.starts_with(FILLED) || OF_EXITS.contains(&name) {
        return true;
    }
    let argument = name.strip_prefix(ARGUMENTS);
    !(argument.is_none() && is_of_all(name)) && filled().contains(argument.unwrap_or(name))
}

/// Tells whether a call's entry and its exit have values of their own of it.
pub fn varies(name: &str) -> bool {
    matches!(
        name,
        "type" | "time" | "ns" | "cpu" | "truncated" | "prog_address"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_json() {
        for known in [
            "pid",
            "comm",
            "filename",
            "ret",
            "error",
            "duration",
            "child_pid",
            "arguments.pid",
            "filled.buf",
            "arg0",
            "irq",
            "waits_in",
        ] {
            assert!(is_known(known), "{known}");
        }
        for unknown in ["", "datum", "arguments.nothing", "filled.filename", "$pid"] {
            assert!(!is_known(unknown), "{unknown}");
        }
    }

    #[test]
    fn what_needs_the_exit_is_known_by_its_name() {
        for late in ["ret", "error", "result", "duration", "filled.buf", "buf"] {
            assert!(needs_exit(late), "{late}");
        }
        for early in ["filename", "flags", "pid", "comm", "type", "arguments.pid"] {
            assert!(!needs_exit(early), "{early}");
        }
    }

    #[test]
    fn what_only_calls_have_is_known_by_its_name() {
        for name in ["syscall", "ret", "filename", "pathname", "arguments.pid"] {
            assert!(is_of_calls(name), "{name}");
        }
        for name in ["pid", "comm", "type", "child_pid", "cpu", "text", "arg0"] {
            assert!(!is_of_calls(name), "{name}");
        }
    }
}
