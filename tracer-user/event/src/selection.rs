//! Types of events that are shown.

use tracer_common::event_type::{
    EventOrigin, EventTypeId, SYSTEM_EVENT_TYPES, SystemEventType, system_event_type,
};
use tracer_engine::EventSet;

use tracer_text::suggest;
use tracer_text::{is_named, short_name};

/// The word that chooses every user event.
const USER: &str = "user";

/// Types that the process table lives on: they flow through the stream even when they are not
/// shown.
const LIFE_CYCLE: [EventTypeId; 7] = [
    EventTypeId::FORK,
    EventTypeId::THREAD_CREATE,
    EventTypeId::EXEC,
    EventTypeId::EXIT,
    EventTypeId::THREAD_EXIT,
    EventTypeId::RENAME,
    // What threads work for is shown with their events.
    EventTypeId::THREAD_CONTEXT,
];

/// Types that report missing events: always shown.
const LOSS: [EventTypeId; 3] = [
    EventTypeId::ERROR,
    EventTypeId::OVERFLOW,
    EventTypeId::RESUME,
];

/// The event types that are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    system: Vec<EventTypeId>,
    has_user: bool,
}

/// A word that names no event type.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("no event type is called \"{word}\"{}", hint(word))]
pub struct UnknownEventType {
    /// The word.
    pub word: String,
}

impl Selection {
    /// Returns the default selection: the events that the program emits, and those types of the
    /// kernel that say much and cost little.
    #[must_use]
    pub fn usual() -> Self {
        let kernel = SYSTEM_EVENT_TYPES
            .iter()
            .filter(|entry| entry.origin == EventOrigin::Kernel && entry.is_default);
        Self {
            system: kernel.map(|entry| entry.id).chain(LOSS).collect(),
            has_user: true,
        }
    }

    /// Returns the selection of nothing but what is always shown.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            system: LOSS.to_vec(),
            has_user: false,
        }
    }

    /// Returns the selection that the words name: families, types, or `user`.
    ///
    /// # Errors
    ///
    /// A word names none of them.
    pub fn from_words<'a>(
        words: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, UnknownEventType> {
        let mut selection = Self::nothing();
        for word in words {
            if word == USER {
                selection.has_user = true;
                continue;
            }
            let known = selection.system.len();
            let named = SYSTEM_EVENT_TYPES
                .iter()
                .filter(|entry| is_chosen(entry, word));
            selection.system.extend(named.map(|entry| entry.id));
            if selection.system.len() == known {
                return Err(UnknownEventType {
                    word: word.to_owned(),
                });
            }
        }
        Ok(selection)
    }

    /// Adds system calls, those too that have begun before.
    #[must_use]
    pub fn with_syscalls(self) -> Self {
        self.with(&[
            EventTypeId::SYSCALL_ENTER,
            EventTypeId::SYSCALL_EXIT,
            EventTypeId::THREAD_STATE,
        ])
    }

    /// Adds these types.
    #[must_use]
    pub fn with(mut self, types: &[EventTypeId]) -> Self {
        for id in types {
            if !self.has(*id) {
                self.system.push(*id);
            }
        }
        self
    }

    /// Returns every type.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            system: SYSTEM_EVENT_TYPES.iter().map(|entry| entry.id).collect(),
            has_user: true,
        }
    }

    /// Removes those of the kernel's types of which `is_left` is not true.
    #[must_use]
    pub fn retain(mut self, is_left: impl Fn(EventTypeId) -> bool) -> Self {
        self.system.retain(|id| !is_of_kernel(*id) || is_left(*id));
        self
    }

    /// Removes user events.
    #[must_use]
    pub fn without_user(self) -> Self {
        Self {
            has_user: false,
            ..self
        }
    }

    /// Removes the kernel's events.
    #[must_use]
    pub fn without_kernel(mut self) -> Self {
        self.system.retain(|id| !is_of_kernel(*id));
        self
    }

    /// Tells whether user events are shown.
    #[must_use]
    pub fn has_user(&self) -> bool {
        self.has_user
    }

    /// Tells whether a type is shown.
    #[must_use]
    pub fn has(&self, id: EventTypeId) -> bool {
        if id.is_user() {
            self.has_user
        } else {
            self.system.contains(&id)
        }
    }

    /// Returns the kernel's types that are shown.
    #[must_use]
    pub fn kernel_types(&self) -> Vec<EventTypeId> {
        let shown = self.system.iter().copied();
        shown.filter(|id| is_of_kernel(*id)).collect()
    }

    /// Returns the events that the stream need not record.
    #[must_use]
    pub fn filter(&self) -> EventSet {
        let mut filter = EventSet::EMPTY;
        for entry in SYSTEM_EVENT_TYPES {
            if !self.has(entry.id) && !LIFE_CYCLE.contains(&entry.id) {
                filter.insert(entry.id);
            }
        }
        filter
    }
}

