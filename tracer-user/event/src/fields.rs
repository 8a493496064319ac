//! Fields of a system event's data, read by the one table.

use std::mem::offset_of;

use tracer_analysis::layouts::LockOwner;
use tracer_analysis::{CallKey, LockType, recorded_lock};
use tracer_common::event_type::{EVENT_SET_WORDS, EventTypeId, FieldKind, SystemField, read_grown};
use tracer_common::kernel::{
    COMM_BYTES, SwitchOutData, SyscallEnterData, SyscallExitData, exec_arguments, waits_in,
};

use super::task_state::WaitsIn;
use super::value_names::{
    block_operation, others, signal_result, softirq, thread_state, waker_context,
};
use tracer_syscalls::arguments::{Call, MOST, Returned};
use tracer_syscalls::names::{Table, error_of};
use tracer_syscalls::pointer_data::{Text, Texts, push_quoted};

/// Value of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// Signed integer.
    Signed(i32),
    /// Unsigned integer.
    Unsigned(u32),
    /// Large unsigned integer.
    Large(u64),
    /// Address; 0 for none.
    Address(u64),
    /// Code that has a name, and its name where it is known.
    Named(u32, Option<&'static str>),
    /// System call, by its index in a table.
    Syscall(Table, i32),
    /// System call with its arguments.
    Arguments(Call),
    /// System call with its arguments, by their names, and in readable form.
    NamedArguments(Call, Texts<'a>),
    /// Arguments that a call has filled in, and what it returned.
    Filled(Call, Texts<'a>, i64),
    /// Result of a system call.
    Result(Returned),
    /// Result of a system call, in readable form.
    ShownResult(Returned),
    /// Text or a thread name, without its null.
    Bytes(&'a [u8]),
    /// State bits of the kernel.
    TaskState(u32),
    /// Truth value.
    Flag(bool),
    /// Arguments that a program was given.
    Strings(ExecArguments<'a>),
    /// Place in which a blocked thread waits.
    WaitsIn(WaitsIn),
    /// Signal; 0 for none.
    Signal(u32),
    /// Members of an event set.
    Set(Vec<EventTypeId>),
}

/// Reads `field` out of `untrusted`; returns `None` where the data is too short.
pub fn value<'a>(field: &SystemField, untrusted: &'a [u8]) -> Option<FieldValue<'a>> {
    let bytes = untrusted.get(field.offset..)?;
    let word = || bytes.first_chunk().map(|four| u32::from_ne_bytes(*four));
    let long = || bytes.first_chunk().map(|eight| u64::from_ne_bytes(*eight));
    let named = |name: fn(u32) -> Option<&'static str>| {
        let code = word()?;
        Some(FieldValue::Named(code, name(code)))
    };
    Some(match field.kind {
        FieldKind::I32 => FieldValue::Signed(word()?.cast_signed()),
        FieldKind::U32 | FieldKind::Pid => FieldValue::Unsigned(word()?),
        FieldKind::U64 => FieldValue::Large(long()?),
        FieldKind::Address => FieldValue::Address(long()?),
        FieldKind::SignalResult => named(signal_result)?,
        FieldKind::Softirq => named(softirq)?,
        FieldKind::BlockOperation => named(block_operation)?,
        FieldKind::WakerContext => named(waker_context)?,
        FieldKind::Others => named(others)?,
        FieldKind::Syscall => {
            let (table, nr) = call_of(bytes)?;
            FieldValue::Syscall(table, nr)
        }
        FieldKind::Arguments => FieldValue::Arguments(entered(untrusted, bytes)?),
        FieldKind::NamedArguments => FieldValue::NamedArguments(
            entered(untrusted, bytes)?,
            Texts::behind(size_of::<SyscallEnterData>(), untrusted),
        ),
        FieldKind::ThreadState => named(thread_state)?,
        FieldKind::HeldSyscall => {
            let (table, nr) = call_of(bytes)?;
            // It is in none.
            (nr >= 0).then_some(FieldValue::Syscall(table, nr))?
        }
        FieldKind::HeldArguments => FieldValue::Arguments(held(untrusted, bytes)?),
        FieldKind::NamedHeldArguments => {
            FieldValue::NamedArguments(held(untrusted, bytes)?, Texts::behind(0, &[]))
        }
        FieldKind::FilledArguments => {
            let (table, nr) = call_of(untrusted)?;
            let texts = Texts::behind(size_of::<SyscallExitData>(), untrusted);
            if let Some(registers) = texts.registers() {
                let call = Call {
                    table,
                    nr,
                    registers,
                };
                return Some(FieldValue::NamedArguments(call, texts));
            }
            let call = Call {
                table,
                nr,
                registers: [0; MOST],
            };
            FieldValue::Filled(call, texts, long()?.cast_signed())
        }
        FieldKind::SyscallResult => FieldValue::Result(left(untrusted, long()?)?),
        FieldKind::ShownResult => FieldValue::ShownResult(left(untrusted, long()?)?),
        FieldKind::Comm => FieldValue::Bytes(until_null(bytes.get(..COMM_BYTES).unwrap_or(bytes))),
        FieldKind::Text => FieldValue::Bytes(until_null(bytes)),
        FieldKind::Strings => FieldValue::Strings(ExecArguments::behind(bytes)?),
        FieldKind::TaskState => FieldValue::TaskState(word()?),
        FieldKind::Flag => FieldValue::Flag(word()? != 0),
        FieldKind::ShortFlag => FieldValue::Flag(*bytes.first()? != 0),
        FieldKind::IoWait => FieldValue::Flag(*bytes.first()? & waits_in::IO != 0),
        FieldKind::WaitsIn => FieldValue::WaitsIn(waits_in_of(field, untrusted, bytes)?),
        FieldKind::Signal => FieldValue::Signal(word()?),
        FieldKind::LockType => lock_type(untrusted),
        FieldKind::LockOwner => lock_owner(untrusted),
        FieldKind::EventSet => FieldValue::Set(members(bytes.get(..EVENT_SET_WORDS * 8)?)),
    })
}

/// Returns the place in which a thread waits, as the data of a switch or of a first look has it.
fn waits_in_of(field: &SystemField, untrusted: &[u8], bytes: &[u8]) -> Option<WaitsIn> {
    if field.offset != offset_of!(SwitchOutData, waits_in) {
        return WaitsIn::read(bytes);
    }
    let switch = read_grown(untrusted, offset_of!(SwitchOutData, ran_ns));
    match switch {
        Some(switch) => Some(WaitsIn::from_switch_out(&switch)),
        None => WaitsIn::read(bytes),
    }
}

/// Returns the owner of the lock that recorded memory shows; 0 for none.
fn lock_owner(untrusted: &[u8]) -> FieldValue<'static> {
    FieldValue::Unsigned(match recorded_lock(untrusted).map(|lock| lock.owner) {
        Some(LockOwner::Thread(tid)) => tid.unsigned_abs(),
        Some(LockOwner::Readers(_)) | None => 0,
    })
}

