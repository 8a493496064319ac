//! Columns that intervals of threads and segments of paths have in common.

use tracer_analysis::{Behind, IntervalEnd, PathPart, Reason, State, Task, Then, Wait, Waker};
use tracer_answers::queries::words::inside;
use tracer_answers::queries::{Functions, tree::wait_word};
use tracer_event::fields::until_null;

use crate::batch::RowBatch;

/// State of a thread, and how that ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct IntervalActivity {
    /// Word for its state.
    pub state: &'static str,
    /// Whichever end comes before that of the wait.
    pub still: Option<&'static str>,
    wait: Option<Wait>,
    reason: Option<Reason>,
    waker: Option<Waker>,
    behind: Option<Behind>,
}

impl IntervalActivity {
    /// Returns the activity of an interval.
    pub fn of_interval(state: State, end: IntervalEnd) -> Self {
        let mut activity = match state {
            State::Unknown | State::Dead => Self::called("unknown"),
            State::Running => Self::called("running"),
            State::Runnable(wait) => Self {
                wait: Some(wait),
                ..Self::called("runnable")
            },
            State::Blocked(reason) => Self {
                reason: Some(reason),
                ..Self::called("blocked")
            },
            State::Stopped => Self::called("stopped"),
        };
        match end {
            IntervalEnd::Open | IntervalEnd::Unsaid => {}
            IntervalEnd::Woken(waker) => activity.waker = Some(waker),
            IntervalEnd::GotCpu(behind) => activity.behind = Some(behind),
        }
        activity
    }

    /// Returns the activity in a segment of a path.
    pub fn of_part(part: &PathPart) -> Self {
        match part {
            PathPart::Running | PathPart::Faulting | PathPart::Gap | PathPart::Interrupted(_) => {
                Self::called("running")
            }
            PathPart::Busy(_) => Self::called("busy"),
            PathPart::Runnable(wait, behind) => Self {
                wait: Some(*wait),
                behind: *behind,
                ..Self::called("runnable")
            },
            PathPart::Blocked(reason, waker) => Self {
                reason: Some(*reason),
                waker: Some(*waker),
                ..Self::called("blocked")
            },
            PathPart::StillBlocked(reason, at) => Self {
                reason: Some(*reason),
                still: Some(then(*at)),
                ..Self::called("blocked")
            },
            PathPart::Stopped(waker) => Self {
                waker: Some(*waker),
                ..Self::called("stopped")
            },
            PathPart::StillStopped(at) => Self {
                still: Some(then(*at)),
                ..Self::called("stopped")
            },
            PathPart::Underway => Self::called("waking"),
            PathPart::Unmade(by) => Self {
                waker: Some(Waker::Thread(*by)),
                ..Self::called("unmade")
            },
            PathPart::Unpolled(next) => Self {
                waker: Some(Waker::Thread(*next)),
                ..Self::called("unpolled")
            },
            PathPart::Unknown(_) => Self::called("unknown"),
        }
    }

    fn called(state: &'static str) -> Self {
        Self {
            state,
            ..Self::default()
        }
    }

    /// Pushes the columns from `wait` to `behind_comm`.
    pub fn push(&self, functions: &Functions, out: &mut RowBatch) {
        // Why is not known where the trace began with it.
        let wait = self.wait.filter(|wait| *wait != Wait::Unsaid);
        out.name(wait.map(|wait| wait_word(wait).as_bytes()));
        let inside = self.reason.and_then(|reason| inside(reason.inside));
        out.name(inside.as_deref().map(str::as_bytes));
        out.bool(self.reason.map(|reason| reason.is_io));
        let place = self
            .reason
            .and_then(|reason| functions.place(reason.function));
        out.name(place.map(|place| place.name.as_bytes()));
        let lock = self
            .reason
            .and_then(|reason| functions.locks.get(reason.lock));
        out.u64(lock.map(|lock| lock.key.address));
        let waker = self.waker.filter(|waker| *waker != Waker::Unknown);
        out.name(waker.map(|waker| waker_word(&waker).as_bytes()));
        push_task(
            waker.and_then(|waker| match waker {
                Waker::Thread(task) => Some(task),
                _ => None,
            }),
            out,
        );
        push_task(self.behind.map(|behind| behind.task), out);
    }
}

/// Pushes a process, a thread and its name. Where a task means all of a name, it has no numbers.
fn push_task(task: Option<Task>, out: &mut RowBatch) {
    let Some(task) = task else {
        return out.nulls(3);
    };
    let comm = until_null(&task.comm);
    let thread = task.thread;
    let is_one = thread.tid != 0 || comm.is_empty() || comm.starts_with(b"swapper/");
    out.i32(is_one.then_some(thread.pid));
    out.i32(is_one.then_some(thread.tid));
    out.name(comm);
}

fn waker_word(waker: &Waker) -> &'static str {
    match waker {
        Waker::Unknown => "unknown",
        Waker::Thread(_) => "thread",
        Waker::Interrupt => "irq",
        Waker::SoftInterrupt => "softirq",
        Waker::Timer => "timer",
    }
}

fn then(at: Then) -> &'static str {
    match at {
        Then::TraceEnd => "trace_end",
        Then::PathEnd => "path_end",
    }
}
