//! Conditions that a trigger waits for, as people type them.

use anyhow::{Context, bail, ensure};
use tracer_common::event_type::{EventOrigin, EventTypeId, system_event_type};

use crate::queries::SpanSpec;
use tracer_text::quantity::time;
use tracer_text::{signal_name, signal_number, type_named};

/// Condition that is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// A span took longer, in nanoseconds.
    Span(SpanSpec, u64),
    /// A thread waited longer for a CPU.
    Runnable(u64),
    /// A thread was blocked for longer.
    Blocked(u64),
    /// An event of this type, by the name that a program gave it; or of this one of the kernel's,
    /// where that is named so.
    Event(Vec<u8>, Option<EventTypeId>),
    /// A signal was delivered, or has ended a process: this one, or any.
    Signal(Option<u32>),
    /// A process ended, and not with status 0.
    Exit,
}

const FORMS: &str = "give 'span NAME > 5ms', 'runnable > 2ms', 'blocked > 100ms', 'event NAME', 'signal SIGSEGV', \
                     'signal' or 'exit != 0'";

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn parse(typed: &str) -> anyhow::Result<Self> {
        let typed = typed.trim();
        let word_end = typed.find(|letter: char| !letter.is_ascii_alphabetic());
        let (word, rest) = typed.split_at(word_end.unwrap_or(typed.len()));
        let rest = rest.trim();
        Ok(match word {
            "span" => {
                let (name, over) = rest
                    .rsplit_once('>')
                    .with_context(|| format!("--when {typed:?} has no limit; {FORMS}"))?;
                Self::Span(SpanSpec::parse(name.trim())?, limit(over)?)
            }
            "runnable" | "blocked" => {
                let over = rest
                    .strip_prefix('>')
                    .with_context(|| format!("--when {typed:?} has no limit; {FORMS}"))?;
                if word == "runnable" {
                    Self::Runnable(limit(over)?)
                } else {
                    Self::Blocked(limit(over)?)
                }
            }
            "event" => {
                ensure!(
                    !rest.is_empty(),
                    "--when {typed:?} names no event type; {FORMS}"
                );
                Self::Event(rest.as_bytes().to_vec(), kernels(rest))
            }
            "signal" if rest.is_empty() => Self::Signal(None),
            "signal" => {
                let signal = signal_number(rest);
                Self::Signal(Some(signal.with_context(|| {
                    format!("--when {typed:?}: there is no signal {rest:?}; SIGSEGV is one")
                })?))
            }
            "exit" => {
                let is_failure = rest.replace(' ', "") == "!=0" || rest.is_empty();
                ensure!(is_failure, "--when {typed:?} is no condition; {FORMS}");
                Self::Exit
            }
            _ => bail!("--when {typed:?} is no condition; {FORMS}"),
        })
    }

    /// Returns the event types that it needs.
    #[must_use]
    pub fn needs(&self) -> &'static [EventTypeId] {
        const STATES: &[EventTypeId] = &[
            EventTypeId::SWITCH_IN,
            EventTypeId::SWITCH_OUT,
            EventTypeId::WAKEUP,
        ];
        const CALLS: &[EventTypeId] = &[
            EventTypeId::SWITCH_IN,
            EventTypeId::SWITCH_OUT,
            EventTypeId::WAKEUP,
            EventTypeId::SYSCALL_ENTER,
            EventTypeId::SYSCALL_EXIT,
        ];
        match self {
            Self::Span(SpanSpec::Call(..), _) => CALLS,
            Self::Span(..) | Self::Runnable(_) | Self::Blocked(_) => STATES,
            Self::Event(_, kernels) => {
                let entry = kernels.and_then(system_event_type);
                entry.map_or(&[], |entry| std::slice::from_ref(&entry.id))
            }
            Self::Signal(_) => &[EventTypeId::SIGNAL_DELIVER, EventTypeId::EXIT],
            Self::Exit => &[EventTypeId::EXIT],
        }
    }

    /// Tells whether it waits for an event of this type.
    #[must_use]
    pub fn is_event(&self, id: EventTypeId, name: &[u8]) -> bool {
        match self {
            Self::Event(typed, kernels) => *typed == name || *kernels == Some(id),
            _ => false,
        }
    }

    /// Describes the condition, for people.
    #[must_use]
    pub fn in_words(&self) -> String {
        let signal = |signal: u32| match signal_name(signal) {
            Some(name) => name.to_owned(),
            None => format!("signal {signal}"),
        };
        match self {
            Self::Span(SpanSpec::Call(name, _), _) => format!("system call {name}"),
            Self::Span(SpanSpec::Function(name, _), _) => format!("function {name}"),
            Self::Span(SpanSpec::Named(name) | SpanSpec::Between { name, .. }, _) => {
                format!("span {}", String::from_utf8_lossy(name))
            }
            Self::Runnable(_) => "runnable".to_owned(),
            Self::Blocked(_) => "blocked".to_owned(),
            Self::Event(name, _) => format!("event {}", String::from_utf8_lossy(name)),
            Self::Signal(Some(of)) => signal(*of),
            Self::Signal(None) => "signal".to_owned(),
            Self::Exit => "exit".to_owned(),
        }
    }
}

