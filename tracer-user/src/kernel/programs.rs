//! The programs of the object, and how they get into the kernel.

use aya::programs::{BtfTracePoint, ProgramError, ProgramFd, RawTracePoint};
use aya::{Btf, Ebpf};

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::wanted;

use super::error::LoadError;

/// A program and the tracepoint of the same name.
struct Tracepoint {
    /// Name of the tracepoint and of the program for it as BTF tracepoint.
    name: &'static str,
    /// The program for it as raw tracepoint.
    raw: &'static str,
    /// Types that it records, or helps to record, as bits. It is attached when one of them is
    /// wanted.
    records: u64,
    /// Without it the types are recorded all the same, with less to tell.
    is_helper: bool,
}

/// Beside the bits of types: what is needed when processes are chosen by control group. No type has
/// the number 0.
pub const CONTROL_GROUPS: u64 = 1;
/// The same: what is needed where interrupts are noted as they begin and end. The number is that of
/// a type which the kernel has nothing to do with.
pub const INTERRUPTS: u64 = wanted::bit(EventTypeId::ERROR);

macro_rules! tracepoint {
    ($name:ident records $($id:ident),+) => {
        Tracepoint {
            name: stringify!($name),
            raw: concat!(stringify!($name), "_raw"),
            records: $(wanted::bit(EventTypeId::$id))|+,
            is_helper: false,
        }
    };
    ($name:ident helps $($id:ident),+) => {
        Tracepoint {
            is_helper: true,
            ..tracepoint!($name records $($id),+)
        }
    };
}

/// The tracepoint, which is also one of those at which interrupts are noted.
const fn noting(tracepoint: Tracepoint) -> Tracepoint {
    Tracepoint {
        records: tracepoint.records | INTERRUPTS,
        ..tracepoint
    }
}

/// In the order in which they are attached: who exists comes before what they do, and what helps
/// before what it helps.
const TRACEPOINTS: &[Tracepoint] = &[
    tracepoint!(sched_process_fork records FORK, THREAD_CREATE),
    tracepoint!(sched_process_exit records EXIT, THREAD_EXIT),
    tracepoint!(sched_process_exec records EXEC),
    Tracepoint {
        name: "cgroup_attach_task",
        raw: "cgroup_attach_task_raw",
        records: CONTROL_GROUPS,
        is_helper: true,
    },
    tracepoint!(task_rename records RENAME),
    Tracepoint {
        name: "hrtimer_expire_entry",
        raw: "hrtimer_expire_entry_raw",
        records: INTERRUPTS,
        is_helper: true,
    },
    Tracepoint {
        name: "hrtimer_expire_exit",
        raw: "hrtimer_expire_exit_raw",
        records: INTERRUPTS,
        is_helper: true,
    },
    noting(tracepoint!(irq_handler_entry records IRQ_ENTER)),
    noting(tracepoint!(irq_handler_exit records IRQ_EXIT)),
    noting(tracepoint!(softirq_entry records SOFTIRQ_ENTER)),
    noting(tracepoint!(softirq_exit records SOFTIRQ_EXIT)),
    tracepoint!(sched_waking helps WAKEUP),
    tracepoint!(sched_wakeup records WAKEUP),
    tracepoint!(sched_wakeup_new records WAKEUP),
    tracepoint!(sched_switch records SWITCH_IN, SWITCH_OUT),
    tracepoint!(sched_migrate_task records MIGRATE),
    tracepoint!(signal_generate records SIGNAL_GENERATE),
    tracepoint!(signal_deliver records SIGNAL_DELIVER),
    tracepoint!(mark_victim records OOM_KILL),
    tracepoint!(page_fault_user records FAULT_USER),
    tracepoint!(page_fault_kernel records FAULT_KERNEL),
    tracepoint!(block_io_start helps BLOCK_ISSUE, BLOCK_COMPLETE),
    // Where the one before is missing.
    tracepoint!(block_getrq helps BLOCK_ISSUE, BLOCK_COMPLETE),
    tracepoint!(block_rq_issue records BLOCK_ISSUE, BLOCK_COMPLETE),
    tracepoint!(block_rq_complete records BLOCK_COMPLETE, BLOCK_ISSUE),
    tracepoint!(cpu_idle records IDLE_ENTER, IDLE_EXIT),
    // How a signal handler was ended is known only where that begins.
    tracepoint!(sys_enter records SYSCALL_ENTER, SYSCALL_EXIT),
    tracepoint!(sys_exit records SYSCALL_EXIT),
];

