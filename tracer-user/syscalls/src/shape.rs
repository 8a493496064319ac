//! Choice, order and form of the arguments of a call.

use std::ops::Range;

use tracer_common::kernel::gathered::VARIABLES;

use crate::arguments::{Call, MOST, Shown};
use crate::calls::{
    Data, Struct, entries, io_command, ioctl_command, push_blocked, push_clone3_result,
    push_datagram, push_new_name_length, variables,
};
use crate::descriptors::Named;
use crate::flags::{mount_flags, named_constant};
use crate::names::Table;
use crate::shown::push_argument;
use crate::texts::{Text, Texts, push_quoted};

/// Known values of the arguments of a call.
#[derive(Clone, Copy, Debug)]
pub struct Filling<'a> {
    /// System call.
    pub call: &'a Call,
    /// Data that was read at its beginning.
    pub before: Texts<'a>,
    /// Data that was read at its end.
    pub after: Option<Texts<'a>>,
    /// Value that it returned.
    pub returned: Option<i64>,
}

/// Arguments of a call that are shown.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Registers, each with its name where names are shown.
    arguments: [(usize, &'static str); MOST],
    count: usize,
}

impl Shape {
    /// Returns the shape of a call: the meaning of some arguments depends on others.
    #[must_use]
    pub fn of(call: &Call) -> Self {
        let all: &[usize] = &[0, 1, 2, 3, 4, 5];
        let count = call.count();
        let some = |some: &[usize]| Self::unnamed(some);
        let is_native = call.table == Table::Native;
        match call.name() {
            Some("futex" | "futex_time64") => some(futex(call.registers[1])),
            Some("clone") if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) => {
                Self::of_clone(call.registers[0], is_native && cfg!(target_arch = "x86_64"))
            }
            Some("fcntl" | "fcntl64") if takes_nothing(call.registers[1]) => some(&[0, 1]),
            Some("_llseek") => some(&[0, 2, 3, 4]),
            _ if (0..count).any(|index| call.is_second_half(index)) => {
                let first = (0..count).filter(|index| !call.is_second_half(*index));
                some(&first.collect::<Vec<_>>())
            }
            Some("preadv" | "pwritev") => some(&[0, 1, 2, 3]),
            Some("preadv2" | "pwritev2") => some(&[0, 1, 2, 3, 5]),
            Some("prctl") => some(all.get(..prctl(call.registers[0])).unwrap_or(all)),
            Some("mknod") if !is_device(call.registers[1]) => some(&[0, 1]),
            Some("mknodat") if !is_device(call.registers[2]) => some(&[0, 1, 2]),
            Some("membarrier") if call.registers[1] & 1 == 0 => some(&[0, 1]),
            // What it is about to block again, which lies on the stack.
            Some("rt_sigreturn" | "sigreturn") => some(&[MOST]),
            Some("mremap") if call.registers[3] & 3 != 3 => some(&[0, 1, 2, 3]),
            Some("ioctl") if takes_no_argument(call.registers[1]) => some(&[0, 1]),
            Some("semctl") => some(&[0, 1, 2, 3]),
            _ => some(all.get(..count).unwrap_or(all)),
        }
    }

    fn unnamed(indexes: &[usize]) -> Self {
        let mut arguments = [(0, ""); MOST];
        for (argument, index) in arguments.iter_mut().zip(indexes) {
            argument.0 = *index;
        }
        let count = indexes.len().min(MOST);
        Self { arguments, count }
    }

    /// Returns the shape of `clone`, which has names, since machines differ in the order.
    fn of_clone(flags: u64, is_of_x86_64: bool) -> Self {
        let has = |flag: libc::c_int| flags & u64::from(flag.cast_unsigned()) != 0;
        let mut shape = Self {
            arguments: [
                (1, "child_stack"),
                (0, "flags"),
                (0, ""),
                (0, ""),
                (0, ""),
                (0, ""),
            ],
            count: 2,
        };
        let (tls, child) = if is_of_x86_64 { (4, 3) } else { (3, 4) };
        let others = [
            (has(libc::CLONE_PARENT_SETTID), (2, "parent_tid")),
            (has(libc::CLONE_SETTLS), (tls, "tls")),
            (
                has(libc::CLONE_CHILD_SETTID) || has(libc::CLONE_CHILD_CLEARTID),
                (child, "child_tidptr"),
            ),
        ];
        for (_, argument) in others.iter().filter(|(is_there, _)| *is_there) {
            if let Some(next) = shape.arguments.get_mut(shape.count) {
                *next = *argument;
                shape.count += 1;
            }
        }
        shape
    }

    /// Returns the number of arguments.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of arguments that are known before the call is done.
    #[must_use]
    pub fn known_before(&self, call: &Call) -> usize {
        if self.arguments.first() == Some(&(MOST, "")) {
            return self.count;
        }
        let first = call.first_filled();
        let arguments = self.arguments.iter().take(self.count);
        let is_clone = call.name() == Some("clone");
        let mut before = arguments
            .take_while(|(index, name)| *index < first && (!is_clone || *name != "parent_tid"));
        before.by_ref().count()
    }

    /// Appends the arguments in the range `some`, with commas between them.
    pub fn push(&self, out: &mut Vec<u8>, some: Range<usize>, filling: &Filling<'_>) {
        let mut values = [None; MOST];
        for (value, argument) in values.iter_mut().zip(filling.call.arguments()) {
            *value = Some(argument);
        }
        let shown = self.arguments.iter().take(self.count).skip(some.start);
        for (nth, (index, name)) in shown.take(some.len()).enumerate() {
            if nth > 0 {
                out.extend_from_slice(b", ");
            }
            if !name.is_empty() {
                out.extend_from_slice(name.as_bytes());
                out.push(b'=');
            }
            if *index == MOST {
                if let Some(mask) = filling.before.of(MOST) {
                    push_blocked(out, mask.bytes);
                }
            } else if let Some(Some((_, value))) = values.get(*index) {
                let is_address = filling.call.is_address(*index);
                let value = if is_address && matches!(value, Shown::Hex(0)) {
                    Shown::Named("NULL", 0)
                } else {
                    *value
                };
                filling.push(out, *index, name, value);
            }
        }
    }
}

