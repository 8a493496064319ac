//! Descriptors that system calls are given and return, as `strace -yy` shows them.
//!
//! The kernel's part describes those of each call (`join`: its records, which become part of the
//! calls' events); `kinds` renders them in words, and `shown` reads them from events. `calls` lists
//! which arguments of which calls are descriptors.

mod calls;
mod join;
mod kinds;
mod shown;

pub use calls::of_calls;
pub use join::{Descriptors, is_descriptors};
pub use shown::Named;

/// Recording of descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DescriptorOptions {
    /// Nothing.
    #[default]
    None,
    /// Paths, and where there is none the kind and inode, as `strace -y` shows them.
    Plain,
    /// Like `Plain`, with the protocol and addresses of sockets and the pid of processes.
    Full,
}
