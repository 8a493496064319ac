//! Bounded cost of system calls: where recording all of them would hold the traced programs up by
//! more than was asked for, they are recorded in windows. Between these no program is attached at
//! system calls, so that they cost nothing. The stream's filter says when that is, as events do.
//!
//! It goes by an account: a part of the CPU time that the traced threads have had is there to be
//! spent, and each call that is recorded spends what it costs: its thread, and where no CPU is idle
//! also what the tracer needs to read it. Who makes few calls is recorded as a whole. After a
//! window, the next one opens once there is enough for all of it; how long it is to be is chosen at
//! random, so that windows do not keep step with the program. What the first one has cost too much
//! is paid off by and by.

use std::io;

use tracer_area::monotonic_now;
use tracer_engine::event::MonotonicNs;
use tracer_event::summary::HeldUp;
use tracer_kernel::CallCounts;

use super::access::CallMeter;
use super::own_cost::OwnCost;

/// Cost of a call that is recorded, both its ends together, by that of a call of a thread that is
/// not traced, until it is measured. It is 3 for calls that are given numbers alone and whose
/// program does nothing else, and 7 for the writes of a data base, which need the processor's
/// memory for other things too.
const RECORDED_BY_FLOOR: u64 = 5;

/// Least and most that a recorded call is taken to cost, in nanoseconds, whatever was measured.
const COST_NS: (u64, u64) = (200, 2000);

/// Runs of the programs that are timed before the cost of a call is known by them.
const ENOUGH_TIMED: u64 = 64;

/// Cost that is there to be spent when the trace begins, in nanoseconds: what a program does first
/// says much.
const AT_FIRST_NS: u64 = 2_000_000;

/// Least and most CPU time of the threads in a window, in nanoseconds.
const WINDOW_NS: (u64, u64) = (20_000_000, 50_000_000);

/// Events of a call: its entry and its exit.
const EVENTS_OF_CALL: u64 = 2;

/// Time after which a window opens though there is not enough for all of it: the program may make
/// fewer calls by now. The second window comes sooner: by the first one alone, nothing can be said
/// of the rest, as of a short trace.
const CLOSED_AT_MOST_NS: u64 = 500_000_000;
const SECOND_AFTER_NS: u64 = 100_000_000;

/// Cost beyond what was asked for at which the brake is pulled, in nanoseconds.
const BRAKE_BEYOND_NS: u64 = 1_000_000;

/// Change of what is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowStep {
    /// System calls are to be recorded from now on.
    Open,
    /// They are not, from now on.
    Close,
}

/// Windows in which system calls are recorded.
#[derive(Debug)]
pub struct CallWindows {
    meter: Meter,
    own: OwnCost,
    account: Account,
    /// How long traced threads had CPUs while that was not counted, in nanoseconds.
    uncounted_ns: u64,
    /// Counts as the last window opened.
    opened: CallCounts,
    /// Calls in the windows that have closed, and how long traced threads had CPUs in these.
    closed: (u64, u64),
}

struct Meter(CallMeter);

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meter")
    }
}

impl CallWindows {
    /// Bounds the cost of system calls to this part of the threads' CPU time, in thousandths.
    pub fn new(meter: CallMeter, thousandths: u32, now: MonotonicNs) -> Self {
        let cost_ns = cost_of_call(meter.floor_ns(), CallCounts::default());
        Self {
            meter: Meter(meter),
            own: OwnCost::new(now.0),
            account: Account::new(cost_ns, thousandths.into(), now.0),
            uncounted_ns: 0,
            opened: CallCounts::default(),
            closed: (0, 0),
        }
    }

    /// Returns what is to be changed now, if anything is, where so many events were read since the
    /// trace began. The kernel's programs have not counted `uncounted_ns` of the threads' CPU time.
    pub fn step(&mut self, now: MonotonicNs, events: u64, uncounted_ns: u64) -> Option<WindowStep> {
        self.uncounted_ns = uncounted_ns;
        let meter = &self.meter.0;
        let counts = meter.counts(now);
        let read_ns = EVENTS_OF_CALL * self.own.of_event(now.0, events);
        // Of the service it is known once a process is traced.
        self.account.cost_ns = cost_of_call(meter.floor_ns(), counts).saturating_add(read_ns);
        let counts = self.with_uncounted(counts);
        self.account.step(now.0, counts)
    }

