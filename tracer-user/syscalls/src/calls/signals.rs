//! Sets of signals, and the actions when one comes.

use std::borrow::Cow;

use super::bytes::Bytes;
use super::pointed::Data;
use super::render::{flags, pointer};
use crate::arguments::{Call, MOST};
use crate::shape::Shape;
use crate::table::Kind;
use tracer_text::signal_name;

/// Signals that there are.
const SIGNALS: u32 = 64;

/// The first that has no name of its own.
const FIRST_REAL_TIME: u32 = 32;

/// Renders a signal in a set: without the prefix that all have in common.
fn short_name(signal: u32) -> String {
    match signal.checked_sub(FIRST_REAL_TIME) {
        None => match signal_name(signal) {
            Some(name) => name.trim_start_matches("SIG").to_owned(),
            None => signal.to_string(),
        },
        Some(0) => "RTMIN".to_owned(),
        Some(nth) => format!("RT_{nth}"),
    }
}

/// Appends a set of signals. The kernel has not looked at one of another size than its own.
pub fn push_sigset(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    has_size_of_set(data.call).then_some(())?;
    push_set(out, data.bytes)
}

/// Tells whether the size that a call states for a set of signals is that of the kernel's, where it
/// states one.
fn has_size_of_set(call: &Call) -> bool {
    const SIZE: u64 = 8;
    let known = call.info().map_or(&[][..], |info| info.known());
    let mut stated = known.iter().zip(&call.registers);
    stated.all(|(argument, size)| argument.kind != Kind::SetSize || *size == SIZE)
}

pub fn push_set(out: &mut Vec<u8>, bytes: Bytes<'_>) -> Option<()> {
    let set = bytes.u64(0)?;
    // Of one with most of them, those are shown that are not in it.
    let is_inverted = set.count_ones() >= SIGNALS * 2 / 3;
    let shown = if is_inverted { !set } else { set };
    if is_inverted {
        out.push(b'~');
    }
    let members = (1..=SIGNALS).filter(|signal| shown >> (signal - 1) & 1 == 1);
    let members: Vec<_> = members.map(short_name).collect();
    out.push(b'[');
    out.extend_from_slice(members.join(" ").as_bytes());
    out.push(b']');
    Some(())
}

/// Appends the signals that are blocked once a signal handler has ended.
pub fn push_blocked(out: &mut Vec<u8>, untrusted: &[u8]) {
    let start = out.len();
    out.extend_from_slice(b"{mask=");
    match push_set(out, Bytes(untrusted)) {
        Some(()) => out.push(b'}'),
        None => out.truncate(start),
    }
}

pub fn push_sigaction(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    const FLAGS: &[(&str, u64)] = &[
        ("SA_RESTORER", 0x0400_0000),
        ("SA_STACK", 0),
        ("SA_ONSTACK", 0x0800_0000),
        ("SA_RESTART", 0x1000_0000),
        ("SA_INTERRUPT", 0x2000_0000),
        ("SA_NODEFER", 0x4000_0000),
        ("SA_RESETHAND", 0x8000_0000),
        ("SA_SIGINFO", 4),
        ("SA_NOCLDSTOP", 1),
        ("SA_NOCLDWAIT", 2),
    ];
    const RESTORER: u64 = 0x0400_0000;
    let (handler, bits) = (bytes.u64(0)?, bytes.u64(8)?);
    let (restorer, mask) = (bytes.u64(16)?, bytes.from(24)?);
    mask.u64(0)?;
    let handler = match handler {
        0 => "SIG_DFL".to_owned(),
        1 => "SIG_IGN".to_owned(),
        u64::MAX => "SIG_ERR".to_owned(),
        _ => format!("{handler:#x}"),
    };
    out.extend_from_slice(format!("{{sa_handler={handler}, sa_mask=").as_bytes());
    push_set(out, mask)?;
    let named = flags(bits, FLAGS, "0");
    out.extend_from_slice(format!(", sa_flags={named}").as_bytes());
    if bits & RESTORER != 0 {
        out.extend_from_slice(format!(", sa_restorer={}", pointer(restorer)).as_bytes());
    }
    out.push(b'}');
    Some(())
}

pub fn push_sigstack(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    const FLAGS: &[(&str, u64)] = &[
        ("SS_ONSTACK", 1),
        ("SS_DISABLE", 2),
        ("SS_AUTODISARM", 1 << 31),
    ];
    let shown = format!(
        "{{ss_sp={}, ss_flags={}, ss_size={}}}",
        pointer(bytes.u64(0)?),
        flags(bytes.u32(8)?.into(), FLAGS, "0"),
        bytes.u64(16)?
    );
    out.extend_from_slice(shown.as_bytes());
    Some(())
}

/// Chooses what is shown of the end of a signal handler: the signals that it is about to block
/// again, which lie on the stack.
pub fn show_blocked_signals(_: &Call) -> Shape {
    Shape::unnamed(&[MOST])
}

/// Returns the name of a signal, as strace has it: of one without a name of its own, by how far it
/// is behind the first of them.
#[must_use]
pub fn any_signal(signal: u32) -> Cow<'static, str> {
    match (signal_name(signal), signal) {
        (Some(name), _) => name.into(),
        (None, 32) => "SIGRTMIN".into(),
        (None, 33..=64) => format!("SIGRT_{}", signal - 32).into(),
        (None, _) => signal.to_string().into(),
    }
}
