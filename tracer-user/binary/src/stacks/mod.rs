//! Stacks: the events that have them, the names of their addresses, and their presentation.
//!
//! A stack is an event right before the one that it belongs to (`pending`). Its addresses are
//! looked up in the code that the process had mapped then (`timed`, `spaces`), which are events
//! too, and in the symbol tables of those files (`modules`), in their data for debuggers (`units`,
//! `split_units`), for functions in others (`inlined`) and lines (`lines`), in the kernel's symbols
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
mod options;
mod own_code;
mod own_files;
mod pending;
mod perf_map;
mod shown;
mod spaces;
mod split_units;
mod timed;
mod units;

#[doc(hidden)]
pub use data::look_through_parts;
pub use data::{AddressName, Mapping, RecordedStack, push_mapping, push_symbol};
#[doc(hidden)]
pub use jit_dump::look_through_jit_dump;
pub use modules::demangled;
pub use names::{Frame, SymbolNames};
pub use options::StackOptions;
pub use pending::{Owned, PendingStacks};
#[doc(hidden)]
pub use perf_map::look_through_perf_map;
pub use shown::{Stack, StackEnd, push_frame_lines, push_frames_json};
pub use spaces::{BuildIds, FileState, MappedBy, binary, read_mappings, time_now};
pub use timed::{Mapped, TimedMappings};

use tracer_common::event_type::EventTypeId;

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
