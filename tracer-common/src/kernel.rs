//! What the eBPF programs write and the agent reads: ring records, map values, load-time constants.
//!
//! Written by `tracer-ebpf`, read by `tracer-user`, which both come from one build: no version.
//! Every record is a [`RecordHeader`] and then the data of its event type, whose layout
//! [`crate::event_type::SYSTEM_EVENT_TYPES`] describes field by field. All numbers are in the
//! machine's byte order.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use core::mem::{offset_of, size_of};

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
    /// Process (thread group) the event is about, in the initial pid namespace.
    pub pid: u32,
    /// Thread the event is about, in the initial pid namespace.
    pub tid: u32,
    /// An [`EventTypeId`](crate::event_type::EventTypeId).
    pub event_type: u16,
    /// CPU on which the event was recorded.
    pub cpu: u16,
    /// 0: whole; 1: the data was cut while recording.
    pub truncated: u32,
}

/// Data of `LINUX_TRACE_FORK` and `LINUX_TRACE_THREAD_CREATE`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ForkData {
    /// Process of the new thread.
    pub child_pid: u32,
    /// The new thread.
    pub child_tid: u32,
    /// Its name.
    pub child_comm: [u8; COMM_BYTES],
}

/// Data of `LINUX_TRACE_EXEC`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ExecData {
    /// The name of the thread from now on.
    pub comm: [u8; COMM_BYTES],
    /// The thread that called exec; it goes on under the process's identifier.
    pub old_tid: u32,
    /// The file as it was named to exec, ended by a null. The agent cuts what follows the null.
    pub file: [u8; EXEC_FILE_BYTES],
}

/// Data of `LINUX_TRACE_EXIT` and `LINUX_TRACE_THREAD_EXIT`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ExitData {
    /// What was given to `exit`, 0 to 255.
    pub status: i32,
    /// The signal that ended the process, or 0.
    pub signal: u32,
}

/// Data of `LINUX_TRACE_SWITCH_IN`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SwitchInData {
    /// Process that had the CPU before.
    pub prev_pid: u32,
    /// Thread that had the CPU before; 0 for the idle task.
    pub prev_tid: u32,
    /// Its name.
    pub prev_comm: [u8; COMM_BYTES],
}

/// Data of `LINUX_TRACE_SWITCH_OUT`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SwitchOutData {
    /// Process that gets the CPU.
    pub next_pid: u32,
    /// Thread that gets the CPU; 0 for the idle task.
    pub next_tid: u32,
    /// Its name.
    pub next_comm: [u8; COMM_BYTES],
    /// The kernel's state bits of the thread that leaves (`task_struct::__state`).
    pub state: u32,
    /// 1: it was runnable and had to give way.
    pub preempted: u32,
}

/// Data of `LINUX_TRACE_WAKEUP`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct WakeupData {
    /// CPU on whose run queue the thread was put.
    pub target_cpu: u32,
    /// 1: the thread never ran before.
    pub new: u32,
}

/// Data of `LINUX_TRACE_RENAME`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RenameData {
    /// The new name.
    pub comm: [u8; COMM_BYTES],
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

/// 4 bytes, so that a record of 8-byte alignment has no implicit padding after [`ExecData`].
const EXEC_PADDING: usize = 4;

/// Record of an exec.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ExecRecord {
    /// What every record has.
    pub header: RecordHeader,
    /// What an exec has.
    pub data: ExecData,
    /// Fills the record up to its alignment. Zero.
    pub reserved: [u8; EXEC_PADDING],
}

records! {
    /// Record of a fork or of a thread's creation.
    ForkRecord: ForkData,
    /// Record of the end of a process or thread.
    ExitRecord: ExitData,
    /// Record of a switch to a traced thread.
    SwitchInRecord: SwitchInData,
    /// Record of a switch away from a traced thread.
    SwitchOutRecord: SwitchOutData,
    /// Record of a wake-up.
    WakeupRecord: WakeupData,
    /// Record of a new thread name.
    RenameRecord: RenameData,
}

const _: () = {
    assert!(size_of::<RecordHeader>() == 40);
    assert!(offset_of!(RecordHeader, event_type) == 32);
    assert!(offset_of!(RecordHeader, truncated) == 36);
    assert!(size_of::<ExecRecord>() == 320);
    assert!(offset_of!(ExecData, file) == 20);
    assert!(offset_of!(SwitchOutData, state) == 24);
};

/// Processes in one page of the map `TRACED`: the map is an array of pages of bytes, a byte a
/// process, found by `page = pid / 4096`, `byte = pid % 4096`.
///
/// The agent maps it and writes single bytes: replacing a page as a whole would undo what a fork
/// on another CPU has just written into it.
pub const TRACED_PAGE: u32 = 4096;

/// State of one process in the map `TRACED`: bits.
///
/// The byte is written by the agent for the processes it is told to trace, and by the fork
/// program for every new process, before that process runs for the first time: what an earlier
/// process of the same number has left there never counts.
pub mod traced {
    /// The process is traced.
    pub const TRACED: u8 = 1;
    /// A child that it makes is traced too.
    pub const INHERIT: u8 = 2;
    /// Its last thread has exited: what follows is only the last switch away.
    pub const DYING: u8 = 4;
}

/// The map `WANTED`: one word, in which bit *n* stands for the event type *n*.
///
/// Written by the agent, also while the programs run. Only the types of
/// [`OPTIONAL`](wanted::OPTIONAL) are looked up in it.
pub mod wanted {
    use crate::event_type::EventTypeId;

    /// The bit of a system event type; 0 for a user event type, which has none.
    #[must_use]
    pub const fn bit(id: EventTypeId) -> u64 {
        match 1_u64.checked_shl(id.0) {
            Some(bit) => bit,
            None => 0,
        }
    }

    /// The types that tell which processes and threads exist. They are always recorded.
    pub const LIFECYCLE: u64 = bit(EventTypeId::FORK)
        | bit(EventTypeId::THREAD_CREATE)
        | bit(EventTypeId::EXEC)
        | bit(EventTypeId::EXIT)
        | bit(EventTypeId::THREAD_EXIT)
        | bit(EventTypeId::RENAME);

    /// The types that are recorded only when they are wanted.
    pub const OPTIONAL: u64 =
        bit(EventTypeId::SWITCH_IN) | bit(EventTypeId::SWITCH_OUT) | bit(EventTypeId::WAKEUP);

    const _: () = assert!((LIFECYCLE | OPTIONAL).count_ones() == 9, "a bit for each");
}

/// Slots of the per-CPU array `LOST`: events that a program could not record.
pub mod lost {
    /// The ring had no room.
    pub const RING_FULL: u32 = 0;
    /// Number of slots.
    pub const SLOTS: u32 = 1;
}

/// What the read-only globals of the eBPF object may hold beside offsets in bytes. They are set
/// before loading, so that the verifier knows them as constants and drops the branches that this
/// kernel does not need.
pub mod globals {
    /// The kernel has no such field.
    pub const NO_OFFSET: u32 = u32::MAX;

    /// Arguments of `sched_switch`: `preempt, prev, next`; the state is read from the task.
    pub const SWITCH_WITHOUT_STATE: u32 = 0;
    /// Arguments of `sched_switch`: `preempt, prev, next, prev_state`.
    pub const SWITCH_STATE_LAST: u32 = 1;
    /// Arguments of `sched_switch`: `preempt, prev_state, prev, next`, as in early 5.18.
    pub const SWITCH_STATE_SECOND: u32 = 2;
}
