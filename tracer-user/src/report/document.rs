//! Objects of JSON, as every command writes them.

use serde::Serialize;

use super::escape::harmless_json;

/// An object over several lines.
#[must_use]
pub fn document(object: &impl Serialize) -> String {
    ended(serde_json::to_string_pretty(object))
}

/// An object on one line.
#[must_use]
pub fn object_line(object: &impl Serialize) -> String {
    ended(serde_json::to_string(object))
}

fn ended(written: serde_json::Result<String>) -> String {
    format!("{}\n", harmless_json(&written.unwrap_or_default()))
}
