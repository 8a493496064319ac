//! The critical path: why something took as long as it did.
//!
//! From its end backwards. While the thread ran, or waited for a CPU, that is the reason. While it
//! was blocked, the reason is what ended that: where a thread woke it, what that thread did in the
//! same time, and so on; where a device or a timer did, the path ends there. So the leaves part the
//! time exactly. What is not known is unknown, and no thread is blamed for it.

use tracer_engine::event::MonotonicNs;

use crate::history::{Had, History};
use crate::interrupts::Interrupt;
use crate::retries::is_of_use;
use crate::spans::Span;
use crate::state::{Behind, FunctionId, IntervalEnd, Reason, State, Task, Thread, Wait, Waker};
use crate::thread_states::ThreadStates;

/// Threads that wait for each other in a row: the path goes no deeper.
const MOST_DEEP: usize = 64;

/// Intervals between the question for a wake-up and the wake-up.
const MOST_SINCE_ASKED: usize = 8;

/// Time between two page faults of a thread in which it does little else, in nanoseconds.
const FAULTS_APART: u64 = 20_000;

/// State of the thread in a part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PathPart {
    /// It had a CPU.
    Running,
    /// It had a CPU, and went from one page fault to the next, in less than 20 microseconds.
    Faulting,
    /// It had a CPU, which did nothing: an unknown gap.
    Gap,
    /// It had a CPU, which served this interrupt.
    Interrupted(Interrupt),
    /// It had other work to do: this. What lies within is what it did then.
    Busy(FunctionId),
    /// It could run, and waited for a CPU, behind another thread where that is known.
    Runnable(Wait, Option<Behind>),
    /// It waited for something else, until it was woken. What lies within is what the thread did
    /// that woke it.
    Blocked(Reason, Waker),
    /// It waited for something else, and was not woken by then.
    StillBlocked(Reason, Then),
    /// It was stopped, until it was made to go on.
    Stopped(Waker),
    /// It was stopped, and not made to go on by then.
    StillStopped(Then),
    /// It had asked for the wake-up, which was under way to another CPU.
    Underway,
    /// It was not there yet. What lies within is what the thread did that made it.
    Unmade(Task),
    /// No thread worked on the span, which has to be entered for that. What lies within is what the
    /// thread did that worked on it next.
    Unpolled(Task),
    /// It is not known.
    Unknown(UnknownReason),
}

impl PathPart {
    /// Tells whether the thread had a CPU.
    #[must_use]
    pub fn has_cpu(&self) -> bool {
        matches!(
            self,
            Self::Running | Self::Faulting | Self::Gap | Self::Interrupted(_)
        )
    }
}

/// When something had not ended yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Then {
    /// At the end of the trace.
    TraceEnd,
    /// At the end of the time that the path is of.
    PathEnd,
}

/// Why something is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnknownReason {
    /// Events were lost.
    Lost,
    /// Nothing was recorded of the thread then.
    NotSeen,
    /// It is longer ago than is held, or the path has too many steps.
    TooLong,
}

/// A step of a path. Steps come from the last to the first; one is followed by those within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How many steps it lies within.
    pub depth: usize,
    /// The thread.
    pub thread: Thread,
    /// From when on.
    pub from: MonotonicNs,
    /// Until when.
    pub to: MonotonicNs,
    /// State of the thread in this step.
    pub part: PathPart,
}

impl Step {
    /// Returns its length, in nanoseconds.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.to.0.saturating_sub(self.from.0)
    }
}

/// Returns the steps of a path that no others lie within: they part its time.
pub fn leaves(steps: &[Step]) -> impl Iterator<Item = &Step> {
    steps.iter().enumerate().filter_map(|(index, step)| {
        let next = steps.get(index + 1);
        next.is_none_or(|next| next.depth <= step.depth)
            .then_some(step)
    })
}

/// Returns the critical path of what `thread` did from `from` until `to`, which is not later than
/// what `states` and `history` know. After about so many steps the rest is
/// [`UnknownReason::TooLong`].
#[must_use]
pub fn critical_path(
    states: &ThreadStates,
    history: &History,
    thread: Thread,
    (from, to): (MonotonicNs, MonotonicNs),
    most_steps: usize,
) -> Vec<Step> {
    let mut walk = Walk::new(states, history, most_steps);
    walk.go_back(thread, from, to, 0);
    walk.steps
}

