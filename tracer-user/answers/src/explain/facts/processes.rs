//! Processes that were made, and how long they lived.

use foldhash::HashMap;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::ForkData;
use tracer_engine::event::{Event, MonotonicNs};
use zerocopy::FromBytes as _;

/// Processes that live at a time, and names of those that have ended.
const MOST: usize = 65_536;

/// A process that lives for less is a short one.
pub const SHORT_NS: u64 = 100_000_000;

/// Short processes of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Short {
    /// How many.
    pub count: u64,
    /// How long they lived together, in nanoseconds.
    pub ns: u64,
}

/// Processes that were made.
#[derive(Debug, Default)]
pub struct MadeProcesses {
    alive: HashMap<i32, (MonotonicNs, i32)>,
    short: HashMap<(Vec<u8>, i32), Short>,
}

impl MadeProcesses {
    /// Goes on by one event of a thread of this name.
    pub fn feed(&mut self, event: &Event<'_>, comm: &[u8]) {
        let header = event.header;
        match header.event_type {
            EventTypeId::FORK => {
                let Ok((data, _)) = ForkData::read_from_prefix(event.data) else {
                    return;
                };
                if self.alive.len() < MOST {
                    let child = data.child_pid.cast_signed();
                    self.alive.insert(child, (header.time, header.pid));
                }
            }
            EventTypeId::EXIT => {
                let Some((since, parent)) = self.alive.remove(&header.pid) else {
                    return;
                };
                let ns = header.time.0.saturating_sub(since.0);
                let key = (comm.to_vec(), parent);
                let is_known = self.short.len() < MOST || self.short.contains_key(&key);
                if ns < SHORT_NS && is_known {
                    let short = self.short.entry(key).or_default();
                    short.count += 1;
                    short.ns = short.ns.saturating_add(ns);
                }
            }
            _ => {}
        }
    }

    /// Returns the short processes by their name and by the process that made them, in order.
    #[must_use]
    pub fn short(&self) -> Vec<(&[u8], i32, Short)> {
        let all = self.short.iter();
        let mut all: Vec<_> = all.map(|((name, by), of)| (&**name, *by, *of)).collect();
        all.sort_unstable_by_key(|(name, by, short)| {
            (std::cmp::Reverse(short.count), name.to_vec(), *by)
        });
        all
    }
}
