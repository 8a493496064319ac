//! Text of targets.

use tracer_text::escape::push_for_people;

/// Returns bytes that a target chose, made harmless, as the text of `read` shows them.
pub fn text(untrusted: &[u8]) -> String {
    let mut out = Vec::new();
    push_for_people(&mut out, untrusted);
    String::from_utf8_lossy(&out).into_owned()
}
