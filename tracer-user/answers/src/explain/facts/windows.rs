//! Windows in which system calls were recorded: which part of the time of each process they have.

use std::collections::VecDeque;

use foldhash::HashMap;
use tracer_analysis::{Interval, State};
use tracer_event::summary::Summary;

use super::super::rules::support::{WHOLE, thousandths};

/// Changes that are remembered: of a thread that runs for longer, only the rest counts.
const MOST_CHANGES: usize = 65_536;

/// Processes that are told apart; of those beyond, nothing is known.
const MOST_PROCESSES: usize = 65_536;

/// A part of the time from which the whole follows as exactly as it can be told, in thousandths.
const ALL_BUT: u64 = WHOLE - 5;

/// CPU time of a process in a window from which it is told how often it makes calls, in
/// nanoseconds.
const ENOUGH_NS: u64 = 1_000_000;

/// How many times as long the cheapest call takes when the machine is at its slowest. It is
/// measured once, at whichever speed the processor has then: on a virtual machine the best of 64
/// rounds was 163 to 237 ns within a minute.
const SLOWEST_BY_FASTEST: u64 = 2;

/// Change of what is recorded.
#[derive(Clone, Copy, Debug)]
struct Change {
    at: u64,
    is_open: bool,
    /// How much of the time before it was in windows, in nanoseconds, counted from the first one.
    open_ns: u64,
}

/// Windows in which something was recorded.
#[derive(Debug, Default)]
pub struct Windows {
    changes: VecDeque<Change>,
}

/// The windows of system calls, and how long the threads of each process ran in them.
#[derive(Debug)]
pub struct CallCoverage {
    windows: Windows,
    /// The window before the last one, and the last one, from and to; that has no end while it is
    /// open.
    last: [(u64, u64); 2],
    processes: HashMap<i32, Process>,
    /// System calls of all processes that returned in windows.
    calls: u64,
}

/// A process whose threads ran.
#[derive(Debug, Default)]
struct Process {
    ran: Ran,
    rates: Rates,
}

/// How long the threads of a process ran, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ran {
    in_windows: u64,
    in_all: u64,
    /// System calls that returned in windows.
    calls: u64,
}

/// How often a process made calls in single windows.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    /// The process's parts of the window before the last one, and of the last one. An interval
    /// ends after the window that it is in, as often as not.
    parts: [Part; 2],
    /// Windows in which it ran for long enough.
    windows: u64,
    /// Least and most calls in a second of its CPU time, in these.
    between: (u64, u64),
}

/// Part that a process has of a window.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    ran_ns: u64,
    calls: u64,
}

impl Rates {
    /// Adds a window to the others.
    fn add(&mut self, part: Part) {
        if part.ran_ns < ENOUGH_NS {
            return;
        }
        let rate = rate(part.calls, part.ran_ns);
        let (least, most) = match self.windows {
            0 => (rate, rate),
            _ => self.between,
        };
        self.windows += 1;
        self.between = (least.min(rate), most.max(rate));
    }

    /// Goes on to the next window.
    fn next_window(&mut self) {
        let [before, last] = self.parts;
        self.add(before);
        self.parts = [last, Part::default()];
    }

    /// Returns the least and the most calls in a second of its CPU time in a window; `None` where
    /// there was one alone in which it ran for long enough, or none.
    fn between(mut self) -> Option<(u64, u64)> {
        self.next_window();
        self.next_window();
        (self.windows > 1).then_some(self.between)
    }
}

/// Cost of a call that is recorded: a program makes fewer of them in the time that it runs in
/// windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallCost {
    /// How much longer a call takes that is recorded, in nanoseconds.
    recorded_ns: u64,
    /// Whether that was measured in this trace.
    is_measured: bool,
    /// How long any call takes at least, in nanoseconds.
    cheapest_ns: u64,
    /// Calls of all processes as the kernel's programs have counted them, and the time in which
    /// these ran, where events were lost.
    counted: Option<Ran>,
    /// Length of a trace that has lost events which nothing has counted, in nanoseconds: nothing is
    /// known but what was seen.
    lossy_ns: Option<u64>,
}

impl Default for CallCost {
    /// Returns the cost where it was not measured, as in a log: low numbers, so that estimates are
    /// rather too low.
    fn default() -> Self {
        Self {
            recorded_ns: 200,
            is_measured: false,
            cheapest_ns: 30,
            counted: None,
            lossy_ns: None,
        }
    }
}

