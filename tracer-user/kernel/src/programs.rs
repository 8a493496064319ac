//! Programs of the object, and their loading into the kernel.

use std::sync::LazyLock;

use aya::programs::{BtfTracePoint, ProgramError, ProgramFd, RawTracePoint};
use aya::{Btf, Ebpf};

use tracer_common::event_type::{EventTypeId, KernelEventType};
use tracer_common::kernel::{KERNEL_EVENT_TYPES, wanted};

use super::call;
use super::call_links::ProgramLinks;
use super::error::LoadError;

/// Tracepoint with a program for it. The program for the BTF tracepoint has its name; that for the
/// raw tracepoint has `_raw` behind it.
struct Tracepoint {
    /// Name of the program, which begins with that of the tracepoint.
    name: &'static str,
    /// Types that are not recorded without it, as bits.
    records: u64,
    /// Types that are recorded without it, but with less in their events, as bits; and bits of
    /// [what else needs it](NEEDED_OTHERWISE).
    helps: u64,
}

impl Tracepoint {
    /// Tells whether it is attached when these types are wanted.
    const fn is_for(&self, bits: u64) -> bool {
        (self.records | self.helps) & bits != 0
    }

    /// Returns the tracepoint at which its program is attached.
    fn site(&self) -> &'static str {
        let mut others = OTHERS_THERE.iter();
        let site = others.find_map(|other| self.name.strip_suffix(other));
        site.unwrap_or(self.name)
    }

    fn raw_program(&self) -> String {
        format!("{}_raw", self.name)
    }
}

/// Bit beside those of types: tracepoints that are needed when processes are chosen by control
/// group. No type has bit 0.
pub const CONTROL_GROUPS: u64 = 1;
/// Bit beside those of types: tracepoints that are needed where interrupts are noted as they begin
/// and end. It is the bit of a type that the kernel does not have.
pub const INTERRUPTS: u64 = wanted::bit(EventTypeId::ERROR);
/// Bit beside those of types: tracepoints that describe descriptors.
pub const DESCRIPTORS: u64 = wanted::bit(EventTypeId::START);
/// Bits beside those of types: tracepoints at which programs count system calls, how long these
/// take, what threads do, and page faults.
pub const COUNTED_CALLS: u64 = wanted::bit(EventTypeId::STOP);
pub const COUNTED_CALL_TIMES: u64 = wanted::bit(EventTypeId::FLUSH_START);
pub const COUNTED_SWITCHES: u64 = wanted::bit(EventTypeId::FILTER);
pub const COUNTED_FAULTS: u64 = wanted::bit(EventTypeId::OVERFLOW);

/// Suffixes of the names of further programs at a tracepoint. Those that describe descriptors or
/// tell of locks come before the program without a suffix; the one that counts takes its place.
const OTHERS_THERE: [&str; 3] = ["_descriptors", "_locks", "_counts"];

/// Tracepoints that are needed for more than the types that they record.
const NEEDED_OTHERWISE: &[(&str, u64)] = &[
    ("cgroup_attach_task", CONTROL_GROUPS),
    ("hrtimer_expire_entry", INTERRUPTS),
    ("hrtimer_expire_exit", INTERRUPTS),
    ("irq_handler_entry", INTERRUPTS),
    ("irq_handler_exit", INTERRUPTS),
    ("softirq_entry", INTERRUPTS),
    ("softirq_exit", INTERRUPTS),
    ("sys_enter_descriptors", DESCRIPTORS),
    ("sys_exit_descriptors", DESCRIPTORS),
    ("sched_wakeup_new_counts", COUNTED_CALLS | COUNTED_SWITCHES),
    ("sched_wakeup_counts", COUNTED_SWITCHES),
    ("sched_switch_counts", COUNTED_CALL_TIMES | COUNTED_SWITCHES),
    ("sys_exit_counts", COUNTED_CALLS),
    ("sys_enter_counts", COUNTED_CALL_TIMES),
    ("page_fault_user_counts", COUNTED_FAULTS),
    ("page_fault_kernel_counts", COUNTED_FAULTS),
];

