//! Names of event types, as short as people read them.

/// Appends the name of a system event type without what all have in common.
pub fn push_short_name(out: &mut Vec<u8>, name: &str) {
    let short = name.strip_prefix("linux_trace_");
    let short = short.or_else(|| name.strip_prefix("posix_trace_"));
    let bytes = short.unwrap_or(name).bytes();
    out.extend(bytes.map(|byte| if byte == b'_' { b'-' } else { byte }));
}
