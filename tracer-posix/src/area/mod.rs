//! The trace area: emitting into it, finding it, reading it.
//!
//! The way of an event: a trace point ([`crate::emit`]) finds the streams that run in the area's
//! control words and writes a record into its thread's ring for each that wants it. The controller
//! finds the area of a process ([`Area::find`]), takes a slot in it, and reads the rings
//! ([`AreaSource`]).
//!
//! Unsafe code is in `mapping` (shared memory), `ring` (its words), `thread` and `tls` (a thread's
//! own state) and `process` (what the library does when it is loaded and in a forked child).

mod alive;
mod atomics;
mod directory;
pub(crate) mod emitter;
mod errno;
mod find;
pub(crate) mod gate;
mod hands;
mod inherited;
mod late;
mod mapping;
mod names;
mod process;
mod record;
mod resident;
mod retirement;
mod ring;
mod slot;
mod source;
mod thread;
mod ticks;
mod tls;
mod type_numbers;

pub(crate) use errno::ErrnoKept;
pub use find::{Area, AreaId, FindError};
pub use late::{TargetError, TargetSource};
pub use names::NameTooLong;
pub use retirement::Retirement;
pub use slot::{OpenError, RingMode, StreamRequest};
pub use source::AreaSource;
pub use ticks::{monotonic_now, realtime_now};

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
pub(crate) fn define_own_name(name: &[u8]) -> Result<EventTypeId, NameTooLong> {
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
pub(crate) fn own_pid() -> i32 {
    match process::parts_if_ready().or_else(process::parts_made_ready) {
        Some(_) => process::pid(),
        None => names::own_pid(),
    }
}

/// This process's descriptor of its area, while it is open.
pub(crate) fn own_file() -> Option<std::os::fd::RawFd> {
    process::file()
}

/// The calling thread's `pthread_t`.
pub(crate) fn own_thread_id() -> u64 {
    tls::thread_id()
}
