//! Rows of `stacks`.

use tracer_analysis::Thread;
use tracer_event::event_view::EventView;
use tracer_text::digits::push_hex;

use super::{Rows, push_date};
use crate::batch::RowBatch;
use crate::maker::RowChoice;

/// Maker of a row for each function of each stack.
#[derive(Debug)]
pub struct StackRows {
    choice: RowChoice,
    count: u64,
}

impl StackRows {
    /// Begins, with the rows that are wanted.
    pub fn new(choice: RowChoice) -> Self {
        Self { choice, count: 0 }
    }
}

impl Rows for StackRows {
    fn event(&mut self, view: &EventView<'_>, out: &mut RowBatch) {
        let Some(stack) = &view.stack else {
            return;
        };
        let number = self.count;
        self.count += 1;
        let header = &view.event.header;
        let thread = Thread {
            pid: header.pid,
            tid: header.tid,
        };
        if !self.choice.has(thread, header.time, header.time) {
            return;
        }
        for (nth, frame) in (0_u32..).zip(stack.frames()) {
            out.u64(number);
            out.u32(nth);
            push_date(view.date, out);
            out.u64(header.time.0);
            out.name(view.name);
            out.i32(header.pid);
            out.i32(header.tid);
            out.name(view.comm.unwrap_or_default());
            out.u64(frame.address);
            let function = frame.function.as_ref();
            out.name(function.map(|(name, _)| name.as_bytes()));
            out.u64(
                function
                    .filter(|_| !frame.is_inlined)
                    .map(|(_, offset)| *offset),
            );
            let mapping = frame.mapping.as_ref().filter(|_| !frame.is_kernel);
            out.name(mapping.map(|mapping| match &*mapping.path {
                [] => b"[anon]".as_slice(),
                path => path,
            }));
            let mut build_id = Vec::new();
            if let Some(mapping) = mapping {
                push_hex(&mut build_id, &mapping.build_id);
            }
            out.name((!build_id.is_empty()).then_some(build_id.as_slice()));
            out.bool(frame.is_kernel);
            out.bool(frame.is_inlined);
            out.end_row();
        }
    }
}
