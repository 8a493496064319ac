//! Choice, order and form of the arguments of a call.

use std::ops::Range;

use tracer_common::kernel::gathered::VARIABLES;

use crate::arguments::{Call, MOST, Shown};
use crate::calls::{
    Bytes, Data, Role, command, entries, push_blocked, push_clone3_result, push_datagram,
    push_new_name_length, variables,
};
use crate::descriptors::Named;
use crate::pointer_data::{Text, Texts, push_quoted};
use crate::shown::push_argument;

/// Name of the argument of `clone` that is shown as the call ends.
const PARENT_TID: &str = "parent_tid";

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
    pub fn from_call(call: &Call) -> Self {
        match call.info().and_then(|info| info.shows) {
            Some(shows) => shows(call),
            None => Self::all(call),
        }
    }

    /// Returns the shape of all arguments. The second half of one is shown with the first.
    pub(crate) fn all(call: &Call) -> Self {
        let indexes = (0..call.count()).filter(|index| !call.is_second_half(*index));
        Self::named(indexes.map(|index| (index, "")))
    }

    /// Returns the shape of these arguments.
    pub(crate) fn unnamed(indexes: &[usize]) -> Self {
        Self::named(indexes.iter().map(|index| (*index, "")))
    }

    /// Returns the shape of these arguments, with names where there are some.
    pub(crate) fn named(all: impl IntoIterator<Item = (usize, &'static str)>) -> Self {
        let mut shape = Self {
            arguments: [(0, ""); MOST],
            count: 0,
        };
        for (next, argument) in shape.arguments.iter_mut().zip(all) {
            *next = argument;
            shape.count += 1;
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
        let mut before =
            arguments.take_while(|(index, name)| *index < first && *name != PARENT_TID);
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
                if let Some(mask) = filling.before.find(MOST) {
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
        let after = self.after.and_then(|after| after.find(index));
        let before = self.before.find(index);
        if name == PARENT_TID
            && let Some(child @ 1..) = self.returned
        {
            return out.extend_from_slice(format!("[{child}]").as_bytes());
        }
        let argument = self.call.info().and_then(|info| info.argument(index));
        if let Some(named) = argument.and_then(|argument| argument.named)
            && let Some(constant) = named(self.call, index)
        {
            return out.extend_from_slice(constant.as_bytes());
        }
        let given = self.call.given(index);
        if self.call.asks_for_size(index) {
            return push_argument(out, value);
        }
        if let Some(given) = given
            && given.is_filled
            && !given.is_given
            && self.returned.is_some_and(|returned| returned < 0)
            && given.kind.role != Role::TimeLeft
        {
            return push_argument(out, value);
        }
        // What `poll` and `select` have found is shown behind what they returned, and where a call
        // has got to in a file beside where it was.
        let is_twice = given.is_some_and(|given| {
            given.kind.role == Role::Offset
                || given.kind.role == Role::Command
                    && command(self.call.registers[1]).is_some_and(|one| one.is_shown_twice())
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
                let named = Named::from_texts(named).begun_with(self.before);
                push_pointed(out, self.call, index, &text, returned, named)
            });
            pushed.is_some()
        };
        let is_pushed = push(!is_as_given) || push(is_as_given);
        if !is_pushed {
            out.truncate(start);
            let is_list = given.is_some_and(|given| given.kind.role == Role::List);
            match self.returned {
                Some(0) if self.call.fills_in_as_returned(index) => {
                    return out.extend_from_slice(b"\"\"");
                }
                Some(0) if is_list && register != 0 => return out.extend_from_slice(b"[]"),
                _ => {}
            }
            push_argument(out, value);
            if let Some(text) =
                after.filter(|_| given.is_some_and(|given| given.kind.role == Role::Entries))
            {
                push_entries(out, text.bytes);
            } else if let Some(what) = Named::from_texts(self.before).argument(index, value.value())
            {
                what.push(out);
            }
            return self.push_variables(out, index, register);
        }
        match given.map(|given| given.kind.role) {
            Some(Role::CloneArgs) => {
                let bytes = before.map_or(&[][..], |text| text.bytes);
                push_clone3_result(out, bytes, self.returned.unwrap_or(0));
            }
            Some(Role::ReceivedMessage) => {
                let before = before.map_or(&[][..], |text| text.bytes);
                push_new_name_length(out, self.call, start, before);
            }
            Some(Role::AddressLength) => self.push_new_length(out, start, index),
            Some(Role::Command | Role::Offset)
                if is_twice
                    && self.returned.is_some_and(|returned| {
                        returned > 0
                            || given.is_some_and(|given| given.kind.role == Role::Command)
                                && returned == 0
                    }) =>
            {
                let mut new = Vec::new();
                let text = after.filter(|_| before.is_some());
                let pushed = text.and_then(|text| {
                    let named = Named::from_texts(self.after.unwrap_or_default());
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
        if register == 0 || given.is_none_or(|given| !given.kind.is_text_list()) {
            return;
        }
        let read = self.after.and_then(|after| after.find(texts));
        let Some(read) = read.or(self.before.find(texts)) else {
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
        let Some(length) = self.after.and_then(|after| after.find(address)) else {
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
                bytes: Bytes(text.bytes),
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
