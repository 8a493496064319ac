//! Requests to block devices.
//!
//! A request counts for the thread that started it (`block_io_start`, since 6.5; before that
//! `block_getrq`, which shows the data that a request is made for), which need not be the one that
//! gives it to the device (`block_rq_issue`), and never is the one that hears of its end
//! (`block_rq_complete`). What the kernel writes back later, of its own accord, counts for the
//! kernel's own threads. Where the start was not seen (of a disk's own flushes there is none), a
//! request that a traced process passes on counts for no thread: its issuer is unknown.

use aya_ebpf::programs::RawTracePointContext;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::globals::NO_OFFSET;
use tracer_common::kernel::{
    BlockCompleteData, BlockIssueData, Issuer, NOT_TRACED, Record, traced,
};

use crate::context::{Tracepoint, at_tracepoint};
use crate::guard;
use crate::maps;
use crate::offsets::{
    DISK_MAJOR, DISK_MINOR, GETRQ_HAS_QUEUE, QUEUE_DISK, REQUEST_BIO, REQUEST_BYTES, REQUEST_FLAGS,
    REQUEST_QUEUE, REQUEST_SECTOR, SEES_STARTS,
};
use crate::pid::Pid;
use crate::record::record;
use crate::subject::Subject;
use crate::task::{Address, Task, field};

at_tracepoint!("block_io_start": block_io_start, block_io_start_raw => start);
at_tracepoint!("block_getrq": block_getrq, block_getrq_raw => begin);
at_tracepoint!("block_rq_issue": block_rq_issue, block_rq_issue_raw => issue);
at_tracepoint!("block_rq_complete": block_rq_complete, block_rq_complete_raw => complete);

/// Runs in the thread that starts the request.
#[inline(always)]
fn start<C: Tracepoint>(ctx: &C) {
    // The argument is `struct request *`.
    remember(ctx.argument::<0>(), &starting::<C>());
}

/// Runs there too, before there is a request: for what is to be its first part.
#[inline(always)]
fn begin<C: Tracepoint>(ctx: &C) {
    // The arguments are `struct bio *`, and before 5.11
    // `struct request_queue *, struct bio *, int`.
    let bio = if GETRQ_HAS_QUEUE.load() == 0 {
        ctx.argument::<0>()
    } else {
        ctx.argument::<1>()
    };
    maps::remember_bio(bio, &starting::<C>());
}

/// Returns the thread that runs. One that is not traced is noted as well: a request without a note
/// is one of which nothing is known.
#[inline(always)]
fn starting<C: Tracepoint>() -> Issuer {
    let task = Task::<C>::current();
    if !maps::is_traced(task.pid()) {
        return Issuer::process(NOT_TRACED);
    }
    Issuer {
        pid: task.pid().0,
        tid: task.tid().0,
        thread_id: task.thread_id(),
        task: task.address() as u64,
        ..Issuer::process(0)
    }
}

/// Remembers who starts the request at this address. The kernel reuses the address of a request
/// that has ended: one that is still there, and was handed over, has ended without a word. A kernel
/// was seen to run no program while certain threads had the CPU, and not to count that either: ends
/// of requests whose interrupt came then were missing, and no others.
#[inline(always)]
fn remember(address: u64, issuer: &Issuer) {
    if let Some(before) = maps::issuer(address)
        && before.issued != 0
        && is_of_traced(&before)
        && maps::is_wanted(EventTypeId::BLOCK_COMPLETE)
    {
        maps::count_untold_end();
    }
    maps::remember_issuer(address, issuer);
}

/// Tells whether the end of the request is recorded: its issuer is a traced process, or unknown.
#[inline(always)]
fn is_of_traced(issuer: &Issuer) -> bool {
    issuer.pid == 0 || (issuer.pid != NOT_TRACED && maps::is_traced(issuer.pid()))
}

/// Returns the issuer of the request that is handed over now. Where its start was not seen: process
/// 0 if a traced process hands it over, or else `None`.
#[inline(always)]
fn started<C: Tracepoint>(address: u64, request: &Request<C>) -> Option<Issuer> {
    // First what the request is made from: what is known of its address may be an earlier one's.
    let known = if REQUEST_BIO.load() == NO_OFFSET || SEES_STARTS.load() != 0 {
        None
    } else {
        maps::forget_bio(request.bio())
    };
    let issuer = match known {
        Some(issuer) => issuer,
        None => match maps::issuer(address) {
            Some(issuer) => return Some(issuer),
            None => unknown_issuer::<C>()?,
        },
    };
    remember(address, &issuer);
    Some(issuer)
}

