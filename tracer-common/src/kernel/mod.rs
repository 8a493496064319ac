//! Layouts that the eBPF programs and the agent share: ring records, map values, load-time
//! constants.
//!
//! Written by `tracer-ebpf`, read by `tracer-user`, which both come from one build: no version.
//! Every record is a [`RecordHeader`] and then the data of its event type, whose layout
//! [`crate::event_type::SYSTEM_EVENT_TYPES`] describes field by field. All integers are in the
//! machine's byte order. One file a family of events, as in `tracer-ebpf`: it declares the data of
//! its events, and everything else that is said of their types.

mod block;
mod cgroup;
mod control;
mod counts;
mod cpu_rings;
mod descriptor;
mod fault;
mod interrupt;
mod lock;
mod look;
mod packet;
mod probe;
mod process;
mod python;
mod sched;
mod signal;
mod stack;
mod syscall;
mod thread_context;
mod tracepoint;

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use block::{BlockCompleteData, BlockIssueData, Issuer, NOT_TRACED};
pub use cgroup::{CGROUP_PATH_BYTES, CgroupAttachData};
pub use control::{
    Choice, LostOnCpu, MAX_RINGS, PID_LIMIT, PIDS_PAGE, TRACED_PAGE, TaskIds, VISIBLE_SLOTS,
    WITHHELD_SLOTS, cpu_variable, globals, sample, traced, wanted,
};
pub use counts::{
    CALLS_OF_ALL, COUNT_RANGES, CallOnCpu, CountKey, CountSum, CountedThread, NotCounted,
    SUMS_OF_ALL, counted, counting,
};
pub use cpu_rings::{CpuRingEnds, cpu_ring};
pub use descriptor::{
    DESCRIPTORS_RECORD, DescriptorHead, DescriptorsHead, SocketHead, descriptors,
};
pub use fault::FaultData;
pub use interrupt::{
    IRQ_NAME_BYTES, IdleData, InterruptsOf, IrqEnterData, IrqExitData, SoftirqData,
};
pub use lock::{LockWaitData, lock_memory};
pub use look::{LOOK_BYTES, LookRecord, ThreadStateData, thread_state};
pub use packet::{PacketsOf, SENDER_SLOTS, Sender};
pub use probe::{
    ENTRY_OF_RETURN, PROBE_ARGUMENTS, PROBE_DATA_BYTES, PROBE_RECORDS, ProbeArgument, ProbeData,
    ProbeSite, ProbeTextsRecord, RETURN_DEPTH, probe_kind, probe_source, probe_texts,
};
pub use process::{
    ExecData, ExecRecord, ExitData, ForkData, NAME_RECORD, OomKillData, RenameData, Sight,
    exec_arguments, exec_space,
};
pub use python::{
    BlockedPython, MOST_PYTHON_FRAMES, MOST_PYTHON_PROCESSES, MOST_PYTHON_THREADS, NO_FIELD,
    PYTHON_CODE_EVENT, PYTHON_CODE_RECORD, PYTHON_CODES, PYTHON_LINES_BYTES, PYTHON_PROCESS_WORDS,
    PYTHON_RECORD, PYTHON_TEXT_BYTES, PYTHON_WINDOW, PythonCodeRecord, PythonFrame, PythonLayout,
    PythonProcess, PythonRecord, PythonText, USUAL_PYTHON_FRAMES,
};
pub use sched::{
    MigrateData, QUEUED_ASLEEP, QUEUED_SLOTS, Queued, Running, SWITCH_RECORD, SwitchInData,
    SwitchOutData, SwitchRecord, TIMED_AT_MOST_NS, TIMED_EVERY, ThrottleData, WAKER_SLOTS, Waker,
    WakeupData, others, waits_in, waker_context,
};
pub use signal::{SignalDeliverData, SignalGenerateData, signal_result};
pub use stack::{
    BLOCKED_BYTES, BlockedMemory, BlockedStack, COPIED_BYTES, MAPPING_PATH_BYTES, MOST_BLOCKED,
    MOST_BLOCKED_MEMORY, MOST_FRAMES, MappingData, REGISTERS, STACK_RECORD, SYMBOL_NAME_BYTES,
    SampleData, StackData, StackRecord, SymbolData, UNWIND_HEAD_BYTES, UNWIND_RECORD, USUAL_FRAMES,
    UnwindRecord, stack_ends, stacks,
};
pub use syscall::{
    SYSCALL_CALL_TEXTS, SYSCALL_ENTER_TEXTS, SYSCALL_EXIT_TEXTS, SYSCALL_TEXTS, SyscallCallData,
    SyscallEnterData, SyscallExitData, SyscallText, SyscallTextsRecord, call_texts, gathered,
    socket_calls, string_space, syscalls, text_item,
};
pub use thread_context::{
    CONTEXT_PROCESSES, CONTEXT_REMAINDERS, CONTEXT_SLOTS, ContextPlace, ContextState, ROUTE_BYTES,
    ThreadContextData,
};
pub use tracepoint::{
    MAX_TRACEPOINTS, TRACEPOINT_COMMON_BYTES, TRACEPOINT_LOCATED, TRACEPOINT_RECORDS,
    TracepointData, TracepointSite, tracepoint_space, typed_data,
};

