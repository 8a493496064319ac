//! Requests to block devices.
//!
//! A request counts for the thread that started it (`block_io_start`, since 6.5), which need not
//! be the one that hands it to the device (`block_rq_issue`), and never is the one that hears of
//! its end (`block_rq_complete`). What the kernel writes back later, of its own accord, counts for
//! the kernel's own threads.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    BlockCompleteData, BlockCompleteRecord, BlockIssueData, BlockIssueRecord, Issuer,
};

use crate::context::{Tracepoint, at_tracepoint};
use crate::maps;
use crate::numbers::Pid;
use crate::offsets::{
    DISK_MAJOR, DISK_MINOR, QUEUE_DISK, REQUEST_BYTES, REQUEST_FLAGS, REQUEST_QUEUE, REQUEST_SECTOR,
};
use crate::record::{Subject, record};
use crate::task::{Address, Task, field};

at_tracepoint!("block_io_start": block_io_start, block_io_start_raw => start);
at_tracepoint!("block_rq_issue": block_rq_issue, block_rq_issue_raw => issue);
at_tracepoint!("block_rq_complete": block_rq_complete, block_rq_complete_raw => complete);

/// Runs in the thread that starts the request.
#[inline(always)]
fn start<C: Tracepoint>(ctx: &C) {
    // The argument is `struct request *`.
    remember(ctx.number::<0>(), &Task::<C>::current());
}

#[inline(always)]
fn remember<C: Tracepoint>(request: u64, task: &Task<C>) {
    if maps::is_traced(task.pid()) {
        let issuer = Issuer {
            pid: task.pid().0,
            tid: task.tid().0,
            thread_id: task.thread_id(),
        };
        maps::remember_issuer(request, &issuer);
    } else {
        // Requests are used again: what another one at this address left must not count.
        maps::forget_issuer(request);
    }
}

/// Runs in the thread that hands the request to the device.
#[inline(always)]
fn issue<C: Tracepoint>(ctx: &C) {
    if !maps::is_wanted(EventTypeId::BLOCK_ISSUE) && !maps::is_wanted(EventTypeId::BLOCK_COMPLETE) {
        return;
    }
    // The argument is `struct request *`.
    let address = ctx.number::<0>();
    let issuer = match maps::issuer(address) {
        Some(issuer) => issuer,
        None => {
            // Not known from its start: then by who hands it over.
            let task = Task::<C>::current();
            if !maps::is_traced(task.pid()) {
                return;
            }
            remember(address, &task);
            Issuer {
                pid: task.pid().0,
                tid: task.tid().0,
                thread_id: task.thread_id(),
            }
        }
    };
    if !maps::is_wanted(EventTypeId::BLOCK_ISSUE) {
        return;
    }
    // SAFETY: as above.
    let request = unsafe { Request::argument::<0>(ctx) };
    record(&issuer, EventTypeId::BLOCK_ISSUE, |header| {
        let (major, minor) = request.device();
        BlockIssueRecord {
            header,
            data: BlockIssueData {
                operation: request.operation(),
                major,
                minor,
                bytes: request.bytes(),
                sector: request.sector(),
            },
        }
    });
}

/// Runs wherever the device's interrupt is handled; for a part of the request or all that is left.
#[inline(always)]
fn complete<C: Tracepoint>(ctx: &C) {
    // The arguments are `struct request *, blk_status_t error, unsigned int bytes`.
    let address = ctx.number::<0>();
    let Some(issuer) = maps::issuer(address) else {
        return;
    };
    // SAFETY: as above.
    let request = unsafe { Request::argument::<0>(ctx) };
    #[expect(clippy::cast_possible_truncation, reason = "both are ints")]
    let (status, bytes) = (ctx.number::<1>() as u8, ctx.number::<2>() as u32);
    if bytes >= request.bytes() {
        maps::forget_issuer(address);
    }
    if !maps::is_traced(issuer.pid()) || !maps::is_wanted(EventTypeId::BLOCK_COMPLETE) {
        return;
    }
    record(&issuer, EventTypeId::BLOCK_COMPLETE, |header| {
        let (major, minor) = request.device();
        BlockCompleteRecord {
            header,
            data: BlockCompleteData {
                operation: request.operation(),
                major,
                minor,
                bytes,
                sector: request.sector(),
                status: i32::from(status),
                reserved: 0,
            },
        }
    });
}

impl Subject for Issuer {
    #[inline(always)]
    fn pid(&self) -> Pid {
        Pid(self.pid)
    }

    #[inline(always)]
    fn tid(&self) -> Pid {
        Pid(self.tid)
    }

    #[inline(always)]
    fn thread_id(&self) -> u64 {
        self.thread_id
    }
}

/// A request.
struct Request<C> {
    base: *const u8,
    context: core::marker::PhantomData<C>,
}

impl<C: Tracepoint> Request<C> {
    /// The request that is the tracepoint's `N`th argument.
    ///
    /// # Safety
    ///
    /// The `N`th argument is a `struct request *`.
    #[inline(always)]
    unsafe fn argument<const N: usize>(context: &C) -> Self {
        Self {
            base: context.address::<N>(),
            context: core::marker::PhantomData,
        }
    }

    #[inline(always)]
    fn operation(&self) -> u32 {
        /// `REQ_OP_MASK`.
        const OPERATION: u32 = 0xff;
        // SAFETY: `base` is a request (see `argument`), and the flags an int of it.
        let flags: u32 = unsafe { field::<C, _>(self.base, REQUEST_FLAGS.load()) };
        flags & OPERATION
    }

    #[inline(always)]
    fn bytes(&self) -> u32 {
        // SAFETY: `base` is a request (see `argument`), and the length an int of it.
        unsafe { field::<C, _>(self.base, REQUEST_BYTES.load()) }
    }

    #[inline(always)]
    fn sector(&self) -> u64 {
        // SAFETY: `base` is a request (see `argument`), and the sector a 64-bit number of it.
        unsafe { field::<C, _>(self.base, REQUEST_SECTOR.load()) }
    }

    /// Major and minor number of the device; 0 before 5.14.
    #[inline(always)]
    fn device(&self) -> (u32, u32) {
        // SAFETY: `base` is a request (see `argument`), and the queue a pointer in it.
        let queue: Address = unsafe { field::<C, _>(self.base, REQUEST_QUEUE.load()) };
        // SAFETY: it is a `struct request_queue *`, and the disk a pointer in it.
        let disk: Address = unsafe { field::<C, _>(queue.0, QUEUE_DISK.load()) };
        if QUEUE_DISK.load() == tracer_common::kernel::globals::NO_OFFSET {
            return (0, 0);
        }
        // SAFETY: it is a `struct gendisk *`, and the major an int of it.
        let major = unsafe { field::<C, _>(disk.0, DISK_MAJOR.load()) };
        // SAFETY: as above, and the minor an int of it.
        let minor = unsafe { field::<C, _>(disk.0, DISK_MINOR.load()) };
        (major, minor)
    }
}
