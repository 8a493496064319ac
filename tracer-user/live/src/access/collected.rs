//! Events that the service has given, before a trace takes its part of them.

use std::collections::HashSet;
use std::os::fd::AsRawFd as _;

use tracer_area::monotonic_now;
use tracer_common::event_type::EventTypeId;
use tracer_engine::EventTypes;
use tracer_engine::event::MonotonicNs;
use tracer_engine::source::{Batch, Loss, Pending, Source as _};
use tracer_posix::agent::AgentSource;

use super::calls::CallTally;
use super::given::GivenEvents;

/// Events of the service, and reports that it has lost some.
#[derive(Debug, Default)]
pub struct Collected {
    types: EventTypes,
    events: Vec<Pending>,
    data: Vec<u8>,
    losses: Vec<Loss>,
}

impl Collected {
    /// Collects what there is. Returns the watermark.
    pub fn collect(&mut self, agent: &mut AgentSource) -> MonotonicNs {
        let mut batch = Batch::new(
            &mut self.types,
            &mut self.events,
            &mut self.data,
            &mut self.losses,
        );
        agent.collect(&mut batch)
    }

    /// Collects what there is up to now, and keeps `traced` up to date by it: children of traced
    /// processes are traced too, until they end.
    pub fn collect_all(&mut self, agent: &mut AgentSource, traced: &mut HashSet<i32>) {
        let now = monotonic_now();
        loop {
            let known = self.events.len();
            let watermark = self.collect(agent);
            for event in self.events.iter().skip(known) {
                let (pid, data) = (event.header.pid, event.data(&self.data));
                match event.header.event_type {
                    EventTypeId::FORK if traced.contains(&pid) => {
                        let child = data.first_chunk().map(|pid| i32::from_ne_bytes(*pid));
                        traced.extend(child);
                    }
                    EventTypeId::EXIT => {
                        traced.remove(&pid);
                    }
                    _ => {}
                }
            }
            let is_gone = agent.as_raw_fd() < 0;
            if watermark >= now || is_gone || self.events.len() == known {
                return;
            }
        }
    }

    /// Hands a trace its part, and counts all of it. Returns whether there was an event.
    pub fn hand_on(
        self,
        mut given: Option<&mut GivenEvents>,
        mut calls: Option<&mut CallTally>,
        batch: &mut Batch<'_>,
    ) -> bool {
        for event in &self.events {
            let data = event.data(&self.data);
            if let Some(calls) = &mut calls {
                calls.note(&event.header, data);
            }
            match &mut given {
                Some(given) => given.take(&event.header, data, batch),
                None => batch.push(event.header, data),
            }
        }
        for loss in self.losses {
            if let Some(calls) = &mut calls {
                calls.lose(loss.count);
            }
            match &given {
                Some(given) => given.lose(loss, batch),
                None => batch.lose(loss),
            }
        }
        !self.events.is_empty()
    }
}