use crate::event_type::KernelEventType;

/// The types of each family.
const FAMILIES: &[&[KernelEventType]] = &[
    block::EVENT_TYPES,
    cgroup::EVENT_TYPES,
    fault::EVENT_TYPES,
    interrupt::EVENT_TYPES,
    lock::EVENT_TYPES,
    look::EVENT_TYPES,
    process::EVENT_TYPES,
    sched::EVENT_TYPES,
    signal::EVENT_TYPES,
    stack::EVENT_TYPES,
    syscall::EVENT_TYPES,
    thread_context::EVENT_TYPES,
];

/// Every type of the kernel's events, in order of identifier.
pub const KERNEL_EVENT_TYPES: &[KernelEventType] = &in_order::<{ count(FAMILIES) }>(FAMILIES);

/// Bytes of a thread name in the kernel (`TASK_COMM_LEN`).
pub const COMM_BYTES: usize = 16;

/// Bytes recorded of the file name of an exec, its null counted. A longer one is truncated and the
/// record says so.
pub const EXEC_FILE_BYTES: usize = 256;

/// Starts every record of the ring.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RecordHeader {
    /// `CLOCK_MONOTONIC` in nanoseconds, read after the record was reserved.
    pub time_ns: u64,
    /// The thread's `pthread_t` (on x86-64 its `fsbase`); 0 when not known.
    pub thread_id: u64,
    /// User address of the call that caused the event; 0 when there is none.
    pub program_address: u64,
    /// Process (thread group) that the event concerns, in the agent's pid namespace; 0 for none.
    pub pid: u32,
    /// Thread that the event concerns, in the agent's pid namespace; 0 for none.
    pub tid: u32,
    /// An [`EventTypeId`](crate::event_type::EventTypeId).
    pub event_type: u16,
    /// CPU on which the event was recorded.
    pub cpu: u16,
    /// 0: whole; 1: the data was truncated while recording. A rename has
    /// [`EXEC_BEGINS`](Self::EXEC_BEGINS) too, a fork and an exit may be
    /// [`WITHHELD`](Self::WITHHELD), and a
    /// [`SyscallTextsRecord`] has its space.
    pub truncated: u32,
}

impl RecordHeader {
    /// Bit of `truncated`: the thread is renamed by an exec, whose credentials come next.
    pub const EXEC_BEGINS: u32 = 1 << 1;
    /// Where in `truncated` a [`SyscallTextsRecord`] has how many bytes of space each argument has.
    pub const SPACE_AT: u32 = 16;

    /// Bit of `truncated`: the event is withheld, and recorded so that the agent knows of the
    /// process that was made or has ended.
    pub const WITHHELD: u32 = 1 << 2;
}

/// Record of an event in the ring: its header and its data. The verifier refuses to send bytes that
/// were never written, so there are none between and behind them.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Record<Data> {
    /// Header of every record.
    pub header: RecordHeader,
    /// Data of this type of event.
    pub data: Data,
}

impl<Data: IntoBytes> Record<Data> {
    /// Its size. Not for data after which a record would be padded.
    pub const BYTES: usize = {
        assert!(
            size_of::<Self>() == size_of::<RecordHeader>() + size_of::<Data>(),
            "no padding"
        );
        size_of::<Self>()
    };
}

#[expect(clippy::indexing_slicing, reason = "the compiler runs it")]
const fn count(families: &[&[KernelEventType]]) -> usize {
    let mut count = 0;
    let mut i = 0;
    while i < families.len() {
        count += families[i].len();
        i += 1;
    }
    count
}

/// Returns the types of all families, by identifier: each time the one after the last, found among
/// all.
#[expect(clippy::indexing_slicing, reason = "the compiler runs it")]
const fn in_order<const COUNT: usize>(families: &[&[KernelEventType]]) -> [KernelEventType; COUNT] {
    let mut sorted = [families[0][0]; COUNT];
    let mut last = 0;
    let mut i = 0;
    while i < COUNT {
        let next = after(families, last);
        sorted[i] = next;
        last = next.entry.id.0;
        i += 1;
    }
    sorted
}

/// Returns the type with the lowest identifier above `last`.
#[expect(
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "the compiler runs it"
)]
const fn after(families: &[&[KernelEventType]], last: u32) -> KernelEventType {
    let mut found: Option<KernelEventType> = None;
    let mut i = 0;
    while i < families.len() {
        let mut j = 0;
        while j < families[i].len() {
            let one = families[i][j];
            let id = one.entry.id.0;
            let is_before = match found {
                Some(found) => id < found.entry.id.0,
                None => true,
            };
            if id > last && is_before {
                found = Some(one);
            }
            j += 1;
        }
        i += 1;
    }
    found.expect("each type has an identifier of its own")
}

const _: () = {
    assert!(size_of::<RecordHeader>() == 40);
    assert!(offset_of!(RecordHeader, event_type) == 32);
    assert!(offset_of!(RecordHeader, truncated) == 36);
};
