//! Fields of system events as the few kinds of values that other formats have.
//!
//! The one file of the exports that knows the kinds of fields: a new kind needs its lines here.

use std::borrow::Cow;

use tracer_common::event_type::FieldKind;

use tracer_event::fields::FieldValue;
use tracer_event::kernel_words::{push_arguments, push_filled, push_returned, push_syscall_name};
use tracer_event::task_state::{push_waits_in, task_state};

/// Kind of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueShape {
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
pub fn shape(kind: FieldKind) -> ValueShape {
    match kind {
        FieldKind::I32 | FieldKind::SyscallResult => ValueShape::Signed,
        FieldKind::U32
        | FieldKind::U64
        | FieldKind::Pid
        | FieldKind::Signal
        | FieldKind::LockOwner
        | FieldKind::Address => ValueShape::Unsigned,
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
        | FieldKind::LockType
        | FieldKind::WaitsIn
        | FieldKind::ThreadState
        | FieldKind::HeldSyscall
        | FieldKind::NamedHeldArguments => ValueShape::Text,
        FieldKind::Flag | FieldKind::ShortFlag | FieldKind::IoWait => ValueShape::Truth,
        FieldKind::EventSet | FieldKind::Arguments | FieldKind::HeldArguments => {
            ValueShape::Integers
        }
    }
}

impl<'a> From<FieldValue<'a>> for Plain<'a> {
    fn from(value: FieldValue<'a>) -> Self {
        match value {
            FieldValue::Signed(value) => Self::Signed(value.into()),
            FieldValue::Unsigned(value) | FieldValue::Signal(value) => Self::Unsigned(value.into()),
            FieldValue::Large(value) | FieldValue::Address(value) => Self::Unsigned(value),
            FieldValue::Result(returned) => Self::Signed(returned.value),
            FieldValue::ShownResult(returned) => {
                let mut text = Vec::new();
                push_returned(&mut text, returned);
                Self::Text(Cow::Owned(text))
            }
            FieldValue::NamedArguments(call, texts) => {
                let mut text = Vec::new();
                push_arguments(&mut text, &call, texts);
                Self::Text(Cow::Owned(text))
            }
            FieldValue::Filled(call, texts, returned) => {
                let mut text = Vec::new();
                push_filled(&mut text, &call, texts, returned);
                Self::Text(Cow::Owned(text))
            }
            FieldValue::Strings(arguments) => {
                let mut text = Vec::new();
                arguments.push(&mut text);
                Self::Text(Cow::Owned(text))
            }
            FieldValue::Named(_, Some(name)) => Self::Text(Cow::Borrowed(name.as_bytes())),
            FieldValue::Named(value, None) => {
                Self::Text(Cow::Owned(value.to_string().into_bytes()))
            }
            FieldValue::Syscall(table, nr) => {
                let mut name = Vec::new();
                push_syscall_name(&mut name, table, nr);
                Self::Text(Cow::Owned(name))
            }
            FieldValue::Arguments(call) => {
                let values = call.arguments().map(|(_, argument)| argument.value());
                Self::Integers(values.collect())
            }
            FieldValue::WaitsIn(waits_in) => {
                let mut name = Vec::new();
                push_waits_in(&mut name, waits_in);
                Self::Text(Cow::Owned(name))
            }
            FieldValue::Bytes(bytes) => Self::Text(Cow::Borrowed(bytes)),
            // Whether it was preempted has a field of its own.
            FieldValue::TaskState(bits) => {
                Self::Text(Cow::Borrowed(task_state(bits, false).0.as_bytes()))
            }
            FieldValue::Flag(flag) => Self::Truth(flag),
            FieldValue::Set(members) => {
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
                Plain::Signed(_) => ValueShape::Signed,
                Plain::Unsigned(_) => ValueShape::Unsigned,
                Plain::Truth(_) => ValueShape::Truth,
                Plain::Text(_) => ValueShape::Text,
                Plain::Integers(_) => ValueShape::Integers,
            };
            assert_eq!(found, shape(field.kind), "{}", field.name);
        }
    }
}
