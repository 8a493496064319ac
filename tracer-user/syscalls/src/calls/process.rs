//! Processes, their limits, their capabilities and their ends; the system.

use std::mem::offset_of;

use super::bytes::Bytes;
use super::pointed::Data;
use super::render::{flags, pointer};
use super::signals::any_signal;
use super::time::time;
use crate::arguments::Call;
use crate::flags::{CAPABILITIES, CLONE_FLAGS};
use crate::names::Table;
use crate::shape::Shape;
use tracer_text::signal_name;

/// Appends a limit: sizes in KiB where they are whole ones.
pub fn push_rlimit(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    push_limit(out, bytes, "RLIM_INFINITY")
}

/// Appends a limit that has 64 bits in all programs.
pub fn push_rlimit64(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    push_limit(out, bytes, "RLIM64_INFINITY")
}

fn push_limit(out: &mut Vec<u8>, bytes: Bytes<'_>, infinity: &str) -> Option<()> {
    let shown = |limit: u64| match limit {
        u64::MAX => infinity.to_owned(),
        _ if limit > 1024 && limit.is_multiple_of(1024) => format!("{}*1024", limit / 1024),
        _ => limit.to_string(),
    };
    let (soft, hard) = (shown(bytes.u64(0)?), shown(bytes.u64(8)?));
    out.extend_from_slice(format!("{{rlim_cur={soft}, rlim_max={hard}}}").as_bytes());
    Some(())
}

pub fn push_rusage(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    out.extend_from_slice(b"{ru_utime=");
    out.extend_from_slice(time(bytes, "tv_usec")?.as_bytes());
    out.extend_from_slice(b", ru_stime=");
    out.extend_from_slice(time(bytes.from(16)?, "tv_usec")?.as_bytes());
    out.extend_from_slice(b", ...}");
    Some(())
}

/// Appends the resources that a child has used; where none has changed, there are none.
pub fn push_child_rusage(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    (data.returned != Some(0)).then_some(())?;
    push_rusage(out, data)
}

pub fn push_sysinfo(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
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

pub fn push_utsname(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
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

/// Appends the status of a child; where none has changed, there is none.
pub fn push_wait_status(
    out: &mut Vec<u8>,
    Data {
        bytes, returned, ..
    }: Data<'_>,
) -> Option<()> {
    (returned != Some(0)).then_some(())?;
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

pub fn push_cpu_set(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    let each = bytes.slice().iter().enumerate().flat_map(|(nth, byte)| {
        (0..8_usize).filter_map(move |bit| (byte >> bit & 1 == 1).then_some(nth * 8 + bit))
    });
    let cpus: Vec<_> = each.map(|cpu| cpu.to_string()).collect();
    out.extend_from_slice(format!("[{}]", cpus.join(" ")).as_bytes());
    Some(())
}

/// Appends how long a filter of system calls is, and where it lies.
pub fn push_sock_fprog(out: &mut Vec<u8>, Data { call, bytes, .. }: Data<'_>) -> Option<()> {
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
pub fn push_clone_args(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
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

/// Chooses the arguments of `clone`, which have names, since machines differ in the order.
pub fn show_clone(call: &Call) -> Shape {
    let is_of_x86_64 = call.table == Table::Native && cfg!(target_arch = "x86_64");
    let flags = call.registers[0];
    let has = |flag: libc::c_int| flags & u64::from(flag.cast_unsigned()) != 0;
    let (tls, child) = if is_of_x86_64 { (4, 3) } else { (3, 4) };
    let others = [
        (has(libc::CLONE_PARENT_SETTID), (2, "parent_tid")),
        (has(libc::CLONE_SETTLS), (tls, "tls")),
        (
            has(libc::CLONE_CHILD_SETTID) || has(libc::CLONE_CHILD_CLEARTID),
            (child, "child_tidptr"),
        ),
    ];
    let others = others.iter().filter(|(is_there, _)| *is_there);
    let first = [(1, "child_stack"), (0, "flags")];
    Shape::named(
        first
            .into_iter()
            .chain(others.map(|(_, argument)| *argument)),
    )
}

/// Appends the version of the sets of capabilities, and the thread that has them.
pub fn push_capability_head(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    let version = match bytes.u32(0)? {
        0x1998_0330 => "_LINUX_CAPABILITY_VERSION_1".to_owned(),
        0x2007_1026 => "_LINUX_CAPABILITY_VERSION_2".to_owned(),
        0x2008_0522 => "_LINUX_CAPABILITY_VERSION_3".to_owned(),
        0 => "0".to_owned(),
        other => format!("{other:#x}"),
    };
    let pid = bytes.i32(4)?;
    out.extend_from_slice(format!("{{version={version}, pid={pid}}}").as_bytes());
    Some(())
}

/// Appends the three sets, of which each has two halves.
pub fn push_capabilities(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    let set = |nth: usize| {
        let halves = (bytes.u32(nth * 4)?, bytes.u32(12 + nth * 4)?);
        Some(capability_words(
            u64::from(halves.0) | u64::from(halves.1) << 32,
        ))
    };
    let (effective, permitted, inheritable) = (set(0)?, set(1)?, set(2)?);
    let shown =
        format!("{{effective={effective}, permitted={permitted}, inheritable={inheritable}}}");
    out.extend_from_slice(shown.as_bytes());
    Some(())
}

fn capability_words(set: u64) -> String {
    let mut rest = set;
    let mut words = Vec::new();
    for (bit, name) in CAPABILITIES.iter().enumerate() {
        if set >> bit & 1 == 1 {
            rest &= !(1 << bit);
            words.push(format!("1<<{name}"));
        }
    }
    if rest != 0 {
        words.push(format!("{rest:#x}"));
    }
    if words.is_empty() {
        "0".to_owned()
    } else {
        words.join("|")
    }
}
