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
    /// Number and table of the system call.
    pub key: CallKey,
    /// Time of its beginning.
    pub at: MonotonicNs,
    /// Whether its entry is chosen; `None` while the entry waits for its exit.
    pub is_chosen: Option<bool>,
    /// Whether its entry is wanted at all: an unwanted one is never shown.
    pub is_wanted: bool,
    /// Its entry; `None` where the exit can be judged without it.
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

    /// Makes a call without its entry, where the entry is judged already.
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
    /// Takes the call of another thread out and returns it, where there are too many calls or bytes
    /// for one more.
    pub fn make_room(&mut self, tid: i32, call: &OpenCall) -> Option<OpenCall> {
        let is_full = self.bytes + call.bytes() > MOST_BYTES || self.calls.count() >= MOST_THREADS;
        let other = is_full.then(|| self.calls.take_other(tid)).flatten()?;
        Some(self.taken(other))
    }

    /// Adds the call of a thread that is in no call.
    pub fn enter(&mut self, tid: i32, call: OpenCall) {
        self.bytes += call.bytes();
        if let Some(before) = self.calls.enter(tid, call.key, call) {
            self.taken(before);
        }
    }

    /// Takes the call of a thread out.
    pub fn remove(&mut self, tid: i32) -> Option<OpenCall> {
        let call = self.calls.remove(tid)?;
        Some(self.taken(call))
    }

    /// Takes the call out that a thread is in when it returns from `key`. Also tells whether the
    /// thread returns from that call: otherwise its exit was lost.
    pub fn leave(&mut self, tid: i32, key: CallKey, returned: i64) -> Option<(OpenCall, bool)> {
        let begun = self.calls.leave(tid, key, returned)?;
        Some((self.taken(begun.facts), begun.is_ended))
    }

    /// Follows a thread by an event that is no part of a call. Returns a call that never returns,
    /// as its thread has ended.
    pub fn follow(&mut self, event: &Event<'_>) -> Option<OpenCall> {
        let call = self.calls.follow(event)?;
        Some(self.taken(call))
    }

    /// Takes all calls out, in the order in which they began.
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

#[cfg(test)]
mod tests {
    use tracer_common::event_type::EventTypeId;
    use tracer_engine::event::Truncation;

    use super::*;

    #[test]
    fn many_small_calls_make_room_for_large_ones() {
        let call = |tid: i32, bytes: usize| OpenCall {
            key: CallKey {
                is_compat: false,
                nr: 0,
            },
            at: MonotonicNs(0),
            is_chosen: None,
            is_wanted: true,
            entry: Some(Box::new(Entry {
                header: EventHeader {
                    time: MonotonicNs(0),
                    event_type: EventTypeId::SYSCALL_ENTER,
                    pid: tid,
                    tid,
                    cpu: None,
                    thread_id: 0,
                    program_address: 0,
                    truncation: Truncation::None,
                },
                data: vec![0; bytes].into(),
                comm: None,
                date: RealtimeNs(0),
                inside: None,
                context: None,
                of_type: None,
            })),
        };
        let mut calls = BoundedCalls::default();
        let (mut count, mut left) = (0, 0);
        for tid in 1..1200 {
            let call = call(tid, if tid < 1000 { 10 } else { 1 << 20 });
            while calls.make_room(tid, &call).is_some() {
                left += 1;
            }
            calls.enter(tid, call);
            count += 1;
            assert!(calls.bytes <= MOST_BYTES, "{tid}");
        }
        assert!(left > 100);
        assert_eq!(calls.take_all().len(), count - left);
    }
}
