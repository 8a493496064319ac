//! Points of programs that have nothing of this library: static probes that they were built with
//! (USDT), and functions.
//!
//! - [`ProbeSpec`] is what a user asks for;
//! - `files` finds the programs and libraries that a process uses, or a command will;
//! - [`Binary`] is one of them: its functions, its static probes (`notes`) with the descriptions of
//!   their arguments (`arguments`, `registers`), the types of a function's arguments (`types`),
//!   which a file, those beside it (`debug_files`, `split_files`) or a server's (`debuginfod`) may
//!   contain (`dwarf`, `debug_data`), its functions and lines by the table of Go (`go_table`,
//!   `go_lines`), and its unwind data (`unwind_data`);
//! - `exits` finds the exits of a function in its code;
//! - `opening` opens files that any user may have put there, but none that programs of others serve
//!   (`fuse_check`), and reads them within limits;
//! - [`find`] turns what was asked for into locations in files, which `tracer-kernel` attaches
//!   to.

mod arguments;
mod binary;
mod debug_data;
mod debug_files;
pub(crate) mod debuginfod;
mod dwarf;
mod exits;
mod files;
mod find;
mod find_error;
mod fuse_check;
mod go_lines;
mod go_table;
mod instructions;
mod named_files;
mod named_functions;
mod notes;
mod opening;
mod registers;
mod spec;
mod split_files;
mod types;
mod unwind_data;

pub(crate) use binary::vdso_functions;
pub use binary::{Binary, BinaryError, DataSymbol, FileIdentity, Function, StaticProbe};
pub(crate) use debug_data::{DebugData, SectionSlice};
#[doc(hidden)]
pub use debug_files::look_through_packed;
pub use debuginfod::{ServerError, ServerWait, ask_servers};
#[cfg(test)]
pub(crate) use dwarf::tests::build_slow_to_read;
pub use files::{Used, find_for_command, find_in_process, here, is_there, lives_on};
pub(crate) use files::{living_thread, root_of};
pub use find::{Location, MAX_PROBES, ProbeKind, Probes, Subject, find};
pub use find_error::FindProbeError;
pub(crate) use go_lines::GoLines;
#[doc(hidden)]
pub use go_lines::look_through_go_lines;
pub use opening::{Bounded, ReadBudget};
pub use opening::{open_ordinary, open_ordinary_below};
pub use spec::{NotAProbe, ProbeSpec};
pub(crate) use split_files::{SplitFile, SplitPackage, SplitPlaces, unit_of};
pub use types::{NotATypeError, Signature, ValueType};
pub(crate) use unwind_data::UnwindData;

/// Reads any bytes as the notes of static probes.
#[doc(hidden)]
pub fn look_through_notes(untrusted: &[u8]) {
    for note in notes::parse(untrusted).unwrap_or_default() {
        let resolved = arguments::resolved(&note.arguments, note.address, |_| Some(note.base));
        let _ = argument_counts(&resolved);
    }
}

/// Counts the arguments that a description lists, and those of them that can be read on this
/// machine.
#[must_use]
pub fn argument_counts(described: &str) -> (usize, usize) {
    let arguments = arguments::parse(described);
    let is_readable = |argument: &&arguments::LocatedArgument| {
        argument.location.source != tracer_common::kernel::probe_source::NONE
    };
    (
        arguments.len(),
        arguments.iter().filter(is_readable).count(),
    )
}