    /// Adds the CPU time that was not counted.
    fn with_uncounted(&self, counts: CallCounts) -> CallCounts {
        CallCounts {
            ran_ns: counts.ran_ns.saturating_add(self.uncounted_ns),
            ..counts
        }
    }

    /// Returns how many calls there may be since the trace began until the brake is pulled, by what
    /// was known at the last step; any number between windows.
    pub fn most_calls(&self) -> u64 {
        if self.account.is_open {
            self.account.most_calls()
        } else {
            u64::MAX
        }
    }

    /// Has system calls recorded, before the stream takes them.
    ///
    /// # Errors
    ///
    /// The programs cannot be attached: nothing is changed, and it can be tried again.
    pub fn open(&mut self) -> io::Result<()> {
        let opened = self.meter.0.open();
        match opened {
            Ok(()) => self.opened = self.counts(),
            Err(_) => self.account.is_open = false,
        }
        opened
    }

    /// Returns the counts of one moment.
    fn counts(&self) -> CallCounts {
        /// Longest reading, in nanoseconds: a longer one was interrupted.
        const WITHIN_NS: u64 = 50_000;
        const TRIES: usize = 8;
        let read = |_| {
            let now = monotonic_now();
            let counts = self.meter.0.counts(now);
            let took = monotonic_now().0.saturating_sub(now.0);
            (took, counts)
        };
        let mut tries = (0..TRIES).map(read);
        let first = tries.find(|(took, _)| *took <= WITHIN_NS);
        first.map_or_else(|| read(0).1, |(_, counts)| counts)
    }

    /// Returns how many calls were made in windows, and how long traced threads had CPUs in them.
    fn in_windows(&self) -> (u64, u64) {
        let (calls, ran_ns) = self.closed;
        if !self.account.is_open {
            return self.closed;
        }
        let now = self.counts();
        (
            calls + now.calls.saturating_sub(self.opened.calls),
            ran_ns + now.ran_ns.saturating_sub(self.opened.ran_ns),
        )
    }

    /// Closes the window that is open, if one is, as [`close`](Self::close) does.
    pub fn close_early(&mut self, now: MonotonicNs) -> Option<MonotonicNs> {
        if !self.account.is_open {
            return None;
        }
        let counts = self.with_uncounted(self.meter.0.counts(now));
        self.account.next_ns = self.account.cost_of_next(counts);
        self.account.change(now.0, counts);
        Some(self.close())
    }

    /// Has them cost nothing from now on. Returns the moment from which the stream is to take them
    /// no more, which is still to come there.
    pub fn close(&mut self) -> MonotonicNs {
        // The account has closed by now.
        let now = self.counts();
        let (calls, ran_ns) = &mut self.closed;
        *calls += now.calls.saturating_sub(self.opened.calls);
        *ran_ns += now.ran_ns.saturating_sub(self.opened.ran_ns);
        self.meter.0.close()
    }

    /// Returns what the calls have cost up to now, where each other event cost `event_ns`.
    pub fn held_up(&self, now: MonotonicNs, event_ns: u64) -> HeldUp {
        let meter = &self.meter.0;
        let counts = meter.counts(now);
        let call_ns = cost_of_call(meter.floor_ns(), counts);
        let (window_calls, window_ns) = self.in_windows();
        tracing::debug!(?counts, call_ns, window_calls, window_ns, "system calls");
        HeldUp {
            is_timed: counts.timed >= ENOUGH_TIMED,
            window_calls,
            window_ns,
            calls: counts.calls,
            call_ns,
            event_ns,
            cheapest_ns: meter.cheapest_ns(),
            ran_ns: counts.ran_ns,
        }
    }
}

/// Returns what a recorded call costs, in nanoseconds: what each call costs where the programs are
/// attached, and the time of the two programs, of which some runs are timed.
fn cost_of_call(floor_ns: u64, counts: CallCounts) -> u64 {
    let (least, most) = COST_NS;
    let cost_ns = if counts.timed < ENOUGH_TIMED {
        floor_ns.saturating_mul(RECORDED_BY_FLOOR)
    } else {
        let each = counts.timed_ns / counts.timed;
        floor_ns.saturating_add(2 * each)
    };
    cost_ns.clamp(least, most)
}