/// The tracepoints that the programs attach to.
pub fn tracepoint_names() -> impl Iterator<Item = &'static str> {
    TRACEPOINTS.iter().map(|tracepoint| tracepoint.name)
}

/// The tracepoints without which `id` cannot be recorded.
pub fn tracepoints_of(id: EventTypeId) -> impl Iterator<Item = &'static str> {
    let needed = TRACEPOINTS
        .iter()
        .filter(move |tracepoint| tracepoint.records & wanted::bit(id) != 0);
    needed
        .filter(|tracepoint| !tracepoint.is_helper)
        .map(|tracepoint| tracepoint.name)
}

/// What [`attach`] did.
pub struct Attached {
    /// The programs' descriptors.
    pub programs: Vec<ProgramFd>,
    /// The types of which all tracepoints are there, as bits.
    pub recorded: u64,
}

/// Loads and attaches the programs that record something of `wanted_bits`, as far as the kernel
/// has their tracepoints: `has` says of which it does. Types that tell which processes exist
/// cannot be done without. `after_first` is called once new processes are seen, and nothing else is.
pub fn attach(
    ebpf: &mut Ebpf,
    btf: &Btf,
    wanted_bits: u64,
    has: impl Fn(&str) -> bool,
    after_first: impl FnOnce(&mut Ebpf) -> Result<(), LoadError>,
) -> Result<Attached, LoadError> {
    let mut attached = Attached {
        programs: Vec::new(),
        recorded: wanted_bits,
    };
    let needed = TRACEPOINTS
        .iter()
        .filter(|tracepoint| tracepoint.records & wanted_bits != 0)
        .filter(|tracepoint| tracepoint.name != "block_getrq" || !has("block_io_start"));
    let mut after_first = Some(after_first);
    for tracepoint in needed {
        if !has(tracepoint.name) && tracepoint.records & wanted::LIFECYCLE == 0 {
            if !tracepoint.is_helper {
                attached.recorded &= !tracepoint.records;
            }
            tracing::debug!(tracepoint.name, "not in this kernel");
            continue;
        }
        attached.programs.push(attach_one(ebpf, btf, tracepoint)?);
        if let Some(after_first) = after_first.take() {
            after_first(ebpf)?;
        }
    }
    Ok(attached)
}

fn attach_one(ebpf: &mut Ebpf, btf: &Btf, tracepoint: &Tracepoint) -> Result<ProgramFd, LoadError> {
    let source = match attach_btf(ebpf, btf, tracepoint.name) {
        Ok(program) => return Ok(program),
        Err(source) => source,
    };
    tracing::debug!(
        program = tracepoint.name,
        error = &source as &dyn std::error::Error,
        "no BTF tracepoint, so a raw one is tried"
    );
    attach_raw(ebpf, tracepoint).map_err(|raw| {
        tracing::debug!(
            program = tracepoint.raw,
            error = &raw as &dyn std::error::Error,
            "no raw tracepoint either"
        );
        LoadError::Program {
            name: tracepoint.name,
            source: Box::new(source),
        }
    })
}

fn attach_btf(ebpf: &mut Ebpf, btf: &Btf, name: &str) -> Result<ProgramFd, ProgramError> {
    let program = ebpf.program_mut(name).ok_or(ProgramError::NotLoaded)?;
    let program: &mut BtfTracePoint = program.try_into()?;
    program.load(name, btf)?;
    program.attach()?;
    Ok(program.fd()?.try_clone()?)
}

