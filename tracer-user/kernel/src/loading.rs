//! Loading of the programs: the parameters of the object, the maps that this process uses, the
//! attachments.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use aya::maps::Map;
use aya::{Btf, Ebpf, EbpfLoader};
use zerocopy::IntoBytes;

use tracer_binary::unwind::REGISTERS_BYTES;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::globals::guards;
use tracer_common::kernel::{
    CONTEXT_PROCESSES, CONTEXT_SLOTS, Choice, LostOnCpu, MOST_BLOCKED, MOST_BLOCKED_MEMORY,
    MOST_PYTHON_PROCESSES, MOST_PYTHON_THREADS, PID_LIMIT, PIDS_PAGE, PYTHON_CODES, PacketsOf,
    QUEUED_SLOTS, Queued, Running, SENDER_SLOTS, Sender, TRACED_PAGE, VISIBLE_SLOTS, WAKER_SLOTS,
    Waker, call_texts, syscalls, wanted,
};
use tracer_syscalls::choice::SyscallSet;
use tracer_syscalls::descriptors::{self, DescriptorOptions};
use tracer_syscalls::pointer_data;

use super::btf::offsets::Global;
use super::btf::variables::{Variable, name_variables};
use super::call_links::{CallRates, cheapest_call_ns};
use super::calls::WantedMaps;
use super::counts::{COUNTED_THREADS, CountEntries, Counting, OF_ALL, SUMS};
use super::cpu_rings::{self, CPU_RING_ENDS, CPU_RINGS, CpuRings};
use super::diagnostics::{Diagnostics, diagnostics};
use super::error::LoadError;
use super::look::Looker;
use super::losses::LostByCpu;
use super::mapping::{Access, MapMemory};
use super::namespace::{Nested, ProcessListing};
use super::options::KernelOptions;
use super::perf;
use super::probes::{self, ProbeAttachments};
use super::programs::{self, CONTROL_GROUPS, DESCRIPTORS, Detachable, INTERRUPTS};
use super::requirements::{self, Kernel};
use super::rings::{self, Rings};
use super::switch_tables::SwitchTables;
use super::traced::{TRACED, VisibleMap};
use super::tracepoints;
use super::withheld::WithheldMap;

/// The object as `cargo xtask build-ebpf` built it, aligned as an object file must be.
static OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/ebpf/tracer-ebpf.o"));

/// Returns the object.
pub fn object() -> &'static [u8] {
    OBJECT
}

/// Part of a ring that may be filled before its reader is woken: one in this many.
const WAKE_AT_ONE_IN: u32 = 4;

/// Limit on the bytes that are read of the memory to which an argument of a system call points.
const MOST_OF_CALLS: u32 = 4096;

/// Least number of bytes that are read of the arguments of an exec.
const LEAST_OF_EXECS: u32 = 4096;

/// The programs' own log: its size, and the code of the level `debug`.
const LOG_BYTES: u32 = 128 * 1024;
const LOG_DEBUG: u8 = aya_log::Level::Debug as u8;

/// The tracepoint at the beginning of calls.
const AT_ENTRY: &str = "sys_enter";

/// Requests to block devices that are remembered at a time.
pub(super) const MOST_REQUESTS: u32 = 8192;

const WANTED: &str = "WANTED";
const SYSCALLS: &str = "SYSCALLS";
const CALL_TEXTS: &str = "CALL_TEXTS";
const CALL_DESCRIPTORS: &str = "CALL_DESCRIPTORS";
const LOST: &str = "LOST";
const CHOICE: &str = "CHOICE";
const UNSEEN_RETURNS: &str = "UNSEEN_RETURNS";
const UNTOLD_ENDS: &str = "UNTOLD_ENDS";
const VISIBLE: &str = "VISIBLE";
const WITHHELD: &str = "WITHHELD";

/// Bytes of the map `VISIBLE`.
const VISIBLE_BYTES: usize = VISIBLE_SLOTS as usize * size_of::<u64>();

/// Bytes of the map `SYSCALLS`.
const SYSCALLS_BYTES: usize = syscalls::SETS as usize * syscalls::WORDS * size_of::<u64>();

/// Decisions made before anything is loaded.
pub(super) struct Plan<'a> {
    options: &'a KernelOptions,
    kernel: &'a Kernel,
    cpus: u32,
    ring_bytes: u32,
    ring_count: u32,
    /// Noting of interrupts, to find wakers, where the kernel's own count of interrupts cannot be
    /// read.
    notes_interrupts: bool,
    /// Processes that are traced by their properties, where that was asked for.
    chosen: Option<Choice>,
}

