//! Tracepoints of the kernel that are asked for by name: one program for all of them.
//!
//! The kernel gives such a program the data that it would write into its own trace: the fields that
//! a tracepoint's `format` describes. They are copied as they are; the agent takes them apart.

use core::mem::offset_of;

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::bpf_probe_read_kernel;
use aya_ebpf::helpers::generated::{
    bpf_get_attach_cookie, bpf_probe_read_kernel as read_kernel_bytes,
};
use aya_ebpf::macros::{map, tracepoint};
use aya_ebpf::maps::Array;
use aya_ebpf::programs::TracePointContext;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    Record, RecordHeader, TRACEPOINT_COMMON_BYTES, TRACEPOINT_LOCATED, TRACEPOINT_RECORDS,
    TracepointData, TracepointSite, tracepoint_space,
};

use crate::counts::points::count_tracepoint;
use crate::gathered::bounded;
use crate::probe::Current;
use crate::record::{Wake, record_by};
use crate::stack;

/// Fields that are recorded at each tracepoint, by the cookie of the attachment. The agent sets the
/// size.
#[map]
static TRACEPOINT_SITES: Array<TracepointSite> = Array::with_max_entries(1, 0);

/// Runs at every tracepoint that was named.
#[tracepoint]
pub fn named_tracepoint(ctx: TracePointContext) -> u32 {
    // Of an interrupt, whose thread it is that was interrupted.
    if let Some(thread) = Current::traced()
        && !thread.is_withheld()
    {
        passed(&ctx, &thread);
    }
    // Nothing for the event by which it is attached: that has no reader.
    0
}

#[inline(always)]
fn passed(ctx: &TracePointContext, thread: &Current) {
    // SAFETY: the helper reads what the attachment was made with.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    #[expect(clippy::cast_possible_truncation, reason = "the index of a tracepoint")]
    let index = cookie as u32;
    if count_tracepoint(thread.state(), index) {
        return;
    }
    let Some(site) = TRACEPOINT_SITES.get(index) else {
        return;
    };
    stack::record_at_tracepoint(ctx, thread, u32::from(TRACEPOINT_RECORDS) | index);
    let length = length(ctx, site);
    if length as usize <= tracepoint_space::SMALL {
        record_in::<{ tracepoint_space::SMALL }>(ctx, thread, index, length);
    } else if length as usize <= tracepoint_space::MIDDLE {
        record_in::<{ tracepoint_space::MIDDLE }>(ctx, thread, index, length);
    } else {
        record_in::<{ tracepoint_space::LARGE }>(ctx, thread, index, length);
    }
}

/// Returns how many bytes the fields have, with those that lie behind all others.
#[inline(always)]
fn length(ctx: &TracePointContext, site: &TracepointSite) -> u32 {
    let mut end = site.fixed_bytes;
    for (index, at) in site.at.iter().enumerate().take(TRACEPOINT_LOCATED) {
        if index >= site.located as usize {
            break;
        }
        let from = ctx.as_ptr().wrapping_byte_add(usize::from(*at));
        // SAFETY: the helper checks the address.
        let where_and_bytes = unsafe { bpf_probe_read_kernel(from.cast::<u32>().cast_const()) };
        let where_and_bytes = where_and_bytes.unwrap_or(0);
        let base = if site.relative >> index & 1 == 0 {
            0
        } else {
            u32::from(*at) + 4
        };
        let of_this = base + (where_and_bytes & 0xffff) + (where_and_bytes >> 16);
        end = end.max(of_this);
    }
    #[expect(clippy::cast_possible_truncation, reason = "eight")]
    let common = TRACEPOINT_COMMON_BYTES as u32;
    end.saturating_sub(common)
}

#[inline(always)]
fn record_in<const N: usize>(ctx: &TracePointContext, thread: &Current, index: u32, length: u32) {
    let event_type = EventTypeId(u32::from(TRACEPOINT_RECORDS) | index);
    record_by::<Record<TracepointData<N>>>(thread, event_type, Wake::InTime, |space, header| {
        let record = space.as_mut_ptr().cast::<u8>();
        // SAFETY: it is where the record begins.
        unsafe { record.cast::<RecordHeader>().write(header) };
        let data = record.wrapping_add(offset_of!(Record<TracepointData<N>>, data));
        // SAFETY: inside the record: the length, and what is reserved.
        unsafe { data.cast::<[u32; 2]>().write([length, 0]) };
        let to = data.wrapping_add(offset_of!(TracepointData<N>, bytes));
        #[expect(clippy::cast_possible_truncation, reason = "some thousand")]
        let bytes = bounded(u64::from(length), N as u64) as u32;
        let from = ctx.as_ptr().wrapping_byte_add(TRACEPOINT_COMMON_BYTES);
        // SAFETY: the helper writes at most the `N` bytes that there are, and checks the address.
        unsafe { read_kernel_bytes(to.cast(), bytes, from.cast_const()) };
    });
}
