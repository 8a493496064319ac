//! Counting: nothing is recorded of an event but that it has happened, and how long it took.
//!
//! Programs of their own, which are loaded where counting is asked for, so that recording is as it
//! was. What they count is in [`sums`]; what a thread does meanwhile, in [`threads`]. A thread that
//! is not traced is asked for once, as everywhere.

pub mod calls;
mod faults;
pub mod life;
pub mod points;
mod sums;
mod switches;
mod threads;

use tracer_common::kernel::traced;

use crate::context::Tracepoint;
use crate::maps;
use crate::offsets::COUNTS;
use crate::subject::Subject;
use crate::task::Task;

/// Tells whether this is asked for: bits of [`counting`](tracer_common::kernel::counting). It is
/// known when a program is loaded.
#[inline(always)]
pub fn are_asked(bits: u32) -> bool {
    COUNTS.load() & bits != 0
}

/// Tells whether what a thread of a process with this [`traced`] state does is counted.
#[inline(always)]
fn is_counted(state: u8) -> bool {
    state & (traced::TRACED | traced::UNSTARTED) == traced::TRACED
}

/// Returns the running thread, where it is counted.
#[inline(always)]
fn running<C: Tracepoint>() -> Option<Task<C>> {
    let task = Task::<C>::current();
    is_counted(maps::traced(task.pid())).then_some(task)
}

/// Value of a map, as the look-up gave it. Offsets into it are those of its fields; these are read
/// and written whole.
#[derive(Clone, Copy)]
struct Value(*mut u8);

impl Value {
    /// Returns the field at this offset.
    #[inline(always)]
    fn get<T: Copy>(self, offset: usize) -> T {
        // SAFETY: a field of the value, as the callers see to.
        unsafe { self.0.wrapping_add(offset).cast::<T>().read_volatile() }
    }

    /// Sets the field at this offset.
    #[inline(always)]
    fn set<T: Copy>(self, offset: usize, value: T) {
        let at = self.0.wrapping_add(offset).cast::<T>();
        // SAFETY: as above.
        unsafe { at.write_volatile(value) };
    }

    /// Returns the address of the word at this offset.
    #[inline(always)]
    fn word(self, offset: usize) -> *mut u64 {
        self.0.wrapping_add(offset).cast()
    }
}
