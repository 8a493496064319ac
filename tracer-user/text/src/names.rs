//! Names of signals; and of event types: as short as people read them, and in each form that is
//! typed.
//!
//! A type has one name, `linux_trace_thread_exit`, that of JSON and of
//! `posix_trace_eventid_get_name()`. Text leaves out what all have in common (`thread-exit`), and
//! `trace.h` has it in capitals. Options take each of these.

use tracer_common::event_type::{SYSTEM_EVENT_TYPES, SystemEventType};

const SIGNALS: [(i32, &str); 31] = [
    (libc::SIGHUP, "SIGHUP"),
    (libc::SIGINT, "SIGINT"),
    (libc::SIGQUIT, "SIGQUIT"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGTRAP, "SIGTRAP"),
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGKILL, "SIGKILL"),
    (libc::SIGUSR1, "SIGUSR1"),
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGUSR2, "SIGUSR2"),
    (libc::SIGPIPE, "SIGPIPE"),
    (libc::SIGALRM, "SIGALRM"),
    (libc::SIGTERM, "SIGTERM"),
    (libc::SIGSTKFLT, "SIGSTKFLT"),
    (libc::SIGCHLD, "SIGCHLD"),
    (libc::SIGCONT, "SIGCONT"),
    (libc::SIGSTOP, "SIGSTOP"),
    (libc::SIGTSTP, "SIGTSTP"),
    (libc::SIGTTIN, "SIGTTIN"),
    (libc::SIGTTOU, "SIGTTOU"),
    (libc::SIGURG, "SIGURG"),
    (libc::SIGXCPU, "SIGXCPU"),
    (libc::SIGXFSZ, "SIGXFSZ"),
    (libc::SIGVTALRM, "SIGVTALRM"),
    (libc::SIGPROF, "SIGPROF"),
    (libc::SIGWINCH, "SIGWINCH"),
    (libc::SIGIO, "SIGIO"),
    (libc::SIGPWR, "SIGPWR"),
    (libc::SIGSYS, "SIGSYS"),
];

/// Appends the name of a system event type without what all have in common.
pub fn push_short_name(out: &mut Vec<u8>, name: &str) {
    let bytes = without_prefix(name).bytes();
    out.extend(bytes.map(|byte| if byte == b'_' { b'-' } else { byte }));
}

/// Returns a name without what all have in common, with underscores.
fn without_prefix(name: &str) -> &str {
    let short = name.strip_prefix("linux_trace_");
    let short = short.or_else(|| name.strip_prefix("posix_trace_"));
    short.unwrap_or(name)
}

/// Returns the short name of a type, as text shows it.
#[must_use]
pub fn short_name(entry: &SystemEventType) -> String {
    let mut short = Vec::new();
    push_short_name(&mut short, entry.name);
    String::from_utf8_lossy(&short).into_owned()
}

/// Tells whether `typed` is a name of this type, in whichever form; hyphens are underscores.
#[must_use]
pub fn is_named(entry: &SystemEventType, typed: &str) -> bool {
    let typed = typed.replace('-', "_");
    typed == entry.name || typed == without_prefix(entry.name) || typed == entry.constant
}

/// Finds the system event type that `typed` names, in whichever form.
#[must_use]
pub fn type_named(typed: &str) -> Option<&'static SystemEventType> {
    let mut entries = SYSTEM_EVENT_TYPES.iter();
    entries.find(|entry| is_named(entry, typed))
}

/// Tells whether the event type of this name is the one that `typed` names: exactly, as a program's
/// own, or, as one of the system's, in whichever form.
#[must_use]
pub fn is_type_called(name: &[u8], typed: &[u8]) -> bool {
    let is_systems = || {
        let typed = std::str::from_utf8(typed).ok()?;
        type_named(typed).map(|entry| entry.name.as_bytes() == name)
    };
    name == typed || is_systems() == Some(true)
}

/// Returns the name of a signal, such as `SIGKILL`; `None` for real-time signals and unknown ones.
pub fn signal_name(signal: u32) -> Option<&'static str> {
    let signal = i32::try_from(signal).ok()?;
    SIGNALS
        .iter()
        .find(|(value, _)| *value == signal)
        .map(|(_, name)| *name)
}

/// Returns the signal of this name; its `SIG` may be missing.
pub fn signal_number(name: &str) -> Option<u32> {
    let is_called = |known: &str| known == name || known.strip_prefix("SIG") == Some(name);
    let (signal, _) = SIGNALS.iter().find(|(_, known)| is_called(known))?;
    u32::try_from(*signal).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_a_name_is_that_of_one_type() {
        for entry in SYSTEM_EVENT_TYPES {
            let short = short_name(entry);
            for typed in [
                entry.name.to_owned(),
                entry.name.replace('_', "-"),
                short.replace('-', "_"),
                entry.constant.to_owned(),
                short,
            ] {
                let named = type_named(&typed).map(|named| named.id);
                assert_eq!(named, Some(entry.id), "{typed}");
                assert!(is_type_called(entry.name.as_bytes(), typed.as_bytes()));
                assert!(!is_type_called(b"another", typed.as_bytes()));
            }
        }
        assert!(is_type_called(b"lock-held", b"lock-held"));
        assert!(!is_type_called(b"lock_held", b"lock-held"));
    }
}
