//! Page faults that are counted.

use tracer_common::kernel::counted;

use super::running;
use super::sums::{NO_TIME, count};
use crate::context::{Tracepoint, at_tracepoint};
use crate::fault::error;

at_tracepoint!("page_fault_user": page_fault_user_counts, page_fault_user_counts_raw => of_user);
at_tracepoint!("page_fault_kernel": page_fault_kernel_counts, page_fault_kernel_counts_raw => of_kernel);

#[inline(always)]
fn of_user<C: Tracepoint>(ctx: &C) {
    fault(ctx, counted::FAULT_USER);
}

#[inline(always)]
fn of_kernel<C: Tracepoint>(ctx: &C) {
    fault(ctx, counted::FAULT_KERNEL);
}

/// Runs in the thread that faulted, before the fault is served.
#[inline(always)]
fn fault<C: Tracepoint>(ctx: &C, kind: u32) {
    if let Some(task) = running::<C>()
        && !task.has_faults_off()
    {
        // The third argument is `unsigned long error_code`.
        let by_write = ctx.argument::<2>() & error::WRITE != 0;
        count(&task, (kind, 0), u64::from(by_write), NO_TIME);
    }
}
