//! Options of `prctl` and `arch_prctl`.

use std::borrow::Cow;

use super::bytes::{int, lower_half, quoted_start};
use super::pointed::Data;
use crate::arguments::Call;
use crate::flags::{AMBIENT, ARCH_OPTIONS, CAPABILITIES, POISONED, named};
use crate::shape::Shape;
use tracer_text::signal_name;

/// Chooses the arguments that an option looks at.
pub fn show_prctl(call: &Call) -> Shape {
    let all = &[0, 1, 2, 3, 4, 5];
    Shape::unnamed(all.get(..count(call.registers[0])).unwrap_or(all))
}

/// Returns the number of registers that an option of `prctl` looks at.
fn count(option: u64) -> usize {
    match i32::try_from(option).unwrap_or(-1) {
        libc::PR_GET_DUMPABLE
        | libc::PR_GET_KEEPCAPS
        | libc::PR_GET_TIMERSLACK
        | libc::PR_GET_SECUREBITS
        | libc::PR_GET_TIMING
        | libc::PR_GET_SECCOMP
        | libc::PR_TASK_PERF_EVENTS_DISABLE
        | libc::PR_TASK_PERF_EVENTS_ENABLE => 1,
        libc::PR_SET_PDEATHSIG
        | libc::PR_GET_PDEATHSIG
        | libc::PR_SET_DUMPABLE
        | libc::PR_SET_KEEPCAPS
        | libc::PR_SET_NAME
        | libc::PR_GET_NAME
        | libc::PR_CAPBSET_READ
        | libc::PR_CAPBSET_DROP
        | libc::PR_SET_TIMERSLACK
        | libc::PR_SET_CHILD_SUBREAPER
        | libc::PR_GET_CHILD_SUBREAPER
        | libc::PR_SET_PTRACER => 2,
        libc::PR_SET_SECCOMP => 3,
        _ => 5,
    }
}

/// Names an argument behind the option.
pub fn name_prctl_argument(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    let register = *call.registers.get(index)?;
    let option = int(call, 0)?;
    match index {
        1 if names_memory(call) => Some("PR_SET_VMA_ANON_NAME".into()),
        3 if names_memory(call) => Some(register.to_string().into()),
        4 if names_memory(call) && register == 0 => Some("NULL".into()),
        1 => match option {
            libc::PR_CAPBSET_READ | libc::PR_CAPBSET_DROP => capability(lower_half(register)),
            libc::PR_SET_PDEATHSIG => {
                signal_name(lower_half(register).cast_unsigned()).map(Cow::Borrowed)
            }
            libc::PR_CAP_AMBIENT => named(AMBIENT, lower_half(register)),
            libc::PR_SET_DUMPABLE => Some(dumpable(lower_half(register))),
            _ => None,
        },
        2 if option == libc::PR_CAP_AMBIENT && int(call, 1)? < libc::PR_CAP_AMBIENT_CLEAR_ALL => {
            capability(lower_half(register))
        }
        _ => None,
    }
}

fn capability(capability: i32) -> Option<Cow<'static, str>> {
    let capability = usize::try_from(capability).ok()?;
    CAPABILITIES.get(capability).map(|name| (*name).into())
}

/// Names what an option returns.
pub fn result_prctl(call: &Call, value: i64) -> Option<String> {
    let answer = i32::try_from(value).ok().filter(|answer| *answer >= 0)?;
    let name = match lower_half(call.registers[0]) {
        libc::PR_GET_DUMPABLE => dumpable(answer),
        libc::PR_MCE_KILL_GET => named(POISONED, answer)?,
        _ => return None,
    };
    Some(format!("{value} ({name})"))
}

/// Returns the name of a `dumpable` setting: whose memory is written to a file as a process is
/// killed.
fn dumpable(value: i32) -> Cow<'static, str> {
    match value {
        0 => "SUID_DUMP_DISABLE".into(),
        1 => "SUID_DUMP_USER".into(),
        2 => "SUID_DUMP_ROOT".into(),
        other => other.to_string().into(),
    }
}

/// Tells whether it is the call that gives memory a name.
fn names_memory(call: &Call) -> bool {
    let asked = (lower_half(call.registers[0]), call.registers[1]);
    asked == (libc::PR_SET_VMA, 0)
}

/// Names the option of `arch_prctl`.
pub fn name_arch_option(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    named(ARCH_OPTIONS, int(call, index)?)
}

/// Appends the name of a thread, where the option takes one.
pub fn push_thread_name(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    let (call, bytes, returned) = (data.call, data.bytes, data.returned);
    let option = i32::try_from(call.registers[0]).ok()?;
    // What is there before the kernel has written the name is none.
    let is_one = match option {
        libc::PR_SET_NAME => true,
        libc::PR_GET_NAME => returned.is_some(),
        _ => false,
    };
    if !is_one {
        return None;
    }
    // What a thread is called has a null as the last of 16 bytes; a name that has none before is
    // shown as one that was truncated, as strace does it.
    const LONGEST: usize = 15;
    let name = bytes.slice().get(..LONGEST).unwrap_or(bytes.slice());
    let has_more = option == libc::PR_SET_NAME && name.len() == LONGEST && !name.contains(&0);
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    out.extend_from_slice(quoted_start(name, has_more).as_bytes());
    Some(())
}

/// Appends the name that memory is given.
pub fn push_memory_name(out: &mut Vec<u8>, Data { call, bytes, .. }: Data<'_>) -> Option<()> {
    names_memory(call).then_some(())?;
    let has_more = !bytes.slice().contains(&0);
    let name = bytes.slice().split(|byte| *byte == 0).next();
    out.extend_from_slice(quoted_start(name.unwrap_or_default(), has_more).as_bytes());
    Some(())
}
