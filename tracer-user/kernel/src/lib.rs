//! The kernel source: loads the eBPF programs and reads what they record.
//!
//! - [`KernelTracer::load`] checks whether the kernel has what is needed (`requirements`), and
//!   finds out where fields lie: from the kernel's BTF, or from a file that is compared with the
//!   kernel (`btf`, `types`, `self_check`; `assembled`). It loads the programs (`options`,
//!   `loading`) and attaches them (`programs`, `probes`, `tracepoints`; `perf`).
//! - [`KernelTracer`] sets which processes are traced: each has a byte in a map that this process
//!   maps into its memory (`traced`), by its pid in the first pid namespace (`namespace`). It also
//!   sets by which properties processes are chosen (`choice`), and which system calls are recorded
//!   (`calls`).
//! - `counts` reads what the programs count instead of recording it, where that is asked for.
//! - `look` records what threads do when a trace begins.
//! - [`KernelSource`] passes the records to a stream (`rings`, `ring`, `mapping`, `decode`,
//!   `stacks`), with a watermark and the count of lost events (`losses`, `switches`,
//!   `unended`).
//! - For the service, `opened` tells of which process an open file is the memory, `attach_right`
//!   whether the kernel lets another process attach to one, and `connected` with which rights
//!   another process has connected (`assembled`).
//! - `memory` gives back the memory that loading took.
//! - [`named_tracepoints`] finds the tracepoints that are recorded by their names.
//! - [`checks`] makes the lines that `tracer-user doctor` prints.
//!
//! Nothing is pinned: programs and maps end with the descriptors of this process.

// Input from outside must never end the program.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stdout
    )
)]

use std::path::Path;

mod assembled;
mod attach_right;
mod btf;
#[cfg(test)]
mod budget;
mod call;
mod call_links;
mod calls;
mod checks;
mod choice;
mod connected;
mod counts;
mod cpu_rings;
mod decode;
mod diagnostics;
mod error;
mod first_names;
mod found;
mod given_stacks;
mod guard;
mod known_code;
mod loading;
mod look;
mod losses;
mod mapped;
mod mapping;
mod memory;
mod moves;
pub mod named_tracepoints;
mod namespace;
mod opened;
mod options;
mod owned;
mod perf;
mod probes;
mod process_code;
mod programs;
mod python;
mod requirements;
mod ring;
mod rings;
mod search;
mod self_check;
mod shared_memory;
mod source;
#[cfg(test)]
mod stack_depth;
mod stacks;
mod switch_tables;
mod switches;
mod thread_contexts;
mod traced;
mod tracepoints;
mod tracer;
mod types;
mod unended;
mod unmet;
mod watching;
mod withheld;

/// Reads any bytes as BTF, and looks up in them what is looked up in a kernel's BTF: for fuzzing.
#[doc(hidden)]
pub fn look_through_btf(untrusted: &[u8]) {
    if let Ok(types) = btf::reader::Btf::parse(untrusted) {
        let _ = btf::offsets::globals(&types);
        let _ = types.tracepoint_arguments("sched_switch");
        let _ = types.has_helper("bpf_task_pt_regs");
        let _ = types.tracepoints();
        let _ = btf::variables::find_from_run_queue(&types);
    }
}

/// Returns the tracepoints in this kernel's BTF, or in the BTF of the file that is `given`. This
/// needs no privileges.
///
/// # Errors
///
/// The BTF cannot be read.
pub fn tracepoints_of_btf(given: Option<&Path>) -> Result<Vec<DescribedTracepoint>, Unmet> {
    let types = types::read(given)?;
    Ok(types.parse()?.tracepoints())
}

pub use attach_right::{AttachRights, WatchedRight};
pub use btf::tracepoints::Described as DescribedTracepoint;
pub use call_links::{CallCounts, CallRates, cheapest_call_ns};
pub use calls::{TimedRuns, WantedMaps};
pub use checks::{Availability, Check, MOUNT_PROC, PROC_OF_ANOTHER, availability, checks};
pub use choice::ProcessChoice;
pub use connected::ConnectedRights;
pub use counts::{CountReader, Counting, CountsBy};
pub use decode::{ExecSign, ExecStep, UnseenStep};
pub use error::LoadError;
pub use first_names::FirstNames;
pub use given_stacks::GivenStacks;
pub use guard::Guard;
pub use known_code::say_mappings_anew;
pub use look::look_in_proc;
pub use losses::LostByCpu;
pub use mapped::MappingReport;
pub use memory::{FreedMemory, give_back_large_pieces_at_once, give_back_what_is_free};
pub use moves::{Move, MoveStep};
pub use namespace::is_proc_own;
pub use opened::OpenedMemory;
pub use options::KernelOptions;
pub use owned::{NamespaceOwners, OutermostNamespace};
pub use probes::{ProbeError, probe_check};
pub use python::{FoundInterpreters, search_interpreters};
pub use requirements::capabilities;
pub use search::ProcessSearch;
pub use source::{KernelSource, NO_CONTEXT, ReportsExecs, no_contexts};
pub use thread_contexts::search_contexts;
pub use tracepoints::TracepointError;
pub use tracer::KernelTracer;
pub use unmet::Unmet;
pub use withheld::Withheld;
