//! Tracepoints of the kernel by name, with the fields that the kernel itself says they have.
//!
//! - `tracefs` finds the kernel's tracing files, mounted or not;
//! - `format` reads the fields of a tracepoint from one of them;
//! - [`find`] turns names into tracepoints, which [`crate`] attaches to;
//! - [`TracepointLayout`] makes [typed data](tracer_text::self_describing) of the records there.

mod find;
mod format;
mod layout;
mod tracefs;

pub use find::{FindTracepointError, Pattern, categories, find, list};
pub use format::{FieldType, TracepointField, TracepointFormat};
pub use layout::TracepointLayout;

/// Reads any bytes, the first half as a tracepoint's format and the second half as a record of it:
/// for fuzzing.
#[doc(hidden)]
pub fn look_through_format(untrusted: &[u8]) {
    let (format, record) = untrusted.split_at(untrusted.len() / 2);
    let text = String::from_utf8_lossy(format);
    if let Some(format) = TracepointFormat::parse(&text) {
        let _ = TracepointLayout::from_format("any", &format).data(record);
    }
}

/// A tracepoint of this kernel.
#[derive(Clone, Debug)]
pub struct Tracepoint {
    /// The part of the kernel that it belongs to.
    pub category: String,
    /// Its name there.
    pub name: String,
    /// Description by the kernel.
    pub format: TracepointFormat,
}

impl Tracepoint {
    /// Returns the name of the tracepoint's event type, cut to the length that such a name may
    /// have.
    #[must_use]
    pub fn event_name(&self) -> String {
        let mut name = format!("tracepoint:{}:{}", self.category, self.name);
        name.truncate(name.floor_char_boundary(tracer_common::event_type::TRACE_EVENT_NAME_MAX));
        name
    }
}
