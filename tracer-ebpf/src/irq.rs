//! Interrupts of devices.

use core::mem::MaybeUninit;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{IRQ_NAME_BYTES, IrqEnterData, IrqExitData, Record};

use crate::context::{Tracepoint, at_tracepoint};
use crate::interrupted;
use crate::maps;
use crate::offsets::IRQACTION_NAME;
use crate::record::{Wake, record, record_by};
use crate::subject::NoProcess;
use crate::task::{Address, field};

at_tracepoint!("irq_handler_entry": irq_handler_entry, irq_handler_entry_raw => enter);
at_tracepoint!("irq_handler_exit": irq_handler_exit, irq_handler_exit_raw => exit);

/// Runs before the handler.
#[inline(always)]
fn enter<C: Tracepoint>(ctx: &C) {
    interrupted::note_handler(true);
    if !maps::is_wanted(EventTypeId::IRQ_ENTER) {
        return;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the argument is an int")]
    let irq = ctx.argument::<0>() as u32;
    // SAFETY: the second argument is a `struct irqaction *`, and the name a pointer in it.
    let name: Address = unsafe { field::<C, _>(ctx.address::<1>(), IRQACTION_NAME.load()) };
    record_by(
        &NoProcess,
        EventTypeId::IRQ_ENTER,
        Wake::InTime,
        |record, header| {
            *record = MaybeUninit::zeroed();
            // SAFETY: zeroed just now, and every bit pattern is a valid record.
            let record: &mut Record<IrqEnterData> = unsafe { record.assume_init_mut() };
            record.header = header;
            record.data.irq = irq;
            #[expect(clippy::cast_possible_truncation, reason = "28")]
            let size = IRQ_NAME_BYTES as u32;
            let to = record.data.name.as_mut_ptr().cast();
            // SAFETY: the helper writes at most `size` bytes into the name, and checks the address.
            unsafe { bpf_probe_read_kernel_str(to, size, name.0.cast()) };
        },
    );
}

/// Runs after the handler.
#[inline(always)]
fn exit<C: Tracepoint>(ctx: &C) {
    interrupted::note_handler(false);
    if !maps::is_wanted(EventTypeId::IRQ_EXIT) {
        return;
    }
    // The arguments are `int irq, struct irqaction *, int ret`; `IRQ_NONE` is 0.
    #[expect(clippy::cast_possible_truncation, reason = "both are ints")]
    record(&NoProcess, EventTypeId::IRQ_EXIT, |header| Record {
        header,
        data: IrqExitData {
            irq: ctx.argument::<0>() as u32,
            handled: u32::from(ctx.argument::<2>() as u32 != 0),
        },
    });
}
