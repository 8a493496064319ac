//! Probes: points of programs that have nothing of this library.

use core::mem::offset_of;

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::bpf_probe_read_kernel;
use aya_ebpf::helpers::generated::{
    bpf_get_attach_cookie, bpf_get_current_pid_tgid, bpf_get_current_task, bpf_probe_read_user,
    bpf_probe_read_user_str,
};
use aya_ebpf::macros::{map, uprobe};
use aya_ebpf::maps::Array;
use aya_ebpf::programs::{ProbeContext, RawTracePointContext};

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::globals::NO_OFFSET;
use tracer_common::kernel::{
    ENTRY_OF_RETURN, PROBE_ARGUMENTS, PROBE_RECORDS, ProbeArgument, ProbeData, ProbeSite,
    ProbeTextsRecord, RETURN_DEPTH, Record, RecordHeader, probe_source, probe_texts, traced,
};

use crate::counts::points::count_probe;
use crate::guard;
use crate::maps;
use crate::offsets::{STRING_BYTES, TASK_THREAD_POINTER, TASK_UTASK, UTASK_DEPTH};
use crate::pid::Pid;
use crate::record::{Wake, record, record_by};
use crate::stack;
use crate::subject::Subject;
use crate::task::{Task, thread_id_of};
use crate::thread_context;

/// Where the probes are, by the cookie of the attachment. The agent sets the size.
#[map]
static PROBE_SITES: Array<ProbeSite> = Array::with_max_entries(1, 0);

/// Runs wherever a probe is attached, at entries and returns alike.
#[uprobe]
pub fn probe(ctx: ProbeContext) -> u32 {
    passed(&ctx);
    0
}

/// The running thread.
pub struct Current {
    pid: Pid,
    tid: Pid,
    /// [`traced`] bits of its process.
    state: u8,
}

impl Current {
    /// Returns the running thread, where its process is traced.
    #[inline(always)]
    pub fn traced() -> Option<Self> {
        // SAFETY: the helper takes no argument.
        let ids = unsafe { bpf_get_current_pid_tgid() };
        #[expect(clippy::cast_possible_truncation, reason = "two halves of one word")]
        let (pid, tid) = (Pid((ids >> 32) as u32), Pid(ids as u32));
        let state = maps::traced(pid);
        (state & traced::TRACED != 0).then_some(Self { pid, tid, state })
    }

    /// Returns the [`traced`] bits of its process.
    #[inline(always)]
    pub fn state(&self) -> u8 {
        self.state
    }

    /// Tells whether its event must not be recorded; it is counted then.
    #[inline(always)]
    pub fn is_withheld(&self) -> bool {
        guard::is_guarded(self.state)
            && guard::withholds(self.state, &Task::<RawTracePointContext>::current(), 1)
    }
}

/// Runs in the thread that passes the probe, whichever process it belongs to: a probe is in a file,
/// and every process that runs it stops there.
#[inline(always)]
fn passed(ctx: &ProbeContext) {
    let Some(thread) = Current::traced() else {
        return;
    };
    // SAFETY: the helper reads what the attachment was made with.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    if cookie & ENTRY_OF_RETURN != 0 {
        if returns_pending() >= RETURN_DEPTH {
            maps::count_unseen_return();
        }
        return;
    }
    if thread.is_withheld() {
        return;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the index of a site")]
    let Some(site) = PROBE_SITES.get(cookie as u32) else {
        return;
    };
    if count_probe(thread.state, site.probe) {
        return;
    }
    thread_context::note(&thread);
    let event_type = EventTypeId(u32::from(PROBE_RECORDS | site.probe));
    stack::record_at_probe(ctx, &thread, event_type.0);
    if site.texts != 0 {
        return if STRING_BYTES.load() as usize + probe_texts::MORE <= probe_texts::SMALL {
            record_texts::<{ probe_texts::SMALL }>(ctx, &thread, site, event_type)
        } else {
            record_texts::<{ probe_texts::LARGE }>(ctx, &thread, site, event_type)
        };
    }
    record(&thread, event_type, |header| Record {
        header: RecordHeader {
            program_address: register(ctx, site.address).unwrap_or(0),
            truncated: u32::from(site.truncated),
            ..header
        },
        data: arguments(ctx, site),
    });
}

/// Reads the arguments at a site.
#[inline(always)]
fn arguments(ctx: &ProbeContext, site: &ProbeSite) -> ProbeData {
    let mut data = ProbeData {
        kind: site.kind,
        count: site.count,
        signed: site.signed,
        unread: 0,
        args: [0; PROBE_ARGUMENTS],
    };
    let arguments = site.args.iter().zip(&mut data.args);
    for (index, (argument, value_of)) in arguments.enumerate() {
        if index >= usize::from(site.count) {
            break;
        }
        let is_signed = site.signed >> index & 1 != 0;
        match value(ctx, argument) {
            Some(value) => *value_of = extended(value, argument.size, is_signed),
            None => data.unread |= 1 << index,
        }
    }
    data
}

