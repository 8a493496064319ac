//! Variables that the kernel has for each CPU, and the members of them that the eBPF programs read.

use tracer_common::kernel::cpu_variable;

use super::offsets::Global;
use super::reader::Btf;
use crate::assembled::{CALL, EXIT, Instruction, JUMP, LOAD, READ, SET, load};

/// Variable of the kernel, or the function by which all of them are read: how the object names it,
/// and how the kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its placeholder in the object, a constant: one of [`cpu_variable`].
    pub placeholder: u64,
    /// Its id in the kernel's BTF.
    pub id: u32,
}

/// Returns the variables that this kernel has, and the globals with the offsets in them. The
/// programs do without the variables that the kernel lacks.
///
/// Where the kernel lets programs read at any address (since 6.2), the programs find the variables
/// from the run queue, at no cost. Elsewhere they find the variables by name, where the kernel was
/// built with the names.
#[must_use]
pub fn find(btf: &Btf<'_>) -> (Vec<Variable>, Vec<Global>) {
    let way = readable(btf).filter(|_| has_run_queue(btf));
    let mut variables = Vec::new();
    let mut globals = Vec::new();
    if let Some((function, word)) = &way {
        variables.push(*function);
        globals.push(*word);
    }
    for (distance, variable, inside) in find_per_cpu(btf) {
        if let Some(distance) = distance.filter(|_| way.is_some()) {
            globals.push(distance);
        } else if is_named(variable.id) {
            variables.push(variable);
        } else {
            continue;
        }
        globals.extend(inside);
    }
    (variables, globals)
}

/// Returns the globals for programs that read everything by a helper, and so need no identifiers of
/// the kernel. They find variables from the run queue only.
#[must_use]
pub fn find_from_run_queue(btf: &Btf<'_>) -> Vec<Global> {
    if !has_run_queue(btf) {
        return Vec::new();
    }
    let mut globals = Vec::new();
    for (distance, _, inside) in find_per_cpu(btf) {
        let Some(distance) = distance else {
            continue;
        };
        globals.push(distance);
        globals.extend(inside);
    }
    globals
}

/// Returns each variable that the kernel has: its distance from the run queue, where that is known,
/// and the globals with the offsets in it.
fn find_per_cpu(btf: &Btf<'_>) -> Vec<(Option<Global>, Variable, Vec<Global>)> {
    let variables = [
        (
            "__preempt_count",
            "PREEMPT_COUNT_DISTANCE",
            preempt_count(btf),
        ),
        ("hrtimer_bases", "HRTIMER_BASES_DISTANCE", hrtimers(btf)),
        ("timer_bases", "TIMER_BASES_DISTANCE", timers(btf)),
    ];
    let found = variables.into_iter().filter_map(|(variable, name, found)| {
        let (id, inside) = found?;
        let distance = distance(btf, variable).map(|value| Global { name, value });
        Some((distance, id, inside))
    });
    found.collect()
}

/// Returns the distance from the run queue of a CPU to another of its variables, modulo 2^32.
fn distance(btf: &Btf<'_>, name: &str) -> Option<u32> {
    let offset = match btf.offset_of_variable(name) {
        None if name == "__preempt_count" => btf.offset_of_variable("pcpu_hot"),
        offset => offset,
    };
    Some(offset?.wrapping_sub(btf.offset_of_variable("runqueues")?))
}

/// Returns the function that makes any address readable, and the type of the word that is read
/// there; `None` where the kernel lacks one of them, or does not let programs call the function.
fn readable(btf: &Btf<'_>) -> Option<(Variable, Global)> {
    let value = btf.structure("rb_node")?;
    let id = btf.function("bpf_rdonly_cast")?;
    let variable = Variable {
        placeholder: cpu_variable::READABLE,
        id,
    };
    let name = "WORD_TYPE";
    is_callable(id, value).then_some((variable, Global { name, value }))
}

/// Tells whether there is a way from a task to the run queue of its CPU.
fn has_run_queue(btf: &Btf<'_>) -> bool {
    let queue = btf.member_offset("task_struct", &["se", "cfs_rq"]);
    queue.is_some() && btf.member_offset("cfs_rq", &["rq"]).is_some()
}

