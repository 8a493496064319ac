//! Gaps of CPUs: a thread had a CPU by the events, and the CPU did nothing, as a hypervisor or the
//! machine's firmware (SMI) may make it.
//!
//! The evidence is the clock that looks at each CPU at a fixed rate (`--sample`). A look that comes
//! late into the program itself, where interrupts are always on, means that the CPU took no
//! interrupt since the look was due. That is no proof:
//!
//! - where it comes into the kernel, which may have had interrupts off;
//! - where it comes at the time of a later one, and those before it may just not be recorded;
//! - where something of the CPU was recorded meanwhile.
//!
//! So a gap is at least as long as it is said to be. What is shorter than the time between two
//! looks is not found.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::SampleData;
use tracer_engine::event::{Event, MonotonicNs};
use zerocopy::FromBytes;

use crate::state::{Interval, State, Thread};
use crate::totals::MOST_CPUS;

/// Shortest gap, in nanoseconds: the kernel itself holds interrupts off for some ten microseconds.
const LEAST: u64 = 500_000;

/// Longest time from the end of a gap to the look that was due, in nanoseconds: other interrupts
/// may come first.
const AT_ONCE: u64 = 1_000_000;

/// That time after a gap in which looks in a row are missing: more interrupts come then.
const AT_ONCE_AFTER_LONG: u64 = 10_000_000;

/// Looks in a row that are missing for no other reason than a gap.
const MISSED_IN_A_ROW: u64 = 5;

/// Part of the time between two looks by which one that is not late may be apart from its time.
const APART: u64 = 8;

/// A gap of the CPU that a thread had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuGap {
    /// The thread.
    pub thread: Thread,
    /// When it had begun, at the latest.
    pub from: MonotonicNs,
    /// When it had not ended, at the earliest.
    pub to: MonotonicNs,
}

/// Where a look has found a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FoundIn {
    /// It is not known.
    #[default]
    Unknown,
    /// In the kernel.
    Kernel,
    /// In the program, or stacks do not have the kernel's part.
    Program,
}

/// Looks at a CPU, and what came since the last one.
#[derive(Clone, Copy, Debug)]
struct Watch {
    /// The last look that was recorded.
    looked: MonotonicNs,
    /// Time between two looks.
    period: u64,
    /// When a thread got the CPU.
    got: MonotonicNs,
    /// The first event after the next look was due.
    first_after: Option<MonotonicNs>,
}

impl Watch {
    /// Returns when the next look is due, at the latest.
    fn due(&self) -> MonotonicNs {
        MonotonicNs(self.looked.max(self.got).0.saturating_add(self.period))
    }
}

/// Looks at CPUs, and the gaps that they show.
#[derive(Debug, Default)]
pub struct CpuGaps {
    cpus: HashMap<u32, Watch, RandomState>,
    /// Whether stacks have the kernel's part: one was there.
    has_kernels_part: bool,
}

impl CpuGaps {
    /// Notes that events are missing.
    pub fn lose(&mut self) {
        self.cpus.clear();
    }

    /// Goes on by one event of a thread, which was in `current` before. `found_in` is that of a
    /// look. Returns the gap that the event shows.
    pub fn feed(
        &mut self,
        event: &Event<'_>,
        found_in: FoundIn,
        current: impl FnOnce() -> Option<Interval>,
    ) -> Option<CpuGap> {
        let header = event.header;
        self.has_kernels_part |= found_in == FoundIn::Kernel;
        if header.event_type == EventTypeId::SAMPLE {
            return self.look(event, found_in, current()?);
        }
        if self.cpus.is_empty() {
            return None;
        }
        // What a program says does not have its CPU.
        let cpu = header.cpu.or_else(|| current()?.cpu)?;
        let watch = self.cpus.get_mut(&cpu)?;
        if header.event_type == EventTypeId::SWITCH_IN {
            (watch.got, watch.first_after) = (header.time, None);
        } else if watch.first_after.is_none() && header.time > watch.due() {
            watch.first_after = Some(header.time);
        }
        None
    }

