//! Whether a stream gets the kernel's events.

use std::env;

use super::{AgentError, AgentSource, Request, WANTED_VARIABLE, is_program_with_special_rights};
use tracer_engine::Attributes;

/// Returns the kernel's events for a stream that traces process `pid`, if its attributes, or else
/// the environment, ask for them.
///
/// # Errors
///
/// They are asked for and not available.
pub fn source_if_wanted(
    pid: i32,
    attributes: &Attributes,
) -> Result<Option<AgentSource>, AgentError> {
    if !are_wanted(attributes) {
        return Ok(None);
    }
    AgentSource::connect(&Request::for_stream(pid, attributes)).map(Some)
}

/// Tells whether a stream's attributes, or else the environment, ask for the kernel's events.
#[must_use]
pub fn are_wanted(attributes: &Attributes) -> bool {
    attributes.kernel_events().unwrap_or_else(environment_wants)
}

/// Tells whether the environment asks for them: a program with special rights is not instructed by
/// its caller.
fn environment_wants() -> bool {
    !is_program_with_special_rights()
        && env::var_os(WANTED_VARIABLE).is_some_and(|value| value == "1")
}
