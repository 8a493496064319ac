//! Values of variables in an event: those that JSON shows of it. For a system call, its entry and
//! its exit have the same values, where both have been seen.

use cel::common::types::{CelBool, CelInt, CelList, CelString, CelUInt};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use tracer_analysis::CallKey;
use tracer_common::event_type::{EventTypeId, FieldKind};
use tracer_common::kernel::{SyscallEnterData, SyscallExitData};
use tracer_engine::event::{MonotonicNs, Truncation};
use zerocopy::FromBytes as _;

use super::variables::{ARGUMENTS, Asked, FILLED};
use crate::event_view::EventView;
use crate::fields::{self, FieldValue, table, value};
use crate::kernel_words::{push_returned, push_syscall_name};
use crate::probe::{ArgumentValue, ArgumentValues};
use crate::self_describing::push_typed_value;
use crate::task_state::{WaitsIn, push_waits_in, task_state};
use tracer_syscalls::arguments::{Call, MOST, Returned, Shown};
use tracer_syscalls::calls::strings;
use tracer_syscalls::descriptors::Named;
use tracer_syscalls::names::Table;
use tracer_syscalls::pointer_data::{Text, Texts};
use tracer_syscalls::shape::push_pointed;
use tracer_syscalls::shown::push_argument;
use tracer_text::digits::push_hex;
use tracer_text::escape::as_text;
use tracer_text::push_short_name;
use tracer_text::self_describing::{self, Typed};

/// An event, and the known facts about the other end of a system call.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    line: &'a EventView<'a>,
    start: MonotonicNs,
    call: Option<CallFacts<'a>>,
}

/// A system call, as far as it has been seen.
#[derive(Clone, Copy, Debug)]
pub struct CallFacts<'a> {
    table: Table,
    nr: i32,
    entered: Option<Entered<'a>>,
    left: Option<Left<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct Entered<'a> {
    at: MonotonicNs,
    call: Call,
    texts: Texts<'a>,
}

#[derive(Clone, Copy, Debug)]
struct Left<'a> {
    at: MonotonicNs,
    returned: Returned,
    texts: Texts<'a>,
}

impl<'a> CallFacts<'a> {
    /// Returns the call that an event is an end of, if it is one and its data is whole.
    pub fn parse(id: EventTypeId, at: MonotonicNs, untrusted: &'a [u8]) -> Option<Self> {
        if id == EventTypeId::SYSCALL_ENTER {
            let (call, _) = SyscallEnterData::read_from_prefix(untrusted).ok()?;
            let table = table(call.compat);
            return Some(Self {
                table,
                nr: call.number,
                entered: Some(Entered {
                    at,
                    call: fields::call(&call),
                    texts: Texts::behind(size_of::<SyscallEnterData>(), untrusted),
                }),
                left: None,
            });
        }
        if id != EventTypeId::SYSCALL_EXIT {
            return None;
        }
        let (call, _) = SyscallExitData::read_from_prefix(untrusted).ok()?;
        let table = table(call.compat);
        let returned = Returned {
            table,
            nr: call.number,
            value: call.ret,
        };
        Some(Self {
            table,
            nr: call.number,
            entered: None,
            left: Some(Left {
                at,
                returned,
                texts: Texts::behind(size_of::<SyscallExitData>(), untrusted),
            }),
        })
    }

    /// Returns the key of the call.
    pub fn key(&self) -> CallKey {
        CallKey::new(self.table == Table::Compat, self.nr)
    }

    /// Returns the value that it returned, or 0 where that is not known.
    pub fn returned(&self) -> i64 {
        self.left.map_or(0, |left| left.returned.value)
    }

    /// Adds the facts that `other`, another end of the call, knows.
    #[must_use]
    pub fn with(self, other: &Self) -> Self {
        Self {
            entered: self.entered.or(other.entered),
            left: self.left.or(other.left),
            ..self
        }
    }

    /// Tells whether it returned an error.
    pub fn has_failed(&self) -> bool {
        self.left
            .is_some_and(|left| self.key().fails_with(left.returned.value))
    }

    fn value<'v>(&self, name: &str) -> Option<CowVal<'v, 'v>>
    where
        'a: 'v,
    {
        match name {
            "syscall" | "name" => Some(written(|out| push_syscall_name(out, self.table, self.nr))),
            "compat" => Some(truth(self.table == Table::Compat)),
            "ret" => Some(signed(self.left?.returned.value)),
            "result" => {
                let returned = self.left?.returned;
                Some(written(|out| push_returned(out, returned)))
            }
            "error" => Some(word(fields::failure_of(self.left?.returned)?)),
            "duration" => {
                let took = self.left?.at.0.saturating_sub(self.entered?.at.0);
                Some(unsigned(took))
            }
            _ => match name.strip_prefix(FILLED) {
                Some(argument) => self.filled(argument),
                None => self.argument(name.strip_prefix(ARGUMENTS).unwrap_or(name)),
            },
        }
    }

