//! Data of events, with readable names and values, for formats that have slices and instants.

use std::borrow::Cow;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::SyscallEnterData;
use tracer_engine::event::Truncation;
use tracer_engine::fields::{Record, Value as RecordedValue};
use zerocopy::FromBytes;

use super::plain::Plain;
use super::slices::SliceArguments;
use tracer_event::event_view::EventView;
use tracer_event::fields::{self, FieldValue, failure_of, value};
use tracer_event::probe;
use tracer_event::recorded::{as_text as as_words, recorded};
use tracer_event::self_describing::push_typed_value;
use tracer_syscalls::arguments::{Call, Shown};
use tracer_syscalls::descriptors::Named;
use tracer_syscalls::pointer_data::{Text, Texts};
use tracer_syscalls::shape::push_pointed;
use tracer_syscalls::shown::push_argument;
use tracer_text::digits::push_hex;
use tracer_text::escape::as_text;
use tracer_text::self_describing::{self, Typed};

/// Value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Signed integer.
    Signed(i64),
    /// Unsigned integer.
    Unsigned(u64),
    /// Truth value.
    Truth(bool),
    /// Address, or flags.
    Pointer(u64),
    /// Text: any bytes.
    Text(Vec<u8>),
    /// Text that a program recorded as text.
    Words(String),
    /// Integers.
    Integers(Vec<i64>),
}

/// Values, each with its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried(pub Vec<(Cow<'static, str>, Item)>);

impl Carried {
    /// Returns the values of an event.
    pub fn from_event(line: &EventView<'_>) -> Self {
        let mut carried = Self::default();
        let data = line.event.data;
        match line.entry {
            Some(entry) if entry.id == EventTypeId::SYSCALL_ENTER => carried.add_call(data),
            Some(entry) => {
                for field in entry.fields {
                    if let Some(value) = value(field, data) {
                        carried.add(field.name, Plain::from(value).into());
                    }
                }
            }
            None => match recorded(&line.event) {
                Some(record) => carried.add_recorded(record),
                None => carried.add_user(line, ["text", "hex"]),
            },
        }
        if line.event.header.truncation != Truncation::None {
            carried.add("truncated", Item::Truth(true));
        }
        if let Some(context) = line.context {
            carried.add("trace_id", Item::Text(context.trace().into_bytes()));
            carried.add("span_id", Item::Text(context.span().into_bytes()));
        }
        if line.event.header.program_address != 0 {
            let address = Item::Pointer(line.event.header.program_address);
            carried.add("prog_address", address);
        }
        carried
    }

    /// Returns the values that the end of a slice adds to those of its beginning.
    pub fn from_end(line: &EventView<'_>) -> Self {
        let mut carried = Self::default();
        let Some(entry) = line.entry else {
            match recorded(&line.event) {
                Some(record) => carried.add_recorded_end(record),
                None => carried.add_user(line, ["end_text", "end_hex"]),
            }
            return carried;
        };
        for field in entry.fields {
            // The others are those of the beginning.
            match value(field, line.event.data) {
                Some(FieldValue::Filled(call, texts, returned)) => {
                    carried.add_filled(&call, texts, returned);
                }
                Some(value) if matches!(field.name, "ret" | "handled") => {
                    carried.add_end(field.name, value);
                }
                _ => {}
            }
        }
        carried
    }

    fn add(&mut self, name: &'static str, item: Item) {
        self.0.push((Cow::Borrowed(name), item));
    }

    fn add_end(&mut self, name: &'static str, value: FieldValue<'_>) {
        let FieldValue::Result(returned) = value else {
            return self.add(name, Plain::from(value).into());
        };
        self.add(name, returned.shown().into());
        if let Some(error) = failure_of(returned) {
            self.add("error", Item::Text(error.as_bytes().to_vec()));
        }
    }

    fn add_call(&mut self, data: &[u8]) {
        let Ok((call, _)) = SyscallEnterData::read_from_prefix(data) else {
            return;
        };
        let texts = Texts::behind(size_of_val(&call), data);
        let call = fields::call(&call);
        for (index, (name, argument)) in call.arguments().enumerate() {
            match texts.find(index) {
                Some(text) => self.add_text(name, &call, index, &text, None),
                None => self.add(name, argument.into()),
            }
        }
    }

    /// Adds the arguments that the call has filled in.
    fn add_filled(&mut self, call: &Call, texts: Texts<'_>, returned: i64) {
        for (index, (name, _)) in call.arguments().enumerate() {
            if let Some(text) = texts.find(index) {
                self.add_text(name, call, index, &text, Some(returned));
            }
        }
    }

