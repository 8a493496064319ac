//! Why the functions of a stack end where they do.

use tracer_common::kernel::stack_ends;

/// Why the functions of the program end where they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The program, or the thread, begins there.
    Beginning,
    /// What follows was not copied.
    Memory,
    /// It is in code of which it is not known how it calls.
    Code,
    /// As many as were asked for.
    Count,
    /// What follows is no stack.
    Damaged,
}

impl End {
    /// What an event says; `None` where that is nothing.
    #[must_use]
    pub fn of(ends: u32) -> Option<Self> {
        Some(match ends {
            stack_ends::BEGINNING => Self::Beginning,
            stack_ends::MEMORY => Self::Memory,
            stack_ends::CODE => Self::Code,
            stack_ends::COUNT => Self::Count,
            stack_ends::DAMAGED => Self::Damaged,
            _ => return None,
        })
    }

    /// Its name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Beginning => "beginning",
            Self::Memory => "memory",
            Self::Code => "code",
            Self::Count => "count",
            Self::Damaged => "damaged",
        }
    }

    /// What is missing, in words; `None` where nothing is.
    #[must_use]
    pub fn in_words(self) -> Option<&'static str> {
        match self {
            Self::Beginning => None,
            Self::Memory => Some("the rest of the stack was not copied"),
            Self::Code => Some("its file does not say how it calls"),
            Self::Count => Some("more than were asked for"),
            Self::Damaged => Some("what follows is no stack"),
        }
    }
}
