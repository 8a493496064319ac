//! Programs at system calls and at switches that can be detached while their events are not wanted,
//! and attached again. While no program is attached, the kernel does not take its slow path for
//! system calls, and switches cost nothing.

use std::ffi::CString;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use aya::programs::ProgramFd;
use tracer_common::kernel::Running;

use super::call::{ProgramRuns, bpf, runs_of};
use super::mapping::MapMemory;

/// Programs that can be detached, and their attachments.
#[derive(Default)]
pub struct ProgramLinks {
    /// Each program with the name of its tracepoint; `None` where the program was loaded for its
    /// tracepoint.
    programs: Vec<(ProgramFd, Option<CString>)>,
    /// Links of the programs; empty while the programs are not attached.
    links: Vec<OwnedFd>,
    /// Time of the last attachment.
    attached: Option<Instant>,
}

/// Least time for which `detach_if_due` leaves the programs attached: each change stops all
/// processors for a moment.
const LEAST: Duration = Duration::from_millis(10);

/// `union bpf_attr` of `BPF_RAW_TRACEPOINT_OPEN`.
#[repr(C)]
struct TracepointAttributes {
    name: u64,
    program: u32,
    nothing: u32,
    cookie: u64,
}

impl ProgramLinks {
    /// Adds a program, which is not attached yet. `name` is the name of its tracepoint, for a raw
    /// program.
    pub fn add(&mut self, program: ProgramFd, name: Option<&str>) -> io::Result<()> {
        let name = name.map(CString::new).transpose()?;
        self.programs.push((program, name));
        Ok(())
    }

    /// Attaches the programs, unless they are attached already. On failure none of them is
    /// attached.
    pub fn attach(&mut self) -> io::Result<()> {
        if !self.links.is_empty() {
            return Ok(());
        }
        let links = self.programs.iter().map(|(program, name)| {
            const TRACEPOINT_OPEN: libc::c_int = 17;
            let name = name.as_ref();
            let attributes = TracepointAttributes {
                name: name.map_or(0, |name| name.as_ptr().expose_provenance() as u64),
                program: program.as_fd().as_raw_fd().cast_unsigned(),
                nothing: 0,
                cookie: 0,
            };
            // SAFETY: the name lives as long as `self`.
            unsafe { bpf(TRACEPOINT_OPEN, &attributes) }
        });
        self.links = links.collect::<io::Result<_>>()?;
        self.attached = Some(Instant::now());
        Ok(())
    }

    /// Detaches the programs, unless they were attached just now. To be called when their events
    /// are not wanted.
    pub fn detach_if_due(&mut self) {
        if self.attached.is_none_or(|at| at.elapsed() >= LEAST) {
            self.detach();
        }
    }

    /// Detaches the programs.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// Returns the runs of all programs together, as far as the kernel tells.
    pub fn runs(&self) -> ProgramRuns {
        let runs = self
            .programs
            .iter()
            .map(|(program, _)| runs_of(program.as_fd()));
        runs.flatten()
            .fold(ProgramRuns::default(), |sum, runs| ProgramRuns {
                timed: sum.timed + runs.timed,
                timed_ns: sum.timed_ns + runs.timed_ns,
                passed_over: sum.passed_over + runs.passed_over,
            })
    }
}

/// Rates at which traced threads make system calls: counts of the programs, which grow while they
/// are attached.
#[derive(Debug)]
pub struct CallRates {
    running: MapMemory,
    cpus: usize,
    cheapest_ns: u64,
    floor_ns: u64,
}

/// Counts since the programs were attached first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Calls that traced threads have begun while the programs were attached.
    pub calls: u64,
    /// How long traced threads have had CPUs, in nanoseconds, up to now.
    pub ran_ns: u64,
    /// Runs of the programs, at entries and at exits, that were timed.
    pub timed: u64,
    /// How long these took, in nanoseconds.
    pub timed_ns: u64,
    /// Switches, wake-ups and page faults that were recorded.
    pub recorded: u64,
}

impl CallRates {
    /// `cheapest_ns` is how long the cheapest system call takes while the programs are not
    /// attached, and `floor_ns` how much longer it takes while they are.
    pub(super) fn new(
        running: MapMemory,
        cpus: usize,
        (cheapest_ns, floor_ns): (u64, u64),
    ) -> Self {
        Self {
            running,
            cpus,
            cheapest_ns,
            floor_ns,
        }
    }

    /// Returns the counts as of this time of the monotonic clock, in nanoseconds.
    #[must_use]
    pub fn counts(&self, now_ns: u64) -> CallCounts {
        let mut counts = CallCounts::default();
        for cpu in 0..self.cpus {
            let word = |field: usize| {
                let word = self.running.word(cpu * size_of::<Running>() + field);
                word.map_or(0, |word| word.load(Ordering::Relaxed))
            };
            counts.calls += word(offset_of!(Running, calls));
            counts.ran_ns += word(offset_of!(Running, ran_ns));
            counts.timed += word(offset_of!(Running, timed));
            counts.timed_ns += word(offset_of!(Running, timed_ns));
            counts.recorded += word(offset_of!(Running, recorded));
            if word(offset_of!(Running, tid)) != 0 {
                // Where the CPU switches meanwhile, this sum is a little too large or too small; a
                // later one is right again.
                counts.ran_ns += now_ns.saturating_sub(word(offset_of!(Running, since_ns)));
            }
        }
        counts
    }

    /// Returns how long the cheapest system call takes while the programs are not attached, in
    /// nanoseconds, at the speed that the processor had when this was measured.
    #[must_use]
    pub fn cheapest_ns(&self) -> u64 {
        self.cheapest_ns
    }

    /// Returns how much longer a system call of a thread that is not traced takes while the
    /// programs are attached, in nanoseconds. This was measured when they were first attached.
    #[must_use]
    pub fn floor_ns(&self) -> u64 {
        self.floor_ns
    }
}

/// Measures how long the cheapest system call of this thread takes now, in nanoseconds: in the best
/// of many short rounds, since other threads may take the CPU in some.
#[must_use]
pub fn cheapest_call_ns() -> u64 {
    const ROUNDS: u32 = 64;
    const CALLS: u32 = 32;
    let rounds = (0..ROUNDS).map(|_| {
        let begin = Instant::now();
        for _ in 0..CALLS {
            // SAFETY: it has no arguments.
            unsafe { libc::syscall(libc::SYS_getppid) };
        }
        begin.elapsed().as_nanos() / u128::from(CALLS)
    });
    u64::try_from(rounds.min().unwrap_or(0)).unwrap_or(u64::MAX)
}