    /// Returns the value of an argument: the data that it points to, where that was read.
    fn argument<'v>(&self, name: &str) -> Option<CowVal<'v, 'v>>
    where
        'a: 'v,
    {
        let Some(entered) = self.entered else {
            return self.filled(name);
        };
        let mut arguments = entered.call.arguments().enumerate();
        let (index, (_, shown)) = arguments.find(|(_, (found, _))| *found == name)?;
        let read = entered.texts.find(index);
        let read = read.or_else(|| self.left?.texts.find(index));
        let returned = self.left.map(|left| left.returned.value);
        let of = |read| pointed(&entered.call, index, read, returned);
        Some(read.map_or_else(|| as_shown(shown), of))
    }

    /// Returns the data that a call has filled in.
    fn filled<'v>(&self, name: &str) -> Option<CowVal<'v, 'v>>
    where
        'a: 'v,
    {
        let left = self.left?;
        let call = Call {
            table: self.table,
            nr: self.nr,
            registers: self
                .entered
                .map_or([0; MOST], |entered| entered.call.registers),
        };
        let mut arguments = call.arguments().enumerate();
        let (index, _) = arguments.find(|(_, (found, _))| *found == name)?;
        let returned = Some(left.returned.value);
        let read = left.texts.find(index)?;
        Some(pointed(&call, index, read, returned))
    }
}

impl<'a> Facts<'a> {
    /// Returns the facts about an event, times being from `start` on.
    pub fn new(line: &'a EventView<'a>, start: MonotonicNs, call: Option<CallFacts<'a>>) -> Self {
        Self { line, start, call }
    }

    fn value(&self, name: &str) -> Option<CowVal<'a, 'a>> {
        let header = &self.line.event.header;
        match name {
            "type" => Some(match self.line.entry {
                Some(entry) => written(|out| push_short_name(out, entry.name)),
                None => bytes(self.line.name),
            }),
            "class" if header.event_type.is_user() => Some(word("user")),
            "class" => Some(word("system")),
            "pid" => Some(signed(header.pid.into())),
            "tid" => Some(signed(header.tid.into())),
            "comm" => self.line.comm.map(bytes),
            "cpu" => header.cpu.map(|cpu| signed(cpu.into())),
            "time" => Some(unsigned(header.time.0.saturating_sub(self.start.0))),
            "ns" => Some(unsigned(header.time.0)),
            "truncated" => Some(truth(header.truncation != Truncation::None)),
            "thread_id" => (header.thread_id != 0).then(|| unsigned(header.thread_id)),
            "prog_address" => {
                (header.program_address != 0).then(|| unsigned(header.program_address))
            }
            "ns_pid" => self.line.inside.map(|inside| signed(inside.pid.into())),
            "ns_tid" => self.line.inside.map(|inside| signed(inside.tid.into())),
            _ => match &self.call {
                Some(call) => call.value(name).or_else(|| self.field(name)),
                None => self.field(name),
            },
        }
    }

    fn field(&self, name: &str) -> Option<CowVal<'a, 'a>> {
        let data = self.line.event.data;
        if let Some(entry) = self.line.entry {
            let mut fields = entry.fields.iter();
            let field = fields.find(|field| field.name == name)?;
            // The value and the name of its error are one in the table.
            if field.kind == FieldKind::Arguments {
                return None;
            }
            return convert_field(value(field, data)?);
        }
        if let Some(arguments) = ArgumentValues::parse(self.line.name, data) {
            let (_, argument) = arguments.iter().find(|(found, _)| *found == name)?;
            return match argument {
                ArgumentValue::Unread => None,
                ArgumentValue::Unsigned(value) => Some(unsigned(value)),
                ArgumentValue::Signed(value) => Some(signed(value)),
            };
        }
        if let Some(typed) = Typed::parse_event(self.line.name, data) {
            let (_, value) = typed.iter().find(|(found, _)| *found == name)?;
            return convert_typed(value);
        }
        match name {
            "text" => as_text(data).map(|text| bytes(text.as_bytes())),
            "hex" => Some(written(|out| push_hex(out, data))),
            _ => None,
        }
    }
}

impl VariableResolver for Facts<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        match Asked::read(variable)? {
            Asked::Presence(name) => Some(truth(self.value(name).is_some())),
            Asked::Value(name) => self.value(name),
        }
    }
}

fn convert_field<'v>(value: FieldValue<'v>) -> Option<CowVal<'v, 'v>> {
    Some(match value {
        FieldValue::Signed(value) => signed(value.into()),
        FieldValue::Unsigned(value)
        | FieldValue::Signal(value)
        | FieldValue::Named(value, None) => signed(value.into()),
        FieldValue::Large(value) | FieldValue::Address(value) => unsigned(value),
        FieldValue::Named(_, Some(name)) => word(name),
        FieldValue::Syscall(table, nr) => written(|out| push_syscall_name(out, table, nr)),
        FieldValue::Result(returned) => signed(returned.value),
        FieldValue::ShownResult(returned) => written(|out| push_returned(out, returned)),
        FieldValue::Bytes(found) => bytes(found),
        FieldValue::TaskState(bits) => word(task_state(bits, false).0),
        FieldValue::WaitsIn(WaitsIn::Unknown) => return None,
        FieldValue::WaitsIn(waits_in) => written(|out| push_waits_in(out, waits_in)),
        FieldValue::Flag(flag) => truth(flag),
        FieldValue::Strings(arguments) => texts(arguments.iter().map(Some), arguments.has_more()),
        FieldValue::Arguments(_)
        | FieldValue::NamedArguments(..)
        | FieldValue::Filled(..)
        | FieldValue::Set(_) => {
            return None;
        }
    })
}

