//! Structs and lists that arguments point to: how much of them is read, and how they are shown.

use std::fmt;
use std::mem::size_of;

use tracer_common::kernel::gathered;

use super::bytes::Bytes;
use super::narrow::{self, Narrow};
use crate::arguments::Call;
use crate::descriptors::Named;

/// Struct or list that an argument points to, as the table defines it.
pub struct Struct {
    /// Its name in the table.
    pub(crate) name: &'static str,
    /// Size of the data that is read as a call begins.
    pub(crate) given: Extent,
    /// Size of the data that is read as a call ends.
    pub(crate) filled: Extent,
    /// Layout in 32-bit programs.
    pub(crate) narrow: Narrow,
    /// Treatment that others do not have.
    pub(crate) role: Role,
    /// Function that appends it; `None` where that cannot be, since there is too little of it.
    pub(crate) push: fn(&mut Vec<u8>, Data<'_>) -> Option<()>,
}

/// Treatment of a struct that others do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// None.
    Plain,
    /// Argument of a command of `ioctl`, which decides whether there is one.
    Command,
    /// Argument that is there depending on what the call is asked for.
    Optional,
    /// Shown as the call was given it, and as the call has changed it behind the returned value.
    AsGiven,
    /// The time that a thread still had to sleep, which is there where the call has failed.
    TimeLeft,
    /// Position in a file, which is shown before and after.
    Offset,
    /// List that is empty where the call returns 0.
    List,
    /// Entries of a folder, whose number is shown behind the address.
    Entries,
    /// `struct clone_args`, with the result of the call behind it.
    CloneArgs,
    /// Two descriptors.
    Pair,
    /// Message with descriptors in it.
    Message,
    /// Message that the call fills in: the length of its name is shown before and after.
    ReceivedMessage,
    /// Several such messages, with the time that is left behind the returned value.
    ReceivedList,
    /// Length of an address, which is shown before and after.
    AddressLength,
    /// Texts, as programs are given them, and the environment behind them.
    TextList,
    /// Descriptors that `poll` waits for, which are shown as `AsGiven`.
    PollList,
    /// Set of descriptors that `select` waits for, which is shown as `AsGiven`.
    FdSet,
}

/// Size of the data that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// This count of bytes.
    Fixed(usize),
    /// Array of elements of this size, as many as the next argument says.
    Array(usize),
    /// Bytes, as many as the command of `ioctl` takes, which is the argument before.
    Command,
    /// Array of elements of this size, as many as the call returns.
    Returned(usize),
    /// Bytes, as many as are said where the next argument points to, at most this many.
    Counted(usize),
    /// Data that several addresses lead to: a shape of [`gathered`].
    Gathered(u32),
}

/// Signals that are blocked again as a signal handler ends, as they lie on the stack.
pub(crate) const SIGNAL_MASK: Extent = Extent::Fixed(size_of::<u64>());

/// Signals that are blocked again as a signal handler of a 32-bit program ends: two halves.
pub(crate) const OLD_SIGNAL_MASK: Extent = Extent::Gathered(gathered::OLD_SIGNAL_MASK);

/// Data that was read, and its call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data<'a> {
    /// Bytes that were read: any bytes.
    pub bytes: Bytes<'a>,
    /// Whether there is more of it.
    pub has_more: bool,
    /// Whether it is that of a 32-bit program.
    pub is_narrow: bool,
    /// The call.
    pub call: &'a Call,
    /// Value that it returned, where this was read as it ended.
    pub returned: Option<i64>,
    /// Descriptions of the descriptors in it.
    pub named: Named<'a>,
}

impl Struct {
    /// Tells whether it is shown as the call was given it, and as the call has changed it behind
    /// the returned value: as with `poll` and `select`.
    pub(crate) fn is_shown_as_given(&self) -> bool {
        matches!(self.role, Role::PollList | Role::FdSet | Role::AsGiven)
    }

    /// Tells whether there is one, whatever the call is asked for.
    pub(crate) fn is_in_any_case(&self) -> bool {
        !matches!(self.role, Role::Command | Role::Optional)
    }

    /// Tells whether the result of the call is shown in it.
    pub(crate) fn is_completed(&self) -> bool {
        self.role == Role::CloneArgs
    }

    /// Tells whether these are texts, as programs are given them.
    #[must_use]
    pub fn is_text_list(&self) -> bool {
        self.role == Role::TextList
    }

    /// Returns the count of its bytes that are read; `is_filled`: as the call ends; `is_narrow`: of
    /// a 32-bit program.
    pub(crate) fn extent(&self, is_narrow: bool, is_filled: bool) -> Extent {
        match self.narrow {
            Narrow::Layout(layout) if is_narrow => Extent::Fixed(narrow::size(layout)),
            _ if is_filled => self.filled,
            _ => self.given,
        }
    }

    /// Appends it; `None` where that cannot be, since there is too little of it. Data of a 32-bit
    /// program is widened first.
    pub(crate) fn push(&self, out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
        match self.narrow {
            Narrow::Layout(layout) if data.is_narrow => {
                let wide = narrow::widen(layout, data.bytes.slice())?;
                let bytes = Bytes(&wide);
                (self.push)(out, Data { bytes, ..data })
            }
            _ => (self.push)(out, data),
        }
    }
}

impl PartialEq for Struct {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Struct {}

impl fmt::Debug for Struct {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name)
    }
}
