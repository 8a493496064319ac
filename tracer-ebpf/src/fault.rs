//! Page faults.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{FaultData, Record, RecordHeader, traced};

use crate::context::{Tracepoint, at_tracepoint};
use crate::cpu::this_cpu;
use crate::guard;
use crate::maps;
use crate::offsets::COUNTS_RATES;
use crate::record::record;
use crate::stack;
use crate::subject::Subject;
use crate::task::Task;
use crate::thread_context;
use crate::user;

at_tracepoint!("page_fault_user": page_fault_user, page_fault_user_raw => of_user);
at_tracepoint!("page_fault_kernel": page_fault_kernel, page_fault_kernel_raw => of_kernel);

/// Bits of the processor's error code (x86).
pub mod error {
    pub const PROTECTION: u64 = 1 << 0;
    pub const WRITE: u64 = 1 << 1;
    pub const FETCH: u64 = 1 << 4;
}

#[inline(always)]
fn of_user<C: Tracepoint>(ctx: &C) {
    fault(ctx, EventTypeId::FAULT_USER);
}

#[inline(always)]
fn of_kernel<C: Tracepoint>(ctx: &C) {
    fault(ctx, EventTypeId::FAULT_KERNEL);
}

/// Runs in the thread that faulted, before the fault is served.
#[inline(always)]
fn fault<C: Tracepoint>(ctx: &C, id: EventTypeId) {
    if !maps::is_wanted(id) {
        return;
    }
    let task = Task::<C>::current();
    let state = maps::traced(task.pid());
    if state & traced::TRACED == 0 || task.has_faults_off() || guard::withholds(state, &task, 1) {
        return;
    }
    let program_address = user::address(ctx);
    // The arguments are `unsigned long address, struct pt_regs *, unsigned long error_code`.
    let (address, error) = (ctx.argument::<0>(), ctx.argument::<2>());
    let flag = |bit| u32::from(error & bit != 0);
    thread_context::note(&task);
    stack::record_at_event(ctx, &task, id);
    if COUNTS_RATES.load() != 0 {
        maps::count_recorded(this_cpu(), 1);
    }
    record(&task, id, |header| Record {
        header: RecordHeader {
            program_address,
            ..header
        },
        data: FaultData {
            // The upper half of the address space is the kernel's.
            address: if address >> 63 == 0 { address } else { 0 },
            write: flag(error::WRITE),
            fetch: flag(error::FETCH),
            protection: flag(error::PROTECTION),
            reserved: 0,
        },
    });
}