fn is_of_kernel(id: EventTypeId) -> bool {
    system_event_type(id).is_some_and(|entry| entry.origin == EventOrigin::Kernel)
}

/// Tells whether a word chooses a type: by family, or by its name, in whichever form.
fn is_chosen(entry: &SystemEventType, word: &str) -> bool {
    word == entry.family || is_named(entry, word)
}

/// Returns the word that may be meant, or else the families, of which there are few.
fn hint(typed: &str) -> String {
    let known = known_words();
    let typed = typed.replace('_', "-").to_ascii_lowercase();
    if let Some(word) = suggest(&typed, known.iter().map(String::as_str)) {
        return format!("; is {word} meant?");
    }
    let families = known_families().join(", ");
    format!("; known are {families}, and the types that `tracer-user events` lists")
}

/// Returns `user` and the families.
fn known_families() -> Vec<&'static str> {
    let mut words = vec![USER];
    for entry in SYSTEM_EVENT_TYPES {
        if !words.contains(&entry.family) {
            words.push(entry.family);
        }
    }
    words
}

/// Returns every word that names a type, but for the long names.
fn known_words() -> Vec<String> {
    let families = known_families().into_iter().map(str::to_owned);
    families
        .chain(SYSTEM_EVENT_TYPES.iter().map(short_name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_names_all_its_types() {
        let selection = Selection::from_words(["switch"]).unwrap();

        assert_eq!(
            selection.kernel_types(),
            [
                EventTypeId::SWITCH_IN,
                EventTypeId::SWITCH_OUT,
                EventTypeId::THREAD_STATE,
                EventTypeId::THROTTLE
            ]
        );
        assert!(!selection.has(EventTypeId(300)));
    }

    #[test]
    fn a_type_is_named_in_full_or_as_it_is_shown() {
        for word in [
            "linux_trace_thread_exit",
            "thread-exit",
            "thread_exit",
            "LINUX_TRACE_THREAD_EXIT",
        ] {
            let selection = Selection::from_words([word]).unwrap();
            assert_eq!(selection.kernel_types(), [EventTypeId::THREAD_EXIT]);
        }
        for word in ["posix_trace_start", "start", "linux-trace-fork"] {
            assert!(Selection::from_words([word]).is_ok(), "{word}");
        }
    }

    #[test]
    fn losses_are_shown_whatever_was_chosen() {
        assert!(
            Selection::from_words(["user"])
                .unwrap()
                .has(EventTypeId::OVERFLOW)
        );
        assert!(Selection::usual().without_kernel().has(EventTypeId::RESUME));
    }

    #[test]
    fn what_costs_much_is_shown_only_when_it_is_named() {
        let usual = Selection::usual();
        assert!(usual.has(EventTypeId::SWITCH_IN) && usual.has(EventTypeId::SIGNAL_DELIVER));
        for id in [
            EventTypeId::SYSCALL_ENTER,
            EventTypeId::FAULT_USER,
            EventTypeId::SOFTIRQ_ENTER,
            EventTypeId::BLOCK_ISSUE,
        ] {
            assert!(!usual.has(id), "{id:?}");
        }
        assert!(usual.with_syscalls().has(EventTypeId::SYSCALL_EXIT));
    }

    #[test]
    fn of_an_unknown_word_the_error_says_what_may_be_meant_or_what_is_known() {
        let error = |word| {
            Selection::from_words(["fork", word])
                .unwrap_err()
                .to_string()
        };

        let start = "no event type is called ";
        assert_eq!(error("frok"), format!("{start}\"frok\"; is fork meant?"));
        assert_eq!(
            error("switchin"),
            format!("{start}\"switchin\"; is switch-in meant?")
        );
        let error = error("everything");
        for word in ["user", "fork", "exec", "exit", "switch", "wakeup", "rename"] {
            assert!(error.contains(&format!(" {word},")), "{error}");
        }
        assert!(error.contains("`tracer-user events`"), "{error}");
    }

    #[test]
    fn every_known_word_is_accepted() {
        let words = known_words();
        assert!(Selection::from_words(words.iter().map(String::as_str)).is_ok());
    }
}
