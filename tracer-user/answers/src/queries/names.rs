//! Names of threads, and threads that are made.

use std::collections::hash_map::Entry;

use foldhash::{HashMap, HashMapExt as _};
use tracer_analysis::Thread;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::ForkData;
use tracer_engine::event::Event;
use zerocopy::FromBytes as _;

/// Threads whose names are remembered; those beyond are shown without.
const MOST_NAMES: usize = 65_536;

/// The last names of threads.
#[derive(Debug)]
pub struct LastNames {
    names: HashMap<Thread, Vec<u8>>,
}

impl Default for LastNames {
    fn default() -> Self {
        Self {
            names: HashMap::new(),
        }
    }
}

impl LastNames {
    /// Learns the name of a thread, unless `comm` is empty.
    pub fn learn(&mut self, thread: Thread, comm: &[u8]) {
        let count = self.names.len();
        match self.names.entry(thread) {
            Entry::Occupied(mut known) if !comm.is_empty() && known.get() != comm => {
                known.insert(comm.to_vec());
            }
            Entry::Vacant(unknown) if count < MOST_NAMES => {
                unknown.insert(comm.to_vec());
            }
            Entry::Occupied(_) | Entry::Vacant(_) => {}
        }
    }

    /// Forgets the name of a thread: another one has these ids now.
    pub fn forget(&mut self, thread: Thread) {
        self.names.remove(&thread);
    }

    /// Returns the name of a thread; empty where it is not known.
    #[must_use]
    pub fn get(&self, thread: Thread) -> &[u8] {
        self.names.get(&thread).map_or(&[], Vec::as_slice)
    }
}

/// Returns the thread that was made, according to an event.
#[must_use]
pub fn made_by(event: &Event<'_>) -> Option<Thread> {
    if !matches!(
        event.header.event_type,
        EventTypeId::FORK | EventTypeId::THREAD_CREATE
    ) {
        return None;
    }
    let (data, _) = ForkData::read_from_prefix(event.data).ok()?;
    Some(Thread {
        pid: data.child_pid.cast_signed(),
        tid: data.child_tid.cast_signed(),
    })
}
