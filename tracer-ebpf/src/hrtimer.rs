//! High-resolution timers: that one runs is noted for the wake-ups that it asks for. Attached only
//! where the kernel's own note cannot be read.

use crate::context::{Tracepoint, at_tracepoint};
use crate::interrupted;

at_tracepoint!("hrtimer_expire_entry": hrtimer_expire_entry, hrtimer_expire_entry_raw => enter);
at_tracepoint!("hrtimer_expire_exit": hrtimer_expire_exit, hrtimer_expire_exit_raw => exit);

/// Runs before the timer's function.
#[inline(always)]
fn enter<C: Tracepoint>(_: &C) {
    interrupted::note_hrtimer(1);
}

/// Runs after it.
#[inline(always)]
fn exit<C: Tracepoint>(_: &C) {
    interrupted::note_hrtimer(0);
}
