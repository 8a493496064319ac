//! Where the fields lie that the eBPF programs read, and which arguments tracepoints have.

use tracer_common::kernel::globals::{
    NO_OFFSET, SWITCH_STATE_LAST, SWITCH_STATE_SECOND, SWITCH_WITHOUT_STATE,
};

use super::reader::{Argument, Btf};

/// The value of one read-only global of the eBPF object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Global {
    /// Its name in the object.
    pub name: &'static str,
    /// Its value on this kernel.
    pub value: u32,
}

/// A field that programs read.
struct Field {
    global: &'static str,
    of: &'static str,
    /// The ways to it, the newest kernel's first: kernels have renamed and moved fields.
    paths: &'static [&'static [&'static str]],
    /// Without it nothing can be traced.
    is_required: bool,
}

const FIELDS: &[Field] = &[
    Field {
        global: "TASK_PID",
        of: "task_struct",
        paths: &[&["pid"]],
        is_required: true,
    },
    Field {
        global: "TASK_TGID",
        of: "task_struct",
        paths: &[&["tgid"]],
        is_required: true,
    },
    Field {
        global: "TASK_COMM",
        of: "task_struct",
        paths: &[&["comm"]],
        is_required: true,
    },
    Field {
        global: "TASK_STATE",
        of: "task_struct",
        // Renamed in 5.14.
        paths: &[&["__state"], &["state"]],
        is_required: false,
    },
    Field {
        global: "TASK_EXIT_CODE",
        of: "task_struct",
        paths: &[&["exit_code"]],
        is_required: false,
    },
    Field {
        global: "TASK_SIGNAL",
        of: "task_struct",
        paths: &[&["signal"]],
        is_required: true,
    },
    Field {
        global: "TASK_FSBASE",
        of: "task_struct",
        // x86-64 only.
        paths: &[&["thread", "fsbase"]],
        is_required: false,
    },
    Field {
        global: "TASK_CPU",
        of: "task_struct",
        // Moved in 5.16.
        paths: &[&["thread_info", "cpu"], &["cpu"]],
        is_required: false,
    },
    Field {
        global: "SIGNAL_LIVE",
        of: "signal_struct",
        paths: &[&["live"]],
        is_required: true,
    },
    Field {
        global: "BINPRM_FILENAME",
        of: "linux_binprm",
        paths: &[&["filename"]],
        is_required: false,
    },
];

/// A field without which nothing can be traced is not in this kernel's BTF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("struct {of} has no member {field}")]
pub struct FieldMissing {
    /// The struct.
    pub of: &'static str,
    /// The member.
    pub field: &'static str,
}

/// The globals of the eBPF object for the kernel whose BTF this is.
///
/// # Errors
///
/// A required field is missing. Any other one is set to [`NO_OFFSET`], and what depends on it
/// is recorded as zero.
pub fn globals(btf: &Btf<'_>) -> Result<Vec<Global>, FieldMissing> {
    let mut globals = FIELDS
        .iter()
        .map(|field| {
            let found = offset(btf, field);
            if found.is_none() && field.is_required {
                return Err(FieldMissing {
                    of: field.of,
                    field: first_name(field),
                });
            }
            Ok(Global {
                name: field.global,
                value: found.unwrap_or(NO_OFFSET),
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    globals.push(Global {
        name: "SWITCH_ARGUMENTS",
        value: switch_arguments(btf.tracepoint_arguments("sched_switch").as_deref()),
    });
    globals.push(Global {
        name: "EXIT_SAYS_LAST",
        value: u32::from(
            btf.tracepoint_arguments("sched_process_exit")
                .is_some_and(|arguments| arguments.len() >= 2),
        ),
    });
    Ok(globals)
}

/// The fields that this kernel does not have, as `struct.member`.
#[must_use]
pub fn missing(btf: &Btf<'_>) -> Vec<String> {
    FIELDS
        .iter()
        .filter(|field| offset(btf, field).is_none())
        .map(|field| format!("{}.{}", field.of, first_name(field)))
        .collect()
}

fn offset(btf: &Btf<'_>, field: &Field) -> Option<u32> {
    field
        .paths
        .iter()
        .find_map(|path| btf.member_offset(field.of, path))
}

fn first_name(field: &Field) -> &'static str {
    let path = field.paths.first().copied().unwrap_or_default();
    path.last().copied().unwrap_or_default()
}

/// Which arguments `sched_switch` has. Prototypes carry no names, but the order of tasks
/// (pointers) and numbers tells the three apart.
fn switch_arguments(arguments: Option<&[Argument]>) -> u32 {
    use Argument::{Number, Pointer};
    match arguments {
        Some([Number, Pointer, Pointer, Number, ..]) => SWITCH_STATE_LAST,
        Some([Number, Number, Pointer, Pointer, ..]) => SWITCH_STATE_SECOND,
        _ => SWITCH_WITHOUT_STATE,
    }
}

#[cfg(test)]
mod tests {
    use super::Argument::{Number, Pointer};
    use super::*;

    #[test]
    fn the_three_prototypes_of_sched_switch_are_told_apart() {
        let old = [Number, Pointer, Pointer];
        let early_5_18 = [Number, Number, Pointer, Pointer];
        let new = [Number, Pointer, Pointer, Number];

        assert_eq!(switch_arguments(Some(&old)), SWITCH_WITHOUT_STATE);
        assert_eq!(switch_arguments(Some(&early_5_18)), SWITCH_STATE_SECOND);
        assert_eq!(switch_arguments(Some(&new)), SWITCH_STATE_LAST);
        assert_eq!(switch_arguments(None), SWITCH_WITHOUT_STATE);
    }

    #[test]
    fn the_running_kernel_has_what_is_required() {
        // Every kernel that can be developed on has BTF; where it is missing there is nothing
        // to compare with.
        let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            return;
        };
        let btf = Btf::parse(&bytes).unwrap();

        assert_eq!(globals(&btf).map(|globals| globals.len()), Ok(12));
    }
}
