//! The kernel's events in the streams of ordinary programs.
//!
//! They come from an *agent*, a privileged process: `tracer-user run`, under which the program was
//! started, or `tracer-user serve`, which serves the whole system. The agent gives a controller
//! the events of processes that the controller may trace, and nothing else.
//!
//! - `protocol`: what controller and agent say to each other;
//! - `connection`: which process is believed to be an agent;
//! - `proof`: descriptors that show that this process may trace another;
//! - `unforked`: a guard during which this process forks no child, which would have these
//!   descriptors;
//! - `returning`: the search for another agent after one has ended;
//! - `AgentSource`: the agent as a source of a stream.

mod connection;
mod proof;
#[doc(hidden)]
pub mod protocol;
mod returning;
mod source;
mod unforked;

use std::env;

use tracer_engine::Attributes;

pub use source::AgentError;

#[doc(hidden)]
pub use connection::reach;

#[doc(hidden)]
pub use source::{AgentSource, Request};

/// Variable that names the agent's socket in the environment of programs that the agent starts: an
/// absolute path. Programs with special rights ignore it.
pub const ADDRESS_VARIABLE: &str = "LINUX_TRACE_AGENT";

/// Where a system-wide agent listens, if one is there.
pub const SYSTEM_ADDRESS: &str = "/run/tracer-user.sock";

/// Variable that, set to 1 in the environment of a program, gives the kernel's events to all its
/// streams whose attributes say nothing else.
pub const WANTED_VARIABLE: &str = "LINUX_TRACE_KERNEL_EVENTS";

/// Tells whether this program has rights that its caller does not have (set-user-ID and the like),
/// so that its environment is not to be believed.
fn is_program_with_special_rights() -> bool {
    // SAFETY: takes nothing but an integer.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Returns the kernel's events for a stream that traces process `pid`, if its attributes, or else
/// the environment, ask for them.
///
/// # Errors
///
/// They are asked for and not available.
#[doc(hidden)]
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
#[doc(hidden)]
pub fn are_wanted(attributes: &Attributes) -> bool {
    attributes.kernel_events().unwrap_or_else(environment_wants)
}

/// Tells whether the environment asks for the kernel's events. A program with special rights
/// ignores what its caller asks.
fn environment_wants() -> bool {
    !is_program_with_special_rights()
        && env::var_os(WANTED_VARIABLE).is_some_and(|value| value == "1")
}
