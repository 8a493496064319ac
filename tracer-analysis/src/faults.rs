//! Page faults, counted by thread.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::FaultData;
use tracer_engine::event::Event;
use zerocopy::FromBytes;

use crate::rows::Rows;
use crate::state::Thread;

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
}

impl FaultTotal {
    /// All of them.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.user.saturating_add(self.kernel)
    }
}

/// The page faults of all threads.
#[derive(Debug, Default)]
pub struct Faults {
    totals: Rows<Thread, FaultTotal>,
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
        let total = self.totals.of(Thread {
            pid: header.pid,
            tid: header.tid,
        });
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

    /// By thread.
    #[must_use]
    pub fn totals(&self) -> &Rows<Thread, FaultTotal> {
        &self.totals
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::{FromZeros, IntoBytes};

    use super::*;
    use crate::story::{header, thread};

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
        };
        assert_eq!(
            faults.totals().sorted(),
            [(thread(10), &of_10), (thread(11), &of_11)]
        );
        assert_eq!(of_11.all(), 3);
    }
}