/// The first window. It may cost too much: what a program does first says much, and it may begin
/// when the reader does not look. Half of what is granted later pays for that, so that the other
/// windows do not have to wait for all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FirstWindow {
    calls: u64,
    /// Cost that was granted when it closed, in nanoseconds.
    granted_ns: u64,
}

impl FirstWindow {
    /// Returns what is still to be paid for it once so much is granted, where a call costs
    /// `cost_ns`, in nanoseconds.
    fn owed(self, granted_ns: u64, cost_ns: u64) -> u64 {
        let paid = granted_ns.saturating_sub(self.granted_ns) / 2;
        let paid = paid.saturating_add(self.granted_ns);
        let cost = self.calls.saturating_mul(cost_ns);
        cost.saturating_sub(paid.saturating_add(AT_FIRST_NS))
    }
}

/// The account: what may be spent, and what was.
#[derive(Debug)]
struct Account {
    cost_ns: u64,
    thousandths: u64,
    is_open: bool,
    /// When it was opened or closed last.
    since_ns: u64,
    /// Counts at that time.
    then: CallCounts,
    /// Cost that all windows may have had, as it was known at the last step, in nanoseconds.
    allowed_ns: u64,
    /// The first window, once it has closed, and the number of those since.
    first: Option<FirstWindow>,
    reopened: u64,
    /// Cost of the next window, in nanoseconds.
    next_ns: u64,
    random: u64,
}

impl Account {
    fn new(cost_ns: u64, thousandths: u64, now_ns: u64) -> Self {
        Self {
            cost_ns,
            thousandths,
            is_open: true,
            since_ns: now_ns,
            then: CallCounts::default(),
            allowed_ns: AT_FIRST_NS,
            first: None,
            reopened: 0,
            next_ns: 0,
            random: now_ns | 1,
        }
    }

    /// Returns how many calls there may be since the trace began.
    fn most_calls(&self) -> u64 {
        self.allowed_ns.saturating_add(BRAKE_BEYOND_NS) / self.cost_ns.max(1)
    }

    fn step(&mut self, now_ns: u64, counts: CallCounts) -> Option<WindowStep> {
        let spent = counts.calls.saturating_mul(self.cost_ns);
        let granted = self.granted(counts);
        let first = self.first;
        let owed = first.map_or(0, |first| first.owed(granted, self.cost_ns));
        let allowed = granted.saturating_add(AT_FIRST_NS).saturating_add(owed);
        self.allowed_ns = allowed;
        if self.is_open {
            if spent <= allowed {
                return None;
            }
            self.next_ns = self.cost_of_next(counts);
        } else {
            let is_enough = allowed >= spent.saturating_add(self.next_ns);
            let at_most = match self.reopened {
                0 => SECOND_AFTER_NS,
                _ => CLOSED_AT_MOST_NS,
            };
            let is_late = now_ns.saturating_sub(self.since_ns) >= at_most;
            if !(is_enough || is_late && allowed > spent) {
                return None;
            }
        }
        Some(self.change(now_ns, counts))
    }

    /// Returns the cost that is granted, in nanoseconds.
    fn granted(&self, counts: CallCounts) -> u64 {
        let granted = u128::from(counts.ran_ns) * u128::from(self.thousandths) / 1000;
        u64::try_from(granted).unwrap_or(u64::MAX)
    }

    /// Opens or closes a window.
    fn change(&mut self, now_ns: u64, counts: CallCounts) -> WindowStep {
        self.is_open = !self.is_open;
        let (is_open, cost_ns) = (self.is_open, self.cost_ns);
        tracing::debug!(is_open, cost_ns, ?counts, "windows of system calls");
        (self.since_ns, self.then) = (now_ns, counts);
        self.first.get_or_insert(FirstWindow {
            calls: counts.calls,
            granted_ns: self.granted(counts),
        });
        if self.is_open {
            self.reopened += 1;
            WindowStep::Open
        } else {
            WindowStep::Close
        }
    }

    /// Returns what a window costs in which as many calls are made as in the one that ends.
    fn cost_of_next(&mut self, counts: CallCounts) -> u64 {
        let calls = counts.calls.saturating_sub(self.then.calls);
        let ran_ns = counts.ran_ns.saturating_sub(self.then.ran_ns).max(1);
        let (least, most) = WINDOW_NS;
        let window = least + self.next_random() % (most - least);
        let cost = u128::from(calls) * u128::from(self.cost_ns) * u128::from(window);
        u64::try_from(cost / u128::from(ran_ns)).unwrap_or(u64::MAX)
    }

