//! Data of moves between control groups.

use super::COMM_BYTES;
use crate::event_type::declare::{event_data, event_types};

/// Bytes recorded of the path of a control group, its null counted. A longer one is truncated and
/// the record says so.
pub const CGROUP_PATH_BYTES: usize = 256;

event_data! {
    /// Data of `LINUX_TRACE_CGROUP_ATTACH`. The event is one of the thread that was moved; of a
    /// process that was moved, its first thread.
    pub struct CgroupAttachData {
        /// The control group: the inode of its folder.
        #[shown(U64)]
        pub id: u64,
        /// The name of the thread that was moved.
        #[shown(Comm)]
        pub target_comm: [u8; COMM_BYTES],
        /// Its process.
        #[shown(Pid)]
        pub target_pid: u32,
        /// The thread.
        #[shown(Pid)]
        pub target_tid: u32,
        /// 1: its process was moved, with all threads; 0: it was moved alone.
        #[shown(Flag)]
        pub whole_process: u32,
        /// How deep the control group is: 0 for the root.
        #[shown(U32)]
        pub level: u32,
        /// Version of the hierarchy: 1 or 2.
        #[shown(U32)]
        pub version: u32,
        /// Zero.
        pub reserved: u32,
        /// The path of the control group from its root, ended by a null. What follows the null is
        /// removed.
        #[shown(Text)]
        pub path: [u8; CGROUP_PATH_BYTES],
    }
}

event_types! {
    CGROUP_ATTACH = 57 {
        about: "a process or thread changed its control group",
        family: "cgroup",
        data: CgroupAttachData,
        ends_with: path,
        words: "to {path} (v{version})",
        recorded_at: [cgroup_attach_task],
        is: [when_named],
    }
}
