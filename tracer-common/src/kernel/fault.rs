//! Data of page faults.

use crate::event_type::declare::{event_data, event_types};

event_data! {
    /// Data of `LINUX_TRACE_FAULT_USER`, whose program address is that of the instruction, and of
    /// `LINUX_TRACE_FAULT_KERNEL`, whose program address is that of the system call.
    pub struct FaultData {
        /// The address that was accessed; 0 where it is one of the kernel's own, which are not
        /// shown.
        #[shown(Address)]
        pub address: u64,
        /// 1: by a write.
        #[shown(Flag)]
        pub write: u32,
        /// 1: by the fetch of an instruction.
        #[shown(Flag)]
        pub fetch: u32,
        /// 1: a page is there and may not be accessed so, as when it is to be copied on write.
        #[shown(Flag)]
        pub protection: u32,
        /// Zero.
        pub reserved: u32,
    }
}

event_types! {
    FAULT_USER = 45 {
        about: "a page fault of the program",
        family: "fault",
        data: FaultData,
        recorded_at: [page_fault_user],
        is: [heavy, when_named],
    }
    FAULT_KERNEL = 46 {
        about: "a page fault of the kernel while it served the thread",
        family: "fault",
        data: FaultData,
        recorded_at: [page_fault_kernel],
        is: [frequent, when_named],
    }
}