    fn look(&mut self, event: &Event<'_>, found_in: FoundIn, current: Interval) -> Option<CpuGap> {
        let at = event.header.time;
        let cpu = event.header.cpu?;
        let (data, _) = SampleData::read_from_prefix(event.data).ok()?;
        let period = data.sampled_ns;
        if self.cpus.len() >= MOST_CPUS && !self.cpus.contains_key(&cpu) {
            return None;
        }
        let got = current.from;
        let is_running = current.state == State::Running && current.cpu == Some(cpu);
        let new = Watch {
            looked: at,
            period,
            got,
            first_after: None,
        };
        let before = self.cpus.insert(cpu, new)?;
        let is_known = is_running && before.period == period && period > 0;
        if !is_known || found_in != FoundIn::Program || !self.has_kernels_part {
            return None;
        }
        let before = Watch { got, ..before };
        let (due, end) = (before.due(), before.first_after.unwrap_or(at));
        let is_long = end.0.saturating_sub(due.0) >= LEAST;
        let beside = at.0.saturating_sub(before.looked.0) % period;
        let is_late = (period / APART..period - period / APART).contains(&beside);
        let are_missed = end.0.saturating_sub(due.0) / period >= MISSED_IN_A_ROW;
        let at_once = if are_missed {
            AT_ONCE_AFTER_LONG
        } else {
            AT_ONCE
        };
        let is_at_once = at.0.saturating_sub(end.0) <= at_once;
        let is_gap = is_long && is_at_once && (is_late || are_missed);
        is_gap.then_some(CpuGap {
            thread: current.thread,
            from: due,
            to: end,
        })
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;
    use crate::state::IntervalEnd;
    use crate::story::{header, thread};

    const MS: u64 = 1_000_000;

    /// A CPU that is looked at once a millisecond, and thread 1, which got it at 0.
    struct Machine {
        gaps: CpuGaps,
        got: u64,
    }

    impl Machine {
        fn new() -> Self {
            let mut machine = Self {
                gaps: CpuGaps::default(),
                got: 0,
            };
            assert_eq!(machine.look(MS, FoundIn::Kernel), None);
            machine
        }

        fn event(
            &mut self,
            at: u64,
            event_type: EventTypeId,
            found_in: FoundIn,
            data: &[u8],
        ) -> Option<(u64, u64)> {
            let event = Event {
                header: header(at, event_type, 1, 0),
                data,
            };
            let current = Interval {
                thread: thread(1),
                state: State::Running,
                from: MonotonicNs(self.got),
                to: MonotonicNs(at),
                end: IntervalEnd::Open,
                cpu: Some(0),
                waits_since: MonotonicNs(self.got),
            };
            let gap = self.gaps.feed(&event, found_in, || Some(current));
            gap.map(|gap| (gap.from.0, gap.to.0))
        }

        fn look(&mut self, at: u64, found_in: FoundIn) -> Option<(u64, u64)> {
            let data = SampleData { sampled_ns: MS };
            self.event(at, EventTypeId::SAMPLE, found_in, data.as_bytes())
        }

        fn other(&mut self, at: u64) {
            assert_eq!(
                self.event(at, EventTypeId::FAULT_USER, FoundIn::Unknown, &[]),
                None
            );
        }
    }

    #[test]
    fn a_look_that_comes_late_into_the_program_shows_a_gap() {
        let mut machine = Machine::new();
        // It was due at 2 ms; the next ones come in their time again.
        assert_eq!(
            machine.look(7_400_000, FoundIn::Program),
            Some((2 * MS, 7_400_000))
        );
        assert_eq!(machine.look(8 * MS, FoundIn::Program), None);
        assert_eq!(machine.look(9 * MS, FoundIn::Program), None);
        // One that got its CPU after the last look.
        machine.got = 20_300_000;
        assert_eq!(
            machine.look(24_600_000, FoundIn::Program),
            Some((21_300_000, 24_600_000))
        );
    }

    #[test]
    fn where_it_may_be_something_else_there_is_none() {
        // The kernel may have had interrupts off.
        for found_in in [FoundIn::Kernel, FoundIn::Unknown] {
            assert_eq!(Machine::new().look(7_400_000, found_in), None);
        }
        // A look or three may not be recorded, six in a row are.
        assert_eq!(Machine::new().look(5 * MS, FoundIn::Program), None);
        assert_eq!(Machine::new().look(5 * MS + 90_000, FoundIn::Program), None);
        assert_eq!(
            Machine::new().look(8 * MS, FoundIn::Program),
            Some((2 * MS, 8 * MS))
        );
        // As late as an interrupt may be.
        assert_eq!(Machine::new().look(2_400_000, FoundIn::Program), None);
        // It went on in between.
        let mut machine = Machine::new();
        machine.other(3_600_000);
        assert_eq!(machine.look(7_400_000, FoundIn::Program), None);
        // Events are missing.
        let mut machine = Machine::new();
        machine.gaps.lose();
        assert_eq!(machine.look(7_400_000, FoundIn::Program), None);
        // Stacks without the kernel's part do not say where it was.
        let mut machine = Machine::new();
        machine.gaps.has_kernels_part = false;
        assert_eq!(machine.look(7_400_000, FoundIn::Program), None);
    }

    #[test]
    fn what_comes_right_before_the_look_ends_the_gap() {
        let mut machine = Machine::new();
        machine.other(1_500_000);
        machine.other(7_300_000);
        machine.other(7_350_000);
        assert_eq!(
            machine.look(7_400_000, FoundIn::Program),
            Some((2 * MS, 7_300_000))
        );
    }
}
