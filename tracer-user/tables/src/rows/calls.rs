//! Rows of `calls`: entry and exit of a system call joined.

use tracer_analysis::{CallKey, OpenCalls, Thread};
use tracer_common::event_type::{EventTypeId, SystemEventType, system_event_type};
use tracer_engine::event::{EventHeader, MonotonicNs, RealtimeNs};
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::kernel_words::push_syscall_name;
use tracer_event::summary::Summary;
use tracer_event::thread_contexts::ThreadContext;
use tracer_output::report::push_field;
use tracer_syscalls::names::{Table, error_of};

use super::{Rows, push_context, push_date};
use crate::batch::RowBatch;
use crate::maker::RowChoice;

/// Maker of a row for each call that has returned, and for those that never will.
#[derive(Debug)]
pub struct CallRows {
    begun: OpenCalls<Begun>,
    choice: RowChoice,
}

/// Call that has begun.
#[derive(Debug)]
struct Begun {
    header: EventHeader,
    date: RealtimeNs,
    comm: Vec<u8>,
    context: Option<ThreadContext>,
    /// Its arguments, as a JSON object.
    arguments: Vec<u8>,
    key: CallKey,
}

/// End of a call.
struct Ended<'a> {
    view: &'a EventView<'a>,
    key: CallKey,
    returned: i64,
}

impl CallRows {
    /// Begins, with the rows that are wanted.
    pub fn new(choice: RowChoice) -> Self {
        Self {
            begun: OpenCalls::default(),
            choice,
        }
    }

    /// Pushes the row of a call, where it is wanted.
    fn push(&self, begun: Option<&Begun>, ended: Option<&Ended<'_>>, out: &mut RowBatch) {
        let end = ended.map(|ended| ended.view.event.header);
        let begin = begun.map(|begun| begun.header);
        let Some((from, to)) = begin.or(end).zip(end.or(begin)) else {
            return;
        };
        let thread = Thread {
            pid: to.pid,
            tid: to.tid,
        };
        // A call without an end may last for ever.
        let last = end.map_or(MonotonicNs(u64::MAX), |end| end.time);
        if self.choice.has(thread, from.time, last) {
            push(begun, ended, out);
        }
    }

    fn enter(&mut self, view: &EventView<'_>, out: &mut RowBatch) {
        let Some(key) = CallKey::from_enter(view.event.data) else {
            return;
        };
        let mut arguments = Vec::new();
        if let Some(entry) = view.entry {
            push_field(&mut arguments, entry, "arguments", view.event.data);
        }
        let begun = Begun {
            header: view.event.header,
            date: view.date,
            comm: view.comm.unwrap_or_default().to_vec(),
            context: view.context,
            arguments,
            key,
        };
        // Of the one before it the end was lost.
        if let Some(lost) = self.begun.enter(view.event.header.tid, key, begun) {
            self.push(Some(&lost), None, out);
        }
    }

    fn leave(&mut self, view: &EventView<'_>, out: &mut RowBatch) {
        let Some((key, returned)) = CallKey::from_exit(view.event.data) else {
            return;
        };
        let begun = self.begun.leave(view.event.header.tid, key, returned);
        let (begun, lost) = match begun {
            Some(begun) if begun.is_ended => (Some(begun.facts), None),
            Some(other) => (None, Some(other.facts)),
            None => (None, None),
        };
        if lost.is_some() {
            self.push(lost.as_ref(), None, out);
        }
        let ended = Ended {
            view,
            key,
            returned,
        };
        self.push(begun.as_ref(), Some(&ended), out);
    }

    fn give_up(&mut self, out: &mut RowBatch) {
        let mut begun: Vec<Begun> = self.begun.take_all().collect();
        begun.sort_by_key(|begun| begun.header.time);
        for begun in &begun {
            self.push(Some(begun), None, out);
        }
    }
}

impl Rows for CallRows {
    fn gap(&mut self, gap: &Gap, out: &mut RowBatch) {
        if gap.tid.is_some() {
            return;
        }
        self.give_up(out);
    }

    fn event(&mut self, view: &EventView<'_>, out: &mut RowBatch) {
        match view.event.header.event_type {
            EventTypeId::SYSCALL_ENTER => self.enter(view, out),
            EventTypeId::SYSCALL_EXIT => self.leave(view, out),
            _ => {
                if let Some(begun) = self.begun.follow(&view.event) {
                    self.push(Some(&begun), None, out);
                }
            }
        }
    }

    fn end(&mut self, _: &Summary, out: &mut RowBatch) {
        self.give_up(out);
    }
}

/// Pushes the row of a call, of which the beginning, the end or both are known.
fn push(begun: Option<&Begun>, ended: Option<&Ended<'_>>, out: &mut RowBatch) {
    let Some(header) = ended
        .map(|ended| &ended.view.event.header)
        .or(begun.map(|begun| &begun.header))
    else {
        return;
    };
    // The kernel shows a successful execveat as an execve when it returns.
    let Some(key) = begun
        .map(|begun| begun.key)
        .or(ended.map(|ended| ended.key))
    else {
        return;
    };
    match begun {
        Some(begun) => {
            push_date(begun.date, out);
            out.u64(begun.header.time.0);
        }
        None => out.nulls(2),
    }
    let from = begun.zip(ended).map(|(begun, _)| begun.header.time.0);
    out.u64(from.map(|from| header.time.0.saturating_sub(from)));
    out.i32(header.pid);
    out.i32(header.tid);
    let comm = ended.map(|ended| ended.view.comm.unwrap_or_default());
    out.name(
        comm.or(begun.map(|begun| begun.comm.as_slice()))
            .unwrap_or_default(),
    );
    let table = if key.is_compat {
        Table::Compat
    } else {
        Table::Native
    };
    let mut name = Vec::new();
    push_syscall_name(&mut name, table, key.nr);
    out.name(name.as_slice());
    out.i32(key.nr);
    out.bool(key.is_compat);
    out.text(|text| {
        text.extend(begun.iter().flat_map(|begun| &begun.arguments));
        begun.is_some()
    });
    push_end(ended, out);
    out.u32(header.cpu);
    let context = begun.map(|begun| begun.context);
    let context = context.or(ended.map(|ended| ended.view.context));
    push_context(context.flatten(), out);
    out.end_row();
}

/// Pushes what a call returned.
fn push_end(ended: Option<&Ended<'_>>, out: &mut RowBatch) {
    let entry: Option<&SystemEventType> = system_event_type(EventTypeId::SYSCALL_EXIT);
    let Some((ended, entry)) = ended.zip(entry) else {
        return out.nulls(4);
    };
    let data = ended.view.event.data;
    out.text(|text| push_field(text, entry, "filled", data));
    out.i64(ended.returned);
    let has_failed = ended.key.fails_with(ended.returned);
    let error = error_of(ended.returned).filter(|_| has_failed);
    out.name(error.map(str::as_bytes));
    out.text(|text| {
        let mut quoted = Vec::new();
        let has_value = push_field(&mut quoted, entry, "result", data);
        // Words of this project's own, which need no escapes.
        let words = quoted
            .strip_prefix(b"\"")
            .and_then(|rest| rest.strip_suffix(b"\""));
        text.extend_from_slice(words.unwrap_or(&quoted));
        has_value
    });
}
