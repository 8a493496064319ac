//! Probes and tracepoints that are counted: by the programs that would record them.

use aya_ebpf::programs::RawTracePointContext;

use tracer_common::kernel::{counted, counting};

use super::sums::{NO_TIME, count};
use super::{are_asked, is_counted};
use crate::task::Task;

/// Counts that the running thread, of a process with this [`traced`](tracer_common::kernel::traced)
/// state, passes this probe; tells whether that is all that is asked for.
#[inline(always)]
pub fn count_probe(state: u8, probe: u16) -> bool {
    count_point(state, (counted::PROBE, probe.into()))
}

/// Counts that it passes this tracepoint, as [`count_probe`] does.
#[inline(always)]
pub fn count_tracepoint(state: u8, index: u32) -> bool {
    count_point(state, (counted::TRACEPOINT, index))
}

#[inline(always)]
fn count_point(state: u8, point: (u32, u32)) -> bool {
    if !are_asked(counting::POINTS) {
        return false;
    }
    if is_counted(state) {
        count(&Task::<RawTracePointContext>::current(), point, 0, NO_TIME);
    }
    true
}
