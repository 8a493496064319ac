//! Data of requests to block devices.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::event_type::declare::{event_data, event_types};

event_data! {
    /// Data of `LINUX_TRACE_BLOCK_ISSUE`.
    pub struct BlockIssueData {
        /// Operation,`enum req_op` of the kernel: 0 read, 1 write, 2 flush, 3 discard, ...
        #[shown(BlockOperation)]
        pub operation: u32,
        /// Major number of the device.
        #[shown(U32)]
        pub major: u32,
        /// Minor number of the device.
        #[shown(U32)]
        pub minor: u32,
        /// How much is asked for.
        #[shown(U32)]
        pub bytes: u32,
        /// Where: in units of 512 bytes from the start of the device.
        #[shown(U64)]
        pub sector: u64,
    }
}

event_data! {
    /// Data of `LINUX_TRACE_BLOCK_COMPLETE`.
    pub struct BlockCompleteData {
        /// Requested operation: `enum req_op` of the kernel.
        #[shown(BlockOperation)]
        pub operation: u32,
        /// Major number of the device.
        #[shown(U32)]
        pub major: u32,
        /// Minor number of the device.
        #[shown(U32)]
        pub minor: u32,
        /// How much was done.
        #[shown(U32)]
        pub bytes: u32,
        /// Where: in units of 512 bytes from the start of the device.
        #[shown(U64)]
        pub sector: u64,
        /// 0: done; otherwise why not: the kernel's `blk_status_t` (an error number before 5.16).
        #[shown(I32)]
        pub status: i32,
        /// Zero.
        pub reserved: u32,
    }
}

/// Process and thread that started a request: value of the map `ISSUERS`, by the address of the
/// request. It stays there until the request is completed. Also of `BIOS`, by the address of what
/// the request is made from, where the kernel does not report its start.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Issuer {
    /// Process; 0 when it is not known, and [`NOT_TRACED`].
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The thread's `pthread_t`.
    pub thread_id: u64,
    /// 1: the request was handed to the device.
    pub issued: u32,
    /// Zero.
    pub reserved: u32,
    /// Address of the thread in the kernel, which may have ended since; 0 where it is not known.
    pub task: u64,
}

impl Issuer {
    /// Returns an issuer of which only the process is known.
    #[must_use]
    pub const fn process(pid: u32) -> Self {
        Self {
            pid,
            tid: 0,
            thread_id: 0,
            issued: 0,
            reserved: 0,
            task: 0,
        }
    }
}

/// Instead of a process: one that is not traced.
pub const NOT_TRACED: u32 = u32::MAX;

event_types! {
    BLOCK_ISSUE = 55 {
        about: "a request went to a block device",
        family: "block",
        data: BlockIssueData,
        recorded_at: [block_rq_issue, block_rq_complete],
        helped_by: [block_io_start, block_getrq],
        is: [frequent, when_named],
    }
    BLOCK_COMPLETE = 56 {
        about: "a block device completed a request",
        family: "block",
        data: BlockCompleteData,
        recorded_at: [block_rq_issue, block_rq_complete],
        helped_by: [block_io_start, block_getrq],
        is: [frequent, when_named],
    }
}
