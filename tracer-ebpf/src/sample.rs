//! Samples: the thread that has the CPU at each tick of a clock, and its stack.
//!
//! The agent attaches this program to a clock of each CPU, which ticks at the requested rate.

use aya_ebpf::macros::perf_event;
use aya_ebpf::programs::PerfEventContext;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{Record, SampleData};

use crate::maps;
use crate::offsets::SAMPLE_NS;
use crate::probe::Current;
use crate::record::record;
use crate::stack;
use crate::thread_context;

/// Runs in an interrupt; the current thread is the interrupted one.
#[perf_event]
pub fn sample_cpu(ctx: PerfEventContext) -> u32 {
    if maps::is_wanted(EventTypeId::SAMPLE)
        && let Some(thread) = Current::traced()
        && !thread.is_withheld()
    {
        let sampled_ns = u64::from(SAMPLE_NS.load());
        thread_context::note(&thread);
        stack::record_at_sample(&ctx, &thread, sampled_ns);
        record(&thread, EventTypeId::SAMPLE, |header| Record {
            header,
            data: SampleData { sampled_ns },
        });
    }
    // No output to the perf event by which it is attached: that has no reader.
    0
}
