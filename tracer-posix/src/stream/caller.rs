//! The calling thread.

use tracer_area as area;
use tracer_engine::Origin;

/// Returns the calling thread, and the address that it calls from; 0 where that is not known.
#[doc(hidden)]
#[must_use]
pub fn caller(address: u64) -> Origin {
    Origin {
        pid: area::own_pid(),
        tid: area::own_tid(),
        thread_id: area::own_thread_id(),
        program_address: address,
    }
}