/// Returns the type of the lock that recorded memory shows.
fn lock_type(untrusted: &[u8]) -> FieldValue<'static> {
    let lock = recorded_lock(untrusted);
    let kind = lock.map_or(LockType::Futex, |lock| lock.kind.into());
    FieldValue::Named(0, Some(kind.name()))
}

/// Arguments of an exec, as they lie behind its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecArguments<'a> {
    untrusted: &'a [u8],
    has_more: bool,
    /// Number of missing bytes, where that is known.
    missing: Option<u32>,
}

impl<'a> ExecArguments<'a> {
    /// Returns the arguments behind a file and its null; `None` where they are unknown.
    pub fn behind(untrusted: &'a [u8]) -> Option<Self> {
        let null = untrusted.iter().position(|byte| *byte == 0)?;
        let (bits, untrusted) = untrusted.get(null + 1..)?.split_first()?;
        if bits & exec_arguments::UNREADABLE != 0 {
            return None;
        }
        let has_more = bits & exec_arguments::MORE != 0;
        let (missing, untrusted) = if bits & exec_arguments::COUNTED != 0 {
            let (missing, arguments) = untrusted.split_first_chunk()?;
            (Some(u32::from_ne_bytes(*missing)), arguments)
        } else {
            (None, untrusted)
        };
        Some(Self {
            untrusted,
            has_more,
            missing,
        })
    }

