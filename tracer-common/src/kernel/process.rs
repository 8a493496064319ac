//! Data of the events that tell which processes and threads exist.

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{COMM_BYTES, EXEC_FILE_BYTES, RecordHeader, records};

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
    /// `child_pid` as the child itself sees it: in its own pid namespace.
    pub child_ns_pid: u32,
    /// `child_tid` as the child itself sees it: in its own pid namespace.
    pub child_ns_tid: u32,
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

/// Data of `LINUX_TRACE_RENAME`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RenameData {
    /// The new name.
    pub comm: [u8; COMM_BYTES],
}

/// Data of `LINUX_TRACE_OOM_KILL`. The event is one of the process that is to be killed.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OomKillData {
    /// The name of its thread; empty before Linux 6.8, which does not tell it.
    pub comm: [u8; COMM_BYTES],
    /// Its user, in the initial user namespace; 0 before Linux 6.8.
    pub uid: u32,
    /// Zero.
    pub reserved: u32,
}

/// 4 bytes, so that a record of 8-byte alignment has no implicit padding after [`ExecData`].
const EXEC_PADDING: usize = 4;

/// Who may look into a process from an exec on. Part of the record, and not of the event's data: the agent
/// asks by it whether a program that was given the process's events may be given those that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Sight {
    /// Capabilities that the process may use.
    pub permitted: u64,
    /// Its user, in the initial user namespace; [`NOBODY`](Self::NOBODY) where real, effective and saved one
    /// differ, or are not known.
    pub uid: u32,
    /// Its group, likewise.
    pub gid: u32,
    /// 1 where its memory may be looked into by its user.
    pub is_dumpable: u32,
    /// How deep its user namespace is: 0 for the initial one.
    pub namespace_level: u32,
}

impl Sight {
    /// No user or group.
    pub const NOBODY: u32 = u32::MAX;
}

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
    /// Who may look into the process from now on.
    pub sight: Sight,
}

records! {
    /// Record of a fork or of a thread's creation.
    ForkRecord: ForkData,
    /// Record of the end of a process or thread.
    ExitRecord: ExitData,
    /// Record of a new thread name.
    RenameRecord: RenameData,
    /// Record of a process that is to be killed for want of memory.
    OomKillRecord: OomKillData,
}

const _: () = {
    assert!(size_of::<ExecRecord>() == 344);
    assert!(offset_of!(ExecRecord, sight) == 320);
    assert!(offset_of!(ExecData, file) == 20);
};
