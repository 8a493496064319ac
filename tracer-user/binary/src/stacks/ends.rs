//! Reasons why the functions of a stack end where they do.

use tracer_common::kernel::stack_ends;

/// Reason why the functions of the program end where they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackEnd {
    /// Beginning of the program, or of the thread.
    Beginning,
    /// Memory that was not copied.
    Memory,
    /// Code whose unwind rules are not known.
    Code,
    /// Limit on the number of functions that was asked for.
    Count,
    /// Memory that is no stack.
    Damaged,
}

impl StackEnd {
    /// Returns the reason in an event's data; `None` where it has none.
    #[must_use]
    pub fn from_number(ends: u32) -> Option<Self> {
        Some(match ends {
            stack_ends::BEGINNING => Self::Beginning,
            stack_ends::MEMORY => Self::Memory,
            stack_ends::CODE => Self::Code,
            stack_ends::COUNT => Self::Count,
            stack_ends::DAMAGED => Self::Damaged,
            _ => return None,
        })
    }

    /// Returns its name in JSON.
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

    /// Describes the missing part; `None` where nothing is missing.
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
