//! Perf events: those by which programs are attached, which report nothing, and those that report.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use aya::Ebpf;
use aya::programs::PerfEvent;
use aya::programs::perf_event::{PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent};
use aya::util::online_cpus;

use super::call::{self, LINK_CREATE, bpf, owned};
use super::error::LoadError;

/// Value for all processes, in place of a pid.
pub(super) const EVERY_PROCESS: i32 = -1;

/// `struct perf_event_attr`, of the size that it had when these members were added.
#[repr(C)]
#[derive(Default)]
pub(super) struct EventAttributes {
    pub(super) kind: u32,
    pub(super) size: u32,
    pub(super) config: u64,
    pub(super) sample_period: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) flags: u64,
    pub(super) wakeup_events: u32,
    pub(super) bp_type: u32,
    /// Address of a path that lives until the event is open.
    pub(super) path: u64,
    pub(super) offset: u64,
    pub(super) branches: u64,
    pub(super) registers: u64,
    pub(super) stack_bytes: u32,
    /// `CLOCK_...`, where the flags ask for it.
    pub(super) clock: i32,
}

/// Opens an event, in process `pid` alone or in all.
pub(super) fn open(attributes: EventAttributes, pid: i32) -> io::Result<OwnedFd> {
    // The programs of an event of all processes run on every CPU, whichever it is opened on.
    open_at(attributes, pid, if pid == EVERY_PROCESS { 0 } else { -1 })
}

/// Opens an event of all processes on a CPU.
pub(super) fn open_on(attributes: EventAttributes, cpu: u32) -> io::Result<OwnedFd> {
    let cpu = i32::try_from(cpu).map_err(io::Error::other)?;
    open_at(attributes, EVERY_PROCESS, cpu)
}

fn open_at(attributes: EventAttributes, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    let attributes = EventAttributes {
        size: u32::try_from(size_of::<EventAttributes>()).map_err(io::Error::other)?,
        ..attributes
    };
    const NO_GROUP: RawFd = -1;
    // SAFETY: `attributes` has the size it states, and what it names lives until after the call.
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

/// Links the program to an event.
pub(super) fn link(
    program: BorrowedFd<'_>,
    event: BorrowedFd<'_>,
    cookie: u64,
) -> io::Result<OwnedFd> {
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

/// Makes an event report into the ring of another one.
pub(super) fn report_into(event: &OwnedFd, other: BorrowedFd<'_>) -> io::Result<()> {
    /// `PERF_EVENT_IOC_SET_OUTPUT`.
    const SET_OUTPUT: libc::Ioctl = 0x2405;
    // SAFETY: both are descriptors, of which the call keeps nothing.
    let failed = unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, other.as_raw_fd()) };
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The program that takes samples of what runs.
const SAMPLER: &str = "sample_cpu";

/// Attaches the program to a clock of each CPU, which runs it this many times a second; attaches
/// nothing where that is 0. The clock is the kernel's own, which every machine has. The program
/// stays attached as long as `ebpf` lives.
pub(super) fn attach_sampler(ebpf: &mut Ebpf, per_second: u32) -> Result<(), LoadError> {
    if per_second == 0 {
        return Ok(());
    }
    let missing = LoadError::PartMissing { name: SAMPLER };
    let program = ebpf.program_mut(SAMPLER).ok_or(missing)?;
    let failed = |source| LoadError::Sampling {
        per_second,
        source: Box::new(source),
    };
    let program: &mut PerfEvent = program.try_into().map_err(failed)?;
    call::load(|| program.load()).map_err(failed)?;
    let cpus = online_cpus().map_err(|(_, source)| failed(source.into()))?;
    for cpu in cpus {
        let clock = PerfEventConfig::Software(SoftwareEvent::CpuClock);
        let scope = PerfEventScope::AllProcessesOneCpu { cpu };
        let often = SamplePolicy::Frequency(per_second.into());
        program.attach(clock, scope, often, false).map_err(failed)?;
    }
    Ok(())
}
