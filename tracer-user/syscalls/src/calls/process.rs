//! Processes, their limits and their ends; the system.

use std::mem::offset_of;

use super::bytes::{Bytes, quoted_start};
use super::time::push_timeval;
use super::{flags, pointer};
use crate::arguments::Call;
use crate::flags::{CLONE_FLAGS, any_signal, names_memory};
use crate::names::Table;
use tracer_text::signal_name;

/// Appends a limit: sizes in KiB where they are whole ones.
pub fn push_limit(out: &mut Vec<u8>, call: &Call, bytes: Bytes<'_>) -> Option<()> {
    let infinity = if call.name() == Some("prlimit64") {
        "RLIM64_INFINITY"
    } else {
        "RLIM_INFINITY"
    };
    let shown = |limit: u64| match limit {
        u64::MAX => infinity.to_owned(),
        _ if limit > 1024 && limit.is_multiple_of(1024) => format!("{}*1024", limit / 1024),
        _ => limit.to_string(),
    };
    let (soft, hard) = (shown(bytes.u64(0)?), shown(bytes.u64(8)?));
    out.extend_from_slice(format!("{{rlim_cur={soft}, rlim_max={hard}}}").as_bytes());
    Some(())
}

pub fn push_usage(out: &mut Vec<u8>, bytes: Bytes<'_>) -> Option<()> {
    out.extend_from_slice(b"{ru_utime=");
    push_timeval(out, bytes)?;
    out.extend_from_slice(b", ru_stime=");
    push_timeval(out, bytes.from(16)?)?;
    out.extend_from_slice(b", ...}");
    Some(())
}

pub fn push_system_info(out: &mut Vec<u8>, bytes: Bytes<'_>) -> Option<()> {
    let word = |nth: usize| bytes.u64(nth * 8);
    let shown = format!(
        "{{uptime={}, loads=[{}, {}, {}], totalram={}, freeram={}, sharedram={}, bufferram={}, \
         totalswap={}, freeswap={}, procs={}, totalhigh={}, freehigh={}, mem_unit={}}}",
        word(0)?,
        word(1)?,
        word(2)?,
        word(3)?,
        word(4)?,
        word(5)?,
        word(6)?,
        word(7)?,
        word(8)?,
        word(9)?,
        bytes.u16(offset_of!(libc::sysinfo, procs))?,
        bytes.u64(offset_of!(libc::sysinfo, totalhigh))?,
        bytes.u64(offset_of!(libc::sysinfo, freehigh))?,
        bytes.u32(offset_of!(libc::sysinfo, mem_unit))?,
    );
    out.extend_from_slice(shown.as_bytes());
    Some(())
}

pub fn push_system_name(out: &mut Vec<u8>, bytes: Bytes<'_>) -> Option<()> {
    const NAME: usize = 65;
    let node = bytes.from(NAME)?;
    let shown = format!(
        "{{sysname={}, nodename={}, ...}}",
        bytes.quoted(),
        node.quoted()
    );
    out.extend_from_slice(shown.as_bytes());
    Some(())
}

pub fn push_status(out: &mut Vec<u8>, bytes: Bytes<'_>) -> Option<()> {
    let status = bytes.i32(0)?;
    let signal = |code: i32| {
        let code = u32::try_from(code).ok();
        let name = code.and_then(signal_name);
        name.map_or_else(|| code.unwrap_or(0).to_string(), str::to_owned)
    };
    let shown = if libc::WIFEXITED(status) {
        let code = libc::WEXITSTATUS(status);
        format!("WIFEXITED(s) && WEXITSTATUS(s) == {code}")
    } else if libc::WIFSIGNALED(status) {
        let core = if libc::WCOREDUMP(status) {
            " && WCOREDUMP(s)"
        } else {
            ""
        };
        let signal = signal(libc::WTERMSIG(status));
        format!("WIFSIGNALED(s) && WTERMSIG(s) == {signal}{core}")
    } else if libc::WIFSTOPPED(status) {
        let signal = signal(libc::WSTOPSIG(status));
        format!("WIFSTOPPED(s) && WSTOPSIG(s) == {signal}")
    } else if libc::WIFCONTINUED(status) {
        "WIFCONTINUED(s)".to_owned()
    } else {
        return None;
    };
    out.extend_from_slice(format!("[{{{shown}}}]").as_bytes());
    Some(())
}