impl Filling<'_> {
    /// Appends the argument in register `index`.
    fn push(&self, out: &mut Vec<u8>, index: usize, name: &str, value: Shown) {
        let register = self.call.registers.get(index).copied().unwrap_or(0);
        let after = self.after.and_then(|after| after.of(index));
        let before = self.before.of(index);
        if name == "parent_tid"
            && let Some(child @ 1..) = self.returned
        {
            return out.extend_from_slice(format!("[{child}]").as_bytes());
        }
        if is_ignored(self.call, index) {
            return push_argument(out, value);
        }
        if let Some(constant) = named_constant(self.call, index) {
            return out.extend_from_slice(constant.as_bytes());
        }
        let given = self.call.given(index);
        if let Some(given) = given
            && given.is_filled
            && !given.is_given
            && self.returned.is_some_and(|returned| returned < 0)
            && given.kind != Struct::TimeLeft
        {
            return push_argument(out, value);
        }
        // What `poll` and `select` have found is shown behind what they returned, and where a call
        // has got to in a file beside where it was.
        let is_twice = given.is_some_and(|given| {
            given.kind == Struct::Offset
                || given.kind == Struct::Ioctl
                    && io_command(self.call.registers[1]).is_some_and(|one| one.is_shown_twice())
        });
        let is_as_given = is_twice || given.is_some_and(|given| given.kind.is_shown_as_given());
        let start = out.len();
        let mut push = |is_after: bool| {
            let text = if is_after { after } else { before };
            let returned = self.returned.filter(|_| is_after);
            let named = if is_after {
                self.after.unwrap_or_default()
            } else {
                self.before
            };
            out.truncate(start);
            let pushed = text.and_then(|text| {
                let named = Named::of(named).begun_with(self.before);
                push_pointed(out, self.call, index, &text, returned, named)
            });
            pushed.is_some()
        };
        let is_pushed = push(!is_as_given) || push(is_as_given);
        if !is_pushed {
            out.truncate(start);
            let is_list =
                given.is_some_and(|given| matches!(given.kind, Struct::Ints | Struct::EpollEvents));
            match self.returned {
                Some(0) if self.call.fills_in_as_returned(index) && !asks_for_size(self.call) => {
                    return out.extend_from_slice(b"\"\"");
                }
                Some(0) if is_list && register != 0 => return out.extend_from_slice(b"[]"),
                _ => {}
            }
            push_argument(out, value);
            if let Some(text) =
                after.filter(|_| given.is_some_and(|given| given.kind == Struct::Entries))
            {
                push_entries(out, text.bytes);
            } else if let Some(what) = Named::of(self.before).argument(index, value.value()) {
                what.push(out);
            }
            return self.push_variables(out, index, register);
        }
        match given.map(|given| given.kind) {
            Some(Struct::CloneArguments) => {
                let bytes = before.map_or(&[][..], |text| text.bytes);
                push_clone3_result(out, bytes, self.returned.unwrap_or(0));
            }
            Some(Struct::ReceivedMessage) => {
                let before = before.map_or(&[][..], |text| text.bytes);
                push_new_name_length(out, self.call, start, before);
            }
            Some(Struct::Length) => self.push_new_length(out, start, index),
            Some(Struct::Ioctl | Struct::Offset)
                if is_twice
                    && self.returned.is_some_and(|returned| {
                        returned > 0
                            || given.is_some_and(|given| given.kind == Struct::Ioctl)
                                && returned == 0
                    }) =>
            {
                let mut new = Vec::new();
                let text = after.filter(|_| before.is_some());
                let pushed = text.and_then(|text| {
                    let named = Named::of(self.after.unwrap_or_default());
                    push_pointed(&mut new, self.call, index, &text, self.returned, named)
                });
                if pushed.is_some() {
                    out.extend_from_slice(b" => ");
                    out.extend_from_slice(&new);
                }
            }
            _ => {}
        }
    }

    /// Appends the number of variables that an environment has: ` /* 23 vars */`.
    fn push_variables(&self, out: &mut Vec<u8>, index: usize, register: u64) {
        let Some(texts) = index.checked_sub(1) else {
            return;
        };
        let given = self.call.given(texts);
        if register == 0 || given.is_none_or(|given| given.kind != Struct::Strings) {
            return;
        }
        let read = self.after.and_then(|after| after.of(texts));
        let Some(read) = read.or(self.before.of(texts)) else {
            return;
        };
        match variables(read.bytes) {
            Some(1) => out.extend_from_slice(b" /* 1 var */"),
            Some(VARIABLES) => {
                out.extend_from_slice(format!(" /* {VARIABLES}+ vars */").as_bytes())
            }
            Some(count) => out.extend_from_slice(format!(" /* {count} vars */").as_bytes()),
            None => {}
        }
    }

    /// Appends the new value of a length that the call has changed: `[128 => 16]`.
    fn push_new_length(&self, out: &mut Vec<u8>, start: usize, index: usize) {
        let (Some(address), Some(0..)) = (index.checked_sub(1), self.returned) else {
            return;
        };
        let Some(length) = self.after.and_then(|after| after.of(address)) else {
            return;
        };
        // Of one that was not read to its end, it is not known how long it is.
        let new = match length.has_more {
            true => "?".to_owned(),
            false => length.bytes.len().to_string(),
        };
        let after = format!("[{new}]");
        let before = String::from_utf8_lossy(out.get(start..).unwrap_or_default()).into_owned();
        if before != after {
            let before = before.trim_end_matches(']');
            let both = format!("{before} => {new}]");
            out.truncate(start);
            out.extend_from_slice(both.as_bytes());
        }
    }
}