/// Maps of the programs that this process uses.
pub(super) struct Maps {
    pub rings: Rings,
    /// Readable when one of the rings is.
    pub ring_fd: OwnedFd,
    pub wanted: WantedMaps,
    pub lost: LostByCpu,
    pub unseen_returns: MapMemory,
    pub untold_ends: MapMemory,
    pub visible: VisibleMap,
    pub withheld: WithheldMap,
    pub log: Option<Diagnostics>,
}

/// Attached programs.
pub(super) struct Attached {
    /// Descriptors of the programs, for the count of missed runs.
    pub programs: Vec<OwnedFd>,
    /// The types that are recorded, as bits.
    pub recorded: u64,
    /// List of processes, where our pid namespace is not the first one.
    pub listing: Option<ProcessListing>,
    /// Look at threads when the trace begins, where that is wanted.
    pub looker: Option<Looker>,
    pub probes: ProbeAttachments,
    pub tracepoints: tracepoints::TracepointAttachments,
    /// Programs that can be detached, what those at switches note, and the rates of events.
    pub detachable: Option<(Detachable, SwitchTables, CallRates)>,
}

impl<'a> Plan<'a> {
    /// Plans the loading for these options, on this kernel.
    pub fn new(options: &'a KernelOptions, kernel: &'a Kernel, ring_bytes: u32) -> Self {
        let cpus = requirements::cpus();
        let wants_wakeups = options.wanted_bits() & wanted::bit(EventTypeId::WAKEUP) != 0;
        let is_nested = kernel.namespace.is_some();
        Self {
            options,
            kernel,
            cpus,
            ring_bytes,
            ring_count: rings::count_for(cpus),
            notes_interrupts: wants_wakeups && !kernel.counts_interrupts(),
            chosen: options.choice.for_programs(options.inherit, is_nested),
        }
    }

    /// Returns the size of the rings of single CPUs.
    fn cpu_rings(&self) -> cpu_rings::Size {
        if !cpu_rings::are_possible(self.options, self.describes()) {
            return cpu_rings::Size::NONE;
        }
        let all = u64::from(self.ring_bytes) * u64::from(self.ring_count);
        cpu_rings::Size::each_of(all, self.cpus)
    }

    /// Tells whether descriptions of descriptors are recorded.
    fn describes(&self) -> bool {
        let calls = [EventTypeId::SYSCALL_ENTER, EventTypeId::SYSCALL_EXIT];
        let bits = calls.iter().fold(0, |bits, id| bits | wanted::bit(*id));
        self.options.descriptors != DescriptorOptions::None
            && self.options.wanted_bits() & bits != 0
    }

    /// Returns how the programs treat guarded processes: one of [`guards`].
    fn guards(&self) -> u32 {
        match (self.options.guards, self.options.is_beside) {
            (false, _) => guards::NONE,
            (true, false) => guards::COUNTS_LIFE,
            (true, true) => guards::IS_BESIDE,
        }
    }