fn named(globals: &[(&'static str, u32)]) -> Vec<Global> {
    let globals = globals.iter().copied();
    let globals = globals.map(|(name, value)| Global { name, value });
    globals.collect()
}

type Found = (Variable, Vec<Global>);

fn found(placeholder: u64, id: u32, globals: &[(&'static str, u32)]) -> Found {
    (Variable { placeholder, id }, named(globals))
}

/// Finds the count of interrupts. From 6.2 to 6.14 it is in a struct. Only x86 has it.
fn preempt_count(btf: &Btf<'_>) -> Option<Found> {
    const NAME: &str = "PREEMPT_COUNT";
    if let Some(id) = btf.variable("__preempt_count") {
        return Some(found(cpu_variable::PREEMPT_COUNT, id, &[(NAME, 0)]));
    }
    let id = btf.variable("pcpu_hot")?;
    let offset = btf.member_offset("pcpu_hot", &["preempt_count"])?;
    Some(found(cpu_variable::PREEMPT_COUNT, id, &[(NAME, offset)]))
}

/// Finds the high-resolution timers: each clock says which of its timers runs.
fn hrtimers(btf: &Btf<'_>) -> Option<Found> {
    let clocks = btf.member_offset("hrtimer_cpu_base", &["clock_base"])?;
    let running = btf.member_offset("hrtimer_clock_base", &["running"])?;
    let globals = [
        ("HRTIMER_RUNNING", clocks.checked_add(running)?),
        (
            "HRTIMER_BASE_BYTES",
            btf.struct_bytes("hrtimer_clock_base")?,
        ),
    ];
    let id = btf.variable("hrtimer_bases")?;
    Some(found(cpu_variable::HRTIMER_BASES, id, &globals))
}

/// Finds all other timers, in two or three groups.
fn timers(btf: &Btf<'_>) -> Option<Found> {
    let globals = [
        (
            "TIMER_RUNNING",
            btf.member_offset("timer_base", &["running_timer"])?,
        ),
        ("TIMER_BASE_BYTES", btf.struct_bytes("timer_base")?),
        ("TIMER_BASES", btf.entries_of_variable("timer_bases")?),
    ];
    let id = btf.variable("timer_bases")?;
    Some(found(cpu_variable::TIMER_BASES, id, &globals))
}

/// Tells whether a program may name the variable with this id: not before 5.10, and not where the
/// kernel was built without the names of its variables (`CONFIG_KALLSYMS_ALL`).
fn is_named(id: u32) -> bool {
    let Ok(id) = i32::try_from(id) else {
        return false;
    };
    is_taken(&[
        Instruction::new(LOAD, VARIABLE << 4 | 1, id),
        Instruction::new(0, 0, 0),
        Instruction::new(CALL, 0, THIS_CPU_POINTER),
        Instruction::new(SET, 0, 0),
        Instruction::new(EXIT, 0, 0),
    ])
}

/// Tells whether a program may call the function with this id, and read a word of type `word` at
/// the address that the function returns.
fn is_callable(function: u32, word: u32) -> bool {
    let (Ok(function), Ok(word)) = (i32::try_from(function), i32::try_from(word)) else {
        return false;
    };
    is_taken(&[
        Instruction::new(SET, 1, 0),
        Instruction::new(SET, 2, word),
        Instruction::new(CALL, FUNCTION << 4, function),
        Instruction::new(READ, 0, 0),
        Instruction::new(SET, 0, 0),
        Instruction::new(EXIT, 0, 0),
    ])
}

/// Tells whether the kernel loads a program.
fn is_taken(program: &[Instruction]) -> bool {
    load("variable", program).is_ok()
}

/// The helper `bpf_this_cpu_ptr`.
const THIS_CPU_POINTER: i32 = 154;
/// `BPF_PSEUDO_KFUNC_CALL`, in the upper half of the registers: the called function is one of the
/// kernel.
const FUNCTION: u8 = 2;

/// Puts the kernel's variables in the places of their placeholders in `object`. An instruction that
/// loads the placeholder of a variable becomes one that loads the address of the kernel's variable;
/// an instruction that loads the placeholder of the function becomes a call of it. Other
/// placeholders stay as they are: the programs never reach them.
pub fn name_variables(object: &mut [u8], variables: &[Variable]) {
    for at in (0..object.len().saturating_sub(INSTRUCTION - 1)).step_by(INSTRUCTION / 2) {
        let Some(instruction) = object.get_mut(at..at + INSTRUCTION) else {
            continue;
        };
        let Some(loaded) = loaded_constant(instruction) else {
            continue;
        };
        let variable = variables.iter().find(|known| known.placeholder == loaded);
        if let (Some(variable), [code, registers, _, _, low @ ..]) = (variable, instruction) {
            let (low, high) = low.split_at_mut(4);
            low.copy_from_slice(&variable.id.to_ne_bytes());
            // The second half of the constant says which BTF has the variable: 0 is that of the
            // kernel itself.
            high.fill(0);
            if variable.placeholder == cpu_variable::READABLE {
                (*code, *registers) = (CALL, FUNCTION << 4);
                high.iter_mut().take(1).for_each(|code| *code = JUMP);
            } else {
                *registers |= VARIABLE << 4;
            }
        }
    }
}

/// Bytes of an instruction that loads 64 bits: it takes the space of two.
const INSTRUCTION: usize = 16;
/// `BPF_PSEUDO_BTF_ID`, in the upper half of the registers: the constant names a variable.
const VARIABLE: u8 = 3;

/// Returns the constant that an instruction loads; `None` for one that does something else.
fn loaded_constant(instruction: &[u8]) -> Option<u64> {
    let half = |at: usize| -> Option<u32> {
        let bytes = instruction.get(at..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes))
    };
    let is_load = instruction.first() == Some(&LOAD) && instruction.get(1)? >> 4 == 0;
    let is_whole = half(8)? == 0;
    (is_load && is_whole).then_some(u64::from(half(12)?) << 32 | u64::from(half(4)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loading(constant: u64, register: u8) -> Vec<u8> {
        let halves = constant.to_le_bytes();
        let mut bytes = vec![LOAD, register, 0, 0];
        bytes.extend_from_slice(&halves[..4]);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&halves[4..]);
        bytes
    }

    #[test]
    fn only_placeholders_of_variables_are_changed() {
        let variable = Variable {
            placeholder: cpu_variable::PREEMPT_COUNT,
            id: 77,
        };
        let mut object = vec![0; 8];
        object.extend(loading(5, 1));
        object.extend(loading(cpu_variable::PREEMPT_COUNT, 2));
        object.extend(loading(cpu_variable::TIMER_BASES, 3));
        let before = object.clone();

        name_variables(&mut object, &[variable]);

        assert_eq!(object[..24], before[..24]);
        assert_eq!(object[24..40], loading(77, 0x32)[..]);
        assert_eq!(object[40..], before[40..]);
    }

    #[test]
    fn the_placeholder_of_the_function_becomes_a_call_and_nothing() {
        let function = Variable {
            placeholder: cpu_variable::READABLE,
            id: 0x1_0203,
        };
        let mut object = loading(cpu_variable::READABLE, 0);

        name_variables(&mut object, &[function]);

        let call = [CALL, FUNCTION << 4, 0, 0, 3, 2, 1, 0];
        assert_eq!(object[..8], call);
        assert_eq!(object[8..], [JUMP, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn the_running_kernel_has_its_variables() {
        let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            return;
        };
        let btf = Btf::parse(&bytes).unwrap();

        assert_eq!(preempt_count(&btf).is_some(), cfg!(target_arch = "x86_64"));
        assert!(hrtimers(&btf).is_some());
        let offsets = ["runqueues", "hrtimer_bases", "timer_bases"];
        let offsets = offsets.map(|name| btf.offset_of_variable(name).unwrap());
        // The variables are large structures, so their offsets are at least this far apart.
        assert!(offsets[0].abs_diff(offsets[1]) >= 64 && offsets[1].abs_diff(offsets[2]) >= 64);
        assert_eq!(btf.offset_of_variable("schedule"), None, "a function");
        let (_, globals) = timers(&btf).unwrap();
        let count = globals.iter().find(|global| global.name == "TIMER_BASES");
        assert!(matches!(count, Some(count) if (1..=3).contains(&count.value)));
    }
}
