//! Signals.

use aya_ebpf::programs::RawTracePointContext;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{Record, RecordHeader, SignalDeliverData, SignalGenerateData, traced};

use crate::context::{Tracepoint, at_tracepoint};
use crate::guard;
use crate::maps;
use crate::offsets::{SIGACTION_FLAGS, SIGACTION_HANDLER, SIGINFO_CODE, SIGINFO_FIELDS};
use crate::pid::Pid;
use crate::record::record;
use crate::stack;
use crate::subject::Subject;
use crate::task::{Address, Task, field};
use crate::thread_context;
use crate::user;

at_tracepoint!("signal_generate": signal_generate, signal_generate_raw => generate);
at_tracepoint!("signal_deliver": signal_deliver, signal_deliver_raw => deliver);

/// `SIGCHLD`.
const CHILD: u32 = 17;

/// Values of `si_code`.
mod code {
    /// By `kill`.
    pub const USER: i32 = 0;
    /// By `sigqueue`.
    pub const QUEUE: i32 = -1;
    /// By a timer.
    pub const TIMER: i32 = -2;
    /// By a queue of messages.
    pub const MESSAGE: i32 = -3;
    /// By asynchronous input and output.
    pub const ASYNCHRONOUS: i32 = -4;
    /// By `tkill`.
    pub const TKILL: i32 = -6;
    /// By the kernel.
    pub const KERNEL: i32 = 0x80;
}

/// Runs in the thread that sends the signal; where the kernel sends it, in the running thread.
#[inline(always)]
fn generate<C: Tracepoint>(ctx: &C) {
    if !maps::is_wanted(EventTypeId::SIGNAL_GENERATE) {
        return;
    }
    // SAFETY: the arguments are `int sig, struct kernel_siginfo *, struct task_struct *target,
    // int group, int result`.
    let target = unsafe { Task::argument::<2>(ctx) };
    let current = Task::<C>::current();
    let (target_state, current_state) = (maps::traced(target.pid()), maps::traced(current.pid()));
    let mut is_target_traced = target_state & traced::TRACED != 0;
    let mut is_current_traced = current_state & traced::TRACED != 0;
    if !is_target_traced && !is_current_traced {
        return;
    }
    let code = code(ctx);
    let is_call = matches!(code, code::USER | code::QUEUE | code::TKILL);
    if guard::is_guarded(target_state | current_state) {
        is_current_traced &= is_call;
        let concerns = is_target_traced || is_current_traced;
        is_target_traced &= !guard::hides(target_state, &target);
        is_current_traced &= !guard::hides(current_state, &current);
        if concerns && !is_target_traced && !is_current_traced {
            let is_of_target = target_state & traced::TRACED != 0;
            let process = if is_of_target {
                target.pid()
            } else {
                current.pid()
            };
            guard::count(process, 1);
        }
    }
    if is_call && is_current_traced {
        let call = user::address(ctx);
        thread_context::note(&current);
        record_generate(ctx, &current, &target, &current, code, call);
    } else if is_target_traced {
        #[expect(clippy::cast_possible_truncation, reason = "the signal is an int")]
        let is_end_of_child = ctx.argument::<0>() as u32 == CHILD;
        if is_call || is_end_of_child {
            record_generate(ctx, &target, &target, &current, code, 0);
        } else {
            record_generate(ctx, &target, &target, &Kernel, code, 0);
        }
    }
}

/// Tells whether a task is the one that runs.
#[inline(always)]
fn is_running<C: Tracepoint>(task: &Task<C>) -> bool {
    let current = Task::<C>::current();
    current.tid().0 == task.tid().0
}

/// Sender of signals that no process sends.
struct Kernel;

/// Sender of a signal.
trait Sender {
    fn ids(&self) -> (Pid, Pid);
}

impl Sender for Kernel {
    #[inline(always)]
    fn ids(&self) -> (Pid, Pid) {
        (Pid(0), Pid(0))
    }
}

impl<C: Tracepoint> Sender for Task<C> {
    #[inline(always)]
    fn ids(&self) -> (Pid, Pid) {
        (self.pid(), self.tid())
    }
}

#[inline(always)]
fn record_generate<C: Tracepoint>(
    ctx: &C,
    subject: &Task<C>,
    target: &Task<C>,
    sender: &impl Sender,
    code: i32,
    program_address: u64,
) {
    // Where a guarded process is sent a signal, it is another's program that runs.
    if !guard::is_guarded(maps::traced(subject.pid())) || is_running(subject) {
        stack::record_at_event(ctx, subject, EventTypeId::SIGNAL_GENERATE);
    }
    record(subject, EventTypeId::SIGNAL_GENERATE, |header| {
        let (sender_pid, sender_tid) = sender.ids();
        #[expect(clippy::cast_possible_truncation, reason = "all are ints")]
        Record {
            header: RecordHeader {
                program_address,
                ..header
            },
            data: SignalGenerateData {
                signal: ctx.argument::<0>() as u32,
                code,
                target_pid: target.pid().shown(),
                target_tid: target.tid().shown(),
                target_comm: target.comm(),
                sender_pid: sender_pid.shown(),
                sender_tid: sender_tid.shown(),
                group: u32::from(ctx.argument::<3>() as u32 != 0),
                result: ctx.argument::<4>() as u32,
            },
        }
    });
}