impl CallCost {
    /// Returns the cost that the trace has measured, if it has.
    #[must_use]
    pub fn from_summary(summary: &Summary) -> Self {
        let unmeasured = Self::default();
        let is_lossy = summary.lost_in_trace() > 0;
        let elapsed_ns = u64::try_from(summary.elapsed.as_nanos()).unwrap_or(u64::MAX);
        let lossy_ns = is_lossy.then_some(elapsed_ns);
        let Some(held_up) = summary.held_up else {
            return Self {
                lossy_ns,
                ..unmeasured
            };
        };
        let cheapest_ns = (held_up.cheapest_ns / SLOWEST_BY_FASTEST).max(unmeasured.cheapest_ns);
        if !held_up.is_timed {
            return Self {
                recorded_ns: held_up.call_ns,
                cheapest_ns,
                lossy_ns,
                ..unmeasured
            };
        }
        Self {
            recorded_ns: held_up.call_ns,
            is_measured: true,
            cheapest_ns,
            counted: is_lossy.then_some(Ran {
                in_windows: held_up.window_ns,
                in_all: held_up.ran_ns,
                calls: held_up.window_calls,
            }),
            lossy_ns: None,
        }
    }

    /// Returns the time without that of recording in which a process made so many calls, from the
    /// time with it: as it is likely, and the least that it can be, in nanoseconds.
    fn own_ns(self, in_windows: u64, calls: u64) -> (u64, u64) {
        let least = calls.saturating_mul(self.cheapest_ns).max(1);
        let recording = calls.saturating_mul(self.recorded_ns);
        let likely = in_windows.saturating_sub(recording).max(least);
        let shortest = if self.is_measured {
            // Beside what is measured there is the waking of who reads, and interrupts: on a busy
            // machine it was up to 2.7 times as much.
            in_windows.saturating_sub(recording.saturating_mul(3))
        } else {
            0
        };
        (likely, shortest.max(least).min(likely))
    }
}

/// Estimate of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Likely number.
    pub likely: u64,
    /// Least and most that it is, where the program does the same between windows as in them.
    pub between: (u64, u64),
}

impl Windows {
    /// Notes that it is recorded from this moment on, or that it is not. Before the first change it
    /// was.
    pub fn change(&mut self, at: u64, is_open: bool) {
        let is_open_now = self.changes.back().is_none_or(|last| last.is_open);
        if is_open == is_open_now {
            return;
        }
        let open_ns = self.open_until(at);
        if self.changes.len() >= MOST_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(Change {
            at,
            is_open,
            open_ns,
        });
    }

    /// Returns how much of the time up to this moment was in windows, in nanoseconds.
    fn open_until(&self, at: u64) -> u64 {
        let next = self.changes.partition_point(|change| change.at <= at);
        let last = next.checked_sub(1).and_then(|last| self.changes.get(last));
        match (last, self.changes.front()) {
            (Some(last), _) if last.is_open => last.open_ns.saturating_add(at - last.at),
            (Some(last), _) => last.open_ns,
            // Before the first that is remembered: it was open where that one closes.
            (None, Some(first)) if !first.is_open => {
                first.open_ns.saturating_sub(first.at.saturating_sub(at))
            }
            (None, Some(first)) => first.open_ns,
            (None, None) => at,
        }
    }

    /// Returns how much of the time between these moments was not in windows, in nanoseconds.
    pub fn closed_ns(&self, from: u64, to: u64) -> u64 {
        let open = self.open_until(to).saturating_sub(self.open_until(from));
        to.saturating_sub(from).saturating_sub(open)
    }

    /// Tells whether it is recorded now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.changes.back().is_none_or(|last| last.is_open)
    }
}

impl Default for CallCoverage {
    /// Starts in a window.
    fn default() -> Self {
        Self {
            windows: Windows::default(),
            last: [(0, 0), (0, u64::MAX)],
            processes: HashMap::default(),
            calls: 0,
        }
    }
}

impl CallCoverage {
    /// Notes that system calls are recorded from this moment on, or that they are not. Before the
    /// first change they were.
    pub fn change(&mut self, at: u64, is_open: bool) {
        if is_open == self.is_open() {
            return;
        }
        self.windows.change(at, is_open);
        if is_open {
            self.last = [self.last[1], (at, u64::MAX)];
            let processes = self.processes.values_mut();
            processes.for_each(|process| process.rates.next_window());
        } else {
            self.last[1].1 = at;
        }
    }