    /// Returns the constants of the programs.
    fn globals(&self) -> Vec<Global> {
        let namespace = self.kernel.namespace.map_or(0, |Nested(inode)| inode);
        let stacks = &self.options.stacks;
        let [low, high] = halves(stacks.recorded_types());
        let limit = stacks.off_cpu.unwrap_or_default().as_nanos();
        let [off_cpu_low, off_cpu_high] = halves(u64::try_from(limit).unwrap_or(u64::MAX));
        let off_cpu_kernel_frames = if stacks.off_cpu_in_kernel {
            stacks.kernel_frames
        } else {
            0
        };
        let cpu_rings = self.cpu_rings();
        let counting = self.options.counting;
        let of_plan = [
            (
                "ALL_CALLS",
                u32::from(self.options.syscalls == SyscallSet::all()),
            ),
            ("COUNTS", counting.map_or(0, Counting::bits)),
            ("COUNTS_BY", counting.map_or(0, Counting::by)),
            (
                "COUNTS_ARE_PREEMPTED",
                u32::from(cpu_rings::are_preempted()),
            ),
            ("CALLS_AT_EXIT", u32::from(self.options.calls_at_exit)),
            ("COUNTS_RATES", u32::from(self.options.detaches_calls)),
            ("CPU_RING_BYTES", cpu_rings.bytes),
            ("CPU_RING_CHUNKS", cpu_rings.chunks),
            ("RING_WAKE_BYTES", self.ring_bytes / WAKE_AT_ONE_IN),
            ("EXEC_WAKES", u32::from(self.options.wakes_at_exec)),
            ("GUARDS", self.guards()),
            ("RING_MASK", self.ring_count.saturating_sub(1)),
            ("NAMESPACE", namespace),
            ("NOTES_INTERRUPTS", u32::from(self.notes_interrupts)),
            ("CHOOSES", u32::from(self.chosen.is_some())),
            ("STRING_BYTES", self.options.string_bytes.min(MOST_OF_CALLS)),
            ("ONLY_NAMES", u32::from(self.options.only_names)),
            ("EXEC_BYTES", self.options.string_bytes.max(LEAST_OF_EXECS)),
            ("STACK_TYPES_LOW", low),
            ("STACK_TYPES_HIGH", high),
            ("STACK_KERNEL_FRAMES", stacks.kernel_frames),
            ("OFF_CPU_KERNEL_FRAMES", off_cpu_kernel_frames),
            ("STACK_USER_FRAMES", stacks.user_frames),
            ("STACK_PYTHON_FRAMES", stacks.python_frames),
            ("THREAD_CONTEXTS", u32::from(self.options.thread_contexts)),
            ("UNWIND_BYTES", stacks.copied_bytes),
            ("UNWIND_REGISTERS_BYTES", REGISTERS_BYTES),
            ("OFF_CPU", u32::from(stacks.off_cpu.is_some())),
            ("OFF_CPU_LOW", off_cpu_low),
            ("OFF_CPU_HIGH", off_cpu_high),
            ("SAMPLE_NS", stacks.sampled_ns()),
        ];
        let mut globals = self.kernel.globals.clone();
        globals.extend(of_plan.map(|(name, value)| Global { name, value }));
        globals
    }

    /// Loads the object.
    pub fn load(&self, object: &[u8]) -> Result<Ebpf, LoadError> {
        let is_nested = self.kernel.namespace.is_some();
        let parameters = Parameters {
            globals: &self.globals(),
            variables: &self.kernel.variables,
            cpus: self.cpus,
            cpu_rings: self.cpu_rings(),
            pages: PID_LIMIT / TRACED_PAGE,
            pid_pages: if is_nested { PID_LIMIT / PIDS_PAGE } else { 1 },
            wanted: self.options.wanted_bits(),
            reads_strings: self.options.string_bytes > 0,
            probe_sites: self.options.probes.locations.len(),
            tracepoints: self.options.tracepoints.len(),
            counts: self.options.counting.map_or(CountEntries::NONE, |of| {
                of.entries(self.cpus, self.options.points())
            }),
            holds_blocked: self.options.stacks.off_cpu.is_some(),
            copies_stacks: self.options.stacks.copied_bytes > 0,
            follows_python: self.options.stacks.python_frames > 0,
            has_contexts: self.options.thread_contexts,
            describes: self.describes(),
            is_verbose: self.options.verbose,
        };
        parameters.load(object, self.kernel.btf.as_ref())
    }

