//! Data of page faults.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{RecordHeader, records};

/// Data of `LINUX_TRACE_FAULT_USER`, whose program address is that of the instruction, and of
/// `LINUX_TRACE_FAULT_KERNEL`, whose program address is that of the system call.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FaultData {
    /// The address that was accessed; 0 where it is one of the kernel's own, which are not told.
    pub address: u64,
    /// 1: by a write.
    pub write: u32,
    /// 1: by the fetch of an instruction.
    pub fetch: u32,
    /// 1: a page is there and may not be accessed so, as when it is to be copied on write.
    pub protection: u32,
    /// Zero.
    pub reserved: u32,
}

records! {
    /// Record of a page fault.
    FaultRecord: FaultData,
}
