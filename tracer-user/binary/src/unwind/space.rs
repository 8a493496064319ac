//! The code that a process has mapped, with what is known of how it calls.

use crate::stacks::TimedMappings;

/// The code that a process has mapped, by address and time. For each mapping the index of its file
/// among the [`Unwinder`](super::Unwinder)'s is kept, once that was looked up, with the generation
/// in which it was.
pub type Space = TimedMappings<Option<(u32, Option<u32>)>>;