/// Tracepoints in the order in which they are attached: those that show which processes exist
/// before those that show what processes do, and those that help before those that they help.
static TRACEPOINTS: LazyLock<Vec<Tracepoint>> = LazyLock::new(|| {
    let mut all = Vec::new();
    let is_lifecycle = |known: &&KernelEventType| is_lifecycle(wanted::bit(known.entry.id));
    for known in KERNEL_EVENT_TYPES.iter().filter(is_lifecycle) {
        add_all_of(&mut all, known);
    }
    for (name, what) in NEEDED_OTHERWISE {
        add(&mut all, name).helps |= what;
    }
    for known in KERNEL_EVENT_TYPES {
        add_all_of(&mut all, known);
    }
    all
});

fn is_lifecycle(bits: u64) -> bool {
    bits & wanted::LIFECYCLE != 0
}

/// Adds the tracepoints that a type needs.
fn add_all_of(all: &mut Vec<Tracepoint>, known: &KernelEventType) {
    let bit = wanted::bit(known.entry.id);
    for name in known.helpers {
        add(all, name).helps |= bit;
    }
    for name in known.tracepoints {
        add(all, name).records |= bit;
    }
}

/// Returns the tracepoint of this name, and adds it where it is not there yet.
#[expect(clippy::indexing_slicing, reason = "it was just found, or added")]
fn add<'a>(all: &'a mut Vec<Tracepoint>, name: &'static str) -> &'a mut Tracepoint {
    let found = all.iter().position(|tracepoint| tracepoint.name == name);
    let index = found.unwrap_or(all.len());
    if found.is_none() {
        all.push(Tracepoint {
            name,
            records: 0,
            helps: 0,
        });
    }
    &mut all[index]
}

/// Returns the tracepoints that the programs attach to.
pub fn tracepoint_names() -> impl Iterator<Item = &'static str> {
    let alone = |one: &&Tracepoint| one.name == one.site();
    TRACEPOINTS.iter().filter(alone).map(Tracepoint::site)
}

/// Returns the tracepoints without which `id` cannot be recorded.
pub fn tracepoints_of(id: EventTypeId) -> impl Iterator<Item = &'static str> {
    TRACEPOINTS
        .iter()
        .filter(move |tracepoint| tracepoint.records & wanted::bit(id) != 0)
        .map(Tracepoint::site)
}

/// Result of [`attach`].
pub struct Attached {
    /// The programs' descriptors.
    pub programs: Vec<ProgramFd>,
    /// Types all of whose tracepoints are attached, as bits.
    pub recorded: u64,
}

/// Loads and attaches the programs that `wanted_bits` need, as far as the kernel has their
/// tracepoints, as `has` tells. The tracepoints that show which processes exist are required.
/// Without the kernel's own types, `btf`, all programs are raw. `after_first` is called when the
/// first program is attached: it sees new processes, and nothing else is seen yet. Where
/// `detachable` is given, programs at system calls and at switches are only loaded, and added to
/// it.
pub fn attach(
    ebpf: &mut Ebpf,
    btf: Option<&Btf>,
    wanted_bits: u64,
    has: impl Fn(&str) -> bool,
    after_first: impl FnOnce(&mut Ebpf) -> Result<(), LoadError>,
    mut detachable: Option<&mut Detachable>,
) -> Result<Attached, LoadError> {
    let mut attached = Attached {
        programs: Vec::new(),
        recorded: wanted_bits,
    };
    let needed = TRACEPOINTS
        .iter()
        .filter(|tracepoint| tracepoint.is_for(wanted_bits))
        .filter(|tracepoint| tracepoint.name != "block_getrq" || !has("block_io_start"));
    let mut after_first = Some(after_first);
    for tracepoint in needed {
        if !has(tracepoint.site()) && !is_lifecycle(tracepoint.records) {
            attached.recorded &= !tracepoint.records;
            tracing::debug!(tracepoint.name, "not in this kernel");
            continue;
        }
        let links = detachable.as_deref_mut();
        let links = links.and_then(|links| links.at(tracepoint.name));
        attached
            .programs
            .push(attach_one(ebpf, btf, tracepoint, links)?);
        if let Some(after_first) = after_first.take() {
            after_first(ebpf)?;
        }
    }
    Ok(attached)
}

