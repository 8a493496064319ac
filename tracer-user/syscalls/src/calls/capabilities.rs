//! Capabilities of threads.

use super::pointed::Data;
use crate::flags::CAPABILITIES;

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
        Some(words(u64::from(halves.0) | u64::from(halves.1) << 32))
    };
    let (effective, permitted, inheritable) = (set(0)?, set(1)?, set(2)?);
    let shown =
        format!("{{effective={effective}, permitted={permitted}, inheritable={inheritable}}}");
    out.extend_from_slice(shown.as_bytes());
    Some(())
}

fn words(set: u64) -> String {
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