    /// Makes the rings, and maps what is shared with the programs. This is done before they are
    /// attached.
    pub fn map(&self, ebpf: &mut Ebpf) -> Result<Maps, LoadError> {
        let mut rings = Rings::make(ebpf, self.ring_count, self.ring_bytes)?;
        let size = self.cpu_rings();
        if size != cpu_rings::Size::NONE {
            rings.add_cpu_rings(CpuRings::map(ebpf, self.cpus, size)?);
        }
        let ring_fd = rings.any_readable();
        let ring_fd = ring_fd.map_err(|source| LoadError::MapCall {
            call: "epoll",
            name: "RINGS",
            source,
        })?;
        let word = map_array(ebpf, WANTED, wanted::WORDS * size_of::<u64>())?;
        let sets = map_array(ebpf, SYSCALLS, SYSCALLS_BYTES)?;
        let wanted = WantedMaps::new(word, sets);
        wanted.set_syscalls(&self.options.syscalls);
        if self.options.string_bytes > 0 {
            let mut texts = pointer_data::of_calls();
            if self.options.only_names {
                texts
                    .iter_mut()
                    .for_each(|text| *text = call_texts::names(*text));
            }
            let map = map_array(ebpf, CALL_TEXTS, size_of_val(texts.as_slice()))?;
            map.write(texts.as_bytes());
        }
        if self.describes() {
            let calls = descriptors::of_calls();
            let map = map_array(ebpf, CALL_DESCRIPTORS, size_of_val(calls.as_slice()))?;
            map.write(calls.as_bytes());
        }
        let cpus = usize_of(self.cpus);
        let lost = map_array(ebpf, LOST, cpus * size_of::<LostOnCpu>())?;
        if let Some(chosen) = self.chosen {
            let choice = map_array(ebpf, CHOICE, size_of::<Choice>())?;
            choice.write(chosen.as_bytes());
        }
        Ok(Maps {
            rings,
            ring_fd,
            wanted,
            lost: LostByCpu::new(lost, cpus),
            unseen_returns: map_array(ebpf, UNSEEN_RETURNS, size_of::<u64>())?,
            untold_ends: map_array(ebpf, UNTOLD_ENDS, size_of::<u64>())?,
            visible: VisibleMap::new(map_array(ebpf, VISIBLE, VISIBLE_BYTES)?),
            withheld: WithheldMap::new(map_array(ebpf, WITHHELD, WithheldMap::BYTES)?),
            log: self.options.verbose.then(|| diagnostics(ebpf)).flatten(),
        })
    }

    /// Attaches the programs, and the probes.
    pub fn attach(&self, ebpf: &mut Ebpf) -> Result<Attached, LoadError> {
        let mut bits = wanted::LIFECYCLE | self.options.wanted_bits();
        if !self.kernel.gives_registers() {
            // The registers of a thread say what it waits for.
            bits &= !wanted::bit(EventTypeId::LOCK_WAIT);
        }
        if self.notes_interrupts {
            bits |= INTERRUPTS;
        }
        if self.chosen.is_some_and(|chosen| chosen.cgroup != 0) {
            bits |= CONTROL_GROUPS;
        }
        if self.describes() {
            bits |= DESCRIPTORS;
        }
        bits |= self.options.counting.map_or(0, Counting::attached);
        let mut listing = None;
        let has = |name: &str| {
            let is_left_out = self.options.calls_at_exit && name == AT_ENTRY;
            !is_left_out && self.kernel.tracepoints.contains(&name)
        };
        // From now on, the programs learn the pids of new processes. This listing gives them the
        // pids of the processes that exist.
        let list = |ebpf: &mut Ebpf| {
            if let (Some(_), Some(btf)) = (self.kernel.namespace, &self.kernel.btf) {
                let listed = ProcessListing::load(ebpf, btf)?;
                listed.threads(ebpf)?;
                listing = Some(listed);
            }
            Ok(())
        };
        let mut links = self.options.detaches_calls.then(Detachable::default);
        let btf = self.kernel.btf.as_ref();
        let mut attached = programs::attach(ebpf, btf, bits, has, list, links.as_mut())?;
        let detachable = links.map(|links| self.attach_detachable(ebpf, links));
        let detachable = detachable.transpose()?;
        if self.options.calls_at_exit && has("sys_exit") {
            // Exits are recorded without the program at entries, which only says which call ends
            // where the exit itself does not say so.
            attached.recorded |= bits & wanted::bit(EventTypeId::SYSCALL_EXIT);
        }
        let is_looking = attached.recorded & wanted::bit(EventTypeId::THREAD_STATE) != 0;
        let looker = is_looking.then(|| {
            let what = (attached.recorded, &self.options.stacks);
            Looker::load(ebpf, self.kernel.btf.as_ref(), &self.kernel.globals, what)
        });
        let probes = probes::attach(ebpf, &self.options.probes);
        let mut probes = probes.map_err(|source| LoadError::Probes { source })?;
        let tracepoints = tracepoints::attach(ebpf, &self.options.tracepoints);
        let mut tracepoints = tracepoints.map_err(|source| LoadError::Tracepoints { source })?;
        perf::attach_sampler(ebpf, self.options.stacks.samples_per_second)?;
        let programs = attached.programs.iter();
        let programs = programs.filter_map(|program| program.as_fd().try_clone_to_owned().ok());
        Ok(Attached {
            programs: programs
                .chain(probes.program.take())
                .chain(tracepoints.program.take())
                .collect(),
            recorded: attached.recorded,
            listing,
            looker,
            probes,
            tracepoints,
            detachable,
        })
    }

