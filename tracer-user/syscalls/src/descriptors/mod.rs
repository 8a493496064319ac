//! What the descriptors are that system calls are given and return, as `strace -yy` shows them.
//!
//! The kernel's part says it of each call (`join`: its records, which become part of the calls'
//! events); `kinds` has what it says in words, and `shown` is what events have of it. `calls`
//! says which arguments of which calls are descriptors.

mod calls;
mod join;
mod kinds;
mod shown;

pub use calls::of_calls;
pub use join::{Descriptors, is_descriptors};
pub use shown::Named;

/// What is recorded of descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DescriptorOptions {
    /// Nothing.
    #[default]
    None,
    /// Paths, and of what has none its kind and inode, as `strace -y` shows them.
    Plain,
    /// The same, and of sockets their protocol and addresses, of processes their pid.
    Full,
}
