//! Activity of counted threads at this moment.
//!
//! A thread has an entry from when it first leaves a CPU or is woken, until it ends. The call that
//! it is in is noted on its CPU as long as it stays there, which is found without a look-up by
//! thread; as it leaves, it goes into the entry.

use core::mem::offset_of;

use aya_ebpf::bindings::{BPF_ANY, BPF_NOEXIST};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{HashMap, PerCpuArray};

use tracer_common::kernel::{CallOnCpu, CountedThread};

use super::Value;
use super::sums::count_without_thread;
use crate::context::Tracepoint;
use crate::pid::Pid;
use crate::subject::Subject;
use crate::task::Task;

/// See [`CountedThread`]. The agent sets the number of entries, or leaves it at 1 where nothing is
/// counted.
#[map]
static COUNTED_THREADS: HashMap<u32, CountedThread> = HashMap::with_max_entries(1, 0);

/// See [`CallOnCpu`].
#[map]
static OPEN_CALLS: PerCpuArray<CallOnCpu> = PerCpuArray::with_max_entries(1, 0);

/// A thread's entry. Its words are read and written whole: a thread's are those of the CPU that it
/// is on, or that wakes it.
#[derive(Clone, Copy)]
pub struct Entry(Value);

macro_rules! words {
    ($($(#[$doc:meta])* $get:ident, $set:ident: $field:ident, $type:ty;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $get(self) -> $type {
            self.0.get(offset_of!(CountedThread, $field))
        }

        /// Sets it.
        #[inline(always)]
        pub fn $set(self, value: $type) {
            self.0.set(offset_of!(CountedThread, $field), value);
        }
    )*};
}

impl Entry {
    words! {
        /// Returns since when it does what it does.
        since, set_since: since_ns, u64;
        /// Returns when it entered its call; 0 for none.
        entered, set_entered: entered_ns, u64;
        /// Returns what it does.
        does, set_does: does, u32;
        /// Returns the kind of its call.
        kind, set_kind: kind, u32;
        /// Returns the number of its call.
        number, set_number: number, u32;
        /// Returns 1 where it has made no call yet.
        is_new, set_new: is_new, u32;
        /// Returns 1 where it was forced to give way.
        is_forced, set_forced: is_forced, u32;
    }

    /// Notes that the thread does this from now on.
    #[inline(always)]
    pub fn begin(self, does: u32, now: u64) {
        self.set_since(now);
        self.set_does(does);
    }
}

/// Returns the thread's entry, where it has one.
#[inline(always)]
pub fn entry(tid: u32) -> Option<Entry> {
    COUNTED_THREADS
        .get_ptr_mut(tid)
        .map(|at| Entry(Value(at.cast())))
}

/// Returns the thread's entry, which is made where there is none; counts that there is no space.
#[inline(always)]
pub fn entry_or_new<C: Tracepoint>(task: &Task<C>) -> Option<Entry> {
    let tid = task.tid().shown();
    if let Some(entry) = entry(tid) {
        return Some(entry);
    }
    put(task, tid, 0, u64::from(BPF_NOEXIST));
    let entry = entry(tid);
    if entry.is_none() {
        count_without_thread();
    }
    entry
}

/// Makes the entry of a thread that is new, whatever an earlier one of this number has left.
#[inline(always)]
pub fn begin<C: Tracepoint>(task: &Task<C>) -> Option<Entry> {
    let tid = task.tid().shown();
    put(task, tid, 1, u64::from(BPF_ANY));
    let entry = entry(tid);
    if entry.is_none() {
        count_without_thread();
    }
    entry
}

/// Makes the entry of a thread that is counted from now on, and does this. Where there is no space,
/// it has none.
#[inline(always)]
pub fn start<C: Tracepoint>(task: &Task<C>, does: u32, since_ns: u64) {
    let thread = CountedThread {
        since_ns,
        entered_ns: 0,
        pid: task.pid().shown(),
        does,
        kind: 0,
        number: 0,
        is_new: 0,
        is_forced: 0,
    };
    let tid = task.tid().shown();
    let _ = COUNTED_THREADS.insert(tid, thread, u64::from(BPF_ANY));
}

#[inline(always)]
fn put<C: Tracepoint>(task: &Task<C>, tid: u32, is_new: u32, flags: u64) {
    let thread = CountedThread {
        since_ns: 0,
        entered_ns: 0,
        pid: task.pid().shown(),
        does: 0,
        kind: 0,
        number: 0,
        is_new,
        is_forced: 0,
    };
    let _ = COUNTED_THREADS.insert(tid, thread, flags);
}

/// Forgets a thread.
#[inline(always)]
pub fn forget(tid: u32) {
    let _ = COUNTED_THREADS.remove(tid);
}

/// Gives what is known of a thread to another number, which it has from now on.
#[inline(always)]
pub fn renumber(from: Pid, to: u32) {
    let from = from.shown();
    if from == to {
        return;
    }
    // SAFETY: only the thread that runs writes its entry.
    if let Some(known) = unsafe { COUNTED_THREADS.get(from) } {
        let known = *known;
        let _ = COUNTED_THREADS.insert(to, known, u64::from(BPF_ANY));
        let _ = COUNTED_THREADS.remove(from);
    }
    if let Some(call) = open_call()
        && call.tid() == from
    {
        call.set_tid(to);
    }
}

/// The call of the thread that runs on this CPU.
#[derive(Clone, Copy)]
pub struct OnCpu(Value);

impl OnCpu {
    /// Returns the thread; 0 for none.
    #[inline(always)]
    pub fn tid(self) -> u32 {
        self.0.get(offset_of!(CallOnCpu, tid))
    }

    #[inline(always)]
    fn set_tid(self, tid: u32) {
        self.0.set(offset_of!(CallOnCpu, tid), tid);
    }

    /// Notes that the thread enters this call now.
    #[inline(always)]
    pub fn enter(self, tid: u32, (kind, number): (u32, u32), now: u64) {
        self.0.set(offset_of!(CallOnCpu, entered_ns), now);
        self.0.set(offset_of!(CallOnCpu, kind), kind);
        self.0.set(offset_of!(CallOnCpu, number), number);
        self.set_tid(tid);
    }

    /// Takes the call out: its kind and number, and when it was entered.
    #[inline(always)]
    pub fn take(self) -> ((u32, u32), u64) {
        self.set_tid(0);
        let kind = self.0.get(offset_of!(CallOnCpu, kind));
        let number = self.0.get(offset_of!(CallOnCpu, number));
        (
            (kind, number),
            self.0.get(offset_of!(CallOnCpu, entered_ns)),
        )
    }
}

/// Returns the call of the thread that runs on this CPU.
#[inline(always)]
pub fn open_call() -> Option<OnCpu> {
    OPEN_CALLS.get_ptr_mut(0).map(|at| OnCpu(Value(at.cast())))
}
