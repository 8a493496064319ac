//! Loading the programs, and choosing the processes.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use aya::maps::Map;
use aya::{Btf, Ebpf, EbpfLoader};

use tracer_common::event_type::EventTypeId;
use zerocopy::IntoBytes;

use tracer_common::kernel::{
    Choice, LostOnCpu, PID_LIMIT, PIDS_PAGE, TRACED_PAGE, WAKER_SLOTS, syscalls, wanted,
};

use super::btf::offsets::Global;
use super::btf::variables::{Variable, name_variables};
use super::calls::{SyscallSet, Wanted};
use super::choice;
use super::diagnostics::diagnostics;
use super::error::LoadError;
use super::losses::{Losses, LostByCpu};
use super::mapping::{Access, Mapping};
use super::namespace::{Listing, Nested};
use super::object::object;
use super::options::KernelOptions;
use super::probes::{self, Attachments, ProbeNames};
use super::programs::{self, CONTROL_GROUPS, INTERRUPTS};
use super::requirements;
use super::rings::{self, Rings};
use super::source::KernelSource;
use super::traced::{TRACED, Traced};

/// A ring may be filled to this part, one in so many, before its reader is woken.
const WAKE_AT_ONE_IN: u32 = 4;

/// The programs' own log: its size, and the number of the level `debug`.
const LOG_BYTES: u32 = 128 * 1024;
const LOG_DEBUG: u8 = aya_log::Level::Debug as u8;

/// Requests to block devices that are remembered at a time.
const MOST_REQUESTS: u32 = 8192;

const WANTED: &str = "WANTED";
const SYSCALLS: &str = "SYSCALLS";
const LOST: &str = "LOST";
const CHOICE: &str = "CHOICE";
const UNSEEN_RETURNS: &str = "UNSEEN_RETURNS";
const UNTOLD_ENDS: &str = "UNTOLD_ENDS";

/// Bytes of the map `SYSCALLS`.
const SYSCALLS_BYTES: usize = syscalls::SETS as usize * syscalls::WORDS * size_of::<u64>();

/// The loaded and attached eBPF programs. All of it ends with the process or when this and its
/// [`KernelSource`] are dropped.
pub struct KernelTracer {
    /// Holds the programs and their attachments.
    ebpf: Ebpf,
    _probes: Attachments,
    traced: Traced,
    /// Where our pid namespace is not the first one.
    listing: Option<Listing>,
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

        let mut globals = kernel.globals.clone();
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
        globals.push(Global {
            name: "NAMESPACE",
            value: kernel.namespace.map_or(0, |Nested(inode)| inode),
        });
        // Of who asks for wake-ups, where the kernel's own count of them cannot be read.
        let wants_wakeups = options.wanted_bits() & wanted::bit(EventTypeId::WAKEUP) != 0;
        let notes_interrupts = wants_wakeups && !kernel.counts_interrupts();
        globals.push(Global {
            name: "NOTES_INTERRUPTS",
            value: u32::from(notes_interrupts),
        });
        let is_nested = kernel.namespace.is_some();
        let chosen = options.choice.for_programs(options.inherit, is_nested);
        globals.push(Global {
            name: "CHOOSES",
            value: u32::from(chosen.is_some()),
        });
        let mut ebpf = Parameters {
            globals: &globals,
            variables: &kernel.variables,
            cpus,
            pages: PID_LIMIT / TRACED_PAGE,
            pid_pages: if is_nested { PID_LIMIT / PIDS_PAGE } else { 1 },
            wanted: options.wanted_bits(),
            probe_sites: options.probes.locations.len(),
            is_verbose: options.verbose,
        }
        .load(object, &kernel.btf)?;
        let wanted_bits = options.wanted_bits();
        let mut listing = None;
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
            // Last, so that the programs find everything when they are attached.
            let mut bits = wanted::LIFECYCLE | wanted_bits;
            if notes_interrupts {
                bits |= INTERRUPTS;
            }
            if let Some(chosen) = chosen {
                let choice = map_array(&ebpf, CHOICE, size_of::<Choice>())?;
                choice.write(chosen.as_bytes());
                if chosen.cgroup != 0 {
                    bits |= CONTROL_GROUPS;
                }
            }
            let has = |name: &str| kernel.tracepoints.contains(&name);
            // New processes have their pids known from then on: now those that are there.
            let list = |ebpf: &mut Ebpf| {
                if is_nested {
                    let listed = Listing::load(ebpf, &kernel.btf)?;
                    listed.threads(ebpf)?;
                    listing = Some(listed);
                }
                Ok(())
            };
            let attached = programs::attach(&mut ebpf, &kernel.btf, bits, has, list)?;
            let probes = probes::attach(&mut ebpf, &options.probes);
            let mut probes = probes.map_err(|source| LoadError::Probes { source })?;
            let programs = attached.programs.iter();
            let programs = programs.filter_map(|program| program.as_fd().try_clone_to_owned().ok());
            let programs = programs.chain(probes.program.take()).collect();
            let unseen = map_array(&ebpf, UNSEEN_RETURNS, size_of::<u64>())?;
            let ends = map_array(&ebpf, UNTOLD_ENDS, size_of::<u64>())?;
            let losses = Losses::new(lost.clone(), programs, unseen, ends);
            let recorded = attached.recorded & wanted::OPTIONAL;
            let names = ProbeNames(options.probes.names.clone());
            let source = KernelSource::new(rings, losses, wanted.clone(), recorded, names, log);
            (source, ring_fd, wanted, lost, attached.recorded, probes)
        };
        let tracer = Self {
            traced: Traced::of(&ebpf)?,
            listing,
            ring_fd,
            wanted,
            lost,
            recorded,
            ebpf,
            _probes: probes,
        };
        Ok((tracer, source))
    }

    /// Traces process `pid` (all its threads) from now on; with `inherit` also the children that
    /// it makes from now on, and theirs.
    ///
    /// Where our pid namespace is the first one, it does not look whether there is such a process: a
    /// pid that no process has is traced only until it is given to a new process.
    ///
    /// # Errors
    ///
    /// [`LoadError::NoSuchPid`]: no process can have this pid. [`LoadError::NotHere`]: no process
    /// of our pid namespace has it.
    pub fn trace(&mut self, pid: i32, inherit: bool) -> Result<(), LoadError> {
        self.set_traced(pid, choice::bits(inherit))
    }

    /// Traces those of the processes `pids` that are still there, as [`trace`](Self::trace) does.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn trace_found(&mut self, pids: &[i32], inherit: bool) -> Result<(), LoadError> {
        let bits = choice::bits(inherit);
        if let Some(listing) = &self.listing {
            for process in listing.processes(&mut self.ebpf)? {
                if pids.contains(&process.here) {
                    self.traced.set(checked(process.first)?, bits)?;
                }
            }
            return Ok(());
        }
        for pid in pids {
            self.traced.set(checked(*pid)?, bits)?;
        }
        Ok(())
    }

    /// Traces every process of our pid namespace but this one and those that it makes from now on.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn trace_everything(&mut self, inherit: bool) -> Result<(), LoadError> {
        let own = std::process::id();
        let bits = choice::bits(inherit);
        let Some(listing) = &self.listing else {
            return self.traced.set_all(bits, usize_of(own));
        };
        // What was made meanwhile by who was not marked yet is found the second time.
        for _ in 0..2 {
            let processes = listing.processes(&mut self.ebpf)?;
            for process in processes.iter().filter(|one| one.here != own.cast_signed()) {
                self.traced.set(checked(process.first)?, bits)?;
            }
        }
        Ok(())
    }

    /// Traces process `pid` no longer. Children that are traced already stay so.
    ///
    /// # Errors
    ///
    /// As of [`trace`](Self::trace).
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

    fn set_traced(&mut self, pid: i32, bits: u8) -> Result<(), LoadError> {
        let index = checked(pid)?;
        let Some(listing) = &self.listing else {
            return self.traced.set(index, bits);
        };
        let processes = listing.processes(&mut self.ebpf)?;
        let found = processes.iter().find(|process| process.here == pid);
        let process = found.ok_or(LoadError::NotHere { pid })?;
        self.traced.set(checked(process.first)?, bits)
    }
}

