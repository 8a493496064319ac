//! Soft interrupts: what the kernel puts off until an interrupt's handler has ended.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{Record, SoftirqData};

use crate::context::{Tracepoint, at_tracepoint};
use crate::interrupted;
use crate::maps;
use crate::record::record;
use crate::subject::NoProcess;

at_tracepoint!("softirq_entry": softirq_entry, softirq_entry_raw => enter);
at_tracepoint!("softirq_exit": softirq_exit, softirq_exit_raw => exit);

#[inline(always)]
fn enter<C: Tracepoint>(ctx: &C) {
    #[expect(clippy::cast_possible_truncation, reason = "the argument is an int")]
    interrupted::note_softirq(ctx.argument::<0>() as u32 + 1);
    softirq(ctx, EventTypeId::SOFTIRQ_ENTER);
}

#[inline(always)]
fn exit<C: Tracepoint>(ctx: &C) {
    interrupted::note_softirq(0);
    softirq(ctx, EventTypeId::SOFTIRQ_EXIT);
}

/// Runs before and after it.
#[inline(always)]
fn softirq<C: Tracepoint>(ctx: &C, id: EventTypeId) {
    if !maps::is_wanted(id) {
        return;
    }
    // The argument is `unsigned int vec_nr`.
    #[expect(clippy::cast_possible_truncation, reason = "the argument is an int")]
    let vector = ctx.argument::<0>() as u32;
    record(&NoProcess, id, |header| Record {
        header,
        data: SoftirqData {
            vector,
            reserved: 0,
        },
    });
}
