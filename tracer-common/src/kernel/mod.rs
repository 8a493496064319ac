//! What the eBPF programs write and the agent reads: ring records, map values, load-time constants.
//!
//! Written by `tracer-ebpf`, read by `tracer-user`, which both come from one build: no version.
//! Every record is a [`RecordHeader`] and then the data of its event type, whose layout
//! [`crate::event_type::SYSTEM_EVENT_TYPES`] describes field by field. All numbers are in the
//! machine's byte order. One file a family of events, as in `tracer-ebpf`.

mod block;
mod control;
mod fault;
mod interrupt;
mod probe;
mod process;
mod sched;
mod signal;
mod syscall;

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use block::{
    BlockCompleteData, BlockCompleteRecord, BlockIssueData, BlockIssueRecord, Issuer, NOT_TRACED,
};
pub use control::{
    Choice, LostOnCpu, MAX_RINGS, NUMBERS_PAGE, PID_LIMIT, TRACED_PAGE, TaskNumbers, cpu_variable,
    globals, sample, traced, wanted,
};
pub use fault::{FaultData, FaultRecord};
pub use interrupt::{
    IRQ_NAME_BYTES, IdleData, IdleEnterRecord, IdleExitRecord, InterruptsOf, IrqEnterData,
    IrqEnterRecord, IrqExitData, IrqExitRecord, SoftirqData, SoftirqRecord,
};
pub use probe::{
    ENTRY_OF_RETURN, PROBE_ARGUMENTS, PROBE_DATA_BYTES, PROBE_RECORDS, ProbeArgument, ProbeData,
    ProbeRecord, ProbeSite, RETURN_DEPTH, probe_kind, probe_source,
};
pub use process::{
    ExecData, ExecRecord, ExitData, ExitRecord, ForkData, ForkRecord, OomKillData, OomKillRecord,
    RenameData, RenameRecord, Sight,
};
pub use sched::{
    MigrateData, MigrateRecord, Running, SWITCH_RECORD, SwitchInData, SwitchInRecord,
    SwitchOutData, SwitchOutRecord, SwitchRecord, WAKER_PLACES, Waker, WakeupData, WakeupRecord,
    waker_context,
};
pub use signal::{
    SignalDeliverData, SignalDeliverRecord, SignalGenerateData, SignalGenerateRecord, signal_result,
};
pub use syscall::{
    SyscallEnterData, SyscallEnterRecord, SyscallExitData, SyscallExitRecord, syscalls,
};

/// Bytes of a thread name in the kernel (`TASK_COMM_LEN`).
pub const COMM_BYTES: usize = 16;

/// Bytes kept of the file name of an exec, its null counted. A longer one is cut and the record
/// says so.
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
    /// Process (thread group) the event is about, in the agent's pid namespace; 0 for none.
    pub pid: u32,
    /// Thread the event is about, in the agent's pid namespace; 0 for none.
    pub tid: u32,
    /// An [`EventTypeId`](crate::event_type::EventTypeId).
    pub event_type: u16,
    /// CPU on which the event was recorded.
    pub cpu: u16,
    /// 0: whole; 1: the data was cut while recording. A rename has [`EXEC_BEGINS`](Self::EXEC_BEGINS) too.
    pub truncated: u32,
}

impl RecordHeader {
    /// Bit of `truncated`: the thread is renamed by an exec, whose credentials come next.
    pub const EXEC_BEGINS: u32 = 1 << 1;
}

macro_rules! records {
    ($($(#[$doc:meta])* $record:ident: $data:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub struct $record {
            /// What every record has.
            pub header: RecordHeader,
            /// What this type of event has.
            pub data: $data,
        }
    )*};
}
use records;

const _: () = {
    assert!(size_of::<RecordHeader>() == 40);
    assert!(offset_of!(RecordHeader, event_type) == 32);
    assert!(offset_of!(RecordHeader, truncated) == 36);
};
