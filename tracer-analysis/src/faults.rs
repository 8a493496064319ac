//! Page faults, counted by thread.

use std::collections::HashSet;

use foldhash::fast::RandomState;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::FaultData;
use tracer_engine::event::Event;
use zerocopy::FromBytes;

use crate::rows::TotalsByKey;
use crate::state::{Inside, Interval, State, Thread};

/// Threads of which the last fault is known.
const MOST_THREADS: usize = 65_536;

/// Page faults of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultTotal {
    /// Of the program.
    pub user: u64,
    /// Of the kernel while it served the thread.
    pub kernel: u64,
    /// Of all these, by a write.
    pub writes: u64,
    /// By the fetch of an instruction.
    pub fetches: u64,
    /// A page was there and was not to be accessed so, as when it is copied on write.
    pub protection: u64,
    /// The thread waited for a device meanwhile, as for a page that is read from a disk.
    pub waited: u64,
}

impl FaultTotal {
    /// Returns the sum of them all.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.user.saturating_add(self.kernel)
    }
}

/// The page faults of all threads.
#[derive(Debug, Default)]
pub struct Faults {
    totals: TotalsByKey<Thread, FaultTotal>,
    /// Threads whose last fault is not known to have waited.
    last: HashSet<Thread, RandomState>,
}

impl Faults {
    /// Goes on by one event.
    pub fn feed(&mut self, event: &Event<'_>) {
        let header = event.header;
        let is_users = match header.event_type {
            EventTypeId::FAULT_USER => true,
            EventTypeId::FAULT_KERNEL => false,
            _ => return,
        };
        let Ok((data, _)) = FaultData::read_from_prefix(event.data) else {
            return;
        };
        let thread = Thread {
            pid: header.pid,
            tid: header.tid,
        };
        if self.last.len() < MOST_THREADS {
            self.last.insert(thread);
        }
        let total = self.totals.get_or_insert(thread);
        for (count, is_so) in [
            (&mut total.user, is_users),
            (&mut total.kernel, !is_users),
            (&mut total.writes, data.write != 0),
            (&mut total.fetches, data.fetch != 0),
            (&mut total.protection, data.protection != 0),
        ] {
            *count = count.saturating_add(u64::from(is_so));
        }
    }

    /// Notes what a thread did: a fault in which it waits for a device is one that has waited,
    /// once, however often it does.
    pub fn note(&mut self, interval: &Interval) {
        if let State::Blocked(reason) = interval.state
            && reason.inside == Inside::Fault
            && reason.is_io
            && self.last.remove(&interval.thread)
        {
            let total = self.totals.get_or_insert(interval.thread);
            total.waited = total.waited.saturating_add(1);
        }
    }

    /// Returns the totals by thread.
    #[must_use]
    pub fn totals(&self) -> &TotalsByKey<Thread, FaultTotal> {
        &self.totals
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::{FromZeros, IntoBytes};

    use super::*;
    use crate::state::{IntervalEnd, Reason};
    use crate::story::{header, thread};
    use tracer_engine::event::MonotonicNs;

    #[test]
    fn a_fault_that_waits_for_a_device_is_counted_once() {
        let mut faults = Faults::default();
        let wait = |is_io| Interval {
            thread: thread(11),
            state: State::Blocked(Reason {
                inside: Inside::Fault,
                is_io,
                ..Reason::default()
            }),
            from: MonotonicNs(1),
            to: MonotonicNs(2),
            end: IntervalEnd::Unsaid,
            cpu: None,
            waits_since: MonotonicNs(1),
        };
        // Nothing is said of faults that are not recorded.
        faults.note(&wait(true));
        assert!(faults.totals().sorted().is_empty());
        let data = FaultData::new_zeroed();
        for waits in [&[true, true][..], &[false], &[]] {
            faults.feed(&Event {
                header: header(1, EventTypeId::FAULT_USER, 11, 0),
                data: data.as_bytes(),
            });
            waits.iter().for_each(|is_io| faults.note(&wait(*is_io)));
        }
        let totals = faults.totals().sorted();
        assert_eq!((totals[0].1.all(), totals[0].1.waited), (3, 1));
    }

    #[test]
    fn faults_are_counted_by_thread_and_by_what_the_event_says() {
        let mut faults = Faults::default();
        for (event_type, tid, write, fetch, protection) in [
            (EventTypeId::FAULT_USER, 11, 1, 0, 1),
            (EventTypeId::FAULT_USER, 11, 0, 1, 0),
            (EventTypeId::FAULT_KERNEL, 11, 1, 0, 0),
            (EventTypeId::FAULT_KERNEL, 10, 0, 0, 0),
            (EventTypeId::EXIT, 10, 1, 1, 1),
        ] {
            let mut data = FaultData::new_zeroed();
            (data.write, data.fetch, data.protection) = (write, fetch, protection);
            faults.feed(&Event {
                header: header(1, event_type, tid, 0),
                data: data.as_bytes(),
            });
        }
        // One of which the data is not there says nothing.
        faults.feed(&Event {
            header: header(1, EventTypeId::FAULT_USER, 10, 0),
            data: &[0; 8],
        });

        let of_10 = FaultTotal {
            kernel: 1,
            ..FaultTotal::default()
        };
        let of_11 = FaultTotal {
            user: 2,
            kernel: 1,
            writes: 2,
            fetches: 1,
            protection: 1,
            waited: 0,
        };
        assert_eq!(
            faults.totals().sorted(),
            [(thread(10), &of_10), (thread(11), &of_11)]
        );
        assert_eq!(of_11.all(), 3);
    }
}
