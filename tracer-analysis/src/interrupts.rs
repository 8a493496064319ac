//! Interrupts of devices and soft interrupts, with how long they took.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{IRQ_NAME_BYTES, IrqEnterData, IrqExitData, SoftirqData};
use tracer_engine::event::{Event, MonotonicNs};
use zerocopy::FromBytes;

use crate::rows::TotalsByKey;
use crate::totals::MOST_CPUS;

/// Source of an interrupt of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Interrupt {
    /// The handler of a device's interrupt: the interrupt's identifier, and the handler's name,
    /// ended by a null.
    Device(u32, [u8; IRQ_NAME_BYTES]),
    /// A soft interrupt: the row of `/proc/softirqs`, from 0.
    Soft(u32),
}

/// An interrupt of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InterruptKey {
    /// Where; `None` where the event does not say so.
    pub cpu: Option<u32>,
    /// By what.
    pub interrupt: Interrupt,
}

/// How often an interrupt came, and how long it took. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterruptTotal {
    /// Times that it began.
    pub count: u64,
    /// Times that its end was seen too.
    pub ended: u64,
    /// How long they took together.
    pub took: u64,
    /// How long the longest took.
    pub longest: u64,
}

impl InterruptTotal {
    /// Returns the mean; `None` where no end was seen.
    #[must_use]
    pub fn mean(&self) -> Option<u64> {
        self.took.checked_div(self.ended)
    }

    /// Returns the longest; `None` where no end was seen.
    #[must_use]
    pub fn longest(&self) -> Option<u64> {
        (self.ended > 0).then_some(self.longest)
    }
}

/// An interrupt of which beginning and end were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptRun {
    /// Interrupt, and where it came.
    pub key: InterruptKey,
    /// When it began.
    pub from: MonotonicNs,
    /// When it ended.
    pub to: MonotonicNs,
}

impl InterruptRun {
    /// Returns how long it took, in nanoseconds.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.to.0.saturating_sub(self.from.0)
    }
}

/// Kind of interrupt: a soft interrupt may be interrupted by a device, and neither by its own kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Device,
    Soft,
}

/// The interrupts of all CPUs.
#[derive(Debug, Default)]
pub struct Interrupts {
    open: HashMap<(u32, Kind), (Interrupt, MonotonicNs), RandomState>,
    totals: TotalsByKey<InterruptKey, InterruptTotal>,
    /// Up to then, events may be missing.
    whole_since: MonotonicNs,
}

impl Interrupts {
    /// Notes that events are missing before the next one, and others may be until this moment;
    /// without one, from now on.
    pub fn lose(&mut self, until: Option<MonotonicNs>) {
        self.open.clear();
        let until = until.unwrap_or(MonotonicNs(u64::MAX));
        self.whole_since = self.whole_since.max(until);
    }

    /// Goes on by one event: the interrupt that it ends.
    pub fn feed(&mut self, event: &Event<'_>) -> Option<InterruptRun> {
        match event.header.event_type {
            EventTypeId::IRQ_ENTER => {
                if let Ok((data, _)) = IrqEnterData::read_from_prefix(event.data) {
                    let interrupt = Interrupt::Device(data.irq, up_to_null(data.name));
                    self.begin(event, Kind::Device, interrupt);
                }
            }
            EventTypeId::IRQ_EXIT => {
                if let Ok((data, _)) = IrqExitData::read_from_prefix(event.data) {
                    return self.end(event, Kind::Device, data.irq);
                }
            }
            EventTypeId::SOFTIRQ_ENTER => {
                if let Ok((data, _)) = SoftirqData::read_from_prefix(event.data) {
                    self.begin(event, Kind::Soft, Interrupt::Soft(data.vector));
                }
            }
            EventTypeId::SOFTIRQ_EXIT => {
                if let Ok((data, _)) = SoftirqData::read_from_prefix(event.data) {
                    return self.end(event, Kind::Soft, data.vector);
                }
            }
            _ => {}
        }
        None
    }