    /// Returns the number of their missing bytes, where that is known.
    pub fn missing(self) -> Option<u32> {
        self.missing
    }

    /// Returns each of them, and whether that is only its beginning.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], bool)> {
        let whole = self.untrusted.strip_suffix(&[0]);
        let is_truncated = whole.is_none();
        let all = whole.unwrap_or(self.untrusted);
        let mut arguments = all.split(|byte| *byte == 0).peekable();
        let mut is_empty = self.untrusted.is_empty();
        std::iter::from_fn(move || {
            if is_empty {
                return None;
            }
            let argument = arguments.next()?;
            is_empty = arguments.peek().is_none();
            Some((argument, is_truncated && is_empty))
        })
    }

    /// Tells whether there are more of them.
    pub fn has_more(self) -> bool {
        self.has_more
    }

    /// Appends them as strace shows them: `["ls", "-la"]`; and the number of missing bytes: `["ls",
    /// "-l"..., ...] /* 812 bytes more */`.
    pub fn push(self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (nth, (bytes, has_more)) in self.iter().enumerate() {
            if nth > 0 {
                out.extend_from_slice(b", ");
            }
            let (argument, is_bytes) = (0, false);
            push_quoted(
                out,
                &Text {
                    argument,
                    bytes,
                    has_more,
                    is_bytes,
                },
            );
        }
        out.extend_from_slice(if self.has_more { b", ...]" } else { b"]" });
        if let Some(missing) = self.missing {
            out.extend_from_slice(format!(" /* {missing} bytes more */").as_bytes());
        }
    }
}

/// Returns the bytes before the first null.
pub fn until_null(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    end.and_then(|end| bytes.get(..end)).unwrap_or(bytes)
}

/// Returns the table and the system call number.
fn call_of(bytes: &[u8]) -> Option<(Table, i32)> {
    let nr = bytes.first_chunk().map(|four| i32::from_ne_bytes(*four))?;
    let compat = bytes.get(4..)?.first_chunk()?;
    Some((table(u32::from_ne_bytes(*compat)), nr))
}

/// Returns the table of a system call, as `compat` says.
pub fn table(compat: u32) -> Table {
    if compat == 0 {
        Table::Native
    } else {
        Table::Compat
    }
}

/// Returns the name of the error with which a call failed, if it did. What the end of a signal
/// handler returns is the register of who was interrupted, and no error.
pub fn failure_of(returned: Returned) -> Option<&'static str> {
    let key = CallKey::new(returned.table == Table::Compat, returned.nr);
    error_of(returned.value).filter(|_| key.fails_with(returned.value))
}

/// Returns a system call, as its event has it.
pub fn call(entered: &SyscallEnterData) -> Call {
    Call {
        table: table(entered.compat),
        nr: entered.number,
        registers: entered.args,
    }
}

/// Returns the call whose arguments are `bytes`: the start of the data says which one it is.
fn entered(untrusted: &[u8], bytes: &[u8]) -> Option<Call> {
    let (table, nr) = call_of(untrusted)?;
    Some(Call {
        table,
        nr,
        registers: arguments(bytes)?,
    })
}

/// Returns the call that a thread is in, if it is in one.
fn held(untrusted: &[u8], bytes: &[u8]) -> Option<Call> {
    entered(untrusted, bytes).filter(|call| call.nr >= 0)
}

fn left(untrusted: &[u8], value: u64) -> Option<Returned> {
    let (table, nr) = call_of(untrusted)?;
    Some(Returned {
        table,
        nr,
        value: value.cast_signed(),
    })
}

fn arguments(bytes: &[u8]) -> Option<[u64; MOST]> {
    let (words, _) = bytes.as_chunks::<8>();
    let words = words.first_chunk::<MOST>()?;
    Some(words.map(u64::from_ne_bytes))
}