/// Records the arguments at a site, with the texts that some of them lead to: as far as they are in
/// memory, since a probe cannot bring there what is not.
#[inline(always)]
fn record_texts<const N: usize>(
    ctx: &ProbeContext,
    thread: &Current,
    site: &ProbeSite,
    event_type: EventTypeId,
) {
    record_by::<ProbeTextsRecord<N>>(thread, event_type, Wake::InTime, |space, header| {
        let record = space.as_mut_ptr().cast::<u8>();
        let header = RecordHeader {
            program_address: register(ctx, site.address).unwrap_or(0),
            truncated: u32::from(site.truncated),
            ..header
        };
        // SAFETY: it is where the record begins.
        unsafe { record.cast::<RecordHeader>().write(header) };
        let data = arguments(ctx, site);
        let data_at = record.wrapping_add(offset_of!(ProbeTextsRecord<N>, data));
        // SAFETY: inside the record.
        unsafe { data_at.cast::<ProbeData>().write(data) };
        #[expect(clippy::cast_possible_truncation, reason = "256 at most")]
        let wanted = STRING_BYTES.load().min((N - probe_texts::MORE) as u32);
        let words = record.wrapping_add(offset_of!(ProbeTextsRecord<N>, wanted));
        // SAFETY: inside the record: both words.
        unsafe { words.cast::<[u32; 2]>().write([wanted, 0]) };
        let texts = record.wrapping_add(offset_of!(ProbeTextsRecord<N>, bytes));
        let lengths = record.wrapping_add(offset_of!(ProbeTextsRecord<N>, lengths));
        for (index, (argument, address)) in site.args.iter().zip(&data.args).enumerate() {
            let length = if argument.is_text == 0 || *address == 0 {
                0
            } else if wanted == 0 {
                -1
            } else {
                text(texts.wrapping_add(index * N), *address, wanted)
            };
            // SAFETY: inside the record: one of the words.
            unsafe { lengths.cast::<i32>().wrapping_add(index).write(length) };
        }
    });
}

/// Reads a text: how many bytes it has with its null, or an error.
#[inline(always)]
fn text(to: *mut u8, address: u64, wanted: u32) -> i32 {
    // One more than wanted, and a null: so the agent sees whether there is more.
    // SAFETY: the helper writes at most that many bytes, for which there is space, and checks the
    // address.
    let read = unsafe { bpf_probe_read_user_str(to.cast(), wanted + 2, address as *const _) };
    #[expect(clippy::cast_possible_truncation, reason = "a size or an error")]
    let read = read as i32;
    read
}

/// Returns for how many returns the kernel waits in the running thread. It looks at the same count
/// when this has run, and passes over a return that would be one too many.
#[inline(always)]
fn returns_pending() -> u32 {
    if TASK_UTASK.load() == NO_OFFSET || UTASK_DEPTH.load() == NO_OFFSET {
        return 0;
    }
    // SAFETY: the helper takes no argument.
    let task = (unsafe { bpf_get_current_task() }) as *const u8;
    let at = task.wrapping_add(TASK_UTASK.load() as usize).cast::<u64>();
    // SAFETY: the helper checks the address.
    let returns = unsafe { bpf_probe_read_kernel(at) }.unwrap_or(0);
    // Null: it has none yet.
    let at = (returns as *const u8).wrapping_add(UTASK_DEPTH.load() as usize);
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_kernel(at.cast::<u32>()) }.unwrap_or(0)
}

/// Reads the argument, with what is beyond its size undefined.
#[inline(always)]
fn value(ctx: &ProbeContext, argument: &ProbeArgument) -> Option<u64> {
    match argument.source {
        probe_source::CONSTANT => Some(argument.value),
        probe_source::REGISTER => register(ctx, argument.register),
        probe_source::MEMORY => {
            let address = register(ctx, argument.register)?;
            user_memory(address.wrapping_add(argument.value), argument.size)
        }
        probe_source::INDEXED => {
            let address = register(ctx, argument.register)?;
            let index = register(ctx, argument.index)? << (argument.shift & 3);
            let address = address.wrapping_add(index).wrapping_add(argument.value);
            user_memory(address, argument.size)
        }
        _ => None,
    }
}

/// Reads a register as it was where the probe is.
#[inline(always)]
fn register(ctx: &ProbeContext, offset: u16) -> Option<u64> {
    let at = ctx.as_ptr().wrapping_byte_add(usize::from(offset));
    // Not loaded directly: the verifier takes only constant offsets there.
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_kernel(at.cast::<u64>().cast_const()) }.ok()
}

/// Reads at most eight bytes of the program, where they are in memory.
#[inline(always)]
fn user_memory(address: u64, size: u8) -> Option<u64> {
    let mut word = 0_u64;
    let size = u32::from(size & 15);
    if size > 8 {
        return None;
    }
    // SAFETY: the helper writes at most the 8 bytes of `word`, and checks the address.
    let failed = unsafe { bpf_probe_read_user((&raw mut word).cast(), size, address as *const _) };
    (failed == 0).then_some(word)
}

/// Returns the lowest `size` bytes as a whole word.
#[inline(always)]
fn extended(value: u64, size: u8, is_signed: bool) -> u64 {
    let unused = (64 - u32::from(size) * 8) & 63;
    let high = value << unused;
    if is_signed {
        (high.cast_signed() >> unused).cast_unsigned()
    } else {
        high >> unused
    }
}

impl Subject for Current {
    #[inline(always)]
    fn pid(&self) -> Pid {
        self.pid
    }

    #[inline(always)]
    fn tid(&self) -> Pid {
        self.tid
    }

    #[inline(always)]
    fn thread_id(&self) -> u64 {
        let offset = TASK_THREAD_POINTER.load();
        if offset == NO_OFFSET {
            return 0;
        }
        // SAFETY: the helper takes no argument.
        let task = (unsafe { bpf_get_current_task() }) as *const u8;
        // SAFETY: the helper checks the address.
        let read = unsafe { bpf_probe_read_kernel(task.wrapping_add(offset as usize).cast()) };
        thread_id_of(read.unwrap_or(0))
    }
}