/// Returns the critical path of a span. Where threads have to enter it to work on it, it is what
/// they did then, and in between, what the one did that entered it next.
///
/// The description of `states`, `history` and `most_steps` in [`critical_path`] holds here too.
#[must_use]
pub fn span_path(
    states: &ThreadStates,
    history: &History,
    span: &Span,
    most_steps: usize,
) -> Vec<Step> {
    let mut walk = Walk::new(states, history, most_steps);
    if span.polls.is_empty() {
        walk.go_back(span.thread, span.from, span.to, 0);
    } else {
        walk.between_polls(span);
    }
    walk.steps
}

/// Other work of a thread that has to be free for a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherWork {
    /// Its name.
    pub name: FunctionId,
    /// When it began.
    pub from: MonotonicNs,
    /// When it ended.
    pub to: MonotonicNs,
}

/// Returns the critical path of a span for which a thread has to be free: apart from it, the other
/// work that this thread had, in order of time.
///
/// The description of `states`, `history` and `most_steps` in [`critical_path`] holds here too.
#[must_use]
pub fn queued_path<'a>(
    states: &ThreadStates,
    history: &History,
    span: &Span,
    works: impl DoubleEndedIterator<Item = &'a OtherWork>,
    most_steps: usize,
) -> Vec<Step> {
    let mut walk = Walk::new(states, history, most_steps);
    walk.behind_works(span, works);
    walk.steps
}

struct Walk<'a> {
    states: &'a ThreadStates,
    history: &'a History,
    most_steps: usize,
    steps: Vec<Step>,
}

impl<'a> Walk<'a> {
    fn new(states: &'a ThreadStates, history: &'a History, most_steps: usize) -> Self {
        Self {
            most_steps,
            states,
            history,
            steps: Vec::new(),
        }
    }
}

