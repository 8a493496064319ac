//! Bounded cost of switches: where recording all of them, with wake-ups and the other events that
//! come as often, would hold the traced programs up by more than was asked for, they are recorded
//! in windows. Between these no program is attached at them, so that they cost nothing. The
//! stream's filter says when that is, as events do.
//!
//! It goes by periods of one to two seconds, whose lengths are chosen at random, so that they do
//! not keep step with the program. A period begins with a window, which ends once its events have
//! cost what the whole period may cost: a part of the CPU time of the traced threads. Who switches
//! seldom is recorded as a whole.

use std::io;
use std::sync::Arc;

use tracer_area::monotonic_now;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::wanted;
use tracer_engine::EventSet;
use tracer_engine::event::MonotonicNs;
use tracer_event::selection::Selection;
use tracer_kernel::{CallRates, WantedMaps};

use super::brake::Brake;
use super::call_windows::WindowStep;
use super::event_cost::{EventCost, FIRST_NS};
use super::own_cost::OwnCost;

/// Types that are recorded in windows. The others say which processes there are, or come seldom.
const TYPES: [EventTypeId; 12] = [
    EventTypeId::SWITCH_OUT,
    EventTypeId::SWITCH_IN,
    EventTypeId::WAKEUP,
    EventTypeId::THROTTLE,
    EventTypeId::MIGRATE,
    EventTypeId::SAMPLE,
    EventTypeId::FAULT_USER,
    EventTypeId::FAULT_KERNEL,
    EventTypeId::IRQ_ENTER,
    EventTypeId::IRQ_EXIT,
    EventTypeId::SOFTIRQ_ENTER,
    EventTypeId::SOFTIRQ_EXIT,
];

/// Types of system calls.
const CALLS: [EventTypeId; 2] = [EventTypeId::SYSCALL_ENTER, EventTypeId::SYSCALL_EXIT];

/// Cost that a window may have beside its part, in nanoseconds: the first one, since what a program
/// does first says much, and each other, so that it shows something.
const BESIDE_NS: (u64, u64) = (20_000_000, 1_000_000);

/// Least and most time of a period, in nanoseconds.
const PERIOD_NS: (u64, u64) = (1_250_000_000, 2_250_000_000);

/// Least time of a window, and of the time between two, in nanoseconds.
const LEAST_NS: u64 = 20_000_000;

/// Most time between two windows, in nanoseconds: the program may switch less by now.
const CLOSED_AT_MOST_NS: u64 = 3_000_000_000;

/// Cost beyond what was asked for at which the [`Brake`] is pulled, in nanoseconds.
const BRAKE_BEYOND_NS: u64 = 1_000_000;

/// Windows in which switches are recorded.
pub struct SwitchWindows {
    rates: Arc<CallRates>,
    maps: WantedMaps,
    types: EventSet,
    /// These types, as bits.
    bits: u64,
    cost: EventCost,
    own: OwnCost,
    account: Account,
    /// Beginning of the trace.
    start: MonotonicNs,
    /// When the window closed that was the last, until the next one is open.
    closed: Option<MonotonicNs>,
    /// Time between windows that are over, in nanoseconds.
    closed_ns: u64,
}

/// Sums since the trace began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    /// Events that are recorded in windows.
    events: u64,
    /// How long traced threads had a CPU in windows, in nanoseconds.
    ran_ns: u64,
}

impl SwitchWindows {
    /// Bounds the cost of events that are recorded in windows, as far as they are among the
    /// `chosen` ones, to this part of the threads' CPU time, in thousandths. `with_calls`: system
    /// calls have no windows of their own, and are recorded in these.
    pub fn new(
        (rates, maps): (Arc<CallRates>, WantedMaps),
        (chosen, with_calls): (&Selection, bool),
        thousandths: u32,
        start: MonotonicNs,
    ) -> Self {
        let calls = CALLS.into_iter().filter(|_| with_calls);
        let (mut types, mut bits) = (EventSet::EMPTY, 0);
        for id in TYPES.into_iter().chain(calls).filter(|id| chosen.has(*id)) {
            types.insert(id);
            bits |= wanted::bit(id);
        }
        let mut cost = EventCost::default();
        cost.begin(&maps, rates.counts(start.0).recorded);
        Self {
            rates,
            maps,
            types,
            bits,
            cost,
            own: OwnCost::new(start.0),
            account: Account::new(thousandths.into(), start.0),
            start,
            closed: None,
            closed_ns: 0,
        }
    }

    /// Returns the types that the stream takes in windows alone.
    pub fn types(&self) -> &EventSet {
        &self.types
    }

    /// Returns the cost of an event for the thread that causes it, in nanoseconds.
    pub fn event_ns(&self) -> u64 {
        self.cost.event_ns()
    }

    /// Tells whether a window is open.
    pub fn is_open(&self) -> bool {
        self.account.is_open
    }

    /// Returns the brake of these windows.
    pub fn brake(&self) -> Brake {
        Brake::new(Arc::clone(&self.rates), self.maps.clone(), self.bits)
    }

