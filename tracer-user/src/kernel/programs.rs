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
    /// Types that it records, as bits. It is attached when one of them is wanted.
    records: u64,
}

/// In the order in which they are attached: who exists comes before what they do.
const TRACEPOINTS: &[Tracepoint] = &[
    Tracepoint {
        name: "sched_process_fork",
        raw: "sched_process_fork_raw",
        records: wanted::LIFECYCLE,
    },
    Tracepoint {
        name: "sched_process_exit",
        raw: "sched_process_exit_raw",
        records: wanted::LIFECYCLE,
    },
    Tracepoint {
        name: "sched_process_exec",
        raw: "sched_process_exec_raw",
        records: wanted::LIFECYCLE,
    },
    Tracepoint {
        name: "task_rename",
        raw: "task_rename_raw",
        records: wanted::LIFECYCLE,
    },
    Tracepoint {
        name: "sched_wakeup",
        raw: "sched_wakeup_raw",
        records: wanted::bit(EventTypeId::WAKEUP),
    },
    Tracepoint {
        name: "sched_wakeup_new",
        raw: "sched_wakeup_new_raw",
        records: wanted::bit(EventTypeId::WAKEUP),
    },
    Tracepoint {
        name: "sched_switch",
        raw: "sched_switch_raw",
        records: wanted::bit(EventTypeId::SWITCH_IN) | wanted::bit(EventTypeId::SWITCH_OUT),
    },
];

/// The tracepoints that the programs attach to.
pub fn tracepoint_names() -> impl Iterator<Item = &'static str> {
    TRACEPOINTS.iter().map(|tracepoint| tracepoint.name)
}

/// Loads and attaches the programs that record something of `wanted_bits`. Returns their
/// descriptors.
pub fn attach(ebpf: &mut Ebpf, btf: &Btf, wanted_bits: u64) -> Result<Vec<ProgramFd>, LoadError> {
    TRACEPOINTS
        .iter()
        .filter(|tracepoint| tracepoint.records & wanted_bits != 0)
        .map(|tracepoint| attach_one(ebpf, btf, tracepoint))
        .collect()
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
    use crate::kernel::object::object;
    use crate::kernel::requirements;
    use crate::kernel::tracer::Parameters;

    #[test]
    #[ignore = "loads eBPF: run by cargo xtask test"]
    fn the_kernel_takes_every_program_in_both_forms() {
        let (Some(object), Ok(kernel)) = (object(), requirements::examine()) else {
            let is_required =
                std::env::var_os("TRACER_REQUIRE_PRIVILEGED").is_some_and(|v| v == "1");
            assert!(!is_required, "the object or a right is missing");
            return;
        };
        for is_verbose in [false, true] {
            let mut ebpf = Parameters {
                globals: &kernel.globals,
                ring_bytes: 4096,
                pages: 1,
                is_verbose,
            }
            .load(object, &kernel.btf)
            .unwrap();
            for tracepoint in TRACEPOINTS {
                attach_btf(&mut ebpf, &kernel.btf, tracepoint.name).unwrap();
                attach_raw(&mut ebpf, tracepoint).unwrap();
            }
        }
    }
}