    /// Returns the next number of a sequence that nothing keeps step with (xorshift).
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tick of the loop, in nanoseconds.
    const TICK: u64 = 10_000_000;

    /// Runs a program that makes so many calls a second, for so many seconds. Returns how much of
    /// the time was in windows, in thousandths, what they have cost of it, and how long the longest
    /// time between two was, in ticks.
    fn run(calls_a_second: u64, seconds: u64) -> (u64, u64, u64) {
        let mut account = Account::new(400, 30, 12345);
        let mut counts = CallCounts::default();
        let (mut open, mut closed, mut longest) = (0, 0, 0);
        let ticks = seconds * 1_000_000_000 / TICK;
        for tick in 1..=ticks {
            counts.ran_ns += TICK;
            if account.is_open {
                open += 1;
                closed = 0;
                counts.calls += calls_a_second * TICK / 1_000_000_000;
            } else {
                closed += 1;
                longest = longest.max(closed);
            }
            account.step(tick * TICK, counts);
        }
        let cost = counts.calls * 400 * 1000 / counts.ran_ns;
        (open * 1000 / ticks, cost, longest)
    }

    #[test]
    fn few_calls_are_recorded_as_a_whole() {
        assert_eq!(run(17_000, 10).0, 1000);
    }

    #[test]
    fn many_calls_are_recorded_in_windows_that_cost_what_was_asked_for() {
        for rate in [100_000, 500_000, 2_000_000] {
            let (open, cost, longest) = run(rate, 20);
            let share = 30 * 1_000_000_000 / (rate * 400);
            assert!(open >= share / 2 && open <= share * 2, "{rate}: {open}");
            assert!((20..=40).contains(&cost), "{rate}: {cost}");
            assert!(longest <= 300, "{rate}: {longest}");
        }
    }

    #[test]
    fn who_makes_fewer_calls_later_is_recorded_again_soon() {
        let mut account = Account::new(400, 30, 12345);
        let mut counts = CallCounts {
            calls: 10_000,
            ran_ns: TICK,
            ..CallCounts::default()
        };
        assert_eq!(account.step(TICK, counts), Some(WindowStep::Close));
        // It runs for a tenth of the time now.
        let mut opened = None;
        for tick in 2..200 {
            counts.ran_ns += TICK / 10;
            if account.step(tick * TICK, counts) == Some(WindowStep::Open) {
                opened = Some(tick);
                break;
            }
        }
        assert!(opened.is_some_and(|tick| tick < 100), "{opened:?}");
    }

    #[test]
    fn a_first_window_that_cost_too_much_does_not_keep_others_from_opening() {
        const CALLS: u64 = 100_000;
        let mut account = Account::new(1000, 10, 12345);
        let mut counts = CallCounts::default();
        let mut opened = Vec::new();
        // It has no CPU for a second, and makes calls without a pause from then on.
        for tick in 1..=3100 {
            if tick > 100 {
                counts.ran_ns += TICK;
                let calls = if account.is_open { CALLS / 100 } else { 0 };
                // The reader comes late at first.
                counts.calls += if tick == 101 { 20 * calls } else { calls };
            }
            let step = account.step(tick * TICK, counts);
            opened.extend((step == Some(WindowStep::Open)).then_some(tick));
        }
        assert!(opened.len() > 10, "{opened:?}");
        assert!(opened[0] < 300, "{opened:?}");
        // 20 ms were spent at first, and are paid for by now.
        let cost = counts.calls * account.cost_ns;
        let bound = counts.ran_ns / 100 + AT_FIRST_NS;
        assert!(cost <= bound + 11_000_000, "{cost} {bound}");
    }

    #[test]
    fn windows_do_not_keep_step() {
        let mut account = Account::new(400, 30, 12345);
        let counts = CallCounts {
            calls: 50_000,
            ran_ns: 100_000_000,
            ..CallCounts::default()
        };
        let costs: Vec<u64> = (0..8).map(|_| account.cost_of_next(counts)).collect();
        assert!(costs.windows(2).all(|two| two[0] != two[1]), "{costs:?}");
    }
}
