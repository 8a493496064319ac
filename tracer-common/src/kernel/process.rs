//! Data of the events that say which processes and threads exist.

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{COMM_BYTES, EXEC_FILE_BYTES, RecordHeader};
use crate::event_type::declare::{event_data, event_types};

event_data! {
    /// Data of `LINUX_TRACE_FORK` and `LINUX_TRACE_THREAD_CREATE`.
    pub struct ForkData {
        /// Process of the new thread.
        #[shown(Pid)]
        pub child_pid: u32,
        /// The new thread.
        #[shown(Pid)]
        pub child_tid: u32,
        /// Its name.
        #[shown(Comm)]
        pub child_comm: [u8; COMM_BYTES],
        /// `child_pid` as the child itself sees it: in its own pid namespace.
        #[shown(Pid)]
        pub child_ns_pid: u32,
        /// `child_tid` as the child itself sees it: in its own pid namespace.
        #[shown(Pid)]
        pub child_ns_tid: u32,
    }
}

event_data! {
    /// Data of `LINUX_TRACE_EXEC`. What the program was given follows the null of the file: a byte
    /// of bits (1: there is more, 2: it could not be read, 4: 4 bytes follow that say how many are
    /// missing), and each argument, ended by a null.
    pub struct ExecData {
        /// The name of the thread from now on.
        #[shown(Comm)]
        pub comm: [u8; COMM_BYTES],
        /// The thread that called exec; it goes on under the process's identifier.
        #[shown(Pid)]
        pub old_tid: u32,
        /// The file as it was named to exec, ended by a null. What follows the null is removed.
        #[shown(Text, Strings as "argv")]
        pub file: [u8; EXEC_FILE_BYTES],
    }
}

event_data! {
    /// Data of `LINUX_TRACE_EXIT` and `LINUX_TRACE_THREAD_EXIT`.
    pub struct ExitData {
        /// Status that was given to `exit`, 0 to 255.
        #[shown(I32)]
        pub status: i32,
        /// The signal that ended the process, or 0.
        #[shown(Signal)]
        pub signal: u32,
    }
}

/// The event type of the record that says what a thread is called which is traced from now on: a
/// record of [`RenameData`]. No event has it.
pub const NAME_RECORD: u16 = 0x7ff9;

event_data! {
    /// Data of `LINUX_TRACE_RENAME`.
    pub struct RenameData {
        /// The new name.
        #[shown(Comm)]
        pub comm: [u8; COMM_BYTES],
    }
}

event_data! {
    /// Data of `LINUX_TRACE_OOM_KILL`. The event is one of the process that is to be killed.
    pub struct OomKillData {
        /// The name of its thread; empty before Linux 6.8, which does not have it.
        #[shown(Comm)]
        pub comm: [u8; COMM_BYTES],
        /// Its user, in the initial user namespace; 0 before Linux 6.8.
        #[shown(U32)]
        pub uid: u32,
        /// Zero.
        pub reserved: u32,
    }
}

/// 4 bytes, so that a record of 8-byte alignment has no implicit padding after [`ExecData`].
const EXEC_PADDING: usize = 4;

/// Properties that decide who may look into a process from an exec on. Part of the record, and not
/// of the event's data: the agent uses it to decide whether a program that was given the process's
/// events may be given those that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Sight {
    /// Capabilities that the process may use.
    pub permitted: u64,
    /// Its user, in the initial user namespace; [`Self::NOBODY`] where its real, effective
    /// and saved users differ, or are not known.
    pub uid: u32,
    /// Its group, likewise.
    pub gid: u32,
    /// 1 where its memory may be looked into by its user.
    pub is_dumpable: u32,
    /// How deep its user namespace is: 0 for the initial one.
    pub namespace_level: u32,
    /// How deep the user namespace is in which its memory counts, that of its exec or one around
    /// it; 0 where this is not known.
    pub memory_level: u32,
    /// User who has made that user namespace, of those that its own is in, which is right within
    /// the initial one; [`Self::NOBODY`] where it is in the initial one, or this is not known.
    pub namespace_owner: u32,
    /// Inode of that namespace, which no other has as long as it exists; 0 likewise.
    pub namespace_id: u32,
    /// Zero.
    pub reserved: u32,
}