/// Tracepoints whose programs record system calls.
const AT_CALLS: [&str; 2] = ["sys_enter", "sys_exit"];

/// Tracepoints whose programs record switches, and what comes as often, or note who wakes.
const AT_SWITCHES: [&str; 10] = [
    "napi_poll",
    "netif_receive_skb",
    "netif_rx",
    "net_dev_queue",
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "page_fault_user",
    "page_fault_kernel",
];

/// Programs that can be detached while their events are not wanted.
#[derive(Default)]
pub struct Detachable {
    /// Those at system calls.
    pub calls: ProgramLinks,
    /// Those at switches, wake-ups and page faults.
    pub switches: ProgramLinks,
}

impl Detachable {
    /// Returns those that the program at this tracepoint belongs to; `None` where it stays
    /// attached.
    fn at(&mut self, tracepoint: &str) -> Option<&mut ProgramLinks> {
        if AT_CALLS.contains(&tracepoint) {
            Some(&mut self.calls)
        } else if AT_SWITCHES.contains(&tracepoint) {
            Some(&mut self.switches)
        } else {
            None
        }
    }
}

fn attach_one(
    ebpf: &mut Ebpf,
    btf: Option<&Btf>,
    tracepoint: &Tracepoint,
    mut links: Option<&mut ProgramLinks>,
) -> Result<ProgramFd, LoadError> {
    let as_btf = match btf.map(|btf| attach_btf(ebpf, btf, tracepoint, links.as_deref_mut())) {
        Some(Ok(program)) => return Ok(program),
        Some(Err(source)) => Some(source),
        None => None,
    };
    if let Some(source) = &as_btf {
        tracing::debug!(
            program = tracepoint.name,
            error = source as &dyn std::error::Error,
            "no BTF tracepoint, so a raw one is tried"
        );
    }
    attach_raw(ebpf, tracepoint, links).map_err(|raw| {
        tracing::debug!(
            program = tracepoint.raw_program(),
            error = &raw as &dyn std::error::Error,
            "no raw tracepoint either"
        );
        LoadError::Program {
            name: tracepoint.name,
            source: Box::new(as_btf.unwrap_or(raw)),
        }
    })
}

fn attach_btf(
    ebpf: &mut Ebpf,
    btf: &Btf,
    tracepoint: &Tracepoint,
    links: Option<&mut ProgramLinks>,
) -> Result<ProgramFd, ProgramError> {
    let program = ebpf.program_mut(tracepoint.name);
    let program = program.ok_or(ProgramError::NotLoaded)?;
    let program: &mut BtfTracePoint = program.try_into()?;
    call::load(|| program.load(tracepoint.site(), btf))?;
    match links {
        Some(links) => links.add(program.fd()?.try_clone()?, None)?,
        None => {
            program.attach()?;
        }
    }
    Ok(program.fd()?.try_clone()?)
}

fn attach_raw(
    ebpf: &mut Ebpf,
    tracepoint: &Tracepoint,
    links: Option<&mut ProgramLinks>,
) -> Result<ProgramFd, ProgramError> {
    let program = ebpf
        .program_mut(&tracepoint.raw_program())
        .ok_or(ProgramError::NotLoaded)?;
    let program: &mut RawTracePoint = program.try_into()?;
    call::load(|| program.load())?;
    match links {
        Some(links) => links.add(program.fd()?.try_clone()?, Some(tracepoint.site()))?,
        None => {
            program.attach(tracepoint.site())?;
        }
    }
    Ok(program.fd()?.try_clone()?)
}

