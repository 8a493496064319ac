//! Fields of system events as the few kinds of values that other formats have.
//!
//! The one file of the exports that knows the kinds of fields: a new kind needs its lines here.

use std::borrow::Cow;

use tracer_common::event_type::FieldKind;

use tracer_event::fields::Value;
use tracer_event::kernel_words::{push_arguments, push_filled, push_returned, push_syscall_name};
use tracer_event::task_state::task_state;
use tracer_event::waits_in::push_waits_in;

/// Kind of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Signed integer.
    Signed,
    /// Unsigned integer.
    Unsigned,
    /// Truth value.
    Truth,
    /// Text: any bytes.
    Text,
    /// Integers.
    Integers,
}

/// Value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plain<'a> {
    /// Value of [`Shape::Signed`].
    Signed(i64),
    /// Value of [`Shape::Unsigned`].
    Unsigned(u64),
    /// Value of [`Shape::Truth`].
    Truth(bool),
    /// Value of [`Shape::Text`].
    Text(Cow<'a, [u8]>),
    /// Value of [`Shape::Integers`].
    Integers(Vec<i64>),
}

/// Returns the kind of the values of a kind of field.
pub fn shape(kind: FieldKind) -> Shape {
    match kind {
        FieldKind::I32 | FieldKind::SyscallResult => Shape::Signed,
        FieldKind::U32
        | FieldKind::U64
        | FieldKind::Pid
        | FieldKind::Signal
        | FieldKind::Address => Shape::Unsigned,
        FieldKind::Comm
        | FieldKind::Text
        | FieldKind::Strings
        | FieldKind::TaskState
        | FieldKind::SignalResult
        | FieldKind::Syscall
        | FieldKind::NamedArguments
        | FieldKind::FilledArguments
        | FieldKind::ShownResult
        | FieldKind::Softirq
        | FieldKind::BlockOperation
        | FieldKind::WakerContext
        | FieldKind::Others
        | FieldKind::WaitsIn
        | FieldKind::ThreadState
        | FieldKind::HeldSyscall
        | FieldKind::NamedHeldArguments => Shape::Text,
        FieldKind::Flag | FieldKind::ShortFlag | FieldKind::IoWait => Shape::Truth,
        FieldKind::EventSet | FieldKind::Arguments | FieldKind::HeldArguments => Shape::Integers,
    }
}

impl<'a> From<Value<'a>> for Plain<'a> {
    fn from(value: Value<'a>) -> Self {
        match value {
            Value::Signed(value) => Self::Signed(value.into()),
            Value::Unsigned(value) | Value::Signal(value) => Self::Unsigned(value.into()),
            Value::Large(value) | Value::Address(value) => Self::Unsigned(value),
            Value::Result(returned) => Self::Signed(returned.value),
            Value::ShownResult(returned) => {
                let mut text = Vec::new();
                push_returned(&mut text, returned);
                Self::Text(Cow::Owned(text))
            }
            Value::NamedArguments(call, texts) => {
                let mut text = Vec::new();
                push_arguments(&mut text, &call, texts);
                Self::Text(Cow::Owned(text))
            }
            Value::Filled(call, texts, returned) => {
                let mut text = Vec::new();
                push_filled(&mut text, &call, texts, returned);
                Self::Text(Cow::Owned(text))
            }
            Value::Strings(arguments) => {
                let mut text = Vec::new();
                arguments.push(&mut text);
                Self::Text(Cow::Owned(text))
            }
            Value::Named(_, Some(name)) => Self::Text(Cow::Borrowed(name.as_bytes())),
            Value::Named(value, None) => Self::Text(Cow::Owned(value.to_string().into_bytes())),
            Value::Syscall(table, nr) => {
                let mut name = Vec::new();
                push_syscall_name(&mut name, table, nr);
                Self::Text(Cow::Owned(name))
            }
            Value::Arguments(call) => {
                let values = call.arguments().map(|(_, argument)| argument.value());
                Self::Integers(values.collect())
            }
            Value::WaitsIn(waits_in) => {
                let mut name = Vec::new();
                push_waits_in(&mut name, waits_in);
                Self::Text(Cow::Owned(name))
            }
            Value::Bytes(bytes) => Self::Text(Cow::Borrowed(bytes)),
            // Whether it was preempted has a field of its own.
            Value::TaskState(bits) => {
                Self::Text(Cow::Borrowed(task_state(bits, false).0.as_bytes()))
            }
            Value::Flag(flag) => Self::Truth(flag),
            Value::Set(members) => {
                Self::Integers(members.iter().map(|member| member.0.into()).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::SYSTEM_EVENT_TYPES;

    use super::*;
    use tracer_event::fields::value;

    #[test]
    fn every_field_of_the_table_has_a_value_of_its_shape() {
        let mut data = [1; 4096];
        // Where a text ends, and what follows it begins.
        data[3000..3002].copy_from_slice(&[0, 0]);
        for field in SYSTEM_EVENT_TYPES.iter().flat_map(|entry| entry.fields) {
            let plain = Plain::from(value(field, &data).unwrap());
            let found = match plain {
                Plain::Signed(_) => Shape::Signed,
                Plain::Unsigned(_) => Shape::Unsigned,
                Plain::Truth(_) => Shape::Truth,
                Plain::Text(_) => Shape::Text,
                Plain::Integers(_) => Shape::Integers,
            };
            assert_eq!(found, shape(field.kind), "{}", field.name);
        }
    }
}
