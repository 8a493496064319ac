//! Properties of an interval as one entry of a dictionary: thousands of intervals are of a few
//! kinds.

use serde_json::{Value, json};
use tracer_analysis::{GroupId, Inside, Interval, IntervalEnd, Reason, State, Wait, Waker};

use crate::queries::Groups;
use crate::queries::words::inside;

/// End of an interval, without the task that ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Ending {
    Open,
    Unsaid,
    Woken,
    WokenByThread,
    WokenByInterrupt,
    WokenBySoftInterrupt,
    WokenByTimer,
    GotCpu,
}

/// Properties that intervals of one kind have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code {
    state: State,
    ending: Ending,
    /// Whether it does not begin where the interval of its thread before it ended.
    pub is_apart: bool,
    /// Whether its CPU is known.
    pub has_cpu: bool,
}

impl Code {
    /// Returns the code of an interval.
    pub fn from_interval(interval: &Interval, is_apart: bool) -> Self {
        let ending = match interval.end {
            IntervalEnd::Open => Ending::Open,
            IntervalEnd::Unsaid => Ending::Unsaid,
            IntervalEnd::Woken(Waker::Unknown) => Ending::Woken,
            IntervalEnd::Woken(Waker::Thread(_)) => Ending::WokenByThread,
            IntervalEnd::Woken(Waker::Interrupt) => Ending::WokenByInterrupt,
            IntervalEnd::Woken(Waker::SoftInterrupt) => Ending::WokenBySoftInterrupt,
            IntervalEnd::Woken(Waker::Timer) => Ending::WokenByTimer,
            IntervalEnd::GotCpu(_) => Ending::GotCpu,
        };
        let state = match interval.state {
            State::Blocked(reason) => State::Blocked(reason.anywhere()),
            state => state,
        };
        Self {
            state,
            ending,
            is_apart,
            has_cpu: interval.cpu.is_some(),
        }
    }

    /// Returns the code for the case that there are too many: without the place in which the thread
    /// was blocked, or the control group by which it was throttled.
    pub fn coarse(self) -> Self {
        let state = match self.state {
            State::Blocked(_) => State::Blocked(Reason::default()),
            State::Runnable(Wait::Throttled(_)) => {
                State::Runnable(Wait::Throttled(GroupId::UNKNOWN))
            }
            state => state,
        };
        Self { state, ..self }
    }

    /// Returns the code as the page reads it.
    pub fn json(self, groups: &Groups) -> Value {
        let group = match self.state {
            State::Runnable(wait) => groups.of_wait(wait),
            _ => None,
        };
        let (state, wait, reason) = match self.state {
            State::Unknown => ("unknown", None, None),
            State::Running => ("running", None, None),
            State::Runnable(wait) => ("runnable", Some(wait_name(wait)), None),
            State::Blocked(reason) => ("blocked", None, Some(reason)),
            State::Stopped => ("stopped", None, None),
            State::Dead => ("dead", None, None),
        };
        let ending = match self.ending {
            Ending::Open => "open",
            Ending::Unsaid => "unsaid",
            Ending::Woken => "woken",
            Ending::WokenByThread => "thread",
            Ending::WokenByInterrupt => "irq",
            Ending::WokenBySoftInterrupt => "softirq",
            Ending::WokenByTimer => "timer",
            Ending::GotCpu => "got_cpu",
        };
        json!({
            "state": state,
            "wait": wait,
            "group": group.map(|name| &**name),
            "in": reason.and_then(|reason| inside(reason.inside)),
            "kernel": reason.is_some_and(|reason| reason.inside == Inside::Kernel),
            "io_wait": reason.is_some_and(|reason| reason.is_io),
            "end": ending,
            "apart": self.is_apart,
            "cpu": self.has_cpu,
        })
    }
}

fn wait_name(wait: Wait) -> &'static str {
    match wait {
        Wait::New => "new",
        Wait::Woken => "woken",
        Wait::Preempted => "preempted",
        Wait::Yielded => "yielded",
        Wait::Throttled(_) => "throttled",
        Wait::OutOfBudget => "out_of_budget",
        Wait::OutOfRealTime => "out_of_real_time",
        Wait::Outranked => "outranked",
        Wait::Unsaid => "unknown",
    }
}