/// Unloads the program at a tracepoint. `names` are those of its two kinds, of which one was
/// loaded.
#[cfg(test)]
pub(crate) fn unload(ebpf: &mut aya::Ebpf, names: [&str; 2]) {
    use aya::programs::Program;
    for name in names {
        let _is_the_other_kind = match ebpf.program_mut(name) {
            Some(Program::BtfTracePoint(program)) => program.unload(),
            Some(Program::RawTracePoint(program)) => program.unload(),
            _ => unreachable!("{name} is no program at a tracepoint"),
        };
    }
}

#[cfg(test)]
mod tests {
    use aya::programs::{ProgramType, TracePoint, UProbe};
    use aya::sys::{BpfHelper, is_helper_supported};

    use super::*;
    use crate::btf::offsets::Global;
    use crate::budget::{BUDGETS, VerifierBudget, budget_of};
    use crate::counts::CountEntries;
    use crate::cpu_rings::Size;
    use crate::loading::object;
    use crate::loading::{Parameters, halves};
    use crate::look::by_program;
    use crate::namespace::ProcessListing;
    use crate::requirements::{self, Kernel};
    use tracer_binary::unwind::REGISTERS_BYTES;
    use tracer_common::kernel::counting;
    use tracer_common::kernel::globals::guards;

    /// Variation of the programs, apart from the kernel.
    #[derive(Clone, Copy, Debug)]
    struct Variant {
        is_verbose: bool,
        namespace: u32,
        string_bytes: u32,
        /// Reading of names alone.
        only_names: bool,
        /// Addresses of each half of a stack; 0: no stacks.
        frames: u32,
        /// Bytes copied of a program's stack; 0: it is found by frame pointers.
        copied_bytes: u32,
        /// Python frames; 0: none.
        python_frames: u32,
        /// Recording of the contexts of threads.
        has_contexts: bool,
        /// Choice of processes by their properties, and noting of interrupts.
        is_choosing: bool,
        /// Descriptions of descriptors.
        describes: bool,
        /// Rings of the CPUs' own for the records of system calls.
        has_cpu_rings: bool,
        /// Recording of calls only as they end.
        at_exit: bool,
        /// Guarded processes: one of `guards`.
        guards: u32,
        /// Choice of what is counted, and by what.
        counts: u32,
        counts_by: u32,
    }

    /// Variant that adds most to the programs.
    const MOST: Variant = Variant {
        is_verbose: false,
        namespace: 0,
        string_bytes: 64,
        only_names: false,
        frames: 127,
        copied_bytes: 0,
        python_frames: 0,
        has_contexts: true,
        is_choosing: true,
        describes: true,
        has_cpu_rings: false,
        at_exit: false,
        guards: 0,
        counts: counting::CALLS | counting::SWITCHES | counting::FAULTS,
        counts_by: counting::BY_COMM,
    };

    /// Loads the object without attaching anything; `None` where this test may not run.
    fn load(variant: Variant) -> Option<(Ebpf, Kernel)> {
        let Ok(mut kernel) = requirements::examine(None) else {
            let is_required =
                std::env::var_os("TRACER_REQUIRE_PRIVILEGED").is_some_and(|v| v == "1");
            assert!(!is_required, "a right is missing");
            return None;
        };
        let of_types = if variant.frames > 0 { u64::MAX } else { 0 };
        let [low, high] = halves(of_types);
        let cpu_rings = if variant.has_cpu_rings {
            Size::each_of(4 << 20, 1)
        } else {
            Size::NONE
        };
        for (name, value) in [
            ("CHOOSES", u32::from(variant.is_choosing)),
            ("NOTES_INTERRUPTS", u32::from(variant.is_choosing)),
            ("STRING_BYTES", variant.string_bytes),
            ("ONLY_NAMES", u32::from(variant.only_names)),
            ("EXEC_BYTES", 65536),
            ("STACK_TYPES_LOW", low),
            ("STACK_TYPES_HIGH", high),
            ("STACK_KERNEL_FRAMES", variant.frames),
            ("STACK_USER_FRAMES", variant.frames),
            ("STACK_PYTHON_FRAMES", variant.python_frames),
            ("THREAD_CONTEXTS", u32::from(variant.has_contexts)),
            ("UNWIND_BYTES", variant.copied_bytes),
            ("UNWIND_REGISTERS_BYTES", REGISTERS_BYTES),
            ("OFF_CPU", u32::from(variant.frames > 0)),
            ("NAMESPACE", variant.namespace),
            ("CALLS_AT_EXIT", u32::from(variant.at_exit)),
            ("GUARDS", variant.guards),
            ("COUNTS_RATES", u32::from(variant.is_choosing)),
            ("COUNTS", variant.counts),
            ("COUNTS_BY", variant.counts_by),
            ("CPU_RING_BYTES", cpu_rings.bytes),
            ("CPU_RING_CHUNKS", cpu_rings.chunks),
        ] {
            kernel.globals.push(Global { name, value });
        }
        let parameters = Parameters {
            globals: &kernel.globals,
            variables: &kernel.variables,
            cpus: 1,
            cpu_rings,
            pages: 1,
            pid_pages: 1,
            probe_sites: 1,
            tracepoints: 1,
            counts: CountEntries::NONE,
            holds_blocked: variant.frames > 0,
            copies_stacks: variant.copied_bytes > 0,
            follows_python: variant.python_frames > 0,
            has_contexts: variant.has_contexts,
            wanted: u64::MAX,
            reads_strings: variant.string_bytes > 0,
            describes: variant.describes,
            is_verbose: variant.is_verbose,
        };
        let ebpf = parameters.load(object(), kernel.btf.as_ref()).unwrap();
        Some((ebpf, kernel))
    }