/// Returns the issuer of a request whose start was not seen, which a traced process hands over. Of
/// one that is guarded it is not known whether the issuer may be looked into.
#[inline(always)]
fn unknown_issuer<C: Tracepoint>() -> Option<Issuer> {
    let state = maps::traced(Task::<C>::current().pid());
    if state & traced::TRACED == 0 {
        return None;
    }
    if guard::is_guarded(state) {
        guard::count(Task::<C>::current().pid(), 1);
        return None;
    }
    Some(Issuer::process(0))
}

/// Tells whether an event of the request must not be recorded, since its issuer may not be looked
/// into; it is counted then. The thread may have ended meanwhile: then what was judged last counts.
#[inline(always)]
fn is_withheld(issuer: &Issuer) -> bool {
    let state = maps::traced(issuer.pid());
    if !guard::is_guarded(state) {
        return false;
    }
    // SAFETY: it was a `struct task_struct *`. Read by the helper, which checks the address.
    let task: Task<RawTracePointContext> = unsafe { Task::at(issuer.task as *const u8) };
    let is_there = task.pid() == issuer.pid();
    let is_hidden = if is_there {
        guard::hides(state, &task)
    } else {
        guard::hid(state, issuer.pid())
    };
    if is_hidden {
        guard::count(issuer.pid(), 1);
    }
    is_hidden
}

/// Runs in the thread that gives the request to the device.
#[inline(always)]
fn issue<C: Tracepoint>(ctx: &C) {
    if !maps::is_wanted(EventTypeId::BLOCK_ISSUE) && !maps::is_wanted(EventTypeId::BLOCK_COMPLETE) {
        return;
    }
    // The argument is `struct request *`.
    let address = ctx.argument::<0>();
    // SAFETY: as above.
    let request = unsafe { Request::argument::<0>(ctx) };
    let Some(issuer) = started(address, &request) else {
        return;
    };
    if issuer.pid == NOT_TRACED {
        return;
    }
    maps::note_issued(address);
    if !maps::is_wanted(EventTypeId::BLOCK_ISSUE) || is_withheld(&issuer) {
        return;
    }
    record(&issuer, EventTypeId::BLOCK_ISSUE, |header| {
        let (major, minor) = request.device();
        Record {
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
    let address = ctx.argument::<0>();
    let Some(issuer) = maps::issuer(address) else {
        return;
    };
    // SAFETY: as above.
    let request = unsafe { Request::argument::<0>(ctx) };
    #[expect(clippy::cast_possible_truncation, reason = "both are ints")]
    let (status, bytes) = (ctx.argument::<1>() as u8, ctx.argument::<2>() as u32);
    if bytes >= request.bytes() {
        maps::forget_issuer(address);
    }
    if !is_of_traced(&issuer)
        || !maps::is_wanted(EventTypeId::BLOCK_COMPLETE)
        || is_withheld(&issuer)
    {
        return;
    }
    record(&issuer, EventTypeId::BLOCK_COMPLETE, |header| {
        let (major, minor) = request.device();
        Record {
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
    /// Returns the request that is the tracepoint's `N`th argument.
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

    /// Returns its first part.
    #[inline(always)]
    fn bio(&self) -> u64 {
        // SAFETY: `base` is a request (see `argument`), and `bio` a pointer in it.
        let bio: Address = unsafe { field::<C, _>(self.base, REQUEST_BIO.load()) };
        bio.0 as u64
    }

    /// Returns major and minor number of the device; 0 before 5.14.
    #[inline(always)]
    fn device(&self) -> (u32, u32) {
        // SAFETY: `base` is a request (see `argument`), and the queue a pointer in it.
        let queue: Address = unsafe { field::<C, _>(self.base, REQUEST_QUEUE.load()) };
        // SAFETY: it is a `struct request_queue *`, and the disk a pointer in it.
        let disk: Address = unsafe { field::<C, _>(queue.0, QUEUE_DISK.load()) };
        if QUEUE_DISK.load() == NO_OFFSET {
            return (0, 0);
        }
        // SAFETY: it is a `struct gendisk *`, and the major an int of it.
        let major = unsafe { field::<C, _>(disk.0, DISK_MAJOR.load()) };
        // SAFETY: as above, and the minor an int of it.
        let minor = unsafe { field::<C, _>(disk.0, DISK_MINOR.load()) };
        (major, minor)
    }
}
