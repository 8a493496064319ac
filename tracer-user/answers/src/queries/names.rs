//! Names of threads and of control groups, and threads that are made.

use std::collections::hash_map::Entry;
use std::mem::offset_of;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt as _};
use tracer_analysis::{GroupId, Thread, Wait};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{ForkData, ThrottleData};
use tracer_engine::event::Event;
use zerocopy::FromBytes as _;

use tracer_event::fields::until_null;
use tracer_text::escape::push_for_people;

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

    /// Forgets the names of all threads but those that are needed.
    pub fn retain(&mut self, is_needed: impl Fn(Thread) -> bool) {
        self.names.retain(|thread, _| is_needed(*thread));
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

/// Most groups whose names are remembered; those beyond have none.
const MOST_GROUPS: usize = 4096;

/// The control groups whose time was used up: their paths, as harmless text.
#[derive(Debug, Default)]
pub struct Groups {
    names: HashMap<GroupId, Arc<str>>,
}

impl Groups {
    /// Learns the name of a group from an event that says it.
    pub fn learn(&mut self, event: &Event<'_>) {
        if event.header.event_type != EventTypeId::THROTTLE {
            return;
        }
        let Ok((id, _)) = u64::read_from_prefix(event.data) else {
            return;
        };
        let id = GroupId(id);
        if self.names.len() >= MOST_GROUPS || self.names.contains_key(&id) {
            return;
        }
        let path = event.data.get(offset_of!(ThrottleData, path)..);
        let mut name = Vec::new();
        push_for_people(&mut name, until_null(path.unwrap_or_default()));
        let name = String::from_utf8_lossy(&name).into();
        self.names.insert(id, name);
    }

    /// Returns the path of a group, from the root of its hierarchy; `None` where it is not known.
    #[must_use]
    pub fn name(&self, group: GroupId) -> Option<&Arc<str>> {
        self.names.get(&group)
    }

    /// Returns the path of the group that a thread waits for; `None` where it waits for none, or
    /// it is not known.
    #[must_use]
    pub fn of_wait(&self, wait: Wait) -> Option<&Arc<str>> {
        match wait {
            Wait::Throttled(group) => self.name(group),
            _ => None,
        }
    }
}
