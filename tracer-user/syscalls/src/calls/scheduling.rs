//! Scheduling of threads.

use std::borrow::Cow;

use super::bytes::int;
use super::pointed::Data;
use super::render::flags;
use crate::arguments::Call;
use crate::flags::POLICY;

const FLAGS: &[(&str, u64)] = &[
    ("SCHED_FLAG_RESET_ON_FORK", 1),
    ("SCHED_FLAG_RECLAIM", 2),
    ("SCHED_FLAG_DL_OVERRUN", 4),
    ("SCHED_FLAG_KEEP_POLICY", 8),
    ("SCHED_FLAG_KEEP_PARAMS", 0x10),
    ("SCHED_FLAG_UTIL_CLAMP_MIN", 0x20),
    ("SCHED_FLAG_UTIL_CLAMP_MAX", 0x40),
];

/// Bytes of the first version of it, and of that with bounds of utilization.
const FIRST: u32 = 48;
const WITH_BOUNDS: u32 = 56;

/// Appends a `struct sched_attr`, up to the size that it states.
pub fn push_sched_attr(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    let size = bytes.u32(0)?;
    if size < FIRST {
        out.extend_from_slice(format!("{{size={size}}}").as_bytes());
        return Some(());
    }
    let shown = format!(
        "{{size={size}, sched_policy={}, sched_flags={}, sched_nice={}, sched_priority={}, \
         sched_runtime={}, sched_deadline={}, sched_period={}",
        policy_name(bytes.u32(4)?),
        flags(bytes.u64(8)?, FLAGS, "0"),
        bytes.i32(16)?,
        bytes.u32(20)?,
        bytes.u64(24)?,
        bytes.u64(32)?,
        bytes.u64(40)?
    );
    out.extend_from_slice(shown.as_bytes());
    if size >= WITH_BOUNDS {
        let (least, most) = (bytes.u32(48)?, bytes.u32(52)?);
        let bounds = format!(", sched_util_min={least}, sched_util_max={most}");
        out.extend_from_slice(bounds.as_bytes());
    }
    if size > WITH_BOUNDS {
        out.extend_from_slice(b", ...");
    }
    out.push(b'}');
    Some(())
}

/// Returns the name of a scheduling policy.
#[must_use]
pub fn policy_name(policy: u32) -> Cow<'static, str> {
    POLICY
        .value_name(policy)
        .map_or_else(|| format!("{policy:#x}").into(), Cow::Borrowed)
}

/// Names the policy that a call returns.
pub fn result_policy(_: &Call, value: i64) -> Option<String> {
    let policy = POLICY.value_name(u32::try_from(value).ok()?)?;
    Some(format!("{value} ({policy})"))
}

/// Names what a priority of requests to devices is of.
pub fn name_io_priority_of(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    Some(match int(call, index)? {
        1 => "IOPRIO_WHO_PROCESS".into(),
        2 => "IOPRIO_WHO_PGRP".into(),
        3 => "IOPRIO_WHO_USER".into(),
        other => format!("{other:#x}").into(),
    })
}

/// Names a priority of requests to devices.
pub fn name_io_priority(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    Some(priority_of_io(int(call, index)?.into()).into())
}

/// Names the priority that a call returns.
pub fn result_io_priority(_: &Call, value: i64) -> Option<String> {
    (value >= 0).then(|| format!("{value} ({})", priority_of_io(value)))
}

/// Renders a priority of requests to devices: its class, and the priority within.
fn priority_of_io(value: i64) -> String {
    const CLASS_AT: u32 = 13;
    let (class, priority) = (value >> CLASS_AT, value & ((1 << CLASS_AT) - 1));
    let class = match class {
        0 => "IOPRIO_CLASS_NONE".to_owned(),
        1 => "IOPRIO_CLASS_RT".to_owned(),
        2 => "IOPRIO_CLASS_BE".to_owned(),
        3 => "IOPRIO_CLASS_IDLE".to_owned(),
        other => format!("{other:#x}"),
    };
    format!("IOPRIO_PRIO_VALUE({class}, {priority})")
}
