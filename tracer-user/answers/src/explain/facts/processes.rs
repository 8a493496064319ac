//! Processes that were made, and how long they lived.

use std::collections::BTreeSet;

use foldhash::{HashMap, HashSet};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::ForkData;
use tracer_engine::event::{Event, MonotonicNs};
use zerocopy::FromBytes as _;

/// Processes that live at a time, and names of those that have ended.
const MOST: usize = 65_536;

/// Times that are told apart.
const MOST_TIMES: usize = 262_144;

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
    /// Times in which short processes lived, by the process that made them: in order, and apart.
    times: HashMap<i32, Vec<(u64, u64)>>,
    /// How many these are.
    time_count: usize,
    /// Processes that have pages in common with another one since a fork.
    sharing: HashSet<i32>,
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
                let child = data.child_pid.cast_signed();
                if self.alive.len() < MOST {
                    self.alive.insert(child, (header.time, header.pid));
                }
                if self.sharing.len() < MOST {
                    self.sharing.extend([child, header.pid]);
                }
            }
            EventTypeId::EXEC => {
                self.sharing.remove(&header.pid);
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
                    self.add_time(parent, (since.0, header.time.0));
                }
            }
            _ => {}
        }
    }

    /// Adds the time of a short process, which ends after all those before.
    fn add_time(&mut self, parent: i32, (mut from, to): (u64, u64)) {
        let times = self.times.entry(parent).or_default();
        self.time_count -= times.len();
        while let Some((begin, _)) = times.pop_if(|(_, end)| *end >= from) {
            from = from.min(begin);
        }
        if self.time_count < MOST_TIMES {
            times.push((from, to));
        }
        self.time_count += times.len();
    }

    /// Returns the time in which short processes of these makers lived, each moment once, in
    /// nanoseconds.
    #[must_use]
    pub fn time_of_short(&self, makers: &BTreeSet<i32>) -> u64 {
        let times = makers.iter().filter_map(|pid| self.times.get(pid));
        let mut times: Vec<(u64, u64)> = times.flatten().copied().collect();
        times.sort_unstable();
        let mut until = 0;
        let mut sum = 0_u64;
        for (from, to) in times {
            sum = sum.saturating_add(to.saturating_sub(from.max(until)));
            until = until.max(to);
        }
        sum
    }

    /// Tells whether a process has pages in common with another one since a fork, as far as that
    /// was recorded.
    #[must_use]
    pub fn is_sharing(&self, pid: i32) -> bool {
        self.sharing.contains(&pid)
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
