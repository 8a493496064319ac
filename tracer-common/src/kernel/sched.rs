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

/// Places in the map `WAKERS`: a power of two.
pub const WAKER_PLACES: u32 = 16384;

/// Who asked for a wake-up: an entry of the map `WAKERS`, whose place is the number of the thread
/// that is woken modulo [`WAKER_PLACES`].
///
/// Written where the wake-up is asked for, read where the thread becomes runnable. Where two
/// threads of one place are woken at the same time, one of them is told without its waker. A hash
/// map would tell both, and take longer than recording the event does.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Waker {
    /// From the lowest bit: thread and process that ask, 24 bits each, and what is left of the
    /// number of the thread that is woken. One word, so that it is never half of one and half
    /// of another. 0: nobody.
    pub who: u64,
    /// The name of the thread that asks.
    pub comm: [u8; COMM_BYTES],
    /// Zero.
    pub reserved: u64,
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
