//! From events to answers: what threads did, and what they waited for.
//!
//! Events in, in order; answers out. Nothing here reads a file or a clock: readers of logs and
//! followers of processes feed it alike.
//!
//! - [`ThreadStates`]: what each thread does at any time, as intervals ([`Interval`]) that leave no
//!   time out and never overlap;
//! - [`ThreadTotals`]: what they sum up to, thread by thread;
//! - [`Calls`]: system calls, with how long they took;
//! - [`Faults`], [`Signals`], [`Interrupts`]: page faults by thread, signals by process, interrupts
//!   by CPU;
//! - [`LockTotals`]: waits for locks, and who had them, as [`layouts`] of C libraries tell;
//! - [`Spans`]: what has a beginning and an end among the events, by rules or by names ([`Pairs`]);
//! - [`critical_path`]: why something took as long as it did, from what threads did lately
//!   ([`History`]), and [`Blame`], what many paths add up to;
//! - [`WaitTotals`]: waits by what threads wait in, and who ends that;
//! - [`Absences`]: how long threads are without a CPU at a time, and who ends it;
//! - [`Durations`]: many durations, of which percentiles are asked.

#![forbid(unsafe_code)]
#![deny(missing_debug_implementations)]
// Whatever comes from outside is no reason to end the program.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stdout,
        clippy::wildcard_enum_match_arm
    )
)]

mod absence;
mod blame;
mod calls;
mod cpus;
mod durations;
mod faults;
mod gaps;
mod held;
mod history;
mod interrupts;
pub mod layouts;
mod locks;
mod looks;
mod open_calls;
mod pairs;
mod path;
mod requests;
mod retries;
mod rows;
mod signals;
mod spans;
mod state;
#[cfg(test)]
mod story;
mod thread_states;
mod totals;
mod waits;

pub use absence::{Absence, Absences};
pub use blame::{Blame, Node, ThreadGrouping};
pub use calls::{CallKey, CallRun, CallTotal, Calls, calls_are_recorded};
pub use durations::Durations;
pub use faults::{FaultTotal, Faults};
pub use gaps::{CpuGap, CpuGaps, FoundIn};
pub use history::{Had, History};
pub use interrupts::{Interrupt, InterruptKey, InterruptRun, InterruptTotal, Interrupts};
pub use locks::{
    HolderTotal, KnownThreads, LockKey, LockRelation, LockTable, LockTotal, LockTotals, LockType,
    RelationTotal, WaitedLock, recorded_lock,
};
pub use open_calls::{BegunCall, MOST_THREADS, OpenCalls};
pub use pairs::{Pairs, Side, ends_of};
pub use path::{
    OtherWork, PathPart, Step, Then, UnknownReason, critical_path, leaves, queued_path, span_path,
};
pub use requests::{RequestKey, RequestTotal, Requests};
pub use rows::TotalsByKey;
pub use signals::{SignalKey, SignalTotal, Signals};
pub use spans::{Border, Counts, KeyBytes, KeyOf, Poll, Span, SpanRule, Spans, Unended};
pub use state::{
    Behind, FunctionId, GroupId, Inside, Interval, IntervalEnd, LockId, ObjectId, Reason, State,
    Task, Thread, Wait, Waker, is_frozen,
};
pub use thread_states::{Birth, CpuTaken, Finding, ThreadStates};
pub use totals::{Before, ThreadTotal, ThreadTotals};
pub use waits::{EndedBy, WaitKey, WaitTotal, WaitTotals};