impl Walk<'_> {
    /// Adds the steps of a span that threads enter, from the end to the beginning.
    fn between_polls(&mut self, span: &Span) {
        let mut at = span.to;
        let mut next = span.thread;
        for poll in span.polls.iter().rev() {
            self.unpolled(next, poll.to.max(span.from), at);
            let (from, to) = (poll.from.max(span.from), poll.to.min(at));
            self.go_back(poll.thread, from, to, 0);
            (at, next) = (from.min(at), poll.thread);
        }
        if span.has_older_polls && span.from < at {
            self.steps.push(Step {
                depth: 0,
                thread: next,
                from: span.from,
                to: at,
                part: PathPart::Unknown(UnknownReason::TooLong),
            });
        } else {
            self.unpolled(next, span.from, at);
        }
    }

    /// Adds the steps of a span that waits behind other work, from the end to the beginning.
    fn behind_works<'w>(
        &mut self,
        span: &Span,
        works: impl DoubleEndedIterator<Item = &'w OtherWork>,
    ) {
        let mut at = span.to;
        for work in works.rev() {
            let (from, to) = (work.from.max(span.from), work.to.min(at));
            if from >= to {
                continue;
            }
            self.go_back(span.thread, to, at, 0);
            self.steps.push(Step {
                depth: 0,
                thread: span.thread,
                from,
                to,
                part: PathPart::Busy(work.name),
            });
            self.go_back(span.thread, from, to, 1);
            at = from;
        }
        self.go_back(span.thread, span.from, at, 0);
    }

    /// Adds the time in which no thread worked on the span, until `next` did.
    fn unpolled(&mut self, next: Thread, from: MonotonicNs, to: MonotonicNs) {
        if from >= to {
            return;
        }
        let by = Task {
            thread: next,
            ..Task::default()
        };
        self.steps.push(Step {
            depth: 0,
            thread: next,
            from,
            to,
            part: PathPart::Unpolled(by),
        });
        self.go_back(next, from, to, 1);
    }

    /// Adds the steps of `thread`, from the end to the beginning.
    fn go_back(&mut self, mut thread: Thread, from: MonotonicNs, to: MonotonicNs, depth: usize) {
        let mut at = to;
        while at > from {
            let mut step = Step {
                depth,
                thread,
                from,
                to: at,
                part: PathPart::Unknown(self.why(from, at)),
            };
            let is_enough = self.steps.len() >= self.most_steps;
            if is_enough {
                step.part = PathPart::Unknown(UnknownReason::TooLong);
            }
            let Some(interval) = self
                .history
                .before(self.states, thread, at)
                .filter(|_| !is_enough)
            else {
                self.steps.push(step);
                return;
            };
            // An interval that goes on behind this moment has not ended by it.
            let end = if interval.to == at {
                interval.end
            } else {
                IntervalEnd::Open
            };
            let since = if is_of_use(end) {
                interval.waits_since
            } else {
                interval.from
            };
            step.from = since.max(from);
            step.part = self.part(interval.state, end, step.from, step.to);
            if let PathPart::Runnable(wait, behind) = step.part
                && !wait.is_throttled()
            {
                self.wait_for_cpu(step, wait, interval.cpu, behind);
            } else if step.part == PathPart::Running {
                self.run(step, interval.cpu);
            } else {
                self.steps.push(step);
            }
            if let PathPart::Blocked(_, Waker::Thread(waker)) = step.part {
                self.follow(step, waker.thread);
            }
            at = step.from;
            let birth = self.history.birth(thread);
            if let Some(birth) = birth.filter(|birth| birth.at == at && at > from) {
                if birth.is_same {
                    thread = birth.by;
                    continue;
                }
                step.from = from;
                step.to = at;
                self.unmade(step, birth.by);
                return;
            }
        }
    }

    /// Adds a wait for a CPU: behind those that had it. `last` had it last, where the thread got
    /// that CPU.
    fn wait_for_cpu(&mut self, step: Step, wait: Wait, cpu: Option<u32>, last: Option<Behind>) {
        let mut at = step.to;
        while at > step.from {
            let last = last.filter(|_| at == step.to);
            let is_alone = last.is_some_and(|last| last.others == Some(false));
            let had = cpu.and_then(|cpu| self.history.had_cpu(cpu, at));
            // The thread itself had it before.
            let had = had.filter(|had| !is_alone && had.by.thread != step.thread);
            let from = had.map_or(step.from, |had| had.since.max(step.from));
            // Of a higher priority is the one to which it gave way, and not those after it.
            let is_first = from == step.from;
            let wait = if wait == Wait::Outranked && !is_first {
                Wait::Preempted
            } else {
                wait
            };
            let behind = match (last, had) {
                (Some(last), Some(had)) => Some(last_since(last, had, had.since > step.from)),
                (Some(last), None) => Some(last),
                (None, Some(had)) => Some(Behind {
                    task: had.by,
                    others: had.is_seen.then_some(false),
                }),
                (None, None) => None,
            };
            self.steps.push(Step {
                from,
                to: at,
                part: PathPart::Runnable(wait, behind),
                ..step
            });
            at = from;
        }
    }

    /// Adds time in which the thread had a CPU: apart from it, what interrupted that.
    fn run(&mut self, step: Step, cpu: Option<u32>) {
        let mut at = step.to;
        if let Some(cpu) = cpu {
            for run in self.history.interrupts(cpu, step.from, step.to) {
                let (from, to) = (run.from.max(step.from), run.to.min(at));
                if from >= to {
                    continue;
                }
                self.run_by_itself(Step {
                    from: to,
                    to: at,
                    ..step
                });
                self.steps.push(Step {
                    from,
                    to,
                    part: PathPart::Interrupted(run.key.interrupt),
                    ..step
                });
                at = from;
                if self.steps.len() >= self.most_steps {
                    break;
                }
            }
        }
        self.run_by_itself(Step { to: at, ..step });
    }

    /// Adds time in which no interrupt is known: apart from it, where the CPU did nothing.
    fn run_by_itself(&mut self, step: Step) {
        let mut at = step.to;
        for gap in self.history.gaps(step.thread, step.from, step.to) {
            let (from, to) = (gap.from.max(step.from), gap.to.min(at));
            if from >= to || self.steps.len() >= self.most_steps {
                continue;
            }
            self.run_between_faults(Step {
                from: to,
                to: at,
                ..step
            });
            self.steps.push(Step {
                from,
                to,
                part: PathPart::Gap,
                ..step
            });
            at = from;
        }
        self.run_between_faults(Step { to: at, ..step });
    }

    /// Adds time in which the thread itself ran: apart from it, where it went from one page fault
    /// to the next.
    fn run_between_faults(&mut self, step: Step) {
        let mut at = step.to;
        let mut later: Option<MonotonicNs> = None;
        let mut add = |from: MonotonicNs, to: MonotonicNs, part| {
            if from < to {
                self.steps.push(Step {
                    from,
                    to,
                    part,
                    ..step
                });
            }
            self.steps.len() < self.most_steps
        };
        for fault in self.history.faults(step.thread, step.from, step.to) {
            if let Some(next) = later
                && next.0.saturating_sub(fault.0) < FAULTS_APART
            {
                add(next, at, PathPart::Running);
                at = fault;
                if !add(fault, next, PathPart::Faulting) {
                    break;
                }
            }
            later = Some(fault);
        }
        add(step.from, at, PathPart::Running);
    }

    fn part(&self, state: State, end: IntervalEnd, from: MonotonicNs, to: MonotonicNs) -> PathPart {
        let waker = match end {
            IntervalEnd::Woken(waker) => waker,
            IntervalEnd::Open | IntervalEnd::Unsaid | IntervalEnd::GotCpu(_) => Waker::Unknown,
        };
        let is_open = end == IntervalEnd::Open;
        match state {
            State::Blocked(reason) if is_open => PathPart::StillBlocked(reason, self.then(to)),
            State::Stopped if is_open => PathPart::StillStopped(self.then(to)),
            State::Running => PathPart::Running,
            State::Runnable(wait) => PathPart::Runnable(
                wait,
                match end {
                    IntervalEnd::GotCpu(task) if !wait.is_throttled() => Some(task),
                    IntervalEnd::GotCpu(_)
                    | IntervalEnd::Open
                    | IntervalEnd::Unsaid
                    | IntervalEnd::Woken(_) => None,
                },
            ),
            State::Blocked(reason) => PathPart::Blocked(reason, waker),
            State::Stopped => PathPart::Stopped(waker),
            // Of one that has ended there is nothing to wait for: something was not seen.
            State::Unknown | State::Dead => PathPart::Unknown(self.why(from, to)),
        }
    }

    /// Returns the end of the trace or of the path, whichever is at this moment.
    fn then(&self, at: MonotonicNs) -> Then {
        if self.states.is_trace_end(at) {
            Then::TraceEnd
        } else {
            Then::PathEnd
        }
    }

    /// Adds the steps of the waker while the other thread waited. Where it cannot be told when it
    /// asked for the wake-up, one unknown step is added if the history has it, and none otherwise:
    /// nothing is said of its being traced, nor of what it did.
    fn follow(&mut self, blocked: Step, waker: Thread) {
        if waker == blocked.thread || blocked.depth + 1 >= MOST_DEEP {
            return;
        }
        let Some(asked) = self.asked(waker, blocked.to) else {
            if self
                .history
                .before(self.states, waker, blocked.to)
                .is_some()
            {
                self.steps.push(Step {
                    depth: blocked.depth + 1,
                    thread: waker,
                    part: PathPart::Unknown(self.why(blocked.from, blocked.to)),
                    ..blocked
                });
            }
            return;
        };
        let asked = asked.max(blocked.from);
        if asked < blocked.to {
            self.steps.push(Step {
                depth: blocked.depth + 1,
                thread: waker,
                from: asked,
                to: blocked.to,
                part: PathPart::Underway,
            });
        }
        self.go_back(waker, blocked.from, asked, blocked.depth + 1);
    }

    /// Returns until when the waker ran that asked for a wake-up at `woken`. It may ask and leave
    /// its CPU before another CPU, which has to be interrupted for that, makes the thread runnable.
    /// Where it is not known what it did, it asked within that time, which is an unknown step then.
    fn asked(&self, waker: Thread, woken: MonotonicNs) -> Option<MonotonicNs> {
        let mut at = woken;
        for _ in 0..MOST_SINCE_ASKED {
            let interval = self.history.before(self.states, waker, at)?;
            match interval.state {
                State::Running | State::Unknown => return Some(at),
                State::Runnable(_) | State::Blocked(_) | State::Stopped | State::Dead => {
                    at = interval.from;
                }
            }
        }
        None
    }

    /// Adds the time before the thread was made, which was at the end of this step: it is what its
    /// maker did before.
    fn unmade(&mut self, step: Step, maker: Thread) {
        let by = Task {
            thread: maker,
            ..Task::default()
        };
        self.steps.push(Step {
            part: PathPart::Unmade(by),
            ..step
        });
        if maker != step.thread && step.depth + 1 < MOST_DEEP {
            self.go_back(maker, step.from, step.to, step.depth + 1);
        }
    }

    fn why(&self, from: MonotonicNs, to: MonotonicNs) -> UnknownReason {
        if self.states.is_lossy(from, to) {
            UnknownReason::Lost
        } else if from < self.history.given_up() {
            UnknownReason::TooLong
        } else {
            UnknownReason::NotSeen
        }
    }
}

