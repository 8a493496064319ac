//! Perf events and links, one of each for each site.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::{Attachment, ProbeError};
use crate::perf::{self, EventAttributes};

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
    perf::link(program, event.as_fd(), attachment.cookie).map_err(failed("bpf(BPF_LINK_CREATE)"))
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
        config: (u64::from(semaphore) << SEMAPHORE_SHIFT) | is_return,
        path: path.as_ptr().expose_provenance() as u64,
        offset: site.offset,
        ..EventAttributes::default()
    };
    perf::open(attributes, pid)
}
