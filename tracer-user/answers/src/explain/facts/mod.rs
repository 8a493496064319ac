//! Facts that rules ask for: gathered event by event, in bounded memory, and put in order at the
//! end.

mod call_sum;
mod calls;
mod classes;
mod crews;
mod descriptors;
mod details;
mod gatherer;
mod names_asked;
mod path;
mod places;
mod processes;
mod queues;
mod windows;

pub use call_sum::{CallSum, SMALL_BYTES, returns_bytes};
pub use calls::{CallOf, CallSums};
pub use classes::WaitClass;
pub use crews::{Crew, Crews};
pub use details::{Details, WaitDetail};
pub use gatherer::Gatherer;
pub use path::{Leaf, PathFacts};
pub use places::{FoundPlace, KnownPlaces, SpotId, Work};
pub use processes::{MadeProcesses, Short};
pub use queues::Queues;
pub use windows::{CallCost, CallCoverage, Windows};

use tracer_analysis::{Task, Thread, WaitKey, WaitTotal};

use super::rules::Needs;
use crate::queries::words;
use crate::stat::Statistics;

/// Facts about a trace.
#[derive(Debug)]
pub struct TraceFacts {
    /// Sums over threads, calls, faults, interrupts, requests.
    pub statistics: Statistics,
    /// Threads by name.
    pub crews: Crews,
    /// How long the thread was there that was there longest, in nanoseconds.
    pub wall: u64,
    /// That time, as far as the activity of the thread is known; all of it where events were lost:
    /// of what is not known, nothing is explained.
    pub seen: u64,
    /// Waits, the longest together first.
    pub waits: Vec<(WaitKey, WaitTotal)>,
    /// Details of waits.
    pub details: Details,
    /// Critical path of the first thread, where that says something.
    pub path: Option<PathFacts>,
    /// System calls by process: where they were recorded in windows, estimates of all.
    pub calls: CallSums,
    /// Windows in which system calls were recorded.
    pub windows: CallCoverage,
    /// Time of all threads of which nothing is known since switches were not recorded, in
    /// nanoseconds.
    pub unrecorded_ns: u64,
    /// Functions.
    pub places: KnownPlaces,
    /// Processes that were made.
    pub made: MadeProcesses,
    /// Waits for CPUs.
    pub queues: Queues,
    /// The process that traces, of a trace that runs.
    pub tracer: Option<i32>,
}

impl TraceFacts {
    /// Returns how long the thread was there that was there longest, in nanoseconds: the trace may
    /// have gone on for a while.
    #[must_use]
    pub fn wall(&self) -> u64 {
        self.wall
    }

    /// Returns how long what a thread did is known, of the thread of which it is known for longest,
    /// in nanoseconds; where events were lost, how long it was there.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Tells whether events were lost: what is known of times is the least that they are.
    #[must_use]
    pub fn is_lossy(&self) -> bool {
        self.statistics.lost > 0
    }

    /// Returns the name of a thread, as it was recorded: any bytes.
    #[must_use]
    pub fn name(&self, thread: Thread) -> &[u8] {
        self.crews.name(thread)
    }

    /// Tells whether events were recorded that a rule needs.
    #[must_use]
    pub fn has(&self, needs: Needs) -> bool {
        let of = |prefixes: &[&str]| {
            let mut events = self.statistics.summary.events.iter();
            events.any(|(name, _)| {
                let name = String::from_utf8_lossy(name);
                prefixes.iter().any(|prefix| name.starts_with(prefix))
            })
        };
        match needs {
            Needs::Switches => self.statistics.has_switches,
            Needs::Calls => self.statistics.has_switches && self.calls.has_calls(),
            Needs::Faults => of(&["linux_trace_fault"]),
            Needs::Interrupts => of(&["linux_trace_irq", "linux_trace_softirq"]),
            Needs::Processes => self.statistics.has_switches,
        }
    }

    /// Tells whether no system calls were left out by choice.
    #[must_use]
    pub fn has_all_calls(&self) -> bool {
        self.statistics.summary.unrecorded.chosen_calls.is_none()
    }

    /// Returns a thread in words, which say where it is one of the trace itself.
    #[must_use]
    pub fn task(&self, task: &Task) -> String {
        let words = words::task(task);
        if Some(task.thread.pid) == self.tracer {
            format!("{words} (this trace)")
        } else {
            words
        }
    }

    /// Returns the detail of a wait.
    #[must_use]
    pub fn detail(&self, key: &WaitKey) -> WaitDetail {
        self.details.get(key.reason)
    }
}

#[cfg(test)]
mod tests {
    use tracer_event::summary::Summary;

    use super::*;

    #[test]
    fn threads_of_the_trace_itself_are_told_in_a_trace_that_runs_and_not_of_a_log() {
        let own = i32::try_from(std::process::id()).unwrap();
        let of = |pid| {
            let mut task = Task {
                thread: Thread { pid, tid: pid },
                ..Task::default()
            };
            task.comm[0] = b'x';
            task
        };
        let summary = Summary::default();
        let live = Gatherer::new(None).of_this_trace().finish(&summary);
        assert_eq!(live.task(&of(own)), format!("x {own} (this trace)"));
        assert_eq!(live.task(&of(own + 1)), format!("x {}", own + 1));
        let of_log = Gatherer::new(None).finish(&summary);
        assert_eq!(of_log.task(&of(own)), format!("x {own}"));
    }
}
