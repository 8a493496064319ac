//! Events that can match at all: the kernel need not record any others.

use std::sync::atomic::{AtomicBool, Ordering};

use cel::common::types::{CelBool, CelString};
use cel::common::value::CowVal;
use cel::context::VariableResolver;
use tracer_common::event_type::{EventTypeId, SystemEventType, system_event_type};

use super::expression::{Expression, Verdict};
use super::variables::{self, ARGUMENTS, Asked, FILLED, OF_CALLS, OF_USER_EVENTS};
use crate::kernel_words::push_syscall_name;
use crate::selection::Selection;
use tracer_syscalls::arguments::names;
use tracer_syscalls::choice::SyscallSet;
use tracer_syscalls::names::{self, Table};
use tracer_text::push_short_name;

/// Rest of the types and the system calls that were chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Narrowed {
    /// The types.
    pub selection: Selection,
    /// The system calls.
    pub syscalls: SyscallSet,
}

impl Expression {
    /// Returns the rest of `selection` and `syscalls` where only those events are wanted of which
    /// this expression can be true. A condition on types and calls is judged for each of them;
    /// variables in any other condition must be ones that they have.
    #[must_use]
    pub fn narrow(&self, selection: Selection, mut syscalls: SyscallSet) -> Narrowed {
        let calls = [EventTypeId::SYSCALL_ENTER, EventTypeId::SYSCALL_EXIT];
        let entries = calls.map(system_event_type);
        if calls.iter().any(|id| selection.has(*id)) {
            syscalls.retain(|table, nr| {
                // An exit is judged by what its entry had, so that either needs the other.
                let mut ends = entries.iter().copied().flatten();
                ends.any(|entry| self.can_match(&Kind::Call(entry, table, nr)))
            });
        }
        let mut narrowed = selection.retain(|id| match system_event_type(id) {
            Some(entry) if calls.contains(&id) => {
                let _ = entry;
                !syscalls.is_empty()
            }
            Some(entry) => self.can_match(&Kind::System(entry)),
            None => true,
        });
        if !self.can_match(&Kind::User) {
            narrowed = narrowed.without_user();
        }
        Narrowed {
            selection: narrowed,
            syscalls,
        }
    }

    /// Tells whether it can be true of such an event.
    fn can_match(&self, kind: &Kind) -> bool {
        let possible = Possible {
            kind,
            is_open: AtomicBool::new(false),
        };
        let mut verdicts = self.judge_parts(&possible);
        // Each has to be true.
        verdicts.all(|verdict| {
            let is_open = possible.is_open.swap(false, Ordering::Relaxed);
            match verdict {
                Verdict::True => true,
                Verdict::False => false,
                // What is missing stays missing; of what events differ in, nothing is known.
                Verdict::Unknown => is_open,
            }
        })
    }
}

