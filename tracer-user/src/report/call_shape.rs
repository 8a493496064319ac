//! Which arguments of a call are shown, in which order, and how.

use std::ops::Range;

use tracer_common::kernel::gathered::VARIABLES;

use super::kernel_words::{push_address, push_argument};
use crate::descriptors::Named;
use crate::syscall_arguments::{Call, MOST, Shown};
use crate::syscall_names::Table;
use crate::syscall_structs::{Data, Struct, push_clone3_result, push_new_name_length, variables};
use crate::syscall_texts::{Text, Texts, push_quoted};
use crate::syscall_values::named_constant;

/// What is known of the arguments of a call.
#[derive(Clone, Copy, Debug)]
pub struct Filling<'a> {
    /// The call.
    pub call: &'a Call,
    /// What was read as it began.
    pub before: Texts<'a>,
    /// What was read as it ended.
    pub after: Option<Texts<'a>>,
    /// What it returned.
    pub returned: Option<i64>,
}

/// The arguments of a call that are shown.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Which registers, and by which names, where names are shown.
    arguments: [(usize, &'static str); MOST],
    count: usize,
}

impl Shape {
    /// That of a call: what some of its arguments are depends on others.
    #[must_use]
    pub fn of(call: &Call) -> Self {
        let all: &[usize] = &[0, 1, 2, 3, 4, 5];
        let count = call.count();
        let some = |some: &[usize]| Self::unnamed(some);
        if call.table == Table::Compat {
            return some(all.get(..count).unwrap_or(all));
        }
        match call.name() {
            Some("futex") => some(futex(call.registers[1])),
            Some("clone") if cfg!(target_arch = "x86_64") => Self::of_clone(call.registers[0]),
            Some("fcntl") if takes_nothing(call.registers[1]) => some(&[0, 1]),
            Some("preadv" | "pwritev") => some(&[0, 1, 2, 3]),
            Some("preadv2" | "pwritev2") => some(&[0, 1, 2, 3, 5]),
            Some("prctl") => some(all.get(..prctl(call.registers[0])).unwrap_or(all)),
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

    /// `clone` has names, since machines differ in the order.
    fn of_clone(flags: u64) -> Self {
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
        let others = [
            (has(libc::CLONE_PARENT_SETTID), (2, "parent_tid")),
            (has(libc::CLONE_SETTLS), (4, "tls")),
            (
                has(libc::CLONE_CHILD_SETTID) || has(libc::CLONE_CHILD_CLEARTID),
                (3, "child_tidptr"),
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

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many of them are known before the call is done.
    #[must_use]
    pub fn known_before(&self, call: &Call) -> usize {
        let first = call.first_filled();
        let arguments = self.arguments.iter().take(self.count);
        let is_clone = call.name() == Some("clone");
        let mut before = arguments
            .take_while(|(index, name)| *index < first && (!is_clone || *name != "parent_tid"));
        before.by_ref().count()
    }

    /// Appends some of them, with commas between them.
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
            if let Some(Some((register, value))) = values.get(*index) {
                let value = if is_pointer(register) && matches!(value, Shown::Hex(0)) {
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
        if let Some(constant) = named_constant(self.call, index) {
            return out.extend_from_slice(constant.as_bytes());
        }
        let given = self.call.given(index);
        if let Some(given) = given
            && given.is_filled
            && !given.is_given
            && self.returned.is_some_and(|returned| returned < 0)
        {
            return push_address(out, register);
        }
        // What `poll` has found is shown behind what it returned.
        let is_poll = given.is_some_and(|given| given.kind == Struct::PollSet);
        let text = if is_poll {
            before.or(after)
        } else {
            after.or(before)
        };
        let start = out.len();
        let pushed = text.and_then(|text| {
            let returned = after.and(self.returned);
            let named = if after.is_some() && !is_poll {
                self.after.unwrap_or_default()
            } else {
                self.before
            };
            push_pointed(out, self.call, index, &text, returned, Named::of(named))
        });
        if pushed.is_none() {
            out.truncate(start);
            let is_list = given.is_some_and(|given| given.kind == Struct::Ints);
            match self.returned {
                Some(0) if self.call.fills_in_as_returned(index) => {
                    return out.extend_from_slice(b"\"\"");
                }
                Some(0) if is_list && register != 0 => return out.extend_from_slice(b"[]"),
                _ => {}
            }
            push_argument(out, value);
            if let Some(what) = Named::of(self.before).argument(index, value.value()) {
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
                push_new_name_length(out, start, before);
            }
            Some(Struct::Length) => self.push_new_length(out, start, index),
            _ => {}
        }
    }

    /// How many variables an environment has: ` /* 23 vars */`.
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

    /// A length that the call has changed: `[128 => 16]`.
    fn push_new_length(&self, out: &mut Vec<u8>, start: usize, index: usize) {
        let (Some(address), Some(0..)) = (index.checked_sub(1), self.returned) else {
            return;
        };
        let Some(length) = self.after.and_then(|after| after.of(address)) else {
            return;
        };
        let after = format!("[{}]", length.bytes.len());
        let before = String::from_utf8_lossy(out.get(start..).unwrap_or_default()).into_owned();
        if before != after {
            let before = before.trim_end_matches(']');
            let both = format!("{before} => {}]", length.bytes.len());
            out.truncate(start);
            out.extend_from_slice(both.as_bytes());
        }
    }
}

/// Appends what an argument of a call points to, `returned` being what the call had returned when
/// it was read, and `named` what its descriptors are; `None` where it is not what it should be.
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
                call,
                returned,
                named,
            },
        ),
        None => {
            push_quoted(out, text);
            Some(())
        }
    }
}

/// Whether the argument of this name is an address where it is neither an integer nor flags.
fn is_pointer(name: &str) -> bool {
    let others = [
        "arg",
        "arg2",
        "arg3",
        "arg4",
        "arg5",
        "flags",
        "prot",
        "pos_l",
        "pos_h",
        "clone_flags",
        "unshare_flags",
        "init_val",
        "cookie64",
        "ctx_id",
    ];
    !others.contains(&name)
}

/// The registers that an operation on a futex looks at.
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

/// Whether a command of `fcntl` takes no argument.
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

/// How many registers an option of `prctl` looks at.
fn prctl(option: u64) -> usize {
    match i32::try_from(option).unwrap_or(-1) {
        libc::PR_GET_DUMPABLE
        | libc::PR_GET_KEEPCAPS
        | libc::PR_GET_TIMERSLACK
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
