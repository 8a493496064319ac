//! Packets within the machine: which thread's packet a soft interrupt hands over.
//!
//! A packet that a thread sends to its own machine goes to a queue of the CPU (`netif_rx`), at
//! which a soft interrupt is served before the call that sends it goes on: the thread that it wakes
//! is woken by that call. The packet's address says so: it is the same where the thread sends it,
//! where it comes to that queue, and where it is handed over. What is sent while a packet is handed
//! over, such as its acknowledgement or the answer to a first packet, is of the same thread.
//!
//! Nothing is said of a packet that is delayed, sent by a timer, or handed over while another
//! thread has the CPU; nor on real-time kernels, where a soft interrupt may be preempted, and where
//! the kernel's count of interrupts cannot be read.

use core::mem::offset_of;

use tracer_common::kernel::globals::NO_OFFSET;
use tracer_common::kernel::{PacketsOf, waker_context};

use crate::context::{Tracepoint, at_tracepoint};
use crate::cpu::this_cpu;
use crate::interrupted;
use crate::maps;
use crate::offsets::{PACKET_DEVICE, PREEMPT_COUNT, TASK_PREEMPT_COUNT, TASK_SOFTIRQ_COUNT};
use crate::subject::Subject;
use crate::task::{Address, Task, field};

at_tracepoint!("net_dev_queue": net_dev_queue, net_dev_queue_raw => sent);
at_tracepoint!("netif_rx": netif_rx, netif_rx_raw => queued);
at_tracepoint!("netif_receive_skb": netif_receive_skb, netif_receive_skb_raw => handed_over);
at_tracepoint!("napi_poll": napi_poll, napi_poll_raw => polled);

/// Notes of a CPU, which is this one.
struct Notes(*mut u64);

impl Notes {
    #[inline(always)]
    fn of_this_cpu() -> Option<Self> {
        let is_counted =
            PREEMPT_COUNT.load() != NO_OFFSET || TASK_PREEMPT_COUNT.load() != NO_OFFSET;
        let is_realtime = TASK_SOFTIRQ_COUNT.load() != NO_OFFSET;
        if !is_counted || is_realtime || PACKET_DEVICE.load() == NO_OFFSET {
            return None;
        }
        maps::packets(this_cpu()).map(Self)
    }

    #[inline(always)]
    fn get(&self, at: usize) -> u64 {
        // SAFETY: in the entry, which only this CPU uses.
        unsafe { self.0.wrapping_byte_add(at).read_volatile() }
    }

    #[inline(always)]
    fn set(&self, at: usize, value: u64) {
        // SAFETY: as above.
        unsafe { self.0.wrapping_byte_add(at).write_volatile(value) };
    }

    /// Notes the packet that is the tracepoint's first argument. Returns its address: as a number,
    /// with which the verifier allows arithmetic once it has been in a map.
    #[inline(always)]
    fn set_packet<C: Tracepoint>(&self, at: usize, ctx: &C) -> u64 {
        self.set(at, ctx.argument::<0>());
        self.get(at)
    }
}

const HANDED_BY: usize = offset_of!(PacketsOf, handed_by);
const SENT: usize = offset_of!(PacketsOf, sent);
const SENT_BY: usize = offset_of!(PacketsOf, sent_by);
const INCOMING: usize = offset_of!(PacketsOf, incoming);

/// Runs where a packet is sent by a device: of the loopback too, and of those between namespaces.
#[inline(always)]
fn sent<C: Tracepoint>(ctx: &C) {
    if let Some(notes) = Notes::of_this_cpu() {
        notes.set(SENT_BY, sender_now(ctx, &notes));
        notes.set(SENT, ctx.argument::<0>());
    }
}

/// Runs where a packet comes to a CPU's queue: one that was sent just now, and by the thread that
/// still runs, is that thread's. Another one may come from a device, or have been delayed.
#[inline(always)]
fn queued<C: Tracepoint>(ctx: &C) {
    if let Some(notes) = Notes::of_this_cpu() {
        let packet = notes.set_packet(INCOMING, ctx);
        let by = notes.get(SENT_BY);
        let is_just_sent = notes.get(SENT) == packet && by != 0 && by == sender_now(ctx, &notes);
        notes.set(SENT, 0);
        let by = if is_just_sent { by } else { 0 };
        maps::set_sender(packet, by, device(ctx));
    }
}

/// Runs where a packet is handed over to who receives it.
#[inline(always)]
fn handed_over<C: Tracepoint>(ctx: &C) {
    if let Some(notes) = Notes::of_this_cpu() {
        let packet = notes.set_packet(INCOMING, ctx);
        let by = maps::take_sender(packet, device(ctx));
        let running = u64::from(Task::<C>::current().tid().0);
        notes.set(HANDED_BY, if by == running { by } else { 0 });
    }
}

/// Runs where a CPU has handed over what was in one of its queues.
#[inline(always)]
fn polled<C: Tracepoint>(_: &C) {
    if let Some(notes) = Notes::of_this_cpu() {
        notes.set(HANDED_BY, 0);
    }
}

/// Returns the thread that sends a packet here: the running one, in its own call or while a packet
/// of it is handed over; 0 where it is neither.
#[inline(always)]
fn sender_now<C: Tracepoint>(ctx: &C, notes: &Notes) -> u64 {
    let running = Task::<C>::current();
    let tid = u64::from(running.tid().0);
    match interrupted::place(ctx, &running) {
        waker_context::THREAD => tid,
        waker_context::SOFTIRQ if notes.get(HANDED_BY) == tid => tid,
        _ => 0,
    }
}

/// Returns the address of the device by which the packet comes in.
#[inline(always)]
fn device<C: Tracepoint>(ctx: &C) -> u64 {
    // SAFETY: the argument is a `struct sk_buff *`, and the device a pointer in it.
    let device: Address = unsafe { field::<C, _>(ctx.address::<0>(), PACKET_DEVICE.load()) };
    device.0 as u64
}

/// Tells whether the soft interrupt that is served hands over a packet of the running thread.
#[inline(always)]
pub fn is_of<C: Tracepoint>(running: &Task<C>) -> bool {
    let by = Notes::of_this_cpu().map_or(0, |notes| notes.get(HANDED_BY));
    by != 0 && by == u64::from(running.tid().0)
}
