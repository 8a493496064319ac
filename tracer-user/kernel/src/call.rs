//! The calls of `bpf(2)` for which the loader has no way: each makes a descriptor.

use std::io;
use std::mem::size_of;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

pub(super) const PROGRAM_LOAD: libc::c_int = 5;
pub(super) const LINK_CREATE: libc::c_int = 28;

/// `union bpf_attr` of `BPF_PROG_LOAD`, as far as it is needed.
#[repr(C)]
#[derive(Default)]
pub(super) struct ProgramAttributes {
    pub(super) kind: u32,
    /// Instructions.
    pub(super) count: u32,
    pub(super) instructions: u64,
    pub(super) license: u64,
    pub(super) log_level: u32,
    pub(super) log_size: u32,
    pub(super) log: u64,
    pub(super) version: u32,
    pub(super) flags: u32,
    pub(super) name: [u8; 16],
    pub(super) device: u32,
    pub(super) expected_attach_type: u32,
}

/// Makes a call of `bpf(2)` that returns a descriptor.
///
/// # Safety
///
/// The memory that `attributes` points to is there until the call has returned.
pub(super) unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    let attributes = std::ptr::from_ref(attributes);
    // SAFETY: `attributes` is as long as the call is given; the kernel only reads it.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    owned(fd)
}

/// Returns the descriptor that a call has returned, or its error.
pub(super) fn owned(returned: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(returned) {
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
