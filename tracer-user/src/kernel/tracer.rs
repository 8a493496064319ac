//! Loading the programs, and choosing the processes.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;

use aya::maps::Map;
use aya::{Btf, Ebpf, EbpfLoader};

use tracer_common::event_type::EventTypeId;
use zerocopy::IntoBytes;

use tracer_common::kernel::{Choice, LostOnCpu, TRACED_PAGE, WAKER_PLACES, syscalls, wanted};

use super::btf::offsets::Global;
use super::calls::{SyscallSet, Wanted};
use super::choice;
use super::diagnostics::diagnostics;
use super::error::LoadError;
use super::losses::{Losses, LostByCpu};
use super::mapping::{Access, Mapping};
use super::object::object;
use super::options::KernelOptions;
use super::probes::{self, Attachments, ProbeNames};
use super::programs::{self, CONTROL_GROUPS};
use super::requirements;
use super::rings::{self, Rings};
use super::source::KernelSource;

/// A ring may be filled to this part, one in so many, before its reader is woken.
const WAKE_AT_ONE_IN: u32 = 4;

/// The programs' own log: its size, and the number of the level `debug`.
const LOG_BYTES: u32 = 128 * 1024;
const LOG_DEBUG: u8 = aya_log::Level::Debug as u8;

const TRACED: &str = "TRACED";
const WANTED: &str = "WANTED";
const SYSCALLS: &str = "SYSCALLS";
const LOST: &str = "LOST";
const CHOICE: &str = "CHOICE";

/// Bytes of the map `SYSCALLS`.
const SYSCALLS_BYTES: usize = syscalls::SETS as usize * syscalls::WORDS * size_of::<u64>();

/// The loaded and attached eBPF programs. All of it ends with the process or when this and its
/// [`KernelSource`] are dropped.
pub struct KernelTracer {
    /// Holds the programs and their attachments.
    _ebpf: Ebpf,
    _probes: Attachments,
    /// The map `TRACED`: a byte a process.
    traced: Mapping,
    /// Processes in `traced`.
    processes: usize,
    /// Readable when one of the rings is.
    ring_fd: OwnedFd,
    wanted: Wanted,
    lost: LostByCpu,
    /// The types that are recorded, as bits.
    recorded: u64,
}

impl KernelTracer {
    /// Checks the kernel, loads and attaches. Nothing is traced yet.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn load(options: &KernelOptions) -> Result<(Self, KernelSource), LoadError> {
        let object = object().ok_or(LoadError::ObjectMissing)?;
        let ring_bytes = options.rounded_ring_bytes()?;
        let kernel = requirements::examine()?;
        let pages = requirements::pid_max().div_ceil(TRACED_PAGE);

