//! Attaching the eBPF program to points of programs.
//!
//! By the kernel's own calls, since the loader's have no way to name a semaphore: a perf event for
//! each place (its file, offset and semaphore), and a link from the program to it, whose cookie is
//! the place's number.

use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

use aya::Ebpf;
use aya::maps::{Array, MapData};
use aya::programs::{ProgramError, ProgramFd, ProgramType, UProbe};
use aya::sys::{BpfHelper, is_helper_supported};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{PROBE_RECORDS, ProbeSite};
use tracer_posix::event::EventHeader;
use tracer_posix::source::Batch;
use zerocopy::IntoBytes;

use super::checks::Check;
use crate::probes::{Place, Probes};

const PROGRAM: &str = "probe";
const SITES: &str = "PROBE_SITES";
/// The stream chooses the number of a point of the program: it has none of its own.
const NO_PREFERENCE: EventTypeId = EventTypeId(u32::MAX);

const PMU: &str = "/sys/bus/event_source/devices/uprobe/type";

/// Why probes cannot be attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The kernel has none.
    #[error("the kernel has no probes of programs (use one built with CONFIG_UPROBE_EVENTS=y)")]
    NoUprobes {
        /// Why it seems so.
        source: io::Error,
    },
    /// The kernel does not tell which probe was passed.
    #[error("the kernel does not tell a program which probe was passed; use Linux 5.15 or later")]
    NoCookies,
    /// The kernel does not take the program.
    #[error("the eBPF program for probes was not taken by the kernel")]
    Program {
        /// What the loader says.
        source: Box<ProgramError>,
    },
    /// The object has no such part: it was built from other sources.
    #[error("the eBPF object has no {name}; run: cargo xtask build-ebpf")]
    PartMissing {
        /// The program or map.
        name: &'static str,
    },
    /// The kernel does not know the places.
    #[error("the eBPF map {SITES} cannot be written")]
    Sites {
        /// What the loader says.
        source: Box<aya::maps::MapError>,
    },
    /// A place cannot be probed.
    #[error("{call} failed for the probe at {offset:#x} of {}{}", path.display(), hint(source))]
    Place {
        /// The call.
        call: &'static str,
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// Why.
        source: io::Error,
    },
}

/// What the kernel means by some of its errors.
fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EINVAL) => ": no instruction begins there, or the file is on a strange system",
        Some(libc::EMFILE) => ": raise the limit of open files (ulimit -n), or ask for fewer",
        Some(libc::ENOTSUP | libc::EIO) => ": the kernel cannot stop at this instruction",
        _ => "",
    }
}

/// The attachments. They end when this is dropped.
#[derive(Default)]
pub struct Attachments {
    /// The program, for the count of what it missed.
    pub program: Option<ProgramFd>,
    /// Held open, and not otherwise used.
    _links: Vec<OwnedFd>,
}

/// Attaches to every place.
pub fn attach(ebpf: &mut Ebpf, probes: &Probes) -> Result<Attachments, ProbeError> {
    if probes.places.is_empty() {
        return Ok(Attachments::default());
    }
    let pmu = examine()?;
    tell_sites(ebpf, &probes.places)?;
    let program = load(ebpf)?;
    let mut links = Vec::new();
    for (number, place) in (0..).zip(&probes.places) {
        let scopes = match &probes.only {
            None => &[EVERYBODY][..],
            Some(pids) => pids,
        };
        for pid in scopes {
            links.push(attach_place(program.as_fd(), pmu, place, *pid, number)?);
        }
    }
    Ok(Attachments {
        program: Some(program),
        _links: links,
    })
}

/// In the place of a pid.
const EVERYBODY: i32 = -1;

fn tell_sites(ebpf: &mut Ebpf, places: &[Place]) -> Result<(), ProbeError> {
    const BYTES: usize = size_of::<ProbeSite>();
    let failed = |source| ProbeError::Sites {
        source: Box::new(source),
    };
    let map = ebpf.map_mut(SITES);
    let map = map.ok_or(ProbeError::PartMissing { name: SITES })?;
    let mut sites: Array<&mut MapData, [u8; BYTES]> = Array::try_from(map).map_err(failed)?;
    for (number, place) in (0..).zip(places) {
        let mut bytes = [0; BYTES];
        bytes.copy_from_slice(place.site.as_bytes());
        sites.set(number, bytes, 0).map_err(failed)?;
    }
    Ok(())
}

