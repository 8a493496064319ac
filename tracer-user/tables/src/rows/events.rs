//! Rows of `events`.

use tracer_engine::event::Truncation;
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_output::report::{CallTimes, push_data};

use super::{Rows, push_context, push_date};
use crate::batch::RowBatch;

/// Maker of a row for each event.
#[derive(Debug)]
pub struct EventRows {
    calls: CallTimes,
    has_durations: bool,
}

impl EventRows {
    /// Begins, with what the columns of `batch` need.
    pub fn new(batch: &RowBatch) -> Self {
        Self {
            calls: CallTimes::default(),
            has_durations: batch.has("duration_ns"),
        }
    }
}

impl Rows for EventRows {
    fn gap(&mut self, _: &Gap, _: &mut RowBatch) {
        self.calls.forget();
    }

    fn event(&mut self, view: &EventView<'_>, out: &mut RowBatch) {
        let took = self.has_durations.then(|| self.calls.took(view)).flatten();
        let header = &view.event.header;
        push_date(view.date, out);
        out.u64(header.time.0);
        out.keyed_name(header.event_type.0, view.name);
        let is_user = header.event_type.is_user();
        out.keyed_name(
            u32::from(is_user),
            if is_user { b"user" } else { b"system" },
        );
        out.i32(header.pid);
        out.i32(header.tid);
        out.name(view.comm.unwrap_or_default());
        out.u32(header.cpu);
        out.u64(header.program_address);
        out.u64(header.thread_id);
        out.bool(header.truncation != Truncation::None);
        if !out.skips_next() && !out.note_deferred(view) {
            out.text(|text| {
                push_data(text, view);
                true
            });
        }
        out.text(|bytes| {
            bytes.extend_from_slice(view.event.data);
            true
        });
        out.u64(took);
        out.text(|text| {
            let stack = view.stack.as_ref();
            stack.inspect(|stack| stack.push_json(text)).is_some()
        });
        let end = view.stack.as_ref().and_then(|stack| stack.why_it_ends());
        out.name(end.map(|end| end.name().as_bytes()));
        push_context(view.context, out);
        out.end_row();
    }
}
