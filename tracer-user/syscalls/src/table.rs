//! The table of calls, by machine and number.
//!
//! `table.txt` has a line a call; `build.rs` makes statics of it as the crate is built.

use std::borrow::Cow;

use tracer_common::kernel::{gathered, socket_calls};

use crate::arguments::{Call, Given, Pointed};
use crate::calls::narrow::Member;
use crate::calls::{self, Extent, Narrow, Role, Struct};
use crate::flags::{self, Values};
use crate::names::{self, Table};
use crate::shape::Shape;

/// System call, with what the table says of it.
#[derive(Debug)]
pub struct CallInfo {
    /// Its name.
    pub name: &'static str,
    /// Its arguments; `None` where they are not known.
    pub arguments: Option<&'static [Argument]>,
    /// Arguments that are read together.
    pub together: Option<Together>,
    /// Function that chooses the arguments that are shown.
    pub shows: Option<fn(&Call) -> Shape>,
    /// Kind of the value that it returns.
    pub returns: Returns,
    /// Function that names the value that it returns.
    pub result: Option<fn(&Call, i64) -> Option<String>>,
    /// Signals that are read from the stack.
    pub reads: Option<Extent>,
}

/// Name of an argument's value; `None` where it has none.
pub type Name = Option<Cow<'static, str>>;

/// Argument of a call.
#[derive(Debug)]
pub struct Argument {
    /// Its name.
    pub name: &'static str,
    /// Kind of the argument.
    pub kind: Kind,
    /// Names of its bits.
    pub values: Option<&'static Values>,
    /// Function that names its value, which may depend on other arguments.
    pub named: Option<fn(&Call, usize) -> Name>,
    /// Whether it may be messages of netlink.
    pub is_datagram: bool,
    /// Whether the call asks for the number of bytes where the next argument is 0.
    pub is_asked_for_size: bool,
}

/// Kind of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// File descriptor.
    Fd,
    /// Process or thread.
    Pid,
    /// Signal.
    Signal,
    /// Signed integer of 32 bits.
    Int,
    /// Unsigned integer of 32 bits.
    Uint,
    /// Flags in 32 bits.
    Hex,
    /// Permissions of a file.
    Mode,
    /// Permissions of a file that is made: where the argument before says so.
    NewMode,
    /// Flags in 32 bits, with permissions among them.
    ModeFlags,
    /// Signed integer of 64 bits.
    Long,
    /// Signed integer of 64 bits in two registers, of which this is the first.
    Split,
    /// The second one.
    Rest,
    /// Count of pages, which is shown in bytes.
    Pages,
    /// Size.
    Size,
    /// Size of a set of signals.
    SetSize,
    /// 64 bits of whatever else.
    Word,
    /// Address.
    Pointer(Pointed),
}

/// Kind of the value that a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// Number.
    Number,
    /// File descriptor.
    Fd,
    /// File descriptor, where it is asked for a copy of one.
    FdCopy,
    /// File descriptor, where it has no flags.
    FdWithoutFlags,
    /// Address.
    Address,
    /// Permissions of a file.
    Mode,
    /// Nothing: it does not return.
    Never,
}

/// Arguments of a call that are read together.
#[derive(Clone, Copy, Debug)]
pub struct Together {
    /// The first of them, from 0.
    pub first: usize,
    /// The last one.
    pub last: usize,
    /// Shape in which they are gathered.
    pub shape: u32,
    /// Whether they are read as the call begins.
    pub is_given: bool,
    /// Whether they are read as it ends.
    pub is_filled: bool,
}

/// Class of calls.
#[derive(Debug)]
pub struct Class {
    /// Its name, such as `%file`.
    pub name: &'static str,
    /// Classes that are part of it.
    pub parts: &'static [&'static str],
    /// Names of its calls, whichever machine they are of.
    pub calls: &'static [&'static str],
}

mod made {
    use super::*;

    include!(concat!(env!("OUT_DIR"), "/table.rs"));

    const _: () = {
        assert!(INNER[0] == socket_calls::ACCEPT);
        assert!(INNER[1] == socket_calls::SEND);
        assert!(INNER[2] == socket_calls::RECV);
    };

    pub fn by_number(table: Table) -> &'static [Option<&'static CallInfo>] {
        match table {
            Table::Native => &NATIVE,
            Table::Compat => &COMPAT,
        }
    }

    pub fn by_name(table: Table) -> &'static [(&'static str, u32)] {
        match table {
            Table::Native => &NATIVE_BY_NAME,
            Table::Compat => &COMPAT_BY_NAME,
        }
    }

    #[cfg(test)]
    pub fn structures() -> &'static [&'static Struct] {
        &STRUCTS
    }

    pub fn classes() -> &'static [Class] {
        &CLASSES
    }
}

#[cfg(test)]
pub use made::structures;
pub use made::{by_number, classes};

/// Returns the struct of this name.
#[cfg(test)]
pub fn structure(name: &str) -> Option<&'static Struct> {
    structures()
        .iter()
        .find(|known| known.name == name)
        .copied()
}

/// Returns what is known of a call; `None` where it is not known, or the events are those of
/// another machine.
pub fn info(table: Table, nr: i32) -> Option<&'static CallInfo> {
    if !names::are_of_events() {
        return None;
    }
    *made::by_number(table).get(usize::try_from(nr).ok()?)?
}

/// Returns the system call number of the call of this name.
pub fn number(table: Table, name: &str) -> Option<u32> {
    let all = made::by_name(table);
    let found = all.binary_search_by(|(known, _)| known.cmp(&name));
    Some(all.get(found.ok()?)?.1)
}

impl CallInfo {
    /// Returns its arguments; none where they are not known.
    pub fn known(&self) -> &'static [Argument] {
        self.arguments.unwrap_or_default()
    }

    /// Returns an argument.
    pub fn argument(&self, index: usize) -> Option<&'static Argument> {
        self.arguments?.get(index)
    }
}
