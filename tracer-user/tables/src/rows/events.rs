//! Rows of `events`.

use tracer_engine::event::Truncation;
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_output::report::CallTimes;

use super::{Rows, push_context};
use crate::batch::{ColumnValues, RowBatch};
use crate::held_data::HeldData;
use crate::names::NameDictionary;

/// Maker of a row for each event. There are many: values are held column by column until a batch is
/// taken.
#[derive(Debug)]
pub struct EventRows {
    calls: CallTimes,
    has_durations: bool,
    has_data: bool,
    has_names: bool,
    /// Indices of columns in which few events have a value.
    stack: usize,
    context: usize,
    columns: EventColumns,
}

/// Values of the columns in which all events have one.
#[derive(Debug, Default)]
struct EventColumns {
    dates: Vec<i64>,
    times: Vec<u64>,
    types: Names,
    classes: Names,
    pids: Vec<i32>,
    tids: Vec<i32>,
    comms: Names,
    cpus: Optional<u32>,
    addresses: SeldomSet<u64>,
    thread_ids: SeldomSet<u64>,
    truncated: SeldomSet<bool>,
    data: HeldData,
    durations: Optional<u64>,
}

impl EventRows {
    /// Begins, with what the columns of `batch` need.
    pub fn new(batch: &RowBatch) -> Self {
        Self {
            calls: CallTimes::default(),
            has_durations: batch.has("duration_ns"),
            has_data: batch.has("data") || batch.has("raw"),
            has_names: batch.has("comm"),
            stack: batch.index("stack"),
            context: batch.index("otel_trace_id"),
            columns: EventColumns {
                data: HeldData::new(batch.has("data")),
                ..EventColumns::default()
            },
        }
    }
}

impl Rows for EventRows {
    fn gap(&mut self, _: &Gap, _: &mut RowBatch) {
        self.calls.forget();
    }

    fn event(&mut self, view: &EventView<'_>, out: &mut RowBatch) {
        let header = &view.event.header;
        let columns = &mut self.columns;
        columns
            .dates
            .push(i64::try_from(view.date.0).unwrap_or_default());
        columns.times.push(header.time.0);
        columns.types.push_keyed(header.event_type.0, view.name);
        let is_user = header.event_type.is_user();
        let class: &[u8] = if is_user { b"user" } else { b"system" };
        columns.classes.push_keyed(is_user.into(), class);
        columns.pids.push(header.pid);
        columns.tids.push(header.tid);
        if self.has_names {
            columns.comms.push(view.comm.unwrap_or_default());
        }
        columns.cpus.push(header.cpu);
        columns.addresses.push(header.program_address);
        columns.thread_ids.push(header.thread_id);
        columns
            .truncated
            .push(header.truncation != Truncation::None);
        let mut bytes = 0;
        if self.has_data {
            // Text is some three times as long.
            bytes = columns.data.note(view).saturating_mul(4);
        }
        if self.has_durations {
            columns.durations.push(self.calls.took(view));
        }
        if let Some(stack) = &view.stack {
            out.go_to(self.stack);
            out.text(|text| {
                stack.push_json(text);
                true
            });
            out.name(stack.why_it_ends().map(|end| end.name().as_bytes()));
        }
        if view.context.is_some() {
            out.go_to(self.context);
            push_context(view.context, out);
        }
        out.end_row_of(bytes);
    }

    fn complete(&mut self, out: &mut RowBatch) {
        let own = &mut self.columns;
        let all = Vec::new;
        out.set("time", ColumnValues::I64(emptied(&mut own.dates)), all());
        out.set("ns", ColumnValues::U64(emptied(&mut own.times)), all());
        out.set("type", own.types.take(), all());
        out.set("class", own.classes.take(), all());
        out.set("pid", ColumnValues::I32(emptied(&mut own.pids)), all());
        out.set("tid", ColumnValues::I32(emptied(&mut own.tids)), all());
        out.set("comm", own.comms.take(), all());
        let (cpus, valid) = own.cpus.take();
        out.set("cpu", ColumnValues::U32(cpus), valid);
        let addresses = ColumnValues::U64(own.addresses.take());
        out.set("prog_address", addresses, all());
        let thread_ids = ColumnValues::U64(own.thread_ids.take());
        out.set("thread_id", thread_ids, all());
        let truncated = ColumnValues::Bool(own.truncated.take());
        out.set("truncated", truncated, all());
        if self.has_data {
            out.set_data(own.data.take());
        }
        let (durations, valid) = own.durations.take();
        out.set("duration_ns", ColumnValues::U64(durations), valid);
    }
}

/// Takes values, and leaves space for as many.
fn emptied<T>(values: &mut Vec<T>) -> Vec<T> {
    let next = Vec::with_capacity(values.len());
    std::mem::replace(values, next)
}

/// Numbers of names.
#[derive(Debug, Default)]
struct Names {
    numbers: SeldomSet<i32>,
    dictionary: NameDictionary,
}

impl Names {
    fn push(&mut self, name: &[u8]) {
        let number = self.dictionary.number(name);
        self.numbers.push(number);
    }

    /// Pushes the name that `key` has for good.
    fn push_keyed(&mut self, key: u32, name: &[u8]) {
        let number = self.dictionary.number_of_key(key, name);
        self.numbers.push(number);
    }

    fn take(&mut self) -> ColumnValues {
        let next = self.dictionary.next();
        let dictionary = std::mem::replace(&mut self.dictionary, next);
        ColumnValues::Name(self.numbers.take(), dictionary)
    }
}

/// Values that are 0 or false in most batches: those take no memory until there is another.
#[derive(Debug, Default)]
struct SeldomSet<T> {
    /// Rows before the first other value.
    zeros: usize,
    values: Vec<T>,
}

impl<T: Clone + Default + PartialEq> SeldomSet<T> {
    fn push(&mut self, value: T) {
        if self.values.is_empty() {
            if value == T::default() {
                self.zeros += 1;
                return;
            }
            self.values.resize(self.zeros, T::default());
        }
        self.values.push(value);
    }

    /// Takes the values; none where all are 0. Leaves space for as many.
    fn take(&mut self) -> Vec<T> {
        self.zeros = 0;
        emptied(&mut self.values)
    }
}

/// Values that an event may lack.
#[derive(Debug, Default)]
struct Optional<T> {
    values: Vec<T>,
    valid: Vec<bool>,
}

impl<T: Default> Optional<T> {
    fn push(&mut self, value: Option<T>) {
        if value.is_none() || !self.valid.is_empty() {
            self.valid.resize(self.values.len(), true);
            self.valid.push(value.is_some());
        }
        self.values.push(value.unwrap_or_default());
    }

    /// Takes the values, and which there are; none of the latter where all are there, and nothing
    /// where none is.
    fn take(&mut self) -> (Vec<T>, Vec<bool>) {
        let (values, valid) = (emptied(&mut self.values), emptied(&mut self.valid));
        let has_any = valid.is_empty() || valid.contains(&true);
        if has_any {
            (values, valid)
        } else {
            (Vec::new(), Vec::new())
        }
    }
}
