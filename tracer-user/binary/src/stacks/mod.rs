//! Stacks: the events that have them, the names of their addresses, and their presentation.
//!
//! A stack is an event right before the one that it belongs to (`pending`). Its addresses are
//! looked up in the code that the process had mapped then (`timed`, `spaces`), which are events
//! too, and in the symbol tables of those files (`modules`), in their data for debuggers (`units`),
//! for functions in others (`inlined`) and lines (`lines`), in the kernel's symbols
//! (`kernel_symbols`), and in what a program tells of code that it generates (`own_code`: a list,
//! `perf_map`, or records with times, `jit_dump`). `names` asks all of these, and a log for what it
//! has at its end (`logged_names`).

#[cfg(test)]
mod beside_gdb;
mod data;
mod generated;
mod inlined;
mod inlined_files;
mod jit_dump;
mod kernel_symbols;
mod lines;
mod logged_names;
mod modules;
mod names;
mod own_code;
mod pending;
mod perf_map;
mod seen;
mod shown;
mod spaces;
mod timed;
mod units;

use std::time::Duration;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::stacks;

pub use data::{
    AddressName, Mapping, RecordedStack, push_mapping, push_mapping_since, push_symbol,
};
pub use kernel_symbols::read_kernel_ahead;
pub use modules::demangled;
pub use names::{Frame, SymbolNames};
pub use pending::{LONGEST_BEFORE, Owned, PendingStacks};
pub use shown::{Stack, StackEnd, push_frame_lines, push_frames_json};
pub use spaces::{
    BuildIds, FileState, MOST_IN_ALL, MappedBy, binary, largest_beyond, read_mappings, time_now,
};
pub use timed::{MOST_MAPPINGS, Mapped, TimedMappings};

#[doc(hidden)]
pub use data::look_through_parts;

#[doc(hidden)]
pub use jit_dump::look_through_jit_dump;

#[doc(hidden)]
pub use perf_map::look_through_perf_map;

/// The type that a stack names which is the one of a user event: of the next one that its thread
/// emits at the first of its addresses. No event has this type.
pub const NEXT_USER_EVENT: EventTypeId = EventTypeId(u32::MAX);

/// The types that stacks consist of.
pub const TYPES: [EventTypeId; 3] = [
    EventTypeId::STACK,
    EventTypeId::MAPPING,
    EventTypeId::SYMBOL,
];

/// Tells whether this is the type of a stack or of an event that names its addresses.
#[must_use]
pub fn is_part(id: EventTypeId) -> bool {
    TYPES.contains(&id)
}

/// Tells whether events of this type name the addresses of stacks.
#[must_use]
pub fn names_stacks(id: EventTypeId) -> bool {
    is_part(id) && id != EventTypeId::STACK
}

/// Stacks to record. By default none is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackOptions {
    /// The types of whose events stacks are recorded, as bits: see
    /// [`stacks`].
    pub types: u64,
    /// Recording of stacks for user events.
    pub user_events: bool,
    /// Addresses of the kernel, at most; 0: none.
    pub kernel_frames: u32,
    /// Addresses of the program, at most; 0: none.
    pub user_frames: u32,
    /// Frames of Python, at most; 0: none.
    pub python_frames: u32,
    /// Bytes of the program's stack that are copied, so that its functions are found by the unwind
    /// data of their files; 0: they are found by frame pointers.
    pub copied_bytes: u32,
    /// The stack of a thread that was blocked for longer is recorded as it gets a CPU again.
    pub off_cpu: Option<Duration>,
    /// Whether that stack has the kernel's addresses too. They are looked for each time that a
    /// thread blocks, which takes longer than all else that is done then.
    pub off_cpu_in_kernel: bool,
    /// Samples per second of the thread that has each CPU, and of its stack; 0: none.
    pub samples_per_second: u32,
}

impl StackOptions {
    /// Tells whether any stacks are to be recorded.
    #[must_use]
    pub fn are_wanted(&self) -> bool {
        let is_any =
            self.recorded_types() != 0 || self.off_cpu.is_some() || self.samples_per_second > 0;
        is_any && (self.kernel_frames > 0 || self.user_frames > 0 || self.python_frames > 0)
    }

    /// Tells whether stacks are recorded that have the kernel's addresses.
    #[must_use]
    pub fn have_kernel_frames(&self) -> bool {
        self.are_wanted() && self.kernel_frames > 0
    }

    /// Returns the types of which our programs record stacks, as bits. A user event has the stack
    /// of a probe.
    #[must_use]
    pub fn recorded_types(&self) -> u64 {
        if self.user_events {
            self.types | stacks::PROBES
        } else {
            self.types
        }
    }

    /// Returns the time on a CPU that a sample stands for, in nanoseconds; 0 where there are none.
    #[must_use]
    pub fn sampled_ns(&self) -> u32 {
        1_000_000_000_u32
            .checked_div(self.samples_per_second)
            .unwrap_or(0)
    }
}