fn load(ebpf: &mut Ebpf) -> Result<ProgramFd, ProbeError> {
    let program = ebpf.program_mut(PROGRAM);
    let program = program.ok_or(ProbeError::PartMissing { name: PROGRAM })?;
    let mut load = || -> Result<ProgramFd, ProgramError> {
        let program: &mut UProbe = program.try_into()?;
        program.load()?;
        Ok(program.fd()?.try_clone()?)
    };
    load().map_err(|source| ProbeError::Program {
        source: Box::new(source),
    })
}

/// Checks that the kernel has what probes need. Returns the number by which it knows this kind of
/// perf event.
fn examine() -> Result<u32, ProbeError> {
    let cookies = is_helper_supported(ProgramType::KProbe, BpfHelper::BPF_FUNC_get_attach_cookie);
    // Without rights the kernel does not even let us ask.
    if let Ok(false) = cookies {
        return Err(ProbeError::NoCookies);
    }
    let pmu = std::fs::read_to_string(PMU);
    let number = pmu.and_then(|text| text.trim().parse().map_err(io::Error::other));
    number.map_err(|source| ProbeError::NoUprobes { source })
}

/// What `tracer-user doctor` prints about probes.
#[must_use]
pub fn probe_check() -> Check {
    let result = examine();
    Check {
        what: "probes of programs",
        is_met: result.is_ok(),
        found: match &result {
            Ok(_) => "there".to_owned(),
            Err(error) => error.to_string(),
        },
        remedy: None,
    }
}

fn attach_place(
    program: BorrowedFd<'_>,
    pmu: u32,
    place: &Place,
    pid: i32,
    cookie: u64,
) -> Result<OwnedFd, ProbeError> {
    let failed = |call| {
        move |source| ProbeError::Place {
            call,
            path: place.binary.path().to_owned(),
            offset: place.offset,
            source,
        }
    };
    let event = open_event(pmu, place, pid).map_err(failed("perf_event_open"))?;
    link(program, event.as_fd(), cookie).map_err(failed("bpf(BPF_LINK_CREATE)"))
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

/// Opens a perf event for the place, in process `pid` alone or in all.
fn open_event(pmu: u32, place: &Place, pid: i32) -> io::Result<OwnedFd> {
    // Bits of `config`, as in /sys/bus/event_source/devices/uprobe/format.
    const SEMAPHORE_SHIFT: u32 = 32;
    let is_return = u64::from(place.is_return);
    let semaphore = u32::try_from(place.semaphore.unwrap_or(0)).map_err(io::Error::other)?;
    // The very file that was looked at, by its descriptor.
    let path = format!("/proc/self/fd/{}", place.binary.file().as_raw_fd());
    let path = CString::new(path)?;
    let attributes = EventAttributes {
        kind: pmu,
        size: u32::try_from(size_of::<EventAttributes>()).map_err(io::Error::other)?,
        config: (u64::from(semaphore) << SEMAPHORE_SHIFT) | is_return,
        path: path.as_ptr().expose_provenance() as u64,
        offset: place.offset,
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
    const BPF_LINK_CREATE: libc::c_int = 28;
    const BPF_PERF_EVENT: u32 = 41;
    let attributes = LinkAttributes {
        program: program.as_raw_fd().cast_unsigned(),
        target: event.as_raw_fd().cast_unsigned(),
        kind: BPF_PERF_EVENT,
        flags: 0,
        cookie,
    };
    // SAFETY: `attributes` is as long as the call is told, and the kernel only reads it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_LINK_CREATE,
            &raw const attributes,
            size_of::<LinkAttributes>(),
        )
    };
    owned(fd)
}

/// The descriptor that a call has returned, or its error.
fn owned(returned: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(returned) {
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The names of the probes' event types, by the number of the probe.
#[derive(Debug, Default)]
pub struct ProbeNames(pub Vec<String>);

impl ProbeNames {
    /// The header with the number that the stream has given to the probe's type; `None` for a probe
    /// that is none of ours. Headers of other events stay as they are.
    pub fn numbered(&self, header: EventHeader, batch: &mut Batch<'_>) -> Option<EventHeader> {
        let Some(number) = header.event_type.0.checked_sub(u32::from(PROBE_RECORDS)) else {
            return Some(header);
        };
        let name = self.0.get(usize::try_from(number).ok()?)?;
        let id = batch.user_event_type(name.as_bytes(), NO_PREFERENCE);
        Some(EventHeader {
            event_type: id,
            ..header
        })
    }
}
