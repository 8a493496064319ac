//! Scheduling of threads.

use super::bytes::Bytes;
use super::flags;
use crate::flags::policy_name;

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
pub fn push_attributes(out: &mut Vec<u8>, bytes: Bytes<'_>) -> Option<()> {
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
