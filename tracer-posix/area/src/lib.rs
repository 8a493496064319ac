//! The trace area: emitting into it, finding it, reading it.
//!
//! The way of an event: a trace point (`UserEvent::emit()`, `posix_trace_event()`) finds the
//! streams that run in the area's control words and writes a record into its thread's chunk for
//! each that wants it. The controller finds the area of a process ([`Area::find`]), takes a slot in
//! it, and reads the chunks ([`AreaSource`]).
//!
//! | folder | what | knows |
//! |---|---|---|
//! | `system` | what the kernel and the C library are asked: `errno`, `scheduling`, `thread` (signals, barriers), `descriptor`, `pids`, `proc_stat`; `reserve` (memory for when there is none) | none |
//! | `layout` | what both sides write and read: `file`, `mapping`, `overcommit`, `names`, `ticks` (time), `wake`, `gate`; the chunks: `chunk`, `record`, `identity`, `chunk_ref`, `states`, `pool`, `links` (its lists) | `system` |
//! | `emit` | this process as a target: `enabled`, `emitter`, `sequence` (restartable), `thread`, `in_hand`, `tls`, `windows`; its locks: `lock`; its area: `process`, `own_types`, `start`, `prefault`, `inherited`, `resident` | `layout`, `system` |
//! | `discover` | the area of a process: `find`, `belonging`, `reader_windows`; who lives: `alive`, `liveness` | `emit`, `layout`, `system` |
//! | `read` | the controller: `source`, `deferred`, `slot`; what there is to read: `look`, `slice`, `round`, `newest`, `unread`, `effort`; reading it: `reading`, `chunk_reader`, `chains`, `bounds`, `type_ids`, `bell`; what dead threads have left: `stranded`, `abandoned`; giving memory back: `retire`, `allowance` | all of them |
//!
//! Unsafe code is in the modules that map memory, ask the kernel, or keep what belongs to one
//! thread; each block says why it is sound.

// Nothing that comes from outside may end the program.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stderr,
        clippy::print_stdout,
        clippy::wildcard_enum_match_arm
    )
)]
// The recorder needs only a part of this crate.
#![cfg_attr(
    tracer_recorder,
    allow(
        dead_code,
        unused_imports,
        reason = "it has no trace points and no area of its own"
    )
)]

mod discover;
mod emit;
mod layout;
mod read;
mod system;

pub use discover::find::{Area, FindError};
pub use emit::thread::own_tid;
pub use layout::file::AreaId;
pub use layout::names::NameTooLong;
pub use layout::ticks::{monotonic_now, realtime_now};
pub use read::bell::Bell;
pub use read::deferred::{DeferredSource, TargetError};
pub use read::slot::{RingMode, SlotError, StreamRequest};
pub use read::source::{AreaSource, Retirement};
pub use read::type_ids::NameShare;
pub use system::errno::{ErrnoGuard, ErrnoOnlyGuard};

#[doc(hidden)]
pub use emit::{emitter, enabled, lock, prefault};
#[doc(hidden)]
pub use read::allowance::Spent;
#[doc(hidden)]
pub use system::{descriptor, proc_stat, reserve};

use tracer_common::event_type::EventTypeId;

use emit::{own_types, process, start, tls};
use layout::names;
use system::pids;
use system::scheduling::Scheduling;
use tracer_engine::{CallTerms, EventSet};

impl Area {
    /// Returns how often a process of this area's family was given no name for a user event type
    /// because the area had no space for any more.
    #[must_use]
    pub fn names_refused(&self) -> u64 {
        self.parts().map_or(0, names::refused)
    }
}

/// Returns the identifier of the user event type `name` in this process.
///
/// # Errors
///
/// [`NameTooLong`] (`ENAMETOOLONG`).
pub fn define_own_name(name: &[u8]) -> Result<EventTypeId, NameTooLong> {
    match process::parts_if_ready().or_else(start::parts_made_ready) {
        Some(parts) => own_types::define(parts, name),
        // Without an area nothing is ever recorded.
        None => NameTooLong::check(name).map(|()| EventTypeId::UNNAMED_USEREVENT),
    }
}

/// Returns the identifier of a user event type called `name` that does not count among the
/// `{TRACE_USER_EVENT_MAX}` types that a process may have. The identifier is good for
/// [`emitter::emit`], and for nothing else.
///
/// # Errors
///
/// [`NameTooLong`] (`ENAMETOOLONG`).
pub fn define_name_beside(name: &[u8]) -> Result<EventTypeId, NameTooLong> {
    match process::parts_if_ready().or_else(start::parts_made_ready) {
        Some(parts) => own_types::define_beside(parts, name),
        None => NameTooLong::check(name).map(|()| EventTypeId::UNNAMED_USEREVENT),
    }
}

/// Returns the user event types of this process but those in a set: each identifier, and its name.
pub fn own_event_types_but(known: &EventSet) -> impl Iterator<Item = (EventTypeId, Vec<u8>)> {
    let parts = process::parts_if_ready();
    own_types::all()
        .filter(|(id, _)| !known.contains(*id))
        .filter_map(move |(id, number)| Some((id, names::name(parts?, number)?)))
}

/// Returns the user event type of this process whose name is that of the type `id`, followed by
/// `word`: its events say where spans of that type begin, or end. Allocates no memory.
pub fn define_own_border(id: EventTypeId, word: &str) -> EventTypeId {
    let Some(parts) = process::parts_if_ready().or_else(start::parts_made_ready) else {
        return EventTypeId::UNNAMED_USEREVENT;
    };
    own_types::define_border(parts, id, word)
}

/// Returns the pid of this process, without a system call where the library has set itself up.
pub fn own_pid() -> i32 {
    // The recorder never makes an area.
    if cfg!(tracer_recorder) {
        return pids::own_pid();
    }
    match process::parts_if_ready().or_else(start::parts_made_ready) {
        Some(_) => process::pid(),
        None => pids::own_pid(),
    }
}

/// Returns the terms of a control call that the calling thread makes, for a reader in another
/// process. `is_traced` says whether the stream traces this process.
#[doc(hidden)]
pub fn call_terms(is_traced: bool) -> CallTerms {
    let _errno = ErrnoGuard::keep();
    CallTerms {
        begun_anew: is_traced.then(process::begin_emissions_anew).flatten(),
        is_urgent: Scheduling::is_caller_real_time(),
    }
}

/// Tells whether the calling thread is a real-time one.
#[doc(hidden)]
pub fn is_caller_real_time() -> bool {
    let _errno = ErrnoOnlyGuard::keep();
    Scheduling::is_caller_real_time()
}

/// Returns this process's descriptor of its area, while it is open.
pub fn own_file() -> Option<std::os::fd::RawFd> {
    process::file()
}

/// Returns the file of this process's area, opened anew, to be handed to a program that maps it.
///
/// # Errors
///
/// The process has no area, or its file can no longer be opened.
pub fn own_file_anew() -> std::io::Result<std::os::fd::OwnedFd> {
    process::open_file_in_any_case().ok_or_else(|| std::io::ErrorKind::NotFound.into())
}

/// Has this process pass its area on over exec, where a stream that another process has made for it
/// traces it.
#[doc(hidden)]
pub fn streams_changed() {
    process::streams_changed();
}

/// Returns the calling thread's `pthread_t`.
pub fn own_thread_id() -> u64 {
    tls::thread_id()
}
