//! Running traces: processes are followed, the sources joined in one stream, and the stream drained
//! to a consumer.
//!
//! - [`Setup`] is what the command line asks for; [`attach`] and [`launch`] begin a trace with it;
//! - `tracer` holds the stream and does one round at a time, without waiting for anything;
//! - `follow` waits: for the kernel's ring, a tick, signals, the ends of processes, the writer;
//! - `processes` knows the traced processes and the names of threads; it lives on the stream's
//!   events;
//! - `areas` looks for the trace areas that processes bring along;
//! - `origin` says from which of them an event came;
//! - `access` is how processes come to be traced by the kernel;
//! - `writer` writes in a thread of its own, so that a reader that is slow holds nothing else up.

// Whatever comes from outside is no reason to end the program.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stdout
    )
)]

mod access;
mod areas;
mod attach;
mod beside;
mod brake;
mod call_windows;
mod command;
mod consumer_setup;
mod control_group;
mod counted;
mod cpu_times;
mod descendants;
mod descriptors;
mod ending;
mod event_cost;
mod follow;
mod idle_time;
mod launch;
mod name_shares;
mod newcomers;
mod origin;
mod own_cost;
mod pidfd;
mod printer;
mod proc_fs;
mod processes;
mod recording;
mod returned;
mod setup;
mod switch_windows;
mod targets;
mod tracer;
mod type_rows;
mod wake;
mod wakers;
mod writer;

pub use access::{ServiceScope, may_trace_kernel, service_scope};
pub use attach::attach;
pub use consumer_setup::{Beginning, ConsumerSetup, Format};
pub use control_group::ControlGroup;
pub use ending::runtime;
pub use launch::{StartError, launch};
pub use pidfd::PidFd;
pub use proc_fs::{comm, ensure_own as ensure_own_proc, executable, has_capability};
pub use recording::Recording;
pub use setup::{
    Buffers, DEFAULT_STRING_BYTES, Followed, MAX_KERNEL_RING_BYTES, MIN_KERNEL_RING_BYTES, Setup,
    THREAD_RING_BYTES,
};
pub use targets::{Targets, own_processes_with_areas};
pub use wake::Wake;
