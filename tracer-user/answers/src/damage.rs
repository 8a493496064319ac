//! Damage of a log, as JSON.

use serde_json::{Value, json};

/// Renders what could not be read of a log: sites, bytes and packets.
pub fn damage([places, bytes, packets_missing]: [u64; 3]) -> Value {
    json!({ "places": places, "bytes": bytes, "packets_missing": packets_missing })
}