    /// Notes what a thread did for a while.
    pub fn add(&mut self, interval: &Interval) {
        if interval.state != State::Running {
            return;
        }
        let pid = interval.thread.pid;
        let Some(Process { ran, rates }) = Self::process(&mut self.processes, pid) else {
            return;
        };
        let (from, to) = (interval.from.0, interval.to.0);
        let all = to.saturating_sub(from);
        let in_windows = all.saturating_sub(self.windows.closed_ns(from, to));
        ran.in_windows = ran.in_windows.saturating_add(in_windows);
        ran.in_all = ran.in_all.saturating_add(all);
        for (part, (begin, end)) in rates.parts.iter_mut().zip(self.last) {
            let in_part = to.min(end).saturating_sub(from.max(begin));
            part.ran_ns = part.ran_ns.saturating_add(in_part);
        }
    }

    /// Notes that a process returns from a system call, in a window.
    pub fn count_call(&mut self, pid: i32) {
        self.calls += 1;
        if let Some(process) = Self::process(&mut self.processes, pid) {
            process.ran.calls += 1;
            process.rates.parts[1].calls += 1;
        }
    }

    /// Returns a process, unless there are too many others.
    fn process(processes: &mut HashMap<i32, Process>, pid: i32) -> Option<&mut Process> {
        if processes.len() >= MOST_PROCESSES && !processes.contains_key(&pid) {
            return None;
        }
        Some(processes.entry(pid).or_default())
    }

    /// Tells whether system calls are recorded now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.windows.is_open()
    }

    /// Returns the part of the time in which a process ran that is in windows, in thousandths;
    /// `None` where all of it is, or as good as all.
    #[must_use]
    pub fn share_of(&self, pid: i32) -> Option<u64> {
        self.share(self.processes.get(&pid)?.ran)
    }

    /// Returns that part of all processes together.
    #[must_use]
    pub fn share_of_all(&self) -> Option<u64> {
        let each = self.processes.values().map(|process| process.ran);
        let all = each.fold(Ran::default(), |sum, ran| Ran {
            in_windows: sum.in_windows.saturating_add(ran.in_windows),
            in_all: sum.in_all.saturating_add(ran.in_all),
            calls: 0,
        });
        self.share(all)
    }

    fn share(&self, ran: Ran) -> Option<u64> {
        let share = thousandths(ran.in_windows, ran.in_all);
        (!self.windows.changes.is_empty() && ran.in_all > 0 && share < ALL_BUT).then_some(share)
    }

    /// Returns the estimate of a process's whole number from what was counted in windows. Each call
    /// takes longer in these, by what recording it costs.
    #[must_use]
    pub fn whole(&self, pid: i32, counted: u64, cost: CallCost) -> Estimate {
        let process = self.processes.get(&pid);
        let Some(process) = process.filter(|process| process.ran.in_windows > 0) else {
            return Estimate {
                likely: counted,
                between: (counted, counted),
            };
        };
        // Around what is lost it is not known who ran.
        let seen = counted;
        let (ran, counted) = match cost.counted {
            Some(all) => (all, part_of(counted, all.calls, self.calls)),
            None => (process.ran, counted),
        };
        let outside = |in_all: u64, in_windows: u64| {
            part_of(counted, in_all.saturating_sub(ran.in_windows), in_windows)
        };
        let within = |in_all, in_windows| counted.saturating_add(outside(in_all, in_windows));
        let with = |in_windows: u64| within(ran.in_all, in_windows);
        let (likely, shortest) = cost.own_ns(ran.in_windows, ran.calls);
        let shortest = shortest.min(ran.in_windows);
        let likely = with(likely.min(ran.in_windows));
        let at_most = || with(ran.calls.saturating_mul(cost.cheapest_ns));
        let between = match (cost.lossy_ns, process.rates.between()) {
            (Some(elapsed_ns), _) => (seen, within(ran.in_all.max(elapsed_ns), shortest)),
            // Which process made how many of the calls that are counted together is not known.
            _ if cost.counted.is_some() && self.processes.len() > 1 => (seen, at_most()),
            // It may do something else than in the one window that it ran in.
            (None, None) => (seen, at_most()),
            (None, Some((slowest, fastest))) => {
                let mean = rate(ran.calls, ran.in_windows);
                // No call takes longer while none is recorded.
                let least = outside(ran.in_all, ran.in_windows);
                let most = outside(ran.in_all, shortest);
                (
                    counted.saturating_add(part_of(least, slowest.min(mean), mean)),
                    counted.saturating_add(part_of(most, fastest.max(mean), mean)),
                )
            }
        };
        Estimate { likely, between }
    }

    /// Returns the estimate of how long a process's calls took in all, in nanoseconds, from that in
    /// windows: the part of its time is the same.
    #[must_use]
    pub fn whole_ns(&self, pid: i32, ns: u64) -> u64 {
        let ran = self.processes.get(&pid).map(|process| process.ran);
        ran.filter(|ran| ran.in_windows > 0)
            .map_or(ns, |ran| part_of(ns, ran.in_all, ran.in_windows))
    }
}