fn limit(typed: &str) -> anyhow::Result<u64> {
    let limit = time("--when", typed.trim())?;
    Ok(u64::try_from(limit.as_nanos())?)
}

/// Returns the type of the kernel's events with this name. The trace system's own begin and end
/// streams: a program's `start` is none of those.
fn kernels(typed: &str) -> Option<EventTypeId> {
    let named = type_named(typed).filter(|entry| entry.origin == EventOrigin::Kernel);
    named.map(|entry| entry.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        let span = SpanSpec::Named(b"a request".to_vec());
        let between = SpanSpec::parse("r=x[0:4]..y[0:4]").unwrap();
        for (typed, expected) in [
            ("span a request > 5ms", Condition::Span(span, 5_000_000)),
            (
                "span r=x[0:4]..y[0:4]>1s",
                Condition::Span(between, 1_000_000_000),
            ),
            ("runnable > 2ms", Condition::Runnable(2_000_000)),
            ("runnable>2ms", Condition::Runnable(2_000_000)),
            ("blocked >100ms", Condition::Blocked(100_000_000)),
            (
                "event an error",
                Condition::Event(b"an error".to_vec(), None),
            ),
            ("signal SIGSEGV", Condition::Signal(Some(11))),
            ("signal", Condition::Signal(None)),
            ("exit != 0", Condition::Exit),
        ] {
            assert_eq!(Condition::parse(typed).unwrap(), expected, "{typed}");
        }
    }

    #[test]
    fn an_event_of_the_kernel_is_named_as_it_is_shown() {
        for typed in ["oom-kill", "linux_trace_oom_kill", "LINUX_TRACE_OOM_KILL"] {
            let condition = Condition::parse(&format!("event {typed}")).unwrap();
            assert_eq!(condition.needs(), [EventTypeId::OOM_KILL], "{typed}");
            let kernels = b"linux_trace_oom_kill";
            assert!(condition.is_event(EventTypeId::OOM_KILL, kernels));
            assert!(!condition.is_event(EventTypeId::FORK, b"linux_trace_fork"));
            assert!(condition.is_event(EventTypeId(300), typed.as_bytes()));
        }
        let own = Condition::parse("event start").unwrap();
        assert!(own.is_event(EventTypeId(300), b"start"));
        assert!(!own.is_event(EventTypeId::START, b"posix_trace_start"));
        assert!(own.needs().is_empty());
    }

    #[test]
    fn what_is_none_is_refused_with_what_is() {
        for typed in [
            "",
            "span",
            "span x",
            "span > 5ms",
            "runnable 5ms",
            "runnable > x",
            "blocked",
            "event",
            "signal SIGNONE",
            "exit == 0",
            "sleepy > 5ms",
        ] {
            assert!(Condition::parse(typed).is_err(), "{typed}");
        }
    }
}