    /// Returns the tracepoints that this kernel has: only those that help may be missing.
    fn tracepoints_of_kernel(kernel: &Kernel) -> impl Iterator<Item = &'static Tracepoint> {
        TRACEPOINTS.iter().filter(|tracepoint| {
            let is_there = kernel.tracepoints.contains(&tracepoint.site());
            assert!(
                is_there || tracepoint.records == 0,
                "no {} here",
                tracepoint.name
            );
            is_there
        })
    }

    #[test]
    fn what_a_type_needs_is_a_tracepoint_of_the_kernel_and_no_program() {
        for known in KERNEL_EVENT_TYPES {
            for name in tracepoints_of(known.entry.id) {
                assert!(tracepoint_names().any(|other| other == name), "{name}");
            }
        }
    }

    #[test]
    fn who_exists_is_seen_first_and_what_helps_before_what_it_helps() {
        let at = |name| tracepoint_names().position(|other| other == name).unwrap();

        assert_eq!(at("sched_process_fork"), 0);
        assert!(at("task_rename") < at("sched_switch"));
        assert!(at("cgroup_attach_task") < at("sched_switch"));
        assert!(at("softirq_exit") < at("sched_waking"));
        for known in KERNEL_EVENT_TYPES {
            for helper in known.helpers {
                let helped = known.tracepoints.iter().map(|name| at(name));
                assert!(helped.min() > Some(at(helper)), "{helper}");
            }
        }
    }

    /// Variant that adds least.
    const LEAST: Variant = Variant {
        string_bytes: 0,
        frames: 0,
        has_contexts: false,
        is_choosing: false,
        describes: false,
        counts: 0,
        counts_by: counting::BY_NONE,
        ..MOST
    };

    // These are several tests, since each takes minutes where the processor is emulated.

    #[test]
    #[ignore = "loads eBPF: run by cargo xtask test"]
    fn the_kernel_takes_every_program_in_both_forms() {
        let (is_verbose, namespace) = (true, 1);
        take_all(&[
            MOST,
            Variant { is_verbose, ..MOST },
            Variant { namespace, ..MOST },
            Variant {
                is_verbose,
                namespace,
                ..MOST
            },
        ]);
    }

    #[test]
    #[ignore = "loads eBPF: run by cargo xtask test"]
    fn the_kernel_takes_every_program_that_copies_stacks() {
        take_all(&[
            Variant {
                copied_bytes: 2048,
                ..MOST
            },
            Variant {
                copied_bytes: 8192,
                ..LEAST
            },
            Variant {
                copied_bytes: 32_768,
                ..MOST
            },
        ]);
    }

    #[test]
    #[ignore = "loads eBPF: run by cargo xtask test"]
    fn the_kernel_takes_every_program_that_follows_python() {
        take_all(&[
            Variant {
                python_frames: 64,
                ..MOST
            },
            Variant {
                python_frames: 64,
                guards: guards::COUNTS_LIFE,
                ..MOST
            },
            Variant {
                python_frames: 1,
                frames: 1,
                copied_bytes: 2048,
                namespace: 1,
                ..LEAST
            },
        ]);
    }

    #[test]
    #[ignore = "loads eBPF: run by cargo xtask test"]
    fn the_kernel_takes_every_program_that_does_less() {
        take_all(&[
            Variant {
                string_bytes: 4096,
                frames: 1,
                ..MOST
            },
            Variant { frames: 0, ..MOST },
            Variant {
                string_bytes: 0,
                ..MOST
            },
            Variant {
                only_names: true,
                ..MOST
            },
            LEAST,
            Variant {
                namespace: 1,
                counts: counting::CALLS | counting::WITHOUT_TIMES | counting::POINTS,
                ..LEAST
            },
            Variant {
                has_cpu_rings: true,
                ..LEAST
            },
        ]);
    }

    #[test]
    #[ignore = "loads eBPF: run by cargo xtask test"]
    fn the_kernel_takes_every_program_with_rings_of_single_cpus() {
        let variant = Variant {
            has_cpu_rings: true,
            frames: 0,
            describes: false,
            ..MOST
        };
        take_all(&[
            variant,
            Variant {
                string_bytes: 4096,
                namespace: 1,
                ..variant
            },
            Variant {
                at_exit: true,
                ..variant
            },
        ]);
    }

    #[test]
    #[ignore = "loads eBPF: run by cargo xtask test"]
    fn the_kernel_takes_every_program_that_records_calls_as_they_end() {
        let at_exit = Variant {
            at_exit: true,
            ..MOST
        };
        take_all(&[
            at_exit,
            Variant {
                string_bytes: 4096,
                frames: 0,
                ..at_exit
            },
        ]);
    }

    /// Loads every program of each variant in both forms.
    fn take_all(variants: &[Variant]) {
        for &variant in variants {
            let Some((mut ebpf, kernel)) = load(variant) else {
                return;
            };
            // Kernels that do not give registers to programs refuse the programs that copy stacks.
            if variant.copied_bytes > 0 && !kernel.gives_registers() {
                continue;
            }
            let btf = kernel.btf.as_ref().unwrap();
            ProcessListing::load(&mut ebpf, btf).unwrap();
            // Elsewhere threads are looked at in /proc.
            if kernel.gives_registers() {
                by_program::load(&mut ebpf, btf).unwrap();
            }
            let mut refused = Vec::new();
            for tracepoint in tracepoints_of_kernel(&kernel) {
                let is_of_calls = matches!(tracepoint.name, "sys_enter" | "sys_exit");
                // Kernels without the helper for registers refuse BTF tracepoints, and at system
                // calls they take only programs that read no arguments.
                let is_old = !kernel.gives_registers();
                if is_old && is_of_calls && variant.string_bytes > 0 {
                    continue;
                }
                // The verifier of 5.15 does not get through the search for descriptors in messages.
                let describes = tracepoint.name.ends_with("_descriptors");
                if describes && !requirements::is_at_least(6, 1) {
                    continue;
                }
                let refusals: Vec<_> = [
                    attach_btf(&mut ebpf, btf, tracepoint, None).err(),
                    attach_raw(&mut ebpf, tracepoint, None).err(),
                ]
                .into_iter()
                .flatten()
                .map(|error| (tracepoint.name, last_words(&error)))
                .collect();
                // Older verifiers walk all that follows each reservation anew, and may give up on
                // one form: the other one is enough.
                if refusals.len() > 1 || requirements::is_at_least(6, 12) {
                    refused.extend(refusals);
                }
            }
            assert!(refused.is_empty(), "{variant:?}: {refused:#?}");
            load_others(&mut ebpf);
        }
    }

    /// Returns the end of the verifier's messages: its objection.
    fn last_words(error: &ProgramError) -> String {
        let ProgramError::LoadError {
            io_error,
            verifier_log,
        } = error
        else {
            return format!("{error:?}");
        };
        let said = verifier_log.to_string();
        let lines: Vec<_> = said.lines().rev().take(12).collect();
        let lines: Vec<_> = lines.into_iter().rev().collect();
        format!("{io_error}\n{}", lines.join("\n"))
    }

    /// Loads the programs that are attached at places that users name. Kernels that do not tell a
    /// program which site was passed refuse them.
    fn load_others(ebpf: &mut Ebpf) {
        let has_cookies = |kind| is_helper_supported(kind, BpfHelper::BPF_FUNC_get_attach_cookie);
        let probe: &mut UProbe = ebpf.program_mut("probe").unwrap().try_into().unwrap();
        let has = has_cookies(ProgramType::KProbe).unwrap();
        assert_eq!(probe.load().is_ok(), has, "{:?}", probe.load());
        let named = ebpf.program_mut("named_tracepoint").unwrap();
        let named: &mut TracePoint = named.try_into().unwrap();
        let has = has_cookies(ProgramType::TracePoint).unwrap();
        assert_eq!(named.load().is_ok(), has, "{:?}", named.load());
    }

    #[test]
    #[ignore = "loads eBPF: run by cargo xtask test"]
    fn where_only_names_are_read_the_verifier_takes_less_than_half() {
        let walked = |only_names| {
            let variant = Variant {
                string_bytes: 64,
                only_names,
                ..LEAST
            };
            let (mut ebpf, kernel) = load(variant)?;
            let btf = kernel.btf.as_ref().unwrap();
            let mut sum = 0;
            for name in AT_CALLS {
                let program = ebpf.program_mut(name).unwrap();
                let program: &mut BtfTracePoint = program.try_into().unwrap();
                program.load(name, btf).unwrap();
                // Kernels before 5.16 do not say.
                sum += program.info().unwrap().verified_instruction_count()?;
            }
            Some(sum)
        };
        if let (Some(names), Some(all)) = (walked(true), walked(false)) {
            assert!(names * 2 < all, "{names} of {all}");
        }
    }

    #[test]
    #[ignore = "loads eBPF: run by cargo xtask test"]
    fn no_program_takes_the_verifier_longer_than_its_budget_says() {
        let Some((mut ebpf, kernel)) = load(MOST) else {
            return;
        };
        let btf = kernel.btf.as_ref().unwrap();
        let mut used = Vec::new();
        for tracepoint in tracepoints_of_kernel(&kernel) {
            let program = ebpf.program_mut(tracepoint.name).unwrap();
            let program: &mut BtfTracePoint = program.try_into().unwrap();
            program.load(tracepoint.site(), btf).unwrap();
            let instructions = program.info().unwrap().verified_instruction_count();
            let program = ebpf.program_mut(&tracepoint.raw_program()).unwrap();
            let program: &mut RawTracePoint = program.try_into().unwrap();
            program.load().unwrap();
            let raw_instructions = program.info().unwrap().verified_instruction_count();
            used.push(VerifierBudget {
                program: tracepoint.name,
                // Kernels before 5.16 do not say.
                instructions: instructions.unwrap_or(0),
                raw_instructions: raw_instructions.unwrap_or(0),
            });
        }

        for row in BUDGETS {
            let is_program = TRACEPOINTS.iter().any(|one| one.name == row.program);
            assert!(is_program, "no program {}", row.program);
        }
        let budgets = used.iter().map(|used| (used, budget_of(used.program)));
        let is_above = |(used, budget): &(&VerifierBudget, VerifierBudget)| {
            used.instructions > budget.instructions
                || used.raw_instructions > budget.raw_instructions
        };
        let above: Vec<_> = budgets.filter(is_above).collect();
        assert!(
            above.is_empty(),
            "above their budgets: {above:#?}\nall: {used:?}"
        );
    }
}