/// Appends the data that an argument of a call points to; `returned` is the result of the call when
/// the data was read, and `named` describes its descriptors. Returns `None` where the data is
/// invalid.
pub fn push_pointed(
    out: &mut Vec<u8>,
    call: &Call,
    index: usize,
    text: &Text<'_>,
    returned: Option<i64>,
    named: Named<'_>,
) -> Option<()> {
    match call.given(index).filter(|_| text.is_bytes) {
        Some(given) => given.kind.push(
            out,
            Data {
                untrusted: text.bytes,
                has_more: text.has_more,
                is_narrow: given.is_narrow,
                call,
                returned,
                named,
            },
        ),
        None => {
            let bytes = (index, text.bytes);
            if push_datagram(out, call, bytes, returned, named).is_none() {
                push_quoted(out, text);
            }
            Some(())
        }
    }
}

/// Appends the number of entries of a folder: ` /* 3 entries */`.
fn push_entries(out: &mut Vec<u8>, untrusted: &[u8]) {
    let Some((count, has_more)) = entries(untrusted) else {
        return;
    };
    let more = if has_more { "+" } else { "" };
    out.extend_from_slice(format!(" /* {count}{more} entries */").as_bytes());
}

/// Returns the registers that an operation on a futex looks at.
fn futex(operation: u64) -> &'static [usize] {
    match operation & 0x7f {
        1 | 7 | 8 => &[0, 1, 2],
        3 => &[0, 1, 2, 3, 4],
        9 => &[0, 1, 2, 3, 5],
        10 => &[0, 1, 2, 5],
        4 | 5 | 11 | 12 => &[0, 1, 2, 3, 4, 5],
        _ => &[0, 1, 2, 3],
    }
}