    fn begin(&mut self, event: &Event<'_>, kind: Kind, interrupt: Interrupt) {
        let (cpu, at) = (event.header.cpu, event.header.time);
        let total = self.totals.get_or_insert(InterruptKey { cpu, interrupt });
        total.count = total.count.saturating_add(1);
        let Some(cpu) = cpu else {
            return;
        };
        // The end of the one before was not seen.
        self.open.remove(&(cpu, kind));
        if at >= self.whole_since && self.open.len() < MOST_CPUS {
            self.open.insert((cpu, kind), (interrupt, at));
        }
    }

    fn end(&mut self, event: &Event<'_>, kind: Kind, id: u32) -> Option<InterruptRun> {
        let cpu = event.header.cpu;
        let (interrupt, from) = self.open.remove(&(cpu?, kind))?;
        let (Interrupt::Device(begun, _) | Interrupt::Soft(begun)) = interrupt;
        if begun != id {
            return None;
        }
        let key = InterruptKey { cpu, interrupt };
        let to = event.header.time;
        let run = InterruptRun { key, from, to };
        let ns = run.ns();
        let total = self.totals.get_or_insert(key);
        total.ended = total.ended.saturating_add(1);
        total.took = total.took.saturating_add(ns);
        total.longest = total.longest.max(ns);
        Some(run)
    }

    /// Returns the totals by CPU and interrupt.
    #[must_use]
    pub fn totals(&self) -> &TotalsByKey<InterruptKey, InterruptTotal> {
        &self.totals
    }
}

/// Clears the bytes behind the null, which are no part of the name.
fn up_to_null(mut name: [u8; IRQ_NAME_BYTES]) -> [u8; IRQ_NAME_BYTES] {
    let rest = name.iter_mut().skip_while(|byte| **byte != 0);
    rest.for_each(|byte| *byte = 0);
    name
}

#[cfg(test)]
mod tests {
    use zerocopy::{FromZeros, IntoBytes};

    use super::*;
    use crate::story::header;

    const DISK: &[u8] = b"disk\0and more";
    const NET: &[u8] = b"net";

    #[derive(Default)]
    struct Machine(Interrupts);

    impl Machine {
        fn event(&mut self, at: u64, event_type: EventTypeId, cpu: u32, data: &[u8]) {
            let header = header(at, event_type, 0, cpu);
            self.0.feed(&Event { header, data });
        }

        fn enter(&mut self, at: u64, cpu: u32, irq: u32, name: &[u8]) {
            let mut data = IrqEnterData::new_zeroed();
            data.irq = irq;
            data.name[..name.len()].copy_from_slice(name);
            self.event(at, EventTypeId::IRQ_ENTER, cpu, data.as_bytes());
        }

        fn exit(&mut self, at: u64, cpu: u32, irq: u32) {
            let mut data = IrqExitData::new_zeroed();
            data.irq = irq;
            self.event(at, EventTypeId::IRQ_EXIT, cpu, data.as_bytes());
        }

        fn soft(&mut self, at: u64, event_type: EventTypeId, cpu: u32, vector: u32) {
            let mut data = SoftirqData::new_zeroed();
            data.vector = vector;
            self.event(at, event_type, cpu, data.as_bytes());
        }

        /// CPU, name or row, and the total of each.
        fn totals(&self) -> Vec<(Option<u32>, String, InterruptTotal)> {
            let totals = self.0.totals().sorted().into_iter();
            let totals = totals.map(|(key, total)| {
                let name = match key.interrupt {
                    Interrupt::Device(irq, name) => {
                        let name = String::from_utf8_lossy(&name).into_owned();
                        format!("{irq} {}", name.trim_end_matches('\0'))
                    }
                    Interrupt::Soft(vector) => vector.to_string(),
                };
                (key.cpu, name, total.clone())
            });
            totals.collect()
        }
    }

