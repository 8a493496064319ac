//! CPUs that have nothing to do.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{IdleData, Record};

use crate::context::{Tracepoint, at_tracepoint};
use crate::maps;
use crate::record::record;
use crate::subject::NoProcess;

at_tracepoint!("cpu_idle": cpu_idle, cpu_idle_raw => idle);

/// `PWR_EVENT_EXIT`: the state that says that idling has ended.
const NO_MORE: u32 = u32::MAX;

/// Runs in the idle task, before the CPU idles and after that.
#[inline(always)]
fn idle<C: Tracepoint>(ctx: &C) {
    // The arguments are `unsigned int state, unsigned int cpu`, of which the second is this CPU.
    #[expect(clippy::cast_possible_truncation, reason = "the state is an int")]
    let state = ctx.argument::<0>() as u32;
    if state == NO_MORE {
        if maps::is_wanted(EventTypeId::IDLE_EXIT) {
            record(&NoProcess, EventTypeId::IDLE_EXIT, |header| Record {
                header,
                data: (),
            });
        }
    } else if maps::is_wanted(EventTypeId::IDLE_ENTER) {
        record(&NoProcess, EventTypeId::IDLE_ENTER, |header| Record {
            header,
            data: IdleData { state, reserved: 0 },
        });
    }
}
