//! Samples: the thread that has the CPU when its clock is looked at, and where it is.
//!
//! The agent attaches this to a clock of each CPU, so many times a second.

use aya_ebpf::macros::perf_event;
use aya_ebpf::programs::PerfEventContext;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{Record, SampleData};

use crate::maps;
use crate::offsets::SAMPLE_NS;
use crate::probe::Current;
use crate::record::record;
use crate::stack;

/// Runs in an interrupt, whose thread it is that was interrupted.
#[perf_event]
pub fn sample_cpu(ctx: PerfEventContext) -> u32 {
    if maps::is_wanted(EventTypeId::SAMPLE)
        && let Some(thread) = Current::traced()
    {
        let sampled_ns = u64::from(SAMPLE_NS.load());
        stack::of_sample(&ctx, &thread, sampled_ns);
        record(&thread, EventTypeId::SAMPLE, |header| Record {
            header,
            data: SampleData { sampled_ns },
        });
    }
    // Nothing for the event by which it is attached: that has no reader.
    0
}
