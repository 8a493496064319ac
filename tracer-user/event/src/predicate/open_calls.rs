//! System calls that have begun and not ended.

use tracer_analysis::{CallKey, MOST_THREADS, OpenCalls};
use tracer_binary::thread_context::ThreadContext;
use tracer_common::event_type::SystemEventType;
use tracer_engine::event::{Event, EventHeader, MonotonicNs, RealtimeNs};

use crate::event_view::{EventView, NamespaceIds};

/// Most bytes of calls that have not ended.
const MOST_BYTES: usize = 64 << 20;

/// Bytes of memory that a call takes beside its data.
const BYTES_BESIDE: usize = 256;

/// A system call that has begun.
#[derive(Clone, Debug)]
pub struct OpenCall {
    /// System call that it is.
    pub key: CallKey,
    /// Time of its beginning.
    pub at: MonotonicNs,
    /// Verdict on its entry; `None`: the entry waits.
    pub is_chosen: Option<bool>,
    /// Whether its entry would be wanted, whatever its call.
    pub is_wanted: bool,
    /// Its entry, where it may be asked for.
    entry: Option<Box<Entry>>,
}

#[derive(Clone, Debug)]
struct Entry {
    header: EventHeader,
    data: Box<[u8]>,
    comm: Option<Box<[u8]>>,
    date: RealtimeNs,
    inside: Option<NamespaceIds>,
    context: Option<ThreadContext>,
    of_type: Option<&'static SystemEventType>,
}

impl OpenCall {
    /// Makes a call, with its entry.
    pub fn new(
        line: &EventView<'_>,
        key: CallKey,
        is_wanted: bool,
        is_chosen: Option<bool>,
    ) -> Self {
        Self {
            key,
            at: line.event.header.time,
            is_chosen,
            is_wanted,
            entry: Some(Box::new(Entry {
                header: line.event.header,
                data: line.event.data.into(),
                comm: line.comm.map(Box::from),
                date: line.date,
                inside: line.inside,
                context: line.context,
                of_type: line.entry,
            })),
        }
    }

    /// Makes a call without its entry, of which it is known whether it is chosen.
    pub fn known(at: MonotonicNs, key: CallKey, is_wanted: bool, is_chosen: bool) -> Self {
        Self {
            key,
            at,
            is_chosen: Some(is_chosen),
            is_wanted,
            entry: None,
        }
    }

    /// Returns its entry.
    pub fn line(&self) -> Option<EventView<'_>> {
        let entry = self.entry.as_deref()?;
        Some(EventView {
            event: Event {
                header: entry.header,
                data: &entry.data,
            },
            entry: entry.of_type,
            name: entry
                .of_type
                .map_or(b"?", |of_type| of_type.name.as_bytes()),
            comm: entry.comm.as_deref(),
            date: entry.date,
            inside: entry.inside,
            stack: None,
            context: entry.context,
        })
    }

    fn bytes(&self) -> usize {
        let of_entry =
            |entry: &Entry| entry.data.len() + entry.comm.as_ref().map_or(0, |c| c.len());
        BYTES_BESIDE + self.entry.as_deref().map_or(0, of_entry)
    }
}

/// The calls of all threads that have begun and not ended, in bounded memory.
#[derive(Debug, Default)]
pub struct BoundedCalls {
    calls: OpenCalls<OpenCall>,
    bytes: usize,
}

impl BoundedCalls {
    /// Adds the call of a thread that is in none. Where there is too much, another one comes back.
    #[must_use]
    pub fn enter(&mut self, tid: i32, call: OpenCall) -> Option<OpenCall> {
        let is_too_much =
            self.bytes + call.bytes() > MOST_BYTES || self.calls.count() >= MOST_THREADS;
        let other = is_too_much
            .then(|| self.calls.take_other(tid))
            .flatten()
            .map(|other| self.taken(other));
        self.bytes += call.bytes();
        if let Some(before) = self.calls.enter(tid, call.key, call) {
            self.taken(before);
        }
        other
    }

    /// Takes the call of a thread out.
    pub fn remove(&mut self, tid: i32) -> Option<OpenCall> {
        let call = self.calls.remove(tid)?;
        Some(self.taken(call))
    }

    /// Takes the call of a thread that returns from `key`; also tells whether it is the one that it
    /// returns from.
    pub fn leave(&mut self, tid: i32, key: CallKey, returned: i64) -> Option<(OpenCall, bool)> {
        let begun = self.calls.leave(tid, key, returned)?;
        Some((self.taken(begun.facts), begun.is_ended))
    }

    /// Follows a thread by an event that is no part of a call. Returns a call that does not return.
    pub fn follow(&mut self, event: &Event<'_>) -> Option<OpenCall> {
        let call = self.calls.follow(event)?;
        Some(self.taken(call))
    }

    /// Takes all out, in order of time.
    pub fn take_all(&mut self) -> Vec<OpenCall> {
        self.bytes = 0;
        let mut calls: Vec<_> = self.calls.take_all().collect();
        calls.sort_by_key(|call| call.at);
        calls
    }

    fn taken(&mut self, call: OpenCall) -> OpenCall {
        self.bytes = self.bytes.saturating_sub(call.bytes());
        call
    }
}