    fn add_text(
        &mut self,
        name: &'static str,
        call: &Call,
        index: usize,
        text: &Text<'_>,
        returned: Option<i64>,
    ) {
        let mut words = Vec::new();
        if push_pointed(&mut words, call, index, text, returned, Named::default()).is_some() {
            self.add(name, Item::Text(words));
        }
    }

    fn add_typed(&mut self, typed: Typed<'_>) {
        for (name, value) in typed.iter() {
            let item = match value {
                self_describing::TypedValue::Unread => continue,
                self_describing::TypedValue::Signed(value) => Item::Signed(value),
                self_describing::TypedValue::Unsigned(value) => Item::Unsigned(value),
                self_describing::TypedValue::Address(value) => Item::Pointer(value),
                self_describing::TypedValue::Flag(truth) => Item::Truth(truth),
                self_describing::TypedValue::Text { bytes, .. } => Item::Text(bytes.to_vec()),
                // As people see them.
                other => {
                    let mut text = Vec::new();
                    push_typed_value(&mut text, other, None);
                    Item::Text(text)
                }
            };
            self.0.push((Cow::Owned(name.to_owned()), item));
        }
    }

    fn add_recorded(&mut self, record: Record<'_>) {
        if let Some(name) = record.name {
            self.add("name", Item::Words(name.into_owned()));
        }
        if let Some(level) = record.level {
            self.add("level", Item::Words(level.word().to_owned()));
        }
        for (name, id) in [("span", record.span), ("parent", record.parent)] {
            self.0
                .extend(id.map(|id| (Cow::Borrowed(name), Item::Unsigned(id))));
        }
        for id in record.follows {
            self.add("follows", Item::Unsigned(id));
        }
        if let Some(message) = record.message {
            self.add("message", Item::Words(message.into_owned()));
        }
        for field in record.fields {
            // In front of a field there may be something that is called so too.
            let name = match &*field.name {
                "name" | "level" | "span" | "parent" | "follows" | "message" => {
                    format!("fields.{}", field.name)
                }
                name => name.to_owned(),
            };
            self.0.push((Cow::Owned(name), field.value.into()));
        }
    }

    /// Adds the fields of the end of a span.
    fn add_recorded_end(&mut self, record: Record<'_>) {
        for field in record.fields {
            let name = format!("end_{}", field.name);
            self.0.push((Cow::Owned(name), field.value.into()));
        }
    }

    fn add_user(&mut self, line: &EventView<'_>, [text, hex]: [&'static str; 2]) {
        let data = line.event.data;
        if let Some(arguments) = probe::ArgumentValues::parse(line.name, data) {
            for (name, argument) in arguments.iter() {
                match argument {
                    probe::ArgumentValue::Unread => {}
                    probe::ArgumentValue::Unsigned(value) => self.add(name, Item::Unsigned(value)),
                    probe::ArgumentValue::Signed(value) => self.add(name, Item::Signed(value)),
                }
            }
        } else if let Some(typed) = Typed::parse_event(line.name, data) {
            self.add_typed(typed);
        } else if let Some(words) = as_text(data) {
            if !words.is_empty() {
                self.add(text, Item::Words(words.to_owned()));
            }
        } else if !data.is_empty() {
            let mut digits = Vec::new();
            push_hex(&mut digits, data);
            self.add(hex, Item::Text(digits));
        }
    }
}

impl SliceArguments for Carried {
    fn without_end() -> Self {
        let what = Item::Text(b"not recorded".to_vec());
        Self(vec![(Cow::Borrowed("end"), what)])
    }
}

impl From<RecordedValue<'_>> for Item {
    fn from(value: RecordedValue<'_>) -> Self {
        match value {
            RecordedValue::Signed(value) => Self::Signed(value),
            RecordedValue::Unsigned(value) => Self::Unsigned(value),
            RecordedValue::Flag(truth) => Self::Truth(truth),
            other => Self::Words(as_words(&other)),
        }
    }
}

impl From<Plain<'_>> for Item {
    fn from(plain: Plain<'_>) -> Self {
        match plain {
            Plain::Signed(value) => Self::Signed(value),
            Plain::Unsigned(value) => Self::Unsigned(value),
            Plain::Truth(truth) => Self::Truth(truth),
            Plain::Text(text) => Self::Text(text.into_owned()),
            Plain::Integers(values) => Self::Integers(values),
        }
    }
}

impl From<Shown> for Item {
    fn from(argument: Shown) -> Self {
        match argument {
            Shown::Signed(value) => Self::Signed(value),
            Shown::Unsigned(value) => Self::Unsigned(value),
            Shown::Hex(value) => Self::Pointer(value),
            Shown::Octal(_) | Shown::RealTimeSignal(_) | Shown::Named(..) | Shown::Bits(..) => {
                let mut text = Vec::new();
                push_argument(&mut text, argument);
                Self::Text(text)
            }
        }
    }
}
