//! The kernel's events in the streams of ordinary programs.
//!
//! They come from an *agent*, a privileged process: `tracer-user run`, under which the program was
//! started, or `tracer-user serve`, which serves the whole system. The agent gives a controller
//! the events of processes that the controller may trace, and nothing else.
//!
//! - `protocol`: what controller and agent say to each other;
//! - `connection`: which process is believed to be an agent;
//! - `proof`: descriptors that show that this process may trace another;
//! - `unforked`: a stretch in which no child is made, which would have these descriptors;
//! - `returning`: how an agent is found again after one has ended;
//! - `AgentSource`: the agent as a source of a stream.

mod connection;
mod proof;
#[doc(hidden)]
pub mod protocol;
mod returning;
mod source;
mod unforked;
mod wanted;

#[doc(hidden)]
pub use connection::reach;
pub use source::AgentError;
#[doc(hidden)]
pub use source::{AgentSource, Request};
#[doc(hidden)]
pub use wanted::{are_wanted, source_if_wanted};

/// Names the agent's socket in the environment of programs that it starts: an absolute path.
/// Programs with special rights do not look.
pub const ADDRESS_VARIABLE: &str = "LINUX_TRACE_AGENT";

/// Where a system-wide agent listens, if one is there.
pub const SYSTEM_ADDRESS: &str = "/run/tracer-user.sock";

/// Set to 1 in the environment of a program, it gives the kernel's events to all its streams that
/// were not set otherwise.
pub const WANTED_VARIABLE: &str = "LINUX_TRACE_KERNEL_EVENTS";

/// Tells whether this program has rights that its caller does not have (set-user-ID and the like),
/// so that its environment is not to be believed.
fn is_program_with_special_rights() -> bool {
    // SAFETY: takes nothing but an integer.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