/// Returns a value of data that describes itself, as JSON shows it.
fn convert_typed<'v>(value: self_describing::TypedValue<'v>) -> Option<CowVal<'v, 'v>> {
    Some(match value {
        self_describing::TypedValue::Unread => return None,
        self_describing::TypedValue::Signed(value) => signed(value),
        self_describing::TypedValue::Unsigned(value)
        | self_describing::TypedValue::Address(value) => unsigned(value),
        self_describing::TypedValue::Flag(flag) => truth(flag),
        self_describing::TypedValue::Character(byte) => signed(byte.into()),
        self_describing::TypedValue::Text { bytes, has_more } => text(Text {
            argument: 0,
            bytes,
            has_more,
            is_bytes: false,
        }),
        other => written(|out| push_typed_value(out, other, None)),
    })
}

/// Returns an argument as JSON shows it: as text where it is not decimal.
fn as_shown<'v>(shown: Shown) -> CowVal<'v, 'v> {
    match shown {
        Shown::Signed(value) => signed(value),
        Shown::Unsigned(value) => unsigned(value),
        Shown::Hex(_)
        | Shown::Octal(_)
        | Shown::RealTimeSignal(_)
        | Shown::Named(..)
        | Shown::Bits(..) => written(|out| push_argument(out, shown)),
    }
}

/// Returns the data that an argument points to, as JSON shows it: texts as a list, structs in
/// words.
fn pointed<'v>(call: &Call, index: usize, read: Text<'v>, returned: Option<i64>) -> CowVal<'v, 'v> {
    let given = call.given(index).filter(|_| read.is_bytes);
    match given.map(|given| given.kind) {
        Some(kind) if kind.is_text_list() => match strings(read.bytes) {
            Some((found, has_more)) => texts(found.into_iter(), has_more),
            None => text(read),
        },
        Some(_) => written(|out| {
            // Of what cannot be shown there are no words.
            let _ = push_pointed(out, call, index, &read, returned, Named::default());
        }),
        None => text(read),
    }
}

/// Returns a list of texts, with dots behind one of which there is more, or as the last one.
fn texts<'v, 't>(
    texts: impl Iterator<Item = Option<(&'t [u8], bool)>>,
    has_more: bool,
) -> CowVal<'v, 'v> {
    let more = has_more.then_some(Some((&b""[..], true)));
    let texts = texts.chain(more).map(|text| {
        let (text, has_more) = text.unwrap_or_default();
        let mut text = String::from_utf8_lossy(text).into_owned();
        if has_more {
            text.push_str("...");
        }
        let text: Box<dyn Val> = Box::new(CelString::from(text));
        text
    });
    CowVal::owned(CelList::from(texts.collect::<Vec<_>>()))
}

/// Returns the text that was read. Where there is more of it, the text ends with dots, as JSON
/// shows it: it is equal to nothing shorter.
fn text<'v>(read: Text<'v>) -> CowVal<'v, 'v> {
    if read.has_more {
        return written(|out| {
            out.extend_from_slice(read.bytes);
            out.extend_from_slice(b"...");
        });
    }
    bytes(read.bytes)
}

fn bytes<'v>(bytes: &'v [u8]) -> CowVal<'v, 'v> {
    match std::str::from_utf8(bytes) {
        Ok(text) => CowVal::owned(CelString::from(text)),
        Err(_) => CowVal::owned(CelString::from(String::from_utf8_lossy(bytes).into_owned())),
    }
}

fn word<'v>(word: &'static str) -> CowVal<'v, 'v> {
    CowVal::owned(CelString::from(word))
}

fn written<'v>(write: impl FnOnce(&mut Vec<u8>)) -> CowVal<'v, 'v> {
    let mut out = Vec::new();
    write(&mut out);
    let text = String::from_utf8(out)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    CowVal::owned(CelString::from(text))
}

fn truth<'v>(truth: bool) -> CowVal<'v, 'v> {
    CowVal::owned(CelBool::from(truth))
}

fn signed<'v>(value: i64) -> CowVal<'v, 'v> {
    CowVal::owned(CelInt::from(value))
}

fn unsigned<'v>(value: u64) -> CowVal<'v, 'v> {
    match i64::try_from(value) {
        Ok(value) => signed(value),
        Err(_) => CowVal::owned(CelUInt::from(value)),
    }
}