    /// Attaches the programs that can be detached, and measures what that of those at system calls
    /// costs.
    fn attach_detachable(
        &self,
        ebpf: &Ebpf,
        mut links: Detachable,
    ) -> Result<(Detachable, SwitchTables, CallRates), LoadError> {
        let failed = |name| {
            move |source: io::Error| LoadError::Program {
                name,
                source: Box::new(source.into()),
            }
        };
        links.switches.attach().map_err(failed("sched_switch"))?;
        let before_ns = cheapest_call_ns();
        links.calls.attach().map_err(failed("sys_enter"))?;
        let floor_ns = cheapest_call_ns().saturating_sub(before_ns);
        let cpus = usize_of(self.cpus);
        let running = || map_array(ebpf, "RUNNING", cpus * size_of::<Running>());
        let rates = CallRates::new(running()?, cpus, (before_ns, floor_ns));
        let tables = SwitchTables::new(running()?, self.switch_notes(ebpf)?);
        Ok((links, tables, rates))
    }

    /// Maps the tables of waiting threads, of wakers and of packets, as far as they are used.
    fn switch_notes(&self, ebpf: &Ebpf) -> Result<Vec<(MapMemory, usize)>, LoadError> {
        let map = |name, slots: u32, size: usize| {
            map_array(ebpf, name, usize_of(slots) * size).map(|map| (map, size))
        };
        let mut notes = Vec::new();
        if self.options.wanted_bits() & wanted::bit(EventTypeId::SWITCH_IN) != 0 {
            notes.push(map("QUEUED", QUEUED_SLOTS, size_of::<Queued>())?);
        }
        if self.options.wanted_bits() & wanted::bit(EventTypeId::WAKEUP) != 0 {
            notes.push(map("WAKERS", WAKER_SLOTS, size_of::<Waker>())?);
            notes.push(map("SENDERS", SENDER_SLOTS, size_of::<Sender>())?);
            // Each word says something.
            let bytes = usize_of(self.cpus) * size_of::<PacketsOf>();
            notes.push((map_array(ebpf, "PACKETS", bytes)?, size_of::<u64>()));
        }
        Ok(notes)
    }
}

/// Returns the lower and the upper half of a word.
pub(super) fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
    [[a, b, c, d], [e, f, g, h]].map(u32::from_le_bytes)
}

/// Parameters with which the object is loaded.
pub(super) struct Parameters<'a> {
    pub globals: &'a [Global],
    /// Variables of the kernel that the programs name.
    pub variables: &'a [Variable],
    /// CPUs that the machine may have.
    pub cpus: u32,
    /// Size of the ring of each CPU.
    pub cpu_rings: cpu_rings::Size,
    /// Pages of the map `TRACED`.
    pub pages: u32,
    /// Pages of the map `PIDS`.
    pub pid_pages: u32,
    /// The types that are wanted, as bits.
    pub wanted: u64,
    /// Reading of the memory that arguments of system calls point to.
    pub reads_strings: bool,
    /// Recording of descriptions of descriptors.
    pub describes: bool,
    /// Entries of the map `PROBE_SITES`.
    pub probe_sites: usize,
    /// Entries of the map `TRACEPOINT_SITES`.
    pub tracepoints: usize,
    /// Entries of the maps of counts.
    pub counts: CountEntries,
    /// Retention of the stacks of blocked threads.
    pub holds_blocked: bool,
    /// Stacks that are found from copies of registers and memory, which are retained as well.
    pub copies_stacks: bool,
    /// Recording of Python frames.
    pub follows_python: bool,
    /// Recording of the contexts of threads.
    pub has_contexts: bool,
    pub is_verbose: bool,
}

