//! System calls that have begun and not ended.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tracer_common::event_type::SystemEventType;
use tracer_engine::event::{Event, EventHeader, MonotonicNs, RealtimeNs};

use crate::event_view::{EventView, NamespaceIds};
use tracer_syscalls::names::Table;

/// Most bytes of calls that have not ended.
const MOST_BYTES: usize = 64 << 20;

/// Bytes of memory that a call takes beside its data.
const BYTES_BESIDE: usize = 256;

/// A system call that has begun.
#[derive(Clone, Debug)]
pub struct OpenCall {
    /// Table and number of the call.
    pub key: (Table, i32),
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
    of_type: Option<&'static SystemEventType>,
}

impl OpenCall {
    /// Makes a call, with its entry.
    pub fn of(
        line: &EventView<'_>,
        key: (Table, i32),
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
                of_type: line.entry,
            })),
        }
    }

    /// Makes a call without its entry, of which it is known whether it is chosen.
    pub fn known(at: MonotonicNs, key: (Table, i32), is_wanted: bool, is_chosen: bool) -> Self {
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
pub struct OpenCalls {
    by_thread: HashMap<i32, OpenCall, RandomState>,
    bytes: usize,
}

impl OpenCalls {
    /// Adds the call of a thread. Where there is too much, another one comes back.
    #[must_use]
    pub fn insert(&mut self, tid: i32, call: OpenCall) -> Option<OpenCall> {
        self.bytes += call.bytes();
        if let Some(before) = self.by_thread.insert(tid, call) {
            self.bytes = self.bytes.saturating_sub(before.bytes());
        }
        if self.bytes <= MOST_BYTES {
            return None;
        }
        let other = self.by_thread.keys().copied().find(|other| *other != tid)?;
        self.remove(other)
    }

    /// Takes the call of a thread out.
    pub fn remove(&mut self, tid: i32) -> Option<OpenCall> {
        let call = self.by_thread.remove(&tid)?;
        self.bytes = self.bytes.saturating_sub(call.bytes());
        Some(call)
    }

    /// Takes all out, in order of time.
    pub fn take_all(&mut self) -> Vec<OpenCall> {
        self.bytes = 0;
        let mut calls: Vec<_> = self.by_thread.drain().map(|(_, call)| call).collect();
        calls.sort_by_key(|call| call.at);
        calls
    }
}