fn members(words: &[u8]) -> Vec<EventTypeId> {
    let (words, _) = words.as_chunks::<8>();
    (0_u32..)
        .step_by(64)
        .zip(words)
        .flat_map(|(first, word)| {
            let word = u64::from_ne_bytes(*word);
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| EventTypeId(first + bit))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use zerocopy::{FromZeros as _, IntoBytes as _};

    use super::*;

    const fn field(offset: usize, kind: FieldKind) -> SystemField {
        SystemField {
            name: "any",
            offset,
            kind,
        }
    }

    #[test]
    fn arguments_of_an_exec_are_behind_its_file() {
        let shown = |untrusted: &[u8]| {
            let arguments = ExecArguments::behind(untrusted)?;
            let mut out = Vec::new();
            arguments.push(&mut out);
            Some(String::from_utf8(out).unwrap())
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            shown(b"/bin/ls\0\0ls\0\0a b\0"),
            some(r#"["ls", "", "a b"]"#)
        );
        assert_eq!(shown(b"/bin/ls\0\0"), some("[]"));
        assert_eq!(shown(b"/bin/ls\0\0\0"), some(r#"[""]"#));
        assert_eq!(
            shown(b"/bin/ls\0\x01ls\0-l"),
            some(r#"["ls", "-l"..., ...]"#)
        );
        assert_eq!(shown(b"/bin/ls\0\x01ls\0"), some(r#"["ls", ...]"#));
        assert_eq!(
            shown(b"/bin/ls\0\x05\x02\x01\0\0ls\0-"),
            some(r#"["ls", "-"..., ...] /* 258 bytes more */"#)
        );
        assert_eq!(shown(b"/bin/ls\0\x05\x02\x01\0"), None);
        // They could not be read, or an older log has none.
        assert_eq!(shown(b"/bin/ls\0\x02"), None);
        assert_eq!(shown(b"/bin/ls\0"), None);
        assert_eq!(shown(b"/bin/ls"), None);
    }

    #[test]
    fn data_that_is_too_short_has_no_value() {
        assert_eq!(value(&field(0, FieldKind::U32), &[1, 2, 3]), None);
        assert_eq!(value(&field(9, FieldKind::Text), b"short"), None);
        assert_eq!(value(&field(0, FieldKind::EventSet), &[0; 8]), None);
    }

    #[test]
    fn a_name_ends_at_its_null_or_when_it_is_full() {
        let full = [b'x'; 20];
        assert_eq!(
            value(&field(0, FieldKind::Comm), b"sh\0garbage"),
            Some(FieldValue::Bytes(b"sh"))
        );
        assert_eq!(
            value(&field(0, FieldKind::Comm), &full),
            Some(FieldValue::Bytes(&full[..16]))
        );
    }

    #[test]
    fn a_thread_that_is_frozen_is_in_no_page_fault() {
        let place = |state, waits_in| {
            let mut switch = SwitchOutData::new_zeroed();
            (switch.state, switch.waits_in, switch.syscall) = (state, waits_in, 7);
            let field = field(offset_of!(SwitchOutData, waits_in), FieldKind::WaitsIn);
            match value(&field, switch.as_bytes()) {
                Some(FieldValue::WaitsIn(place)) => place,
                other => panic!("{other:?}"),
            }
        };
        let (frozen, interruptible) = (0x8000, 1);
        assert_eq!(place(frozen, waits_in::FAULT), WaitsIn::Unknown);
        assert_eq!(place(interruptible, waits_in::FAULT), WaitsIn::Fault);
        let in_call = WaitsIn::Syscall(Table::Native, 7);
        assert_eq!(place(frozen, waits_in::SYSCALL), in_call);
    }

    #[test]
    fn a_set_is_read_as_its_members() {
        let mut bytes = [0; EVENT_SET_WORDS * 8];
        bytes[..8].copy_from_slice(&(1_u64 << 32).to_ne_bytes());
        bytes[8..16].copy_from_slice(&3_u64.to_ne_bytes());

        assert_eq!(
            value(&field(0, FieldKind::EventSet), &bytes),
            Some(FieldValue::Set(vec![
                EventTypeId(32),
                EventTypeId(64),
                EventTypeId(65)
            ]))
        );
    }
}
