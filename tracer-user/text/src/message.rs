//! Messages for the person who runs a command.

use std::io::{self, Write};

use crate::escape::harmless_line;

/// Says something that is no event. With the standard error closed, no messages are wanted.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "tracer-user: {}", harmless_line(line));
}
