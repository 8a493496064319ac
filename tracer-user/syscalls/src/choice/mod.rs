//! System calls that are chosen, by a list such as `%file,!openat`.
//!
//! - [`SyscallSet`] is the set of chosen calls;
//! - `list` reads a list of words;
//! - `classes` knows which calls the classes have.

mod classes;
mod list;
mod set;

pub use classes::names as class_names;
pub use list::SyscallListError;
pub use set::{SyscallSet, UnknownSyscall};
