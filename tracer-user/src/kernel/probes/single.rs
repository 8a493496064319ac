//! A perf event and a link for each site.

use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use super::{Attachment, EVERYBODY, ProbeError};
use crate::kernel::call::{LINK_CREATE, bpf, owned};

/// Attaches the program to one site, in process `pid` alone or in all.
pub(super) fn attach(
    program: BorrowedFd<'_>,
    pmu: u32,
    attachment: &Attachment<'_>,
    pid: i32,
) -> Result<OwnedFd, ProbeError> {
    let site = attachment.site;
    let failed = |call| {
        move |source| ProbeError::Site {
            call,
            path: site.binary.path().to_owned(),
            offset: site.offset,
            source,
        }
    };
    let event = open_event(pmu, attachment, pid).map_err(failed("perf_event_open"))?;
    link(program, event.as_fd(), attachment.cookie).map_err(failed("bpf(BPF_LINK_CREATE)"))
}

/// `struct perf_event_attr`, as long as it was when these members came to it.
#[repr(C)]
#[derive(Default)]
struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    /// Address of the file's path.
    path: u64,
    offset: u64,
}

/// Opens a perf event for the site, in process `pid` alone or in all.
fn open_event(pmu: u32, attachment: &Attachment<'_>, pid: i32) -> io::Result<OwnedFd> {
    let site = attachment.site;
    // Bits of `config`, as in /sys/bus/event_source/devices/uprobe/format.
    const SEMAPHORE_SHIFT: u32 = 32;
    let is_return = u64::from(attachment.is_return);
    let semaphore = u32::try_from(site.semaphore.unwrap_or(0)).map_err(io::Error::other)?;
    // The very file that was looked at, by its descriptor.
    let path = format!("/proc/self/fd/{}", site.binary.file().as_raw_fd());
    let path = CString::new(path)?;
    let attributes = EventAttributes {
        kind: pmu,
        size: u32::try_from(size_of::<EventAttributes>()).map_err(io::Error::other)?,
        config: (u64::from(semaphore) << SEMAPHORE_SHIFT) | is_return,
        path: path.as_ptr().expose_provenance() as u64,
        offset: site.offset,
        ..EventAttributes::default()
    };
    // The programs of an event for everybody run on every CPU, whichever it is opened on.
    let cpu = if pid == EVERYBODY { 0 } else { -1 };
    const NO_GROUP: RawFd = -1;
    // SAFETY: `attributes` has the size it states, and the path in it lives until after the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            pid,
            cpu,
            NO_GROUP,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    owned(fd)
}

const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// `union bpf_attr` of `BPF_LINK_CREATE`.
#[repr(C)]
struct LinkAttributes {
    program: u32,
    target: u32,
    kind: u32,
    flags: u32,
    cookie: u64,
}

fn link(program: BorrowedFd<'_>, event: BorrowedFd<'_>, cookie: u64) -> io::Result<OwnedFd> {
    const BPF_PERF_EVENT: u32 = 41;
    let attributes = LinkAttributes {
        program: program.as_raw_fd().cast_unsigned(),
        target: event.as_raw_fd().cast_unsigned(),
        kind: BPF_PERF_EVENT,
        flags: 0,
        cookie,
    };
    // SAFETY: it names nothing in memory.
    unsafe { bpf(LINK_CREATE, &attributes) }
}