/// Returns the `si_code` of the signal; the kernel has two codes for signals without a `siginfo_t`.
#[inline(always)]
fn code<C: Tracepoint>(ctx: &C) -> i32 {
    /// `SEND_SIG_NOINFO`, by `kill` as it were, and `SEND_SIG_PRIV`, by the kernel.
    const BY_CALL: u64 = 0;
    const BY_KERNEL: u64 = 1;
    match ctx.argument::<1>() {
        BY_CALL => code::USER,
        BY_KERNEL => code::KERNEL,
        // By the helper in both programs: the verifier of 6.12 takes the argument for an integer,
        // since it may be one of the two above.
        // SAFETY: the argument is a `struct kernel_siginfo *`, and `si_code` an int of it.
        _ => unsafe { field::<RawTracePointContext, _>(ctx.address::<1>(), SIGINFO_CODE.load()) },
    }
}

/// Runs in the thread that takes the signal, on its way back to user space.
#[inline(always)]
fn deliver<C: Tracepoint>(ctx: &C) {
    if !maps::is_wanted(EventTypeId::SIGNAL_DELIVER) {
        return;
    }
    let task = Task::<C>::current();
    let state = maps::traced(task.pid());
    if state & traced::TRACED == 0 || guard::withholds(state, &task, 1) {
        return;
    }
    let program_address = user::address(ctx);
    // SAFETY: the third argument is a `struct k_sigaction *`, and the handler a pointer in it.
    let handler: Address = unsafe { field::<C, _>(ctx.address::<2>(), SIGACTION_HANDLER.load()) };
    // SAFETY: as above, and the flags are a long of it.
    let flags = unsafe { field::<C, u64>(ctx.address::<2>(), SIGACTION_FLAGS.load()) };
    #[expect(clippy::cast_possible_truncation, reason = "the signal is an int")]
    let signal = ctx.argument::<0>() as u32;
    let code = code(ctx);
    let about = About::read(ctx, signal, code);
    thread_context::note(&task);
    stack::record_at_event(ctx, &task, EventTypeId::SIGNAL_DELIVER);
    record(&task, EventTypeId::SIGNAL_DELIVER, |header| Record {
        header: RecordHeader {
            program_address,
            ..header
        },
        data: SignalDeliverData {
            signal,
            code,
            handler: handler.0 as u64,
            flags,
            address: about.address,
            value: about.value,
            timer: about.timer,
            overrun: about.overrun,
            si_pid: about.pid,
            si_uid: about.uid,
            si_status: about.status,
            reserved: 0,
        },
    });
}

/// Data of a signal beside its name and why it was sent.
#[derive(Default)]
struct About {
    address: u64,
    value: u64,
    timer: i32,
    overrun: i32,
    pid: u32,
    uid: u32,
    status: i32,
}

impl About {
    #[inline(always)]
    fn read<C: Tracepoint>(ctx: &C, signal: u32, code: i32) -> Self {
        /// The two that are no addresses.
        const NO_INFO: u64 = 1;
        /// `SIGILL`, `SIGTRAP`, `SIGBUS`, `SIGFPE`, `SIGSEGV`, `SIGSYS`.
        const FAULTS: u64 = 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 11 | 1 << 31;
        if ctx.argument::<1>() <= NO_INFO {
            return Self::default();
        }
        let at = SIGINFO_FIELDS.load();
        // As in `code`, by the helper in both programs.
        // SAFETY: the argument is a `struct kernel_siginfo *`, and this its first field behind
        // those that all signals have, two words at least.
        let first = unsafe { field::<RawTracePointContext, u64>(ctx.address::<1>(), at) };
        // SAFETY: as above.
        let second = unsafe { field::<RawTracePointContext, u64>(ctx.address::<1>(), at + 8) };
        let mut about = Self::default();
        if code > 0 && code != code::KERNEL && FAULTS >> (signal & 63) & 1 == 1 {
            about.address = first;
        } else if code == code::TIMER {
            #[expect(clippy::cast_possible_truncation, reason = "two ints")]
            let (timer, overrun) = (first as i32, (first >> 32) as i32);
            about.timer = timer;
            about.overrun = overrun;
            about.value = second;
        } else if matches!(code, code::QUEUE | code::MESSAGE | code::ASYNCHRONOUS) {
            about.value = second;
        }
        let is_of_child = signal == CHILD && code > 0 && code != code::KERNEL;
        if is_of_child || matches!(code, code::USER | code::QUEUE | code::MESSAGE | code::TKILL) {
            #[expect(clippy::cast_possible_truncation, reason = "two ints")]
            let (pid, uid) = (first as u32, (first >> 32) as u32);
            about.pid = pid;
            about.uid = uid;
        }
        if is_of_child {
            #[expect(clippy::cast_possible_truncation, reason = "an int")]
            let status = second as i32;
            about.status = status;
        }
        about
    }
}
