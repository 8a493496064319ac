//! Cost of a switch, a wake-up or a page fault that is recorded, for the thread that causes it: the
//! kernel times the programs at the beginning of each window in which these are recorded.
//!
//! The programs run for threads that are not traced too, and end at once there. What such runs take
//! is left out, by how long they usually take. Where most runs are such, an event's own part is
//! unknown.

use std::time::{Duration, Instant};

use tracer_kernel::{TimedRuns, WantedMaps};

/// Cost of an event until it is measured, in nanoseconds: that of one without a stack.
pub const FIRST_NS: u64 = 400;

/// Least and most that an event is taken to cost, in nanoseconds, whatever was measured.
const COST_NS: (u64, u64) = (200, 10_000);

/// Cost of getting to a program and back, and of what its thread finds no longer in the processor's
/// memory then, which the kernel does not time, in nanoseconds.
const AROUND_RUN_NS: u64 = 150;

/// Time of a run for a thread that is not traced, in nanoseconds.
const UNTRACED_NS: u64 = 60;

/// Most runs for an event of which it is known what the event takes.
const MOST_RUNS: u64 = 4;

/// Events after which a window's beginning says enough, and least events of a window that say
/// something.
const ENOUGH: (u64, u64) = (1000, 100);

/// Most time for which the kernel times the programs.
const MOST_TIMED: Duration = Duration::from_secs(1);

/// Events and time after which they are timed again while a window is open: what a program does
/// may have changed.
const AGAIN: (u64, Duration) = (5000, Duration::from_millis(100));

/// Cost of an event, as it was lately.
#[derive(Default)]
pub struct EventCost {
    timing: Option<Timing>,
    /// When they were timed last, and events that were recorded until then.
    timed: Option<(Instant, u64)>,
    /// Time of the programs in nanoseconds, and events that were recorded in it. What was long ago
    /// counts less.
    lately: (u64, u64),
}

/// Timing of the programs.
struct Timing {
    runs: TimedRuns,
    began: Instant,
    /// Events that were recorded before.
    before: u64,
}

impl EventCost {
    /// Begins to measure, where so many events were recorded until now. Where the kernel does not
    /// time its programs, the cost stays as it is.
    pub fn begin(&mut self, maps: &WantedMaps, recorded: u64) {
        self.timed = Some((Instant::now(), recorded));
        match maps.time_switches() {
            Ok(runs) => {
                self.timing = Some(Timing {
                    runs,
                    began: Instant::now(),
                    before: recorded,
                });
            }
            Err(error) => tracing::debug!(%error, "the cost of switches is not measured"),
        }
    }

    /// Measures, where so many events were recorded until now, and a window is open.
    pub fn measure(&mut self, maps: &WantedMaps, recorded: u64) {
        let Some(timing) = &self.timing else {
            if self.timed.is_some_and(|timed| is_due(timed, recorded)) {
                self.begin(maps, recorded);
            }
            return;
        };
        let is_enough = recorded.saturating_sub(timing.before) >= ENOUGH.0;
        if is_enough || timing.began.elapsed() >= MOST_TIMED {
            self.end(recorded);
        }
    }

    /// Measures no more until the next beginning, where so many events were recorded until now.
    pub fn end(&mut self, recorded: u64) {
        let Some(timing) = self.timing.take() else {
            return;
        };
        self.timed = Some((Instant::now(), recorded));
        let events = recorded.saturating_sub(timing.before);
        if events >= ENOUGH.1 {
            let (runs, ns) = timing.runs.so_far();
            self.add(runs, ns, events);
        }
    }

    /// Adds the time of so many runs, in which so many events were recorded.
    fn add(&mut self, runs: u64, ns: u64, events: u64) {
        if runs > events.saturating_mul(MOST_RUNS) {
            return;
        }
        let of_others = runs.saturating_sub(events).saturating_mul(UNTRACED_NS);
        let around = events.saturating_mul(AROUND_RUN_NS);
        let ns = ns.saturating_sub(of_others).saturating_add(around);
        let (all, of) = self.lately;
        self.lately = (
            (all / 2).saturating_add(ns),
            (of / 2).saturating_add(events),
        );
    }

    /// Returns the cost of an event, in nanoseconds.
    pub fn event_ns(&self) -> u64 {
        let (ns, events) = self.lately;
        let (least, most) = COST_NS;
        let each = ns.checked_div(events);
        each.map_or(FIRST_NS, |each| each.clamp(least, most))
    }
}

/// Tells whether it is time to time the programs again, where so many events were recorded until
/// now.
fn is_due((at, before): (Instant, u64), recorded: u64) -> bool {
    let (events, time) = AGAIN;
    recorded.saturating_sub(before) >= events && at.elapsed() >= time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_costs_what_the_programs_take_for_it_lately() {
        let mut cost = EventCost::default();
        assert_eq!(cost.event_ns(), FIRST_NS);
        // Each other run is for a thread that is not traced.
        cost.add(2000, 910_000, 1000);
        assert_eq!(cost.event_ns(), 1000);
        for _ in 0..20 {
            cost.add(1000, 250_000, 1000);
        }
        assert!((400..=401).contains(&cost.event_ns()));
        cost.add(1, u64::MAX, 1);
        assert_eq!(cost.event_ns(), COST_NS.1);
    }

    #[test]
    fn where_others_switch_far_more_often_the_cost_stays_as_it_is() {
        let mut cost = EventCost::default();
        cost.add(50_000, 5_000_000, 100);
        assert_eq!(cost.event_ns(), FIRST_NS);
    }
}