    fn total(count: u64, ended: u64, took: u64, longest: u64) -> InterruptTotal {
        InterruptTotal {
            count,
            ended,
            took,
            longest,
        }
    }

    #[test]
    fn each_cpu_has_its_own_and_a_device_may_interrupt_a_soft_one() {
        let mut machine = Machine::default();
        machine.soft(10, EventTypeId::SOFTIRQ_ENTER, 0, 3);
        machine.enter(20, 0, 25, DISK);
        machine.enter(21, 1, 25, DISK);
        machine.exit(25, 0, 25);
        machine.exit(29, 1, 25);
        machine.soft(40, EventTypeId::SOFTIRQ_EXIT, 0, 3);
        // Two handlers share an interrupt: they run one after the other.
        machine.enter(50, 0, 25, DISK);
        machine.exit(57, 0, 25);
        machine.enter(57, 0, 25, NET);
        machine.exit(58, 0, 25);
        assert_eq!(
            machine.totals(),
            [
                (Some(0), "25 disk".to_owned(), total(2, 2, 12, 7)),
                (Some(0), "25 net".to_owned(), total(1, 1, 1, 1)),
                (Some(0), "3".to_owned(), total(1, 1, 30, 30)),
                (Some(1), "25 disk".to_owned(), total(1, 1, 8, 8)),
            ]
        );
    }

    #[test]
    fn what_lacks_an_end_or_a_beginning_has_no_time() {
        let mut machine = Machine::default();
        machine.exit(5, 0, 25);
        machine.enter(10, 0, 25, DISK);
        machine.enter(90, 0, 26, NET);
        machine.exit(95, 0, 25);
        machine.exit(99, 0, 26);
        machine.soft(100, EventTypeId::SOFTIRQ_ENTER, 0, 1);
        let expected = [
            (Some(0), "25 disk".to_owned(), total(1, 0, 0, 0)),
            (Some(0), "26 net".to_owned(), total(1, 0, 0, 0)),
            (Some(0), "1".to_owned(), total(1, 0, 0, 0)),
        ];
        assert_eq!(machine.totals(), expected);
        let alone = total(1, 0, 0, 0);
        assert_eq!((alone.mean(), alone.longest()), (None, None));
    }

    #[test]
    fn what_began_before_a_loss_or_where_events_may_be_missing_has_no_time() {
        let mut machine = Machine::default();
        machine.enter(10, 0, 25, DISK);
        machine.0.lose(Some(MonotonicNs(50)));
        machine.exit(20, 0, 25);
        machine.enter(30, 0, 25, DISK);
        machine.exit(60, 0, 25);
        assert_eq!(machine.totals()[0].2, total(2, 0, 0, 0));
        machine.enter(70, 0, 25, DISK);
        machine.exit(74, 0, 25);
        assert_eq!(machine.totals()[0].2, total(3, 1, 4, 4));
        machine.0.lose(None);
        machine.enter(80, 0, 25, DISK);
        machine.exit(84, 0, 25);
        assert_eq!(machine.totals()[0].2, total(4, 1, 4, 4));
    }

    #[test]
    fn cpus_and_names_of_a_hostile_log_are_bounded_and_all_are_counted() {
        let mut machine = Machine::default();
        for nth in 0..100_000_u32 {
            machine.enter(1, nth, nth, &nth.to_ne_bytes());
        }
        assert_eq!(machine.0.open.len(), MOST_CPUS);
        let rows = machine.0.totals();
        let counted = rows.sorted().len() as u64 + rows.others().map_or(0, |one| one.count);
        assert_eq!(counted, 100_000);
        // A clock that goes back, and a sum that is too long.
        let mut machine = Machine::default();
        machine.enter(100, 0, 1, NET);
        machine.exit(50, 0, 1);
        for _ in 0..2 {
            machine.enter(0, 0, 1, NET);
            machine.exit(u64::MAX, 0, 1);
        }
        assert_eq!(machine.totals()[0].2, total(3, 3, u64::MAX, u64::MAX));
    }
}