impl ExecData {
    /// Reads the thread that called exec out of an event's data, whose file is as long as it is.
    #[must_use]
    pub fn old_tid_of(untrusted: &[u8]) -> Option<i32> {
        let bytes = untrusted.get(offset_of!(Self, old_tid)..)?;
        bytes.first_chunk().map(|four| i32::from_ne_bytes(*four))
    }
}

/// Bits of the byte before the arguments of an exec.
pub mod exec_arguments {
    /// There is more of them.
    pub const MORE: u8 = 1;
    /// They could not be read.
    pub const UNREADABLE: u8 = 2;
    /// How many bytes of them are missing follows, in 4 bytes.
    pub const COUNTED: u8 = 4;
}

impl Sight {
    /// No user or group.
    pub const NOBODY: u32 = u32::MAX;
}

/// How much is read of the arguments of an exec: the least of these that they fit in, as far as the
/// ring has space for it and that much was asked for.
pub mod exec_space {
    /// Space for most.
    pub const SMALL: usize = 1024;
    /// Space for those that are read whole, whatever was asked for.
    pub const MIDDLE: usize = 4096;
    /// Space for long ones.
    pub const LARGE: usize = 65536;
}

/// Record of an exec, with space for so many bytes of arguments.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ExecRecord<const N: usize> {
    /// Header of every record.
    pub header: RecordHeader,
    /// Data of an exec.
    pub data: ExecData,
    /// Fills the record up to its alignment. Zero.
    pub reserved: [u8; EXEC_PADDING],
    /// Properties that decide who may look into the process from now on.
    pub sight: Sight,
    /// Bytes of the arguments that the program was given, with the null behind each;
    /// [`UNREAD`](Self::UNREAD) where they could not be read.
    pub arguments_length: u32,
    /// Bytes of them that were asked for.
    pub arguments_asked: u32,
    /// They, as far as there is space.
    pub arguments: [u8; N],
}

impl ExecRecord<0> {
    /// Instead of the length of the arguments.
    pub const UNREAD: u32 = u32::MAX;
}

event_types! {
    FORK = 32 {
        about: "a process was created",
        family: "fork",
        data: ForkData,
        recorded_at: [sched_process_fork],
    }
    THREAD_CREATE = 33 {
        about: "a thread was created",
        family: "fork",
        data: ForkData,
        recorded_at: [sched_process_fork, task_newtask],
    }
    EXEC = 34 {
        about: "a process replaced its program",
        family: "exec",
        data: ExecData,
        record: ExecRecord<{ exec_space::SMALL }>,
        ends_with: file,
        recorded_at: [sched_process_exec],
    }
    EXIT = 35 {
        about: "a process ended",
        family: "exit",
        data: ExitData,
        recorded_at: [sched_process_exit],
    }
    THREAD_EXIT = 36 {
        about: "a thread ended and others of its process remain",
        family: "exit",
        data: ExitData,
        recorded_at: [sched_process_exit],
    }
    RENAME = 40 {
        about: "a thread was given another name",
        family: "rename",
        data: RenameData,
        words: "now {comm}",
        recorded_at: [task_rename],
    }
    OOM_KILL = 54 {
        about: "the kernel chose the process to be killed for want of memory",
        family: "oom",
        data: OomKillData,
        words: "{comm} of user {uid}",
        recorded_at: [mark_victim],
        is: [when_named],
    }
}

const _: () = {
    assert!(size_of::<ExecRecord<{ exec_space::SMALL }>>() == 1392);
    assert!(offset_of!(ExecRecord<0>, sight) == 320);
    assert!(offset_of!(ExecData, file) == 20);
};