/// The index of a process, by its pid in the first pid namespace.
fn checked(pid: i32) -> Result<usize, LoadError> {
    let limit = usize_of(PID_LIMIT);
    usize::try_from(pid)
        .ok()
        .filter(|pid| (1..limit).contains(pid))
        .ok_or(LoadError::NoSuchPid {
            pid,
            last: limit - 1,
        })
}

/// What the object is loaded with.
pub(super) struct Parameters<'a> {
    pub globals: &'a [Global],
    /// Variables of the kernel that they name.
    pub variables: &'a [Variable],
    /// CPUs that the machine may have.
    pub cpus: u32,
    /// Pages of the map `TRACED`.
    pub pages: u32,
    /// Pages of the map `PIDS`.
    pub pid_pages: u32,
    /// The types that are wanted, as bits.
    pub wanted: u64,
    /// Entries of the map `PROBE_SITES`.
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
        let waker_slots = if self.wanted & wanted::bit(EventTypeId::WAKEUP) == 0 {
            1
        } else {
            WAKER_SLOTS
        };
        let block =
            wanted::bit(EventTypeId::BLOCK_ISSUE) | wanted::bit(EventTypeId::BLOCK_COMPLETE);
        let requests = if self.wanted & block == 0 {
            1
        } else {
            MOST_REQUESTS
        };
        let mut loader = EbpfLoader::new();
        loader
            .btf(Some(btf))
            .map_max_entries(LOST, self.cpus)
            .map_max_entries("RUNNING", self.cpus)
            .map_max_entries("INTERRUPTS", self.cpus)
            .map_max_entries("WAKERS", waker_slots)
            .map_max_entries("ISSUERS", requests)
            .map_max_entries("BIOS", requests)
            .map_max_entries(TRACED, self.pages)
            .map_max_entries("PIDS", self.pid_pages)
            .map_max_entries(
                "PROBE_SITES",
                u32::try_from(self.probe_sites).unwrap_or(u32::MAX).max(1),
            )
            .map_max_entries("AYA_LOGS", log_bytes)
            .override_global(aya_log::LEVEL, &log_level, true);
        for global in self.globals {
            loader.override_global(global.name, &global.value, true);
        }
        // In words, so that it stays aligned as an object file must be.
        let mut words = vec![0_u64; object.len().div_ceil(size_of::<u64>())];
        let bytes = words.as_mut_bytes();
        let bytes = bytes.get_mut(..object.len()).unwrap_or_default();
        bytes.copy_from_slice(object);
        name_variables(bytes, self.variables);
        loader.load(bytes).map_err(|source| LoadError::Object {
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

/// A 32-bit integer fits the address space of every machine that eBPF runs on.
fn usize_of(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
