//! Names of arguments of system calls that are flags, or one of several constants.
//!
//! The constants are those of the C library of the machine for which this is built.

#![expect(
    clippy::cast_sign_loss,
    reason = "the kernel takes 32 bits, of whatever type the C library has them"
)]

mod files;
mod memory;
mod network;
mod process;
mod time;
mod waiting;

use std::borrow::Cow;

use crate::calls::any_signal;
pub(crate) use files::*;
pub(crate) use memory::*;
pub(crate) use network::*;
pub(crate) use process::*;
pub(crate) use time::*;
pub(crate) use waiting::*;

/// A constant and its name.
pub(crate) type Constant = (&'static str, u32);

/// Values that an argument may have.
#[derive(Debug, PartialEq, Eq)]
pub struct Values {
    /// The bits that are one of `values`; the others are flags.
    mask: u32,
    values: &'static [Constant],
    /// Flags that consist of several bits, before those that are one of them.
    flags: &'static [Constant],
    /// Name of having no bit at all.
    zero: &'static str,
    /// Whether the value comes behind the flags.
    is_value_last: bool,
    /// Whether the value is a signal.
    is_signal: bool,
}

impl Values {
    /// Appends the names of these bits: those that are not known as they are.
    pub fn push(&self, out: &mut Vec<u8>, bits: u32) {
        if bits == 0 && !self.zero.is_empty() {
            out.extend_from_slice(self.zero.as_bytes());
            return;
        }
        let start = out.len();
        let separate = |out: &mut Vec<u8>| {
            if out.len() > start {
                out.push(b'|');
            }
        };
        let named = self.named(bits & self.mask);
        if !self.is_value_last
            && let Some(name) = &named
        {
            out.extend_from_slice(name.as_bytes());
        }
        let mut rest = match named {
            Some(_) => bits & !self.mask,
            None => bits,
        };
        for (name, flag) in self.flags {
            if *flag != 0 && rest & flag == *flag {
                rest &= !flag;
                separate(out);
                out.extend_from_slice(name.as_bytes());
            }
        }
        if rest != 0 || (out.len() == start && named.is_none()) {
            separate(out);
            out.extend_from_slice(format!("{rest:#x}").as_bytes());
        }
        if self.is_value_last
            && let Some(name) = &named
        {
            separate(out);
            out.extend_from_slice(name.as_bytes());
        }
    }

    /// Returns the name of one of the values.
    pub(crate) fn value_name(&self, value: u32) -> Option<&'static str> {
        let known = self.values.iter().find(|(_, known)| *known == value);
        known.map(|(name, _)| *name)
    }

    /// Returns the name of the value.
    fn named(&self, value: u32) -> Option<Cow<'static, str>> {
        if self.is_signal {
            return (value != 0).then(|| any_signal(value));
        }
        self.value_name(value).map(Cow::Borrowed)
    }
}

/// The C library's constants, and 0 for those that this machine does not have.
pub(crate) mod machine {
    pub use libc::*;

    #[cfg(not(target_arch = "x86_64"))]
    pub const MAP_32BIT: c_int = 0;
}

/// Constants of the C library by their names.
macro_rules! constants {
    ($($name:ident)*) => {
        &[$((stringify!($name), {
            #[allow(clippy::cast_possible_truncation, reason = "commands are wider, with zeroes")]
            let value = $crate::flags::machine::$name as u32;
            value
        })),*]
    };
}
use constants;

const NONE: Values = Values {
    mask: 0,
    values: &[],
    flags: &[],
    zero: "0",
    is_value_last: false,
    is_signal: false,
};

/// Returns the name of the level of a socket's option.
#[must_use]
pub fn level_name(level: i32) -> Cow<'static, str> {
    named(LEVEL.values, level).unwrap_or_else(|| format!("{level:#x}").into())
}

/// Returns the flags of `mount`, without the value that stands for none.
#[must_use]
pub fn mount_flags(register: u64) -> u64 {
    let mask = u64::from(MAGIC_MASK);
    if register & mask == u64::from(MAGIC) {
        register & !mask
    } else {
        register
    }
}

/// Renders the names of bits.
pub(crate) fn words(values: &Values, bits: u64) -> Cow<'static, str> {
    let mut out = Vec::new();
    values.push(&mut out, u32::try_from(bits).unwrap_or(u32::MAX));
    String::from_utf8_lossy(&out).into_owned().into()
}

/// Returns the name of a constant among these.
pub(crate) fn named(names: &'static [Constant], value: i32) -> Option<Cow<'static, str>> {
    let known = names
        .iter()
        .find(|(_, known)| *known == value.cast_unsigned());
    known.map(|(name, _)| (*name).into())
}

#[cfg(test)]
mod tests {
    use crate::names::{self, Table};
    use crate::table;

    fn shown(call: &str, argument: &str, bits: u32) -> String {
        let mut out = Vec::new();
        let nr = names::syscall_number(Table::Native, call).unwrap();
        let info = table::info(Table::Native, nr.cast_signed()).unwrap();
        let mut arguments = info.known().iter();
        let argument = arguments.find(|known| known.name == argument).unwrap();
        argument.values.unwrap().push(&mut out, bits);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn bits_are_called_as_strace_calls_them() {
        for (call, argument, bits, expected) in [
            ("openat", "flags", 0, "O_RDONLY"),
            ("openat", "flags", 0o2_000_101, "O_WRONLY|O_CREAT|O_CLOEXEC"),
            ("openat", "flags", 0x4000_0000, "O_RDONLY|0x40000000"),
            ("openat", "flags", 3, "0x3"),
            ("mmap", "prot", 0, "PROT_NONE"),
            ("mmap", "prot", 5, "PROT_READ|PROT_EXEC"),
            ("mmap", "flags", 0x22, "MAP_PRIVATE|MAP_ANONYMOUS"),
            ("access", "mode", 0, "F_OK"),
            ("newfstatat", "flag", 0, "0"),
            ("newfstatat", "flag", 0x1000, "AT_EMPTY_PATH"),
            ("lseek", "whence", 2, "SEEK_END"),
            ("lseek", "whence", 77, "0x4d"),
            ("socket", "type", 0x80001, "SOCK_STREAM|SOCK_CLOEXEC"),
            (
                "clone",
                "clone_flags",
                0x0120_0011,
                "CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD",
            ),
            ("futex", "op", 128, "FUTEX_WAIT_PRIVATE"),
            (
                "futex",
                "op",
                393,
                "FUTEX_WAIT_BITSET_PRIVATE|FUTEX_CLOCK_REALTIME",
            ),
        ] {
            assert_eq!(shown(call, argument, bits), expected, "{call}");
        }
    }
}