impl Parameters<'_> {
    pub fn load(&self, object: &[u8], btf: Option<&Btf>) -> Result<Ebpf, LoadError> {
        // Level 0 is below every message: the verifier then drops all messages as dead code.
        let (log_level, log_bytes) = if self.is_verbose {
            (LOG_DEBUG, LOG_BYTES)
        } else {
            (0_u8, 1)
        };
        let [waker_slots, sender_slots] = if self.wanted & wanted::bit(EventTypeId::WAKEUP) == 0 {
            [1, 1]
        } else {
            [WAKER_SLOTS, SENDER_SLOTS]
        };
        let queued_slots = if self.wanted & wanted::bit(EventTypeId::SWITCH_IN) == 0 {
            1
        } else {
            QUEUED_SLOTS
        };
        let block =
            wanted::bit(EventTypeId::BLOCK_ISSUE) | wanted::bit(EventTypeId::BLOCK_COMPLETE);
        let requests = if self.wanted & block == 0 {
            1
        } else {
            MOST_REQUESTS
        };
        let calls_with_texts = if self.reads_strings {
            2 * call_texts::CALLS
        } else {
            1
        };
        let blocked = if self.holds_blocked { MOST_BLOCKED } else { 1 };
        let blocked_memory = if self.holds_blocked && self.copies_stacks {
            MOST_BLOCKED_MEMORY
        } else {
            1
        };
        let of_python = |entries| if self.follows_python { entries } else { 1 };
        let of_contexts = |entries| if self.has_contexts { entries } else { 1 };
        let blocked_python = if self.holds_blocked {
            of_python(MOST_BLOCKED_MEMORY)
        } else {
            1
        };
        let calls_with_descriptors = if self.describes {
            2 * tracer_common::kernel::descriptors::CALLS
        } else {
            1
        };
        let chunks = match self.cpu_rings {
            cpu_rings::Size::NONE => 1,
            size => size.chunks.saturating_mul(self.cpus),
        };
        let mut loader = EbpfLoader::new();
        loader
            .btf(btf)
            .map_max_entries(LOST, self.cpus)
            .map_max_entries(CPU_RINGS, chunks)
            .map_max_entries(CPU_RING_ENDS, self.cpus)
            .map_max_entries("RUNNING", self.cpus)
            .map_max_entries("INTERRUPTS", self.cpus)
            .map_max_entries("PACKETS", self.cpus)
            .map_max_entries("SENDERS", sender_slots)
            .map_max_entries("WAKERS", waker_slots)
            .map_max_entries("QUEUED", queued_slots)
            .map_max_entries(CALL_TEXTS, calls_with_texts)
            .map_max_entries(CALL_DESCRIPTORS, calls_with_descriptors)
            .map_max_entries("ISSUERS", requests)
            .map_max_entries("BIOS", requests)
            .map_max_entries("BLOCKED", blocked)
            .map_max_entries("BLOCKED_MEMORY", blocked_memory)
            .map_max_entries("PYTHON", of_python(MOST_PYTHON_PROCESSES))
            .map_max_entries("PYTHON_THREADS", of_python(MOST_PYTHON_THREADS))
            .map_max_entries("PYTHON_TOLD", of_python(PYTHON_CODES))
            .map_max_entries("PYTHON_NAMES", of_python(PYTHON_CODES))
            .map_max_entries("BLOCKED_PYTHON", blocked_python)
            .map_max_entries("CONTEXT_PLACES", of_contexts(CONTEXT_PROCESSES))
            .map_max_entries("CONTEXTS", of_contexts(CONTEXT_SLOTS))
            .map_max_entries("CONTEXT_AT_HAND", of_contexts(self.cpus))
            .map_max_entries(TRACED, self.pages)
            .map_max_entries("PIDS", self.pid_pages)
            .map_max_entries(SUMS, self.counts.sums)
            .map_max_entries(OF_ALL, self.counts.of_all)
            .map_max_entries(COUNTED_THREADS, self.counts.threads)
            .map_max_entries("PROBE_SITES", entries(self.probe_sites))
            .map_max_entries(tracepoints::SITES, entries(self.tracepoints))
            .map_max_entries("AYA_LOGS", log_bytes)
            .override_global(aya_log::LEVEL, &log_level, true);
        for global in self.globals {
            loader.override_global(global.name, &global.value, true);
        }
        // The copy is made of words, so that it is aligned as an object file must be.
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

/// Returns the number of entries of a map: `count`, but at least one.
fn entries(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX).max(1)
}

/// Maps the first `length` bytes of an array into this process.
pub(super) fn map_array(
    ebpf: &Ebpf,
    name: &'static str,
    length: usize,
) -> Result<MapMemory, LoadError> {
    let Some(Map::Array(array)) = ebpf.map(name) else {
        return Err(LoadError::PartMissing { name });
    };
    MapMemory::new(array.fd().as_fd(), length, Access::ReadWrite).map_err(|source| {
        LoadError::MapCall {
            call: "mmap",
            name,
            source,
        }
    })
}

/// Converts an integer of 32 bits, which fits the address space of every machine that eBPF runs on.
pub(super) fn usize_of(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
