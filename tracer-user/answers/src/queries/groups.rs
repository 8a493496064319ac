//! Names of control groups whose time was used up.

use std::mem::offset_of;
use std::sync::Arc;

use foldhash::HashMap;
use tracer_analysis::{GroupId, Wait};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::ThrottleData;
use tracer_engine::event::Event;
use zerocopy::FromBytes as _;

use tracer_event::fields::until_null;
use tracer_text::escape::push_for_people;

/// Most groups whose names are remembered; those beyond have none.
const MOST_GROUPS: usize = 4096;

/// The groups: their paths, as harmless text.
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
