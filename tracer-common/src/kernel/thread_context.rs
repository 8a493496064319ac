//! Traces and spans of OpenTelemetry that threads work for (OTEP 4947).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::event_type::declare::{event_data, event_types};

event_data! {
    /// Data of `LINUX_TRACE_THREAD_CONTEXT`: the trace and the span of OpenTelemetry that the
    /// thread works for from now on; zeroes: none, or it is not known. Of thread 0, it counts for
    /// all threads.
    pub struct ThreadContextData {
        /// The identifier of the trace.
        pub trace_id: [u8; 16],
        /// The identifier of the span.
        pub span_id: [u8; 8],
        /// The route or the name of what the thread does for it, where the program says so in an
        /// attribute, ended by a null; one that is too long is cut. What follows the null is
        /// removed.
        #[shown(Text)]
        pub route: [u8; ROUTE_BYTES],
    }
}

/// Bytes of [`ThreadContextData::route`].
pub const ROUTE_BYTES: usize = 64;

event_types! {
    THREAD_CONTEXT = 64 {
        about: "a thread works for another trace or span of OpenTelemetry (--trace-context)",
        family: "context",
        data: ThreadContextData,
        ends_with: route,
        recorded_at: [],
        is: [frequent, when_named],
    }
}

/// Location of the variable that leads to the contexts of a process's threads: an entry of the map
/// `CONTEXT_PLACES`, by pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ContextPlace {
    /// The lowest 32 bits: the module whose memory it is in; 0: it lies at a distance from the
    /// thread pointer. Above: one more than the index of the attribute that has the route; 0: none.
    pub module: u64,
    /// Bytes from the beginning of that memory, or from the thread pointer.
    pub offset: u64,
    /// The generation of a thread's table of modules from which on the module is in it.
    pub generation: u64,
}

/// Processes that have contexts, at a time.
pub const CONTEXT_PROCESSES: u32 = 4096;

/// Slots of the map `CONTEXTS`: what was recorded last of each thread, in the slot
/// `tid % CONTEXT_SLOTS`.
pub const CONTEXT_SLOTS: u32 = 16384;

/// The one entry of the map `CONTEXT_STATE`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ContextState {
    /// Number of the epoch: in a new one, each thread's context is recorded anew. Written by the
    /// agent, where records were lost, and now and then.
    pub epoch: u64,
    /// A byte for all processes with this remainder of their pids: 0 where none of them has
    /// contexts. Written by the agent and the programs, and never cleared.
    pub may_have: [u8; CONTEXT_REMAINDERS],
    /// Number of changes of `CONTEXT_PLACES`. What was looked up before one is looked up again.
    /// Written by the agent and the programs, after each change.
    pub changes: u64,
}

/// Remainders of pids in [`ContextState::may_have`].
pub const CONTEXT_REMAINDERS: usize = 4096;
