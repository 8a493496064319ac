//! Description of a kernel event type for the agent, beside its entry in the table.

use super::data::{DataLayout, EventData};
use super::{CostClass, EventTypeId, SystemEventType};

/// One type of the kernel's events.
#[derive(Clone, Copy, Debug)]
pub struct KernelEventType {
    /// Its entry in the table of system event types.
    pub entry: SystemEventType,
    /// The tracepoints without which it cannot be recorded.
    pub tracepoints: &'static [&'static str],
    /// Tracepoints without which it is recorded with less in it.
    pub helpers: &'static [&'static str],
    /// Bytes of its record.
    pub record_bytes: usize,
    /// Bytes of the data in its record.
    pub data_bytes: usize,
    /// Where in its data a text begins that ends it: the agent removes what follows the null.
    pub text_at: Option<usize>,
    /// Text that shows its data to people, with the names of fields in braces. `None` where all
    /// fields are shown by their names, and where there is more to it.
    pub words: Option<&'static str>,
    /// How its data is laid out; `None` for no data.
    pub layout: Option<&'static DataLayout>,
}

impl KernelEventType {
    /// Describes a type with this data, by default rare and traced without being named. The first
    /// of `names` is the constant of `trace.h`.
    pub(crate) const fn new<Data: EventData>(
        id: EventTypeId,
        names: [&'static str; 2],
        family: &'static str,
        about: &'static str,
        tracepoints: &'static [&'static str],
        record_bytes: usize,
    ) -> Self {
        let [constant, name] = names;
        Self {
            entry: SystemEventType::kernel(id, constant, name, family, Data::FIELDS, about),
            tracepoints,
            helpers: &[],
            record_bytes,
            data_bytes: size_of::<Data>(),
            text_at: None,
            words: None,
            layout: Data::LAYOUT,
        }
    }

    /// Adds a text from this offset to the end of the data.
    pub(crate) const fn ending_with(self, text_at: usize) -> Self {
        Self {
            text_at: Some(text_at),
            ..self
        }
    }

    /// Sets the words in which it is shown.
    pub(crate) const fn shown_as(self, words: &'static str) -> Self {
        Self {
            words: Some(words),
            ..self
        }
    }

    /// Sets the tracepoints that help.
    pub(crate) const fn helped_by(self, helpers: &'static [&'static str]) -> Self {
        Self { helpers, ..self }
    }

    /// Marks the type as happening often.
    pub(crate) const fn frequent(self) -> Self {
        self.with(self.entry.costing(CostClass::Frequent))
    }

    /// Marks the type as happening so often that it slows a process down.
    pub(crate) const fn heavy(self) -> Self {
        self.with(self.entry.costing(CostClass::Heavy))
    }

    /// Makes the type traced only where it is asked for by name.
    pub(crate) const fn when_named(self) -> Self {
        self.with(self.entry.when_named())
    }

    /// Makes the type belong to no process.
    pub(crate) const fn without_process(self) -> Self {
        self.with(self.entry.without_process())
    }

    const fn with(self, entry: SystemEventType) -> Self {
        Self { entry, ..self }
    }
}
