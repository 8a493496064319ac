//! Decoders of calls, a file a family: functions to which `table.txt` refers.
//!
//! - `push_STRUCT` appends the struct or list that an argument points to, as strace shows it;
//! - `name_WORD` names the value of an argument, which may depend on others;
//! - `show_WORD` chooses the arguments of a call that are shown;
//! - `result_WORD` names what a call returns.
//!
//! Layouts are those of 64-bit programs; structs of 32-bit programs are widened first.

mod bytes;
mod control;
mod files;
mod gathered;
mod ioctl;
mod ipc;
mod memory;
mod mount;
pub(crate) mod narrow;
mod netlink;
mod network;
mod packet;
mod pointed;
mod prctl;
mod process;
mod render;
mod scheduling;
mod signal_info;
mod signals;
mod terminal;
mod time;
mod waiting;

pub(crate) use bytes::{Bytes, name_in_hex};
pub(crate) use files::*;
pub use gathered::strings;
pub(crate) use gathered::*;
pub(crate) use ioctl::*;
pub(crate) use ipc::*;
pub(crate) use memory::*;
pub(crate) use mount::*;
pub(crate) use narrow::Narrow;
pub(crate) use network::*;
pub use pointed::Struct;
pub(crate) use pointed::*;
pub(crate) use prctl::*;
pub(crate) use process::*;
pub(crate) use render::*;
pub(crate) use scheduling::*;
pub(crate) use signal_info::*;
pub(crate) use signals::*;
pub(crate) use time::*;
pub(crate) use waiting::*;

#[cfg(test)]
mod tests;
