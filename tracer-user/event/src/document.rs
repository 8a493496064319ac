//! Objects of JSON, as every command writes them, with the version of their content.

use serde::Serialize;

use tracer_text::digits::push_decimal;
use tracer_text::escape::harmless_json;

pub use tracer_schema::VERSION as SCHEMA;

/// Object over several lines.
#[derive(Serialize)]
struct Document<'a, T> {
    schema: u32,
    #[serde(flatten)]
    object: &'a T,
}

/// Object that is one of many, on one line. The version is last: some readers look at the beginning
/// of a line.
#[derive(Serialize)]
struct Line<'a, T> {
    #[serde(flatten)]
    object: &'a T,
    schema: u32,
}

/// Returns an object over several lines.
#[must_use]
pub fn document(object: &impl Serialize) -> String {
    let schema = SCHEMA;
    ended(serde_json::to_string_pretty(&Document { schema, object }))
}

/// Returns an object on one line.
#[must_use]
pub fn object_line(object: &impl Serialize) -> String {
    let schema = SCHEMA;
    ended(serde_json::to_string(&Line { object, schema }))
}

fn ended(written: serde_json::Result<String>) -> String {
    format!("{}\n", harmless_json(&written.unwrap_or_default()))
}

/// Appends the end of an object that has members: the version, and the end of its line.
pub fn push_line_end(out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"schema\":");
    push_decimal(out, SCHEMA);
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_has_the_version() {
        let object = serde_json::json!({"a": "\u{202e}", "list": [1]});
        let whole = document(&object);
        assert!(whole.starts_with("{\n  \"schema\": 1,"), "{whole}");
        let line = object_line(&object);
        assert_eq!(line, "{\"a\":\"\\u202e\",\"list\":[1],\"schema\":1}\n");
        let mut end = Vec::new();
        push_line_end(&mut end);
        assert!(line.as_bytes().ends_with(&end));
    }
}
