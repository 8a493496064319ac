//! Names of threads, where an event of theirs does not say so.
//!
//! A log has events whose thread's name was not known in time. Others of its events may have it:
//! the one that made the thread, the one that renamed it, earlier ones of it. A thread that nothing
//! names has the name of its process.

use foldhash::{HashMap, HashMapExt};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{COMM_BYTES, ForkData, RenameData};
use tracer_log::LogRecord;
use zerocopy::FromBytes;

use tracer_event::fields::until_null;

/// Threads that are remembered. Beyond that all are forgotten.
const MOST_THREADS: usize = 65_536;

/// Threads whose names are compared at once.
const MOST_LAST: usize = 16;

/// The name of a thread of which is known that it is empty: an empty one is not known.
const EMPTY: &[u8] = b"\0";

/// Returns a name from [`ThreadNames::name_of`]; `None` where it is not known.
pub fn known(name: &[u8]) -> Option<&[u8]> {
    (!name.is_empty()).then(|| until_null(name))
}

/// A process and a thread of it.
type Thread = (i32, i32);

/// The names that a log had so far.
#[derive(Clone, Debug)]
pub struct ThreadNames {
    names: HashMap<Thread, Name>,
    /// Threads and names learnt last, by the thread: events come in runs, and threads in turn.
    last: [(Thread, Name); MOST_LAST],
}

/// A name, as long as the kernel lets it be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Name {
    bytes: [u8; COMM_BYTES],
    length: usize,
}

/// Returns the place of a thread among those learnt last.
fn slot_of((_, tid): Thread) -> usize {
    usize::try_from(tid.cast_unsigned()).unwrap_or_default() % MOST_LAST
}

impl Name {
    fn new(bytes: &[u8]) -> Self {
        let mut name = Self::default();
        for (slot, byte) in name.bytes.iter_mut().zip(until_null(bytes)) {
            *slot = *byte;
            name.length += 1;
        }
        name
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

impl Default for ThreadNames {
    fn default() -> Self {
        Self {
            names: HashMap::new(),
            last: [((0, 0), Name::default()); MOST_LAST],
        }
    }
}

impl ThreadNames {
    /// Learns from an event.
    pub fn learn(&mut self, record: &LogRecord<'_>) {
        let header = &record.event.header;
        let thread = (header.pid, header.tid);
        if !record.comm.is_empty() && header.pid != 0 {
            let is_known = self
                .last
                .get(slot_of(thread))
                .is_some_and(|(last, name)| *last == thread && name.as_bytes() == record.comm);
            if !is_known {
                self.insert(thread, record.comm);
            }
        }
        match header.event_type {
            EventTypeId::FORK | EventTypeId::THREAD_CREATE => {
                if let Ok((fork, _)) = ForkData::read_from_prefix(record.event.data) {
                    let child = (fork.child_pid.cast_signed(), fork.child_tid.cast_signed());
                    self.insert(child, &fork.child_comm);
                }
            }
            EventTypeId::RENAME => {
                if let Ok((rename, _)) = RenameData::read_from_prefix(record.event.data) {
                    self.insert(thread, &rename.comm);
                }
            }
            _ => {}
        }
    }

    fn insert(&mut self, thread: Thread, name: &[u8]) {
        let name = Name::new(name);
        if self.names.len() >= MOST_THREADS && !self.names.contains_key(&thread) {
            *self = Self::default();
        }
        self.names.insert(thread, name);
        if let Some(last) = self.last.get_mut(slot_of(thread)) {
            *last = (thread, name);
        }
    }

    /// Returns the name of the event's thread, or of its process; empty where neither is known.
    /// Pass the result to [`known`].
    pub fn name_of<'a>(&'a self, record: &LogRecord<'a>) -> &'a [u8] {
        let header = &record.event.header;
        if !record.comm.is_empty() || header.pid == 0 {
            return record.comm;
        }
        let thread = self.names.get(&(header.pid, header.tid));
        let known = thread.or_else(|| self.names.get(&(header.pid, header.pid)));
        known.map_or(b"", |name| match name.as_bytes() {
            [] => EMPTY,
            name => name,
        })
    }
}