/// Returns the thread that had a CPU last, where another one is known to have had it since some
/// moment: in the middle of the wait, of which others may have had the part before, or at its
/// beginning.
fn last_since(last: Behind, had: Had, is_in_the_middle: bool) -> Behind {
    let is_same = had.by.thread == last.task.thread;
    let others = match (is_same, had.is_seen) {
        (true, true) => Some(false),
        (true, false) if is_in_the_middle => None,
        (false, false) => Some(true),
        (true, false) | (false, true) => last.others,
    };
    Behind { others, ..last }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tracer_common::kernel::others;

    use super::*;
    use crate::calls::CallKey;
    use crate::gaps::CpuGap;
    use crate::interrupts::{InterruptKey, InterruptRun};
    use crate::spans::Poll;
    use crate::state::Inside;
    use crate::story::{Story, thread};

    /// System calls.
    const FUTEX: u16 = 202;
    const SLEEP: u16 = 230;

    fn inside(call: u16) -> Reason {
        Reason {
            inside: Inside::Call(CallKey {
                is_compat: false,
                nr: call.into(),
            }),
            is_io: false,
            ..Reason::default()
        }
    }

    fn task(tid: i32) -> Task {
        Task {
            thread: thread(tid),
            ..Task::default()
        }
    }

    /// Depth, thread, beginning, length, what: from the end to the beginning.
    fn path(story: &Story, tid: i32, from: u64, to: u64) -> Vec<(usize, i32, u64, u64, PathPart)> {
        let (from, to) = (MonotonicNs(from), MonotonicNs(to));
        let steps = critical_path(&story.states, &story.history, thread(tid), (from, to), 1000);
        let sum: u64 = leaves(&steps).map(Step::ns).sum();
        assert_eq!(sum, to.0 - from.0);
        let steps = steps.iter();
        steps
            .map(|step| {
                let ns = step.ns();
                (step.depth, step.thread.tid, step.from.0, ns, step.part)
            })
            .collect()
    }

    #[test]
    fn interrupts_page_faults_and_gaps_are_apart_from_what_a_thread_ran() {
        let mut story = Story::new();
        story.switch(100, 0, (0, None), 1);
        let soft = |row, cpu, from, to| InterruptRun {
            key: InterruptKey {
                cpu: Some(cpu),
                interrupt: Interrupt::Soft(row),
            },
            from: MonotonicNs(from),
            to: MonotonicNs(to),
        };
        // One within another one, which ends later; and one of another CPU.
        for run in [
            soft(1, 0, 220, 240),
            soft(3, 0, 200, 300),
            soft(3, 1, 100, 1000),
        ] {
            story.history.add_interrupt(&run);
        }
        for at in [500, 510, 100_000, 200_000] {
            story.history.add_fault(thread(1), MonotonicNs(at));
        }
        // One that begins before its thread is interrupted.
        for (of, from, to) in [(1, 290, 450), (2, 320, 360)] {
            story.history.add_gap(CpuGap {
                thread: thread(of),
                from: MonotonicNs(from),
                to: MonotonicNs(to),
            });
        }
        story.switch(100_500, 0, (1, Some(SLEEP)), 0);
        let by = |row| PathPart::Interrupted(Interrupt::Soft(row));
        assert_eq!(
            path(&story, 1, 100, 100_500),
            [
                (0, 1, 510, 99_990, PathPart::Running),
                (0, 1, 500, 10, PathPart::Faulting),
                (0, 1, 450, 50, PathPart::Running),
                (0, 1, 300, 150, PathPart::Gap),
                (0, 1, 240, 60, by(3)),
                (0, 1, 220, 20, by(1)),
                (0, 1, 200, 20, by(3)),
                (0, 1, 100, 100, PathPart::Running),
            ]
        );
    }

    #[test]
    fn what_is_entered_waits_in_between_for_who_enters_it_next() {
        let mut story = Story::new();
        story.switch(10, 0, (0, None), 1);
        story.switch(10, 1, (0, None), 2);
        // 1 works on it until 100, then 2, which a timer wakes for that.
        story.switch(150, 1, (2, Some(SLEEP)), 0);
        story.wake(300, 2, 1, 0);
        story.switch(310, 1, (0, None), 2);
        story.switch(390, 0, (1, Some(SLEEP)), 0);
        let poll = |tid, from, to| Poll {
            thread: thread(tid),
            from: MonotonicNs(from),
            to: MonotonicNs(to),
        };
        let mut span = Span {
            rule: 0,
            begun_by: thread(1),
            thread: thread(2),
            from: MonotonicNs(40),
            to: MonotonicNs(400),
            polls: vec![poll(1, 50, 100), poll(2, 320, 400)],
            has_older_polls: false,
        };
        let path = |span: &Span| -> Vec<_> {
            let steps = span_path(&story.states, &story.history, span, 1000);
            assert_eq!(leaves(&steps).map(Step::ns).sum::<u64>(), 360);
            let of_step = |step: &Step| (step.depth, step.thread.tid, step.ns(), step.part);
            steps.iter().map(of_step).collect()
        };
        let woken = PathPart::Runnable(Wait::Woken, Some(Behind::default()));
        let newest = [
            (0, 2, 80, PathPart::Running),
            (0, 2, 220, PathPart::Unpolled(task(2))),
            (1, 2, 10, PathPart::Running),
            (1, 2, 10, woken),
            (1, 2, 150, PathPart::Blocked(inside(SLEEP), Waker::Timer)),
            (1, 2, 50, PathPart::Running),
        ];
        let oldest = [
            (0, 1, 50, PathPart::Running),
            (0, 1, 10, PathPart::Unpolled(task(1))),
            (1, 1, 10, PathPart::Running),
        ];
        assert_eq!(path(&span), [&newest[..], &oldest[..]].concat());

        span.has_older_polls = true;
        span.polls.remove(0);
        let rest = (0, 2, 280, PathPart::Unknown(UnknownReason::TooLong));
        assert_eq!(path(&span), [&newest[..1], &[rest]].concat());
    }

    #[test]
    fn a_blocked_thread_waits_for_what_its_waker_did() {
        let mut story = Story::new();
        story.switch(10, 0, (0, None), 1);
        story.switch(20, 1, (0, None), 2);
        // 1 waits for a lock; 2 holds it, sleeps, runs and gives it back.
        story.switch(100, 0, (1, Some(FUTEX)), 0);
        story.switch(150, 1, (2, Some(SLEEP)), 0);
        story.wake(300, 2, 1, 0);
        story.switch(310, 1, (0, None), 2);
        story.wake(400, 1, 0, 2);
        story.switch(405, 0, (0, None), 1);

        let waker = |tid| Waker::Thread(task(tid));
        let idle = Behind::default();
        assert_eq!(
            path(&story, 1, 50, 450),
            [
                (0, 1, 405, 45, PathPart::Running),
                (0, 1, 400, 5, PathPart::Runnable(Wait::Woken, Some(idle))),
                (0, 1, 100, 300, PathPart::Blocked(inside(FUTEX), waker(2))),
                (1, 2, 310, 90, PathPart::Running),
                (1, 2, 300, 10, PathPart::Runnable(Wait::Woken, Some(idle))),
                (
                    1,
                    2,
                    150,
                    150,
                    PathPart::Blocked(inside(SLEEP), Waker::Timer)
                ),
                (1, 2, 100, 50, PathPart::Running),
                (0, 1, 50, 50, PathPart::Running),
            ]
        );
    }

    #[test]
    fn a_thread_that_is_not_woken_is_still_blocked() {
        let mut story = Story::new();
        story.switch(10, 0, (0, None), 1);
        story.switch(100, 0, (1, Some(FUTEX)), 0);
        let still = |then| (0, 1, 100, 300, PathPart::StillBlocked(inside(FUTEX), then));
        assert_eq!(path(&story, 1, 100, 400), [still(Then::PathEnd)]);

        // A later wake-up does not change what was so then.
        let mut later = Story::new();
        later.switch(10, 0, (0, None), 1);
        later.switch(100, 0, (1, Some(FUTEX)), 0);
        later.wake(500, 1, 0, 0);
        assert_eq!(path(&later, 1, 100, 400), [still(Then::PathEnd)]);

        story.states.stop(MonotonicNs(400));
        assert_eq!(path(&story, 1, 100, 400), [still(Then::TraceEnd)]);
    }

    #[test]
    fn a_waker_that_is_not_traced_is_named_and_nothing_else_is_said() {
        let mut story = Story::new();
        story.switch(10, 0, (0, None), 1);
        story.switch(100, 0, (1, Some(FUTEX)), 0);
        story.wake(400, 1, 0, 77);
        story.switch(405, 0, (0, None), 1);

        let found = path(&story, 1, 100, 400);
        let by = Waker::Thread(task(77));
        assert_eq!(
            found,
            [(0, 1, 100, 300, PathPart::Blocked(inside(FUTEX), by))]
        );
    }

    #[test]
    fn a_waker_that_had_left_its_cpu_by_then_had_asked_before() {
        let mut story = Story::new();
        story.switch(10, 0, (0, None), 1);
        story.switch(20, 1, (0, None), 2);
        story.switch(100, 0, (1, Some(FUTEX)), 0);
        story.switch(390, 1, (2, Some(SLEEP)), 0);
        story.wake(400, 1, 0, 2);
        story.switch(405, 0, (0, None), 1);

        assert_eq!(
            path(&story, 1, 100, 400)[1..],
            [
                (1, 2, 390, 10, PathPart::Underway),
                (1, 2, 100, 290, PathPart::Running),
            ]
        );
    }

    #[test]
    fn of_a_waker_that_was_given_its_cpu_unseen_only_that_time_is_unknown() {
        let mut story = Story::new();
        story.switch(10, 0, (0, None), 1);
        story.switch(20, 1, (0, None), 2);
        story.switch(100, 0, (1, Some(FUTEX)), 0);
        story.switch(150, 1, (2, Some(SLEEP)), 0);
        story.wake(300, 2, 1, 0);
        // That 2 gets a CPU is not reported.
        story.wake(400, 1, 0, 2);
        story.switch(405, 0, (0, None), 1);
        story.leaves(450, 1, 2, 3);

        let unknown = PathPart::Unknown(UnknownReason::NotSeen);
        let asleep = PathPart::Blocked(inside(SLEEP), Waker::Timer);
        assert_eq!(
            path(&story, 1, 100, 400)[1..],
            [
                (1, 2, 300, 100, unknown),
                (1, 2, 150, 150, asleep),
                (1, 2, 100, 50, PathPart::Running),
            ]
        );
    }

    #[test]
    fn who_waits_for_a_cpu_waits_behind_those_that_have_it() {
        let mut story = Story::new();
        story.switch(10, 0, (0, None), 1);
        story.switch(100, 0, (1, None), 2);
        story.switch(150, 0, (2, None), 3);
        // Another CPU takes it over: who had that one is not to blame.
        story.switch(200, 1, (5, Some(SLEEP)), 1);

        let behind = |tid| {
            let behind = Behind {
                task: task(tid),
                others: Some(false),
            };
            PathPart::Runnable(Wait::Preempted, Some(behind))
        };
        assert_eq!(
            path(&story, 1, 90, 200),
            [
                (0, 1, 150, 50, behind(3)),
                (0, 1, 100, 50, behind(2)),
                (0, 1, 90, 10, PathPart::Running),
            ]
        );
    }

    /// Thread 1 leaves its CPU at 100 to `next`, which may be seen, and gets it back at 200 from
    /// `last`: what is said of those in between.
    fn given_way(
        next: i32,
        is_seen: bool,
        last: i32,
        others: u32,
    ) -> Vec<(u64, i32, Option<bool>)> {
        let mut story = Story::new();
        story.switch(10, 0, (0, None), 1);
        story.leaves(100, 0, 1, next);
        if is_seen {
            story.comes(150, 0, (5, others::SOME), next);
            story.leaves(160, 0, next, last);
        }
        story.comes(200, 0, (last, others), 1);
        let steps = path(&story, 1, 100, 200);
        let steps = steps.into_iter().map(|(_, _, _, ns, part)| match part {
            PathPart::Runnable(Wait::Preempted, Some(behind)) => {
                (ns, behind.task.thread.tid, behind.others)
            }
            part => panic!("{part:?}"),
        });
        steps.collect()
    }

    #[test]
    fn of_those_that_are_not_traced_the_last_one_is_not_to_blame_for_all() {
        use others::{NONE, SOME, UNKNOWN};
        let (alone, others) = (Some(false), Some(true));
        assert_eq!(given_way(2, false, 2, NONE), [(100, 2, alone)]);
        // It had the CPU twice, and another one in between.
        assert_eq!(given_way(2, false, 2, SOME), [(100, 2, others)]);
        assert_eq!(given_way(2, false, 3, SOME), [(100, 3, others)]);
        // As older traces have it.
        assert_eq!(given_way(2, false, 2, UNKNOWN), [(100, 2, None)]);
        assert_eq!(given_way(2, false, 3, UNKNOWN), [(100, 3, others)]);
        // 2 is traced, and those before and after it are not.
        assert_eq!(
            given_way(2, true, 3, SOME),
            [(40, 3, None), (10, 2, alone), (50, 2, None)]
        );
    }

    #[test]
    fn before_a_thread_was_made_it_is_its_makers_time() {
        let mut story = Story::new();
        story.switch(10, 0, (0, None), 1);
        story.switch(20, 1, (0, None), 2);
        story.switch(100, 0, (1, Some(FUTEX)), 0);
        story.make(200, 2, 3);
        story.switch(210, 0, (0, None), 3);
        story.wake(400, 1, 1, 3);
        story.switch(405, 1, (2, None), 1);

        let by = Waker::Thread(task(3));
        let made = PathPart::Runnable(Wait::New, None);
        assert_eq!(
            path(&story, 1, 100, 400),
            [
                (0, 1, 100, 300, PathPart::Blocked(inside(FUTEX), by)),
                (1, 3, 210, 190, PathPart::Running),
                (1, 3, 200, 10, made),
                (1, 3, 100, 100, PathPart::Unmade(task(2))),
                (2, 2, 100, 100, PathPart::Running),
            ]
        );
    }

    #[test]
    fn where_events_are_missing_nothing_is_claimed() {
        let mut story = Story::new();
        story.switch(10, 0, (0, None), 1);
        story.switch(100, 0, (1, Some(FUTEX)), 0);
        let history = &mut story.history;
        history.lose();
        let until = Some(MonotonicNs(200));
        story.states.lose(until, |found| history.add(&found));
        story.wake(150, 1, 0, 0);
        story.switch(160, 0, (0, None), 1);
        story.switch(250, 0, (1, Some(SLEEP)), 0);
        story.wake(300, 1, 0, 0);
        story.switch(310, 0, (0, None), 1);

        let idle = Some(Behind::default());
        assert_eq!(
            path(&story, 1, 50, 320),
            [
                (0, 1, 310, 10, PathPart::Running),
                (0, 1, 300, 10, PathPart::Runnable(Wait::Woken, idle)),
                (
                    0,
                    1,
                    250,
                    50,
                    PathPart::Blocked(inside(SLEEP), Waker::Timer)
                ),
                // The kernel counts that by itself.
                (0, 1, 160, 90, PathPart::Running),
                (0, 1, 150, 10, PathPart::Unknown(UnknownReason::Lost)),
                (0, 1, 100, 50, PathPart::Unknown(UnknownReason::Lost)),
                (0, 1, 50, 50, PathPart::Running),
            ]
        );
    }

    #[test]
    fn a_path_that_is_too_long_says_so_and_is_as_long_as_it_is() {
        let mut story = Story::new();
        for round in 0..100 {
            story.switch(10 + 20 * round, 0, (0, None), 1);
            story.switch(20 + 20 * round, 0, (1, None), 0);
        }
        let (from, to) = (MonotonicNs(10), MonotonicNs(2000));
        let steps = critical_path(&story.states, &story.history, thread(1), (from, to), 20);
        assert!(steps.len() <= 30, "{}", steps.len());
        let last = steps.last().unwrap();
        assert_eq!(last.part, PathPart::Unknown(UnknownReason::TooLong));
        assert_eq!(leaves(&steps).map(Step::ns).sum::<u64>(), 1990);
    }

    proptest! {
        /// Whatever happens: the leaves part the time exactly, and no thread waits for itself.
        #[test]
        fn leaves_part_the_time_of_each_path(
            happens in prop::collection::vec(
                (0_u64..20, 0..4, 0..5_i32, 0..5_i32, 0..2_u32, any::<bool>()), 0..120),
            window in (0_u64..500, 0_u64..1500),
        ) {
            let mut story = Story::new();
            let mut at = 0;
            for (step, what, tid, other, cpu, is_blocked) in happens {
                at += step;
                match what {
                    0 | 1 => story.switch(at, cpu, (tid, is_blocked.then_some(FUTEX)), other),
                    2 => story.wake(at, tid.max(1), cpu, other),
                    _ if is_blocked => story.make(at, tid.max(1), other + 1),
                    _ => {
                        let history = &mut story.history;
                        let until = Some(MonotonicNs(at + step));
                        story.states.lose(until, |found| history.add(&found));
                    }
                }
            }
            let (from, to) = (window.0.min(at), (window.0 + window.1).min(at));
            for tid in 1..5 {
                // Its sum is looked at there.
                let found = path(&story, tid, from, to);
                for (depth, ..) in found {
                    prop_assert!(depth < MOST_DEEP);
                }
            }
        }
    }
}