/// Returns how many calls were made in a second of CPU time.
fn rate(calls: u64, ran_ns: u64) -> u64 {
    part_of(1_000_000_000, calls, ran_ns)
}

/// Returns `number * part / whole`.
fn part_of(number: u64, part: u64, whole: u64) -> u64 {
    let part = u128::from(number) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tracer_analysis::{IntervalEnd, Thread};
    use tracer_engine::event::MonotonicNs;
    use tracer_event::summary::HeldUp;

    use super::*;

    fn ran(windows: &mut CallCoverage, pid: i32, from: u64, to: u64) {
        windows.add(&Interval {
            thread: Thread { pid, tid: pid },
            state: State::Running,
            from: MonotonicNs(from),
            to: MonotonicNs(to),
            cpu: None,
            end: IntervalEnd::Unsaid,
            waits_since: MonotonicNs(from),
        });
    }

    #[test]
    fn the_part_in_windows_is_that_of_the_time_in_which_a_process_ran() {
        let mut windows = CallCoverage::default();
        ran(&mut windows, 1, 0, 100);
        assert_eq!(windows.share_of(1), None, "no window has closed");
        windows.change(200, false);
        windows.change(200, false);
        windows.change(500, true);
        assert!(windows.is_open());
        windows.change(600, false);
        // In a window, between two, over all of them, and before the first.
        ran(&mut windows, 2, 500, 600);
        ran(&mut windows, 3, 200, 500);
        ran(&mut windows, 4, 100, 700);
        assert_eq!(windows.share_of(2), None);
        assert_eq!(windows.share_of(3), Some(0));
        assert_eq!(windows.share_of(4), Some(333));
        assert_eq!(windows.share_of(5), None, "unknown");
        let whole = |pid| windows.whole(pid, 10, CallCost::default()).likely;
        assert_eq!((whole(4), whole(3), whole(2)), (30, 10, 10));
        assert_eq!(windows.whole_ns(4, 10), 30);
        assert_eq!(
            windows.share_of_all(),
            Some((100 + 100 + 200) * 1000 / 1100)
        );
    }

    /// Runs for 20 ms, in two windows of 1 ms, with so many calls in each.
    fn two_windows(calls: [u64; 2]) -> CallCoverage {
        let mut windows = CallCoverage::default();
        for (begin, calls) in [0, 10_000_000].into_iter().zip(calls) {
            windows.change(begin, true);
            for _ in 0..calls {
                windows.count_call(1);
            }
            windows.change(begin + 1_000_000, false);
            ran(&mut windows, 1, begin, begin + 10_000_000);
        }
        windows
    }

    const MEASURED: CallCost = CallCost {
        recorded_ns: 200,
        is_measured: true,
        cheapest_ns: 30,
        counted: None,
        lossy_ns: None,
    };

    #[test]
    fn the_time_that_recording_takes_is_none_in_which_calls_are_made() {
        let mut windows = two_windows([2500, 2500]);
        // Half of the time in the windows was that of recording, or all of it.
        let whole = windows.whole(1, 5000, MEASURED);
        assert_eq!(whole.likely, 5000 + 5000 * 9 * 2);
        assert_eq!(whole.between, (50_000, 5000 + 18_000_000 / 30));
        let cheap = CallCost {
            recorded_ns: 50,
            ..MEASURED
        };
        let whole = windows.whole(1, 5000, cheap);
        assert_eq!(whole.between, (50_000, 5000 + 5000 * 9 * 8 / 5));
        // Where that was not measured, a call takes no time but the least.
        let unmeasured = windows.whole(1, 5000, CallCost::default());
        assert_eq!(unmeasured.likely, 5000 + 5000 * 9 * 2);
        assert_eq!(unmeasured.between, (50_000, 5000 + 18_000_000 / 30));
        // Half of the calls were lost, and when it ran.
        let lost = CallCost {
            counted: Some(Ran {
                in_windows: 4_000_000,
                in_all: 40_000_000,
                calls: 10_000,
            }),
            ..MEASURED
        };
        let whole = windows.whole(1, 5000, lost);
        assert_eq!(whole.likely, 10_000 + 10_000 * 9 * 2);
        let alone = whole.between;
        assert!(alone.0 > 5000, "{alone:?}");
        ran(&mut windows, 2, 0, 1000);
        let beside = windows.whole(1, 5000, lost).between;
        assert_eq!(beside, (5000, 10_000 + 10_000 * 36_000_000 / 300_000));
        let lossy = CallCost {
            lossy_ns: Some(0),
            ..CallCost::default()
        };
        assert_eq!(windows.whole(1, 5000, lossy).between.0, 5000);
        // Not all of the time was.
        let whole = two_windows([27_500, 27_500]).whole(1, 55_000, MEASURED);
        assert_eq!(whole.likely, 55_000 + 18_000_000 / 30);
        assert_eq!(whole.between, (550_000, whole.likely));
    }

    #[test]
    fn a_process_may_do_between_windows_what_it_did_in_any_of_them() {
        let whole = two_windows([1250, 3750]).whole(1, 5000, MEASURED);
        assert_eq!(whole.likely, 5000 + 5000 * 9 * 2);
        let (least, most) = whole.between;
        assert_eq!(least, 5000 + 5000 * 9 / 2);
        assert_eq!(most, 5000 + 18_000_000 / 30 * 3 / 2);
        // In one of them it did not run.
        let mut windows = CallCoverage::default();
        windows.count_call(1);
        windows.change(1_000_000, false);
        windows.change(20_000_000, true);
        windows.change(21_000_000, false);
        ran(&mut windows, 1, 0, 10_000_000);
        let whole = windows.whole(1, 1, MEASURED);
        assert_eq!(whole.between, (1, 1 + 9_000_000 / 30));
        assert_eq!(windows.whole_ns(1, 5), 50);
    }

    #[test]
    fn a_cheapest_call_that_was_measured_while_the_machine_was_slow_does_not_bound_too_low() {
        // 4,000,000 calls that take 170 ns each; when the trace began, the processor was so slow
        // that the cheapest of all took 237 ns.
        const CALLS: u64 = 4_000_000;
        let held_up = HeldUp {
            is_timed: true,
            calls: 1000,
            call_ns: 1000,
            event_ns: 0,
            cheapest_ns: 237,
            ran_ns: CALLS * 170,
            window_calls: 1000,
            window_ns: 1_170_000,
        };
        let summary = Summary {
            held_up: Some(held_up),
            ..Summary::default()
        };
        let mut windows = CallCoverage::default();
        windows.change(1_170_000, false);
        ran(&mut windows, 1, 0, CALLS * 170);
        for _ in 0..1000 {
            windows.count_call(1);
        }
        let (least, most) = windows
            .whole(1, 1000, CallCost::from_summary(&summary))
            .between;
        assert!(
            least <= CALLS && CALLS <= most,
            "{least} to {most} of {CALLS}"
        );
    }

    #[test]
    fn what_is_older_than_what_is_remembered_counts_as_its_neighbour() {
        let mut windows = CallCoverage::default();
        for nth in 0..2 * MOST_CHANGES as u64 {
            windows.change(10 + nth * 10, nth % 2 == 1);
        }
        assert_eq!(windows.windows.changes.len(), MOST_CHANGES);
        let end = 10 + 2 * MOST_CHANGES as u64 * 10;
        ran(&mut windows, 1, end - 1000, end);
        assert_eq!(windows.share_of(1), Some(500));
        assert_eq!(
            windows.windows.open_until(10),
            windows.windows.open_until(15)
        );
    }
}