/// Events that differ in their data.
enum Kind {
    /// Events of a type of the system.
    System(&'static SystemEventType),
    /// Ends of a system call; without a call, of those that share a bit.
    Call(&'static SystemEventType, Table, Option<i32>),
    /// User events of the program.
    User,
}

/// Facts about all events of a kind.
struct Possible<'a> {
    kind: &'a Kind,
    /// Whether something was asked for in which they differ.
    is_open: AtomicBool,
}

/// Value of a variable in all events of a kind.
enum Known {
    Text(String),
    Truth(bool),
    /// Open: events differ in it, or only some have it.
    Open,
    /// Missing: no event has it.
    Missing,
}

impl Kind {
    fn value(&self, name: &str) -> Known {
        match (self, name) {
            (Self::System(entry) | Self::Call(entry, ..), "type") => {
                let mut short = Vec::new();
                push_short_name(&mut short, entry.name);
                Known::Text(String::from_utf8_lossy(&short).into_owned())
            }
            (Self::User, "class") => Known::Text("user".to_owned()),
            (_, "class") => Known::Text("system".to_owned()),
            _ if variables::is_of_all(name) => Known::Open,
            (Self::System(entry), _) => open_if(variables::is_field(entry, name)),
            (Self::User, _) => open_if(OF_USER_EVENTS.contains(&name)),
            (Self::Call(_, table, _), "compat") => Known::Truth(*table == Table::Compat),
            (Self::Call(_, table, Some(nr)), "syscall" | "name") => {
                let mut name = Vec::new();
                push_syscall_name(&mut name, *table, *nr);
                Known::Text(String::from_utf8_lossy(&name).into_owned())
            }
            (Self::Call(..), "syscall" | "name") => Known::Open,
            (Self::Call(entry, table, nr), _) => {
                let argument = name.strip_prefix(ARGUMENTS);
                let argument = argument
                    .or_else(|| name.strip_prefix(FILLED))
                    .unwrap_or(name);
                let call = nr.and_then(|nr| names::name(*table, nr));
                let has_argument = match call {
                    Some(call) => {
                        let mut names = names(call).peekable();
                        // The names of the arguments of some calls are unknown.
                        let is_unknown = names.peek().is_none();
                        names.any(|name| name == argument)
                            || is_unknown && variables::is_nameless(argument)
                    }
                    None => variables::is_nameless(argument),
                };
                let is_field = variables::is_field(entry, name);
                open_if(has_argument || is_field || OF_CALLS.contains(&name))
            }
        }
    }
}

fn open_if(is_open: bool) -> Known {
    if is_open { Known::Open } else { Known::Missing }
}

impl VariableResolver for Possible<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let (name, is_question) = match Asked::read(variable)? {
            Asked::Presence(name) => (name, true),
            Asked::Value(name) => (name, false),
        };
        let truth = |truth| Some(CowVal::owned(CelBool::from(truth)));
        match self.kind.value(name) {
            Known::Open => {
                self.is_open.store(true, Ordering::Relaxed);
                None
            }
            Known::Missing if is_question => truth(false),
            Known::Missing => None,
            _ if is_question => truth(true),
            Known::Text(text) => Some(CowVal::owned(CelString::from(text))),
            Known::Truth(known) => truth(known),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn narrowed(text: &str) -> Narrowed {
        let selection = Selection::usual().with_syscalls();
        let expression = Expression::parse(text).unwrap();
        expression.narrow(selection, SyscallSet::all())
    }

    fn types(text: &str) -> Vec<EventTypeId> {
        narrowed(text).selection.kernel_types()
    }

    fn has_call(text: &str, name: &str) -> bool {
        let nr = names::syscall_number(Table::Native, name).unwrap();
        let narrowed = narrowed(text);
        narrowed.syscalls.has(Table::Native, nr.cast_signed())
    }

    const CALLS: [EventTypeId; 2] = [EventTypeId::SYSCALL_ENTER, EventTypeId::SYSCALL_EXIT];

    #[test]
    fn only_types_are_left_that_have_what_is_named() {
        assert_eq!(types("type == \"exec\""), [EventTypeId::EXEC]);
        assert_eq!(types("type == \"linux_trace_exec\""), [EventTypeId::EXEC]);
        assert_eq!(
            types("type in [\"switch-in\", \"fork\"] && cpu == 1"),
            [EventTypeId::FORK, EventTypeId::SWITCH_IN]
        );
        assert_eq!(types("class == \"user\""), Vec::new());
        assert_eq!(types("ret < 0 && comm == \"nginx\""), CALLS);
        assert_eq!(types("filename.startsWith(\"/etc\")"), CALLS);
        assert_eq!(
            types("has(child_pid)"),
            [EventTypeId::FORK, EventTypeId::THREAD_CREATE]
        );
        let all = Selection::usual().with_syscalls().kernel_types();
        assert_eq!(types("comm == \"x\""), all);
        assert_eq!(types("ret < 0 || comm == \"x\""), all);
        assert_eq!(types("!(ret < 0 || comm == \"x\")").len(), all.len());
    }

    #[test]
    fn only_calls_are_left_that_can_match() {
        for (text, left, gone) in [
            ("syscall == \"openat\"", "openat", "read"),
            (
                "syscall in [\"openat\", \"read\"] && ret < 0",
                "read",
                "write",
            ),
            ("syscall.startsWith(\"open\")", "openat2", "read"),
            ("syscall.matches(\"^(open|read)\")", "readv", "close"),
            ("syscall != \"read\"", "write", "read"),
            ("filename == \"/etc/passwd\"", "openat", "read"),
            ("arguments.pid == 1", "kill", "read"),
            (
                "(syscall == \"read\" && ret > 1) || syscall == \"close\"",
                "close",
                "open",
            ),
            (
                "type == \"syscall-exit\" && syscall == \"read\"",
                "read",
                "open",
            ),
        ] {
            assert!(has_call(text, left), "{text}: {left}");
            assert!(!has_call(text, gone), "{text}: {gone}");
        }
    }

    #[test]
    fn user_events_are_left_where_they_may_match() {
        let has_user = |text| narrowed(text).selection.has_user();
        assert!(has_user("type == \"request\"") && has_user("text.contains(\"x\")"));
        assert!(has_user("comm == \"x\"") && has_user("class != \"system\""));
        assert!(!has_user("syscall == \"read\"") && !has_user("class == \"system\""));
    }
}