fn attach_raw(ebpf: &mut Ebpf, tracepoint: &Tracepoint) -> Result<ProgramFd, ProgramError> {
    let program = ebpf
        .program_mut(tracepoint.raw)
        .ok_or(ProgramError::NotLoaded)?;
    let program: &mut RawTracePoint = program.try_into()?;
    program.load()?;
    program.attach(tracepoint.name)?;
    Ok(program.fd()?.try_clone()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::btf::offsets::Global;
    use crate::kernel::budget::{BUDGETS, Budget};
    use crate::kernel::namespace::Listing;
    use crate::kernel::object::object;
    use crate::kernel::requirements::{self, Kernel};
    use crate::kernel::tracer::Parameters;

    /// The object as loaded without anything attached, or `None` where this test may not run.
    fn load(is_verbose: bool, namespace: u32) -> Option<(Ebpf, Kernel)> {
        let (Some(object), Ok(mut kernel)) = (object(), requirements::examine()) else {
            let is_required =
                std::env::var_os("TRACER_REQUIRE_PRIVILEGED").is_some_and(|v| v == "1");
            assert!(!is_required, "the object or a right is missing");
            return None;
        };
        // With what adds most to the programs.
        for (name, value) in [
            ("CHOOSES", 1),
            ("NOTES_INTERRUPTS", 1),
            ("NAMESPACE", namespace),
        ] {
            kernel.globals.push(Global { name, value });
        }
        let parameters = Parameters {
            globals: &kernel.globals,
            variables: &kernel.variables,
            cpus: 1,
            pages: 1,
            number_pages: 1,
            probe_sites: 1,
            wanted: u64::MAX,
            is_verbose,
        };
        let ebpf = parameters.load(object, &kernel.btf).unwrap();
        Some((ebpf, kernel))
    }

    /// The tracepoints that this kernel has: only those that help may be missing.
    fn tracepoints_of_kernel(kernel: &Kernel) -> impl Iterator<Item = &'static Tracepoint> {
        TRACEPOINTS.iter().filter(|tracepoint| {
            let is_there = kernel.tracepoints.contains(&tracepoint.name);
            assert!(
                is_there || tracepoint.is_helper,
                "no {} here",
                tracepoint.name
            );
            is_there
        })
    }

    #[test]
    #[ignore = "loads eBPF: run by cargo xtask test"]
    fn the_kernel_takes_every_program_in_both_forms() {
        for (is_verbose, namespace) in [(false, 0), (true, 0), (false, 1), (true, 1)] {
            let Some((mut ebpf, kernel)) = load(is_verbose, namespace) else {
                return;
            };
            Listing::load(&mut ebpf, &kernel.btf).unwrap();
            for tracepoint in tracepoints_of_kernel(&kernel) {
                attach_btf(&mut ebpf, &kernel.btf, tracepoint.name).unwrap();
                attach_raw(&mut ebpf, tracepoint).unwrap();
            }
        }
    }

    #[test]
    #[ignore = "loads eBPF: run by cargo xtask test"]
    fn no_program_takes_the_verifier_longer_than_its_budget_says() {
        let Some((mut ebpf, kernel)) = load(false, 0) else {
            return;
        };
        let mut used = Vec::new();
        for tracepoint in tracepoints_of_kernel(&kernel) {
            let program = ebpf.program_mut(tracepoint.name).unwrap();
            let program: &mut BtfTracePoint = program.try_into().unwrap();
            program.load(tracepoint.name, &kernel.btf).unwrap();
            let instructions = program.info().unwrap().verified_instruction_count();
            let program = ebpf.program_mut(tracepoint.raw).unwrap();
            let program: &mut RawTracePoint = program.try_into().unwrap();
            program.load().unwrap();
            let raw_instructions = program.info().unwrap().verified_instruction_count();
            used.push(Budget {
                program: tracepoint.name,
                // Kernels before 5.16 do not say.
                instructions: instructions.unwrap_or(0),
                raw_instructions: raw_instructions.unwrap_or(0),
            });
        }

        let rows = BUDGETS.iter().map(|row| row.program);
        let programs = TRACEPOINTS.iter().map(|tracepoint| tracepoint.name);
        assert!(rows.eq(programs), "a row for each program");
        let budget_of = |used: &Budget| BUDGETS.iter().find(|row| row.program == used.program);
        let is_above = |(used, budget): &(&Budget, &Budget)| {
            used.instructions > budget.instructions
                || used.raw_instructions > budget.raw_instructions
        };
        let budgets = used
            .iter()
            .filter_map(|used| Some((used, budget_of(used)?)));
        let above: Vec<_> = budgets.filter(is_above).collect();
        assert!(
            above.is_empty(),
            "above their budgets: {above:#?}\nall: {used:?}"
        );
    }
}
