//! Data of the scheduler's events.

use core::mem::offset_of;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{COMM_BYTES, RecordHeader, records};

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
    /// Process that ran where the wake-up was asked for. When an interrupt asked, it is the one
    /// that was interrupted; 0: the CPU was idle, or it is not known.
    pub waker_pid: u32,
    /// Its thread.
    pub waker_tid: u32,
    /// The name of that thread.
    pub waker_comm: [u8; COMM_BYTES],
}

/// Data of `LINUX_TRACE_MIGRATE`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MigrateData {
    /// CPU that it leaves.
    pub from_cpu: u32,
    /// CPU on whose run queue it will be.
    pub to_cpu: u32,
}

/// Who asked for a wake-up: value of the map `WAKERS`, by the thread that is woken. It stays
/// there from the request until the thread is runnable.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Waker {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Its name.
    pub comm: [u8; COMM_BYTES],
}

records! {
    /// Record of a switch to a traced thread.
    SwitchInRecord: SwitchInData,
    /// Record of a switch away from a traced thread.
    SwitchOutRecord: SwitchOutData,
    /// Record of a wake-up.
    WakeupRecord: WakeupData,
    /// Record of a move to another CPU.
    MigrateRecord: MigrateData,
}

const _: () = assert!(offset_of!(SwitchOutData, state) == 24);