    /// Returns how many events there may be since the trace began until the brake is pulled, by
    /// what was known at the last step; `None` between windows.
    pub fn most_recorded(&self) -> Option<u64> {
        self.account.is_open.then(|| self.account.most_events())
    }

    /// Returns what is to be changed now, if anything is, where all events up to `taken` were read:
    /// so many since the trace began. `is_pulled`: the brake has closed the window.
    pub fn step(
        &mut self,
        now: MonotonicNs,
        (taken, events): (MonotonicNs, u64),
        is_pulled: bool,
    ) -> Option<WindowStep> {
        let read_ns = self.own.of_event(now.0, events);
        // Who has not read a window's events yet could not read those of another one either.
        if self.closed.is_some_and(|closed| taken < closed) {
            return None;
        }
        let counts = self.rates.counts(now.0);
        let seen = Sums {
            events: counts.recorded,
            ran_ns: counts.ran_ns,
        };
        if self.account.is_open {
            self.cost.measure(&self.maps, counts.recorded);
        }
        let event_ns = self.cost.event_ns();
        self.account.cost_ns = event_ns.saturating_add(read_ns);
        let step = self.account.step(now.0, seen, is_pulled);
        if let Some(step) = step {
            tracing::debug!(?step, ?seen, event_ns, read_ns, "windows of switches");
        }
        step
    }

    /// Has the events recorded, before the stream takes them.
    ///
    /// # Errors
    ///
    /// The programs cannot be attached: nothing is changed, and it can be tried again.
    pub fn open(&mut self) -> io::Result<()> {
        let opened = self.maps.go_on();
        self.account.is_open = opened.is_ok();
        if opened.is_ok() {
            let recorded = self.rates.counts(monotonic_now().0).recorded;
            self.cost.begin(&self.maps, recorded);
        }
        opened
    }

    /// Has them recorded no more. Returns the moment from which the stream is to take them no more,
    /// which is still to come there.
    pub fn close(&mut self) -> MonotonicNs {
        self.cost.end(self.rates.counts(monotonic_now().0).recorded);
        self.maps.pause(self.bits)
    }

    /// Notes that the stream takes the events from this moment on, or no more.
    pub fn note_change(&mut self, step: WindowStep, at: MonotonicNs) {
        match step {
            WindowStep::Close => self.closed = Some(at),
            WindowStep::Open => {
                self.closed_ns += since(self.closed.take(), at);
            }
        }
    }

    /// Returns the time in windows and all time, in nanoseconds, of a trace that ends at this
    /// moment; `None` where that is the same.
    pub fn part(&self, end: MonotonicNs) -> Option<(u64, u64)> {
        let all = end.0.saturating_sub(self.start.0);
        let closed_ns = self.closed_ns.saturating_add(since(self.closed, end));
        (closed_ns > 0).then_some((all.saturating_sub(closed_ns), all))
    }
}

/// Returns the time from a moment on, if it was there, to another one, in nanoseconds.
fn since(from: Option<MonotonicNs>, to: MonotonicNs) -> u64 {
    from.map_or(0, |from| to.0.saturating_sub(from.0))
}

/// The account: what a period may cost, and what it did.
#[derive(Debug)]
struct Account {
    /// Cost of an event.
    cost_ns: u64,
    thousandths: u64,
    is_open: bool,
    /// Beginning of the period, or of the time after which the window opens again.
    began_ns: u64,
    /// Sums at that time.
    then: Sums,
    /// Cost that the period may have, as it was known at the last step, in nanoseconds.
    allowed_ns: u64,
    period_ns: u64,
    beside_ns: u64,
    random: u64,
}

impl Account {
    fn new(thousandths: u64, now_ns: u64) -> Self {
        let mut account = Self {
            cost_ns: FIRST_NS,
            thousandths,
            is_open: true,
            began_ns: now_ns,
            then: Sums::default(),
            allowed_ns: 0,
            period_ns: 0,
            beside_ns: BESIDE_NS.0,
            random: now_ns | 1,
        };
        account.period_ns = account.next_period();
        account
    }

    /// Returns how many events there may be since the trace began.
    fn most_events(&self) -> u64 {
        let cost = self.allowed_ns.saturating_add(self.beside_ns);
        let cost = cost.saturating_add(BRAKE_BEYOND_NS);
        self.then.events.saturating_add(cost / self.cost_ns.max(1))
    }