        let mut globals = kernel.globals;
        globals.push(Global {
            name: "RING_WAKE_BYTES",
            value: ring_bytes / WAKE_AT_ONE_IN,
        });
        globals.push(Global {
            name: "EXEC_WAKES",
            value: u32::from(options.wakes_at_exec),
        });
        let cpus = requirements::cpus();
        let ring_count = rings::count_for(cpus);
        globals.push(Global {
            name: "RING_MASK",
            value: ring_count.saturating_sub(1),
        });
        let chosen = options.choice.for_programs(options.inherit);
        globals.push(Global {
            name: "CHOOSES",
            value: u32::from(chosen.is_some()),
        });
        let mut ebpf = Parameters {
            globals: &globals,
            cpus,
            pages,
            wanted: options.wanted_bits(),
            probe_sites: options.probes.places.len(),
            is_verbose: options.verbose,
        }
        .load(object, &kernel.btf)?;
        let wanted_bits = options.wanted_bits();
        let (source, ring_fd, wanted, lost, recorded, probes) = {
            let rings = Rings::make(&mut ebpf, ring_count, ring_bytes)?;
            let ring_fd = rings.any_readable();
            let ring_fd = ring_fd.map_err(|source| LoadError::MapCall {
                call: "epoll",
                name: "RINGS",
                source,
            })?;
            let word = map_array(&ebpf, WANTED, size_of::<u64>())?;
            let sets = map_array(&ebpf, SYSCALLS, SYSCALLS_BYTES)?;
            let wanted = Wanted::new(word, sets);
            wanted.set_syscalls(&options.syscalls);
            let lost = map_array(&ebpf, LOST, usize_of(cpus) * size_of::<LostOnCpu>())?;
            let lost = LostByCpu::new(lost, usize_of(cpus));
            let log = options.verbose.then(|| diagnostics(&mut ebpf)).flatten();
            // Last, so that the programs find everything in place when they are attached.
            let mut bits = wanted::LIFECYCLE | wanted_bits;
            if let Some(chosen) = chosen {
                let choice = map_array(&ebpf, CHOICE, size_of::<Choice>())?;
                choice.write(chosen.as_bytes());
                if chosen.cgroup != 0 {
                    bits |= CONTROL_GROUPS;
                }
            }
            let has = |name: &str| kernel.tracepoints.contains(&name);
            let attached = programs::attach(&mut ebpf, &kernel.btf, bits, has)?;
            let probes = probes::attach(&mut ebpf, &options.probes);
            let mut probes = probes.map_err(|source| LoadError::Probes { source })?;
            let programs = attached.programs.into_iter().chain(probes.program.take());
            let losses = Losses::new(lost.clone(), programs.collect());
            let recorded = attached.recorded & wanted::OPTIONAL;
            let names = ProbeNames(options.probes.names.clone());
            let source = KernelSource::new(rings, losses, wanted.clone(), recorded, names, log);
            (source, ring_fd, wanted, lost, attached.recorded, probes)
        };
        let processes = usize_of(pages) * usize_of(TRACED_PAGE);
        let tracer = Self {
            traced: map_array(&ebpf, TRACED, processes)?,
            processes,
            ring_fd,
            wanted,
            lost,
            recorded,
            _ebpf: ebpf,
            _probes: probes,
        };
        Ok((tracer, source))
    }

    /// Traces process `pid` (all its threads) from now on; with `inherit` also the children that
    /// it makes from now on, and theirs.
    ///
    /// Does not look whether there is such a process: a number that no process has is traced
    /// only until it is given to a new process.
    ///
    /// # Errors
    ///
    /// [`LoadError::NoSuchPid`]: no process can have this number.
    pub fn trace(&mut self, pid: i32, inherit: bool) -> Result<(), LoadError> {
        self.set_traced(pid, choice::bits(inherit))
    }

    /// Traces every process but this one and those that it makes from now on.
    pub fn trace_everything(&mut self, inherit: bool) {
        let own = usize::try_from(std::process::id()).unwrap_or(0);
        let bits = choice::bits(inherit);
        // A process that is made while its parent is not marked yet may get a number that was
        // passed already: the second time round every parent is marked, and with it what it makes.
        for _ in 0..2 {
            for pid in (1..self.processes).filter(|pid| *pid != own) {
                if let Some(byte) = self.traced.byte(pid) {
                    byte.store(bits, Ordering::Relaxed);
                }
            }
        }
    }

    /// Traces process `pid` no longer. Children that are traced already stay so.
    ///
    /// # Errors
    ///
    /// [`LoadError::NoSuchPid`]: no process can have this number.
    pub fn untrace(&mut self, pid: i32) -> Result<(), LoadError> {
        self.set_traced(pid, 0)
    }

    /// Records these system calls from now on, as far as the types are wanted. All of the change
    /// is in force at once.
    pub fn set_syscalls(&mut self, calls: &SyscallSet) {
        self.wanted.set_syscalls(calls);
    }

    /// Whether events of this type are recorded where they are wanted: the kernel may have no
    /// tracepoint for it.
    #[must_use]
    pub fn records(&self, id: EventTypeId) -> bool {
        self.recorded & wanted::bit(id) != 0
    }

    /// What the programs are to record, to be changed by the streams of others.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        self.wanted.clone()
    }

    /// What the programs could not record on each CPU, to be asked at the end.
    #[must_use]
    pub fn lost_by_cpu(&self) -> LostByCpu {
        self.lost.clone()
    }

    /// Becomes readable when a ring has filled past its threshold: to be used with `AsyncFd`.
    /// Valid as long as this lives.
    #[must_use]
    pub fn ring_fd(&self) -> RawFd {
        self.ring_fd.as_raw_fd()
    }

    fn set_traced(&self, pid: i32, bits: u8) -> Result<(), LoadError> {
        let byte = usize::try_from(pid)
            .ok()
            .filter(|pid| (1..self.processes).contains(pid))
            .and_then(|pid| self.traced.byte(pid));
        let byte = byte.ok_or(LoadError::NoSuchPid {
            pid,
            last: self.processes.saturating_sub(1),
        })?;
        // Nothing else depends on it: a program may see it a little later.
        byte.store(bits, Ordering::Relaxed);
        Ok(())
    }
}

/// What the object is loaded with.
pub(super) struct Parameters<'a> {
    pub globals: &'a [Global],
    /// CPUs that the machine may have.
    pub cpus: u32,
    /// Pages of the map `TRACED`.
    pub pages: u32,
    /// The types that are wanted, as bits.
    pub wanted: u64,
    /// Places of the map `PROBE_SITES`.
    pub probe_sites: usize,
    pub is_verbose: bool,
}

impl Parameters<'_> {
    pub fn load(&self, object: &[u8], btf: &Btf) -> Result<Ebpf, LoadError> {
        // Level 0 is below every message: the verifier then drops them as dead code.
        let (log_level, log_bytes) = if self.is_verbose {
            (LOG_DEBUG, LOG_BYTES)
        } else {
            (0_u8, 1)
        };
        let waker_places = if self.wanted & wanted::bit(EventTypeId::WAKEUP) == 0 {
            1
        } else {
            WAKER_PLACES
        };
        let mut loader = EbpfLoader::new();
        loader
            .btf(Some(btf))
            .map_max_entries(LOST, self.cpus)
            .map_max_entries("WAKERS", waker_places)
            .map_max_entries(TRACED, self.pages)
            .map_max_entries(
                "PROBE_SITES",
                u32::try_from(self.probe_sites).unwrap_or(u32::MAX).max(1),
            )
            .map_max_entries("AYA_LOGS", log_bytes)
            .override_global(aya_log::LEVEL, &log_level, true);
        for global in self.globals {
            loader.override_global(global.name, &global.value, true);
        }
        loader.load(object).map_err(|source| LoadError::Object {
            source: Box::new(source),
        })
    }
}

/// Maps the first `length` bytes of an array into this process.
fn map_array(ebpf: &Ebpf, name: &'static str, length: usize) -> Result<Mapping, LoadError> {
    let Some(Map::Array(array)) = ebpf.map(name) else {
        return Err(LoadError::PartMissing { name });
    };
    Mapping::new(array.fd().as_fd(), length, Access::ReadWrite).map_err(|source| {
        LoadError::MapCall {
            call: "mmap",
            name,
            source,
        }
    })
}

/// A 32-bit number fits the address space of every machine that eBPF runs on.
fn usize_of(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