pub fn push_cpus(out: &mut Vec<u8>, bytes: Bytes<'_>) -> Option<()> {
    let each = bytes.slice().iter().enumerate().flat_map(|(nth, byte)| {
        (0..8_usize).filter_map(move |bit| (byte >> bit & 1 == 1).then_some(nth * 8 + bit))
    });
    let cpus: Vec<_> = each.map(|cpu| cpu.to_string()).collect();
    out.extend_from_slice(format!("[{}]", cpus.join(" ")).as_bytes());
    Some(())
}

pub fn push_thread_name(
    out: &mut Vec<u8>,
    call: &Call,
    bytes: Bytes<'_>,
    returned: Option<i64>,
) -> Option<()> {
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
pub fn push_memory_name(out: &mut Vec<u8>, call: &Call, bytes: Bytes<'_>) -> Option<()> {
    if !names_memory(call) {
        return None;
    }
    let has_more = !bytes.slice().contains(&0);
    let name = bytes.slice().split(|byte| *byte == 0).next();
    out.extend_from_slice(quoted_start(name.unwrap_or_default(), has_more).as_bytes());
    Some(())
}

/// Appends how long a filter of system calls is, and where it lies.
pub fn push_filter(out: &mut Vec<u8>, call: &Call, bytes: Bytes<'_>) -> Option<()> {
    const SET_MODE_FILTER: u64 = 1;
    if call.registers[0] & 0xffff_ffff != SET_MODE_FILTER {
        return None;
    }
    let address = match call.table {
        Table::Native => bytes.u64(8)?,
        Table::Compat => bytes.u32(4)?.into(),
    };
    let (length, address) = (bytes.u16(0)?, pointer(address));
    out.extend_from_slice(format!("{{len={length}, filter={address}}}").as_bytes());
    Some(())
}

/// Appends the arguments of `clone3`.
pub fn push_clone3(out: &mut Vec<u8>, bytes: Bytes<'_>) -> Option<()> {
    let word = |nth: usize| bytes.u64(nth * 8);
    let bits = word(0)?;
    let mut parts = vec![format!("flags={}", flags(bits, CLONE_FLAGS, "0"))];
    let has = |flag: libc::c_int| bits & u64::from(flag.cast_unsigned()) != 0;
    if has(libc::CLONE_PIDFD) {
        parts.push(format!("pidfd={}", pointer(word(1)?)));
    }
    if has(libc::CLONE_CHILD_SETTID) || has(libc::CLONE_CHILD_CLEARTID) {
        parts.push(format!("child_tid={}", pointer(word(2)?)));
    }
    if has(libc::CLONE_PARENT_SETTID) {
        parts.push(format!("parent_tid={}", pointer(word(3)?)));
    }
    let signal = u32::try_from(word(4)?).ok()?;
    parts.push(format!("exit_signal={}", any_signal(signal)));
    parts.push(format!("stack={}", pointer(word(5)?)));
    parts.push(match word(6)? {
        0 => "stack_size=0".to_owned(),
        size => format!("stack_size={size:#x}"),
    });
    if has(libc::CLONE_SETTLS) {
        parts.push(format!("tls={}", pointer(word(7)?)));
    }
    out.extend_from_slice(format!("{{{}}}", parts.join(", ")).as_bytes());
    Some(())
}

/// Appends the result of `clone3` in its arguments, where that is the value that it returned.
pub fn push_clone3_result(out: &mut Vec<u8>, untrusted: &[u8], returned: i64) {
    let is_asked = Bytes(untrusted)
        .u64(0)
        .is_some_and(|bits| bits & u64::from(libc::CLONE_PARENT_SETTID.cast_unsigned()) != 0);
    if is_asked && returned > 0 {
        out.extend_from_slice(format!(" => {{parent_tid=[{returned}]}}").as_bytes());
    }
}