    fn step(&mut self, now_ns: u64, seen: Sums, is_pulled: bool) -> Option<WindowStep> {
        let elapsed = now_ns.saturating_sub(self.began_ns);
        if !self.is_open {
            if elapsed < self.period_ns {
                return None;
            }
            self.is_open = true;
            self.begin(now_ns, seen);
            return Some(WindowStep::Open);
        }
        if elapsed < LEAST_NS && !is_pulled {
            return None;
        }
        let elapsed = elapsed.max(1);
        let spent = seen.events.saturating_sub(self.then.events);
        let spent = u128::from(spent) * u128::from(self.cost_ns);
        let ran = u128::from(seen.ran_ns.saturating_sub(self.then.ran_ns));
        // What a second may cost, in nanoseconds.
        let rate = ran * u128::from(self.thousandths) * 1_000_000 / u128::from(elapsed);
        let allowed = rate * u128::from(self.period_ns) / 1_000_000_000;
        self.allowed_ns = u64::try_from(allowed).unwrap_or(u64::MAX);
        if spent <= allowed + u128::from(self.beside_ns) && !is_pulled {
            if elapsed >= self.period_ns {
                self.begin(now_ns, seen);
            }
            return None;
        }
        // It has cost what so long a time may cost.
        let spent = spent.saturating_sub(self.beside_ns.into());
        let whole = spent * 1_000_000_000 / rate.max(1);
        let whole = u64::try_from(whole).unwrap_or(u64::MAX);
        self.is_open = false;
        self.began_ns = now_ns;
        self.period_ns = whole
            .saturating_sub(elapsed)
            .clamp(LEAST_NS, CLOSED_AT_MOST_NS);
        Some(WindowStep::Close)
    }

    fn begin(&mut self, now_ns: u64, seen: Sums) {
        (self.began_ns, self.then) = (now_ns, seen);
        self.beside_ns = BESIDE_NS.1;
        self.period_ns = self.next_period();
    }

    /// Returns a length at random (xorshift).
    fn next_period(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let (least, most) = PERIOD_NS;
        least + self.random % (most - least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tick of the loop, in nanoseconds.
    const TICK: u64 = 10_000_000;

    /// Runs threads that have one CPU together, and cause so many events a second, for so many
    /// seconds. Returns how much of the time was in windows, what these have cost of it, both in
    /// thousandths, and how many there were.
    fn run(events_a_second: u64, seconds: u64) -> (u64, u64, u64) {
        let mut account = Account::new(30, 12345);
        let mut seen = Sums::default();
        let (mut open, mut windows) = (0, 1);
        let ticks = seconds * 1_000_000_000 / TICK;
        for tick in 1..=ticks {
            if account.is_open {
                open += 1;
                seen.ran_ns += TICK;
                seen.events += events_a_second * TICK / 1_000_000_000;
            }
            let step = account.step(12345 + tick * TICK, seen, false);
            windows += u64::from(step == Some(WindowStep::Open));
        }
        let cost = seen.events * FIRST_NS * 1000 / (ticks * TICK);
        (open * 1000 / ticks, cost, windows)
    }

    #[test]
    fn few_switches_are_recorded_as_a_whole() {
        assert_eq!(run(60_000, 20).0, 1000);
        assert_eq!(run(0, 20).0, 1000);
    }

    #[test]
    fn many_switches_are_recorded_in_windows_that_cost_what_was_asked_for() {
        for rate in [150_000, 400_000, 1_500_000] {
            let (open, cost, windows) = run(rate, 60);
            let share = 30 * 1_000_000_000 / (rate * FIRST_NS);
            assert!(open >= share / 2 && open <= share * 2, "{rate}: {open}");
            assert!((20..=45).contains(&cost), "{rate}: {cost}");
            assert!(windows >= 30, "{rate}: {windows}");
        }
    }

    #[test]
    fn a_window_that_the_brake_has_closed_is_closed_at_once() {
        let mut account = Account::new(30, 1);
        let seen = Sums {
            events: account.most_events() + 1,
            ran_ns: 1_000_000,
        };
        assert_eq!(
            account.step(1_000_001, seen, false),
            None,
            "it is too short"
        );
        assert_eq!(account.step(1_000_002, seen, true), Some(WindowStep::Close));
        assert!(!account.is_open);
        assert!(account.period_ns >= LEAST_NS);
    }

    #[test]
    fn the_brake_is_not_pulled_where_the_reader_comes_in_time() {
        for rate in [10_000, 150_000, 400_000] {
            let mut account = Account::new(30, 12345);
            let mut seen = Sums::default();
            for tick in 1..=6000 {
                if account.is_open {
                    seen.ran_ns += TICK;
                    seen.events += rate * TICK / 1_000_000_000;
                    let is_known = tick > 3 && seen.events > account.then.events;
                    let most = account.most_events();
                    // One tick more than the last step knew of.
                    let beyond = rate * TICK / 1_000_000_000;
                    assert!(!is_known || seen.events <= most + beyond, "{rate} {tick}");
                }
                account.step(12345 + tick * TICK, seen, false);
            }
        }
    }

    #[test]
    fn threads_that_hardly_run_are_looked_at_again_all_the_same() {
        let mut account = Account::new(30, 1);
        let mut seen = Sums::default();
        let mut windows = 0;
        for tick in 1..=3000 {
            if account.is_open {
                seen.events += 12_000;
            }
            let step = account.step(1 + tick * TICK, seen, false);
            windows += u64::from(step == Some(WindowStep::Open));
        }
        // 30 s of 1,200,000 events a second, whose threads are said to run for no time.
        assert!((8..=15).contains(&windows), "{windows}");
    }
}
