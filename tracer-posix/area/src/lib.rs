//! The trace area: emitting into it, finding it, reading it.
//!
//! The way of an event: a trace point (`UserEvent::emit()`, `posix_trace_event()`) finds the streams that run in the area's
//! control words and writes a record into its thread's chunk for each that wants it. The controller
//! finds the area of a process ([`Area::find`]), takes a slot in it, and reads the chunks
//! ([`AreaSource`]).
//!
//! | what | files |
//! |---|---|
//! | emission | `enabled`, `emitter`, `sequence` (restartable), `chunk` and `record` (by a mark), `thread` (what a thread knows), `in_hand`, `tls`, `errno`, `signals`, `resident` |
//! | the pool of chunks | `pool`, `chunk_ref`, `links` (its lists), `states`, `windows` (mapped by who emits), `retire` and `retirement` (taking it back; `allowance`, `spent`: for how long) |
//! | what ended threads left | `stranded`, `abandoned`, `alive`, `identity` |
//! | reading | `source`, `deferred`, `look` and `round` (what there is), `reading`, `chunk_reader`, `chains`, `newest`, `unread`, `effort` (what it costs), `reader_windows`, `ticks` (time), `type_numbers`, `wake` and `bell` (sleeping), `liveness` |
//! | who uses an area | `process`, `inherited`, `find`, `belonging`, `mapping`, `names`, `slot`, `descriptor` |
//!
//! Unsafe code is in those that map memory, ask the kernel, or keep what is a thread's own; each block says why it is sound.

// The program that records needs a part of it.
#![cfg_attr(
    tracer_recorder,
    allow(
        dead_code,
        unused_imports,
        reason = "it has no trace points and no area of its own"
    )
)]

mod abandoned;
mod alive;
mod allowance;
mod atomics;
mod bell;
mod belonging;
mod chains;
mod chunk;
mod chunk_reader;
mod chunk_ref;
mod deferred;
#[doc(hidden)]
pub mod descriptor;
mod effort;
#[doc(hidden)]
pub mod emitter;
#[doc(hidden)]
pub mod enabled;
mod errno;
mod find;
mod identity;
mod in_hand;
mod inherited;
mod links;
mod liveness;
mod look;
mod mapping;
mod names;
mod newest;
mod pool;
#[doc(hidden)]
pub mod proc_stat;
mod process;
mod reader_windows;
mod reading;
mod record;
mod resident;
mod retire;
mod retirement;
mod round;
mod sequence;
mod signals;
mod slot;
mod source;
#[doc(hidden)]
pub mod spent;
mod states;
mod stranded;
mod thread;
mod ticks;
mod tls;
mod type_numbers;
mod unread;
mod wake;
mod windows;

pub use bell::Bell;
pub use deferred::{DeferredSource, TargetError};
pub use errno::{ErrnoAloneKept, ErrnoKept};
pub use find::{Area, AreaId, FindError};
pub use names::NameTooLong;
pub use retirement::Retirement;
pub use slot::{OpenError, RingMode, StreamRequest};
pub use source::AreaSource;
pub use ticks::{monotonic_now, realtime_now};
pub use type_numbers::NameShare;

use tracer_common::event_type::EventTypeId;

impl Area {
    /// The identifier of the user event type `name` in this area's family of processes; a new one
    /// where it is new. When all are used up: `POSIX_TRACE_UNNAMED_USEREVENT`.
    ///
    /// # Errors
    ///
    /// [`NameTooLong`] (`ENAMETOOLONG`).
    pub fn define_name(&self, name: &[u8]) -> Result<EventTypeId, NameTooLong> {
        self.parts()
            .map_or(Ok(EventTypeId::UNNAMED_USEREVENT), |parts| {
                names::define(parts, name)
            })
    }
}

/// The identifier of the user event type `name` in this process.
///
/// # Errors
///
/// [`NameTooLong`] (`ENAMETOOLONG`).
pub fn define_own_name(name: &[u8]) -> Result<EventTypeId, NameTooLong> {
    match process::parts_if_ready().or_else(process::parts_made_ready) {
        Some(parts) => names::define(parts, name),
        None if name.len() > tracer_common::event_type::TRACE_EVENT_NAME_MAX => {
            Err(NameTooLong { length: name.len() })
        }
        // Without an area nothing is ever recorded.
        None => Ok(EventTypeId::UNNAMED_USEREVENT),
    }
}

/// The process that this is, without a system call where the library has set itself up.
pub fn own_pid() -> i32 {
    // The program that records never makes an area.
    if cfg!(tracer_recorder) {
        return names::own_pid();
    }
    match process::parts_if_ready().or_else(process::parts_made_ready) {
        Some(_) => process::pid(),
        None => names::own_pid(),
    }
}

/// This process's descriptor of its area, while it is open.
pub fn own_file() -> Option<std::os::fd::RawFd> {
    process::file()
}

/// The file of this process's area, opened anew, to be handed to a program that maps it.
///
/// # Errors
///
/// It has none, or none that can be opened any more.
pub fn own_file_anew() -> std::io::Result<std::os::fd::OwnedFd> {
    process::open_file_in_any_case().ok_or_else(|| std::io::ErrorKind::NotFound.into())
}

pub use thread::own_tid;

/// The calling thread's `pthread_t`.
pub fn own_thread_id() -> u64 {
    tls::thread_id()
}
