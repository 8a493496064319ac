//! System calls that the service gives, counted, and the CPU time of the processes that make them:
//! for windows in which calls are recorded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tracer_area::monotonic_now;
use tracer_common::event_type::EventTypeId;
use tracer_engine::event::{EventHeader, MonotonicNs};
use tracer_kernel::CallCounts;

use super::service::{Link, lock};
use crate::cpu_times::cpu_ns;

/// Counts of what the service has given.
#[derive(Debug, Default)]
pub struct CallTally {
    /// Calls that have begun.
    begun: u64,
    /// The traced processes.
    processes: HashMap<i32, CpuTime>,
    /// CPU time of those that have ended, in nanoseconds.
    ended_ns: u64,
    /// How long the cheapest call takes while they are not recorded, in nanoseconds.
    pub cheapest_ns: u64,
    /// How much longer a call takes while they are recorded, in nanoseconds.
    pub floor_ns: u64,
    /// Moment up to which the source may be complete, where the stream is still to learn that calls
    /// are recorded no more.
    pub held_at: Option<MonotonicNs>,
}

/// CPU time of a process: when it came to be traced, and when it was asked last.
#[derive(Clone, Copy, Debug)]
struct CpuTime {
    from_ns: u64,
    to_ns: u64,
}

impl CpuTime {
    fn ns(self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

impl CallTally {
    /// Counts the CPU time of a process from now on.
    pub fn add(&mut self, pid: i32) {
        if let Some(ns) = cpu_ns(pid) {
            let time = CpuTime {
                from_ns: ns,
                to_ns: ns,
            };
            self.processes.entry(pid).or_insert(time);
        }
    }

    /// Counts an event.
    pub fn note(&mut self, header: &EventHeader, data: &[u8]) {
        match header.event_type {
            EventTypeId::SYSCALL_ENTER => self.begun += 1,
            EventTypeId::FORK if self.processes.contains_key(&header.pid) => {
                let child = data.first_chunk().map(|pid| i32::from_ne_bytes(*pid));
                if let Some((child, ns)) = child.and_then(|child| Some((child, cpu_ns(child)?))) {
                    // It has had none before.
                    let time = CpuTime {
                        from_ns: 0,
                        to_ns: ns,
                    };
                    self.processes.insert(child, time);
                }
            }
            EventTypeId::EXIT => {
                if let Some(time) = self.processes.remove(&header.pid) {
                    self.ended_ns += time.ns();
                }
            }
            _ => {}
        }
    }

    /// Counts lost events: nearly all of very many are the two ends of calls.
    pub fn lose(&mut self, events: u64) {
        self.begun = self.begun.saturating_add(events.div_ceil(2));
    }

    fn counts(&mut self) -> CallCounts {
        let mut ran_ns = self.ended_ns;
        for (pid, time) in &mut self.processes {
            if let Some(ns) = cpu_ns(*pid) {
                // Less is another process's, which has the pid by now.
                time.to_ns = time.to_ns.max(ns);
            }
            ran_ns += time.ns();
        }
        CallCounts {
            calls: self.begun,
            ran_ns,
            // Its programs are not timed here.
            ..CallCounts::default()
        }
    }
}

/// System calls that the service records while a conversation's filter lets them through.
#[derive(Debug)]
pub struct GivenCalls(pub(super) Arc<Mutex<Link>>);

impl GivenCalls {
    /// Returns how much longer a call takes while they are recorded, in nanoseconds.
    pub fn floor_ns(&self) -> u64 {
        lock(&self.0)
            .calls
            .as_ref()
            .map_or(0, |calls| calls.floor_ns)
    }

    /// Returns how long the cheapest call takes while they are not recorded, in nanoseconds.
    pub fn cheapest_ns(&self) -> u64 {
        lock(&self.0)
            .calls
            .as_ref()
            .map_or(0, |calls| calls.cheapest_ns)
    }

    /// Returns the counts up to now, as far as the service has brought them.
    pub fn counts(&self) -> CallCounts {
        lock(&self.0)
            .calls
            .as_mut()
            .map_or_else(CallCounts::default, CallTally::counts)
    }

    /// Has calls recorded, as soon as this returns.
    pub fn open(&self) {
        lock(&self.0).record_calls(true);
    }

    /// Has them recorded no more. Returns a moment before which all were: the stream's filter is to
    /// change as of then.
    pub fn close(&self) -> MonotonicNs {
        let at = monotonic_now();
        let mut link = lock(&self.0);
        if let Some(calls) = &mut link.calls {
            calls.held_at = Some(at);
        }
        // At once: what was recorded before is given all the same.
        link.record_calls(false);
        at
    }
}

#[cfg(test)]
mod tests {
    use tracer_area::own_pid;
    use tracer_common::kernel::PID_LIMIT;

    use super::*;

    #[test]
    fn the_time_of_a_process_is_counted_from_when_it_is_traced() {
        let mut tally = CallTally::default();
        tally.add(own_pid());
        let from = cpu_ns(own_pid()).unwrap();
        while cpu_ns(own_pid()).unwrap() < from + 20_000_000 {}
        let ran = tally.counts().ran_ns;
        assert!((20_000_000..1_000_000_000).contains(&ran), "{ran}");
        // What has ended stays counted, and what is not there is not.
        tally.add(PID_LIMIT.cast_signed());
        assert_eq!(tally.processes.len(), 1);
    }
}
