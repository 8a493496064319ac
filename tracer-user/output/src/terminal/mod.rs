//! Communication with people: where lines go, messages, how a command ended.
//!
//! Commands that follow processes and those that look at logs share this, and nothing else.

pub mod output;
mod screen;

pub use crate::interruption::{is_ignored, survive_file_limit};
pub use output::BlockingFile;
pub use screen::TerminalScreen;

/// Outcome of a command, which becomes its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every event that was asked for was shown.
    Complete,
    /// Events were lost, and the closing line says how many.
    EventsLost,
}

impl Outcome {
    /// Combines the outcomes of two steps: complete where both are.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match self {
            Self::Complete => other,
            Self::EventsLost => self,
        }
    }
}