/// Tells whether a call asks for the number of bytes, and takes none.
fn asks_for_size(call: &Call) -> bool {
    let size = |nth: usize| call.registers.get(nth) == Some(&0);
    match call.name() {
        Some("listxattr" | "llistxattr" | "flistxattr") => size(2),
        Some("getxattr" | "lgetxattr" | "fgetxattr") => size(3),
        _ => false,
    }
}

/// Tells whether the kernel ignores the data that an argument points to: a file system that is
/// mounted already has its type and options.
fn is_ignored(call: &Call, index: usize) -> bool {
    let (has_type, has_options) = (index == 2, index == 4);
    if !has_type && !has_options || call.name() != Some("mount") {
        return false;
    }
    let bits = mount_flags(call.registers[3]);
    let has = |flags: u64| bits & flags != 0;
    let moved = libc::MS_BIND
        | libc::MS_MOVE
        | libc::MS_SHARED
        | libc::MS_PRIVATE
        | libc::MS_SLAVE
        | libc::MS_UNBINDABLE;
    let is_remounted = has(libc::MS_REMOUNT);
    has_type && is_remounted || !is_remounted && has(moved)
}

/// Tells whether a file of this mode is a device.
fn is_device(mode: u64) -> bool {
    let kind = mode & u64::from(libc::S_IFMT);
    [libc::S_IFCHR, libc::S_IFBLK]
        .map(u64::from)
        .contains(&kind)
}

/// Tells whether a command of `ioctl` takes no argument.
fn takes_no_argument(command: u64) -> bool {
    [
        libc::FIOCLEX,
        libc::FIONCLEX,
        libc::TIOCEXCL,
        libc::TIOCNXCL,
        libc::TIOCNOTTY,
    ]
    .map(ioctl_command)
    .contains(&(command & 0xffff_ffff))
}

/// Tells whether a command of `fcntl` takes no argument.
fn takes_nothing(command: u64) -> bool {
    let command = i32::try_from(command).unwrap_or(-1);
    matches!(
        command,
        libc::F_GETFD
            | libc::F_GETFL
            | libc::F_GETOWN
            | libc::F_GETLEASE
            | libc::F_GETPIPE_SZ
            | libc::F_GET_SEALS
    )
}

/// Returns the number of registers that an option of `prctl` looks at.
fn prctl(option: u64) -> usize {
    match i32::try_from(option).unwrap_or(-1) {
        libc::PR_GET_DUMPABLE
        | libc::PR_GET_KEEPCAPS
        | libc::PR_GET_TIMERSLACK
        | libc::PR_GET_SECUREBITS
        | libc::PR_GET_TIMING
        | libc::PR_GET_SECCOMP => 1,
        libc::PR_SET_PDEATHSIG
        | libc::PR_GET_PDEATHSIG
        | libc::PR_SET_DUMPABLE
        | libc::PR_SET_KEEPCAPS
        | libc::PR_SET_NAME
        | libc::PR_GET_NAME
        | libc::PR_CAPBSET_READ
        | libc::PR_CAPBSET_DROP
        | libc::PR_SET_TIMERSLACK
        | libc::PR_SET_CHILD_SUBREAPER
        | libc::PR_GET_CHILD_SUBREAPER
        | libc::PR_SET_PTRACER => 2,
        libc::PR_SET_SECCOMP => 3,
        _ => 5,
    }
}
