//! Signals, counted by process and signal.

use std::mem::offset_of;

use tracer_common::event_type::{EventTypeId, read_grown};
use tracer_common::kernel::{COMM_BYTES, SignalDeliverData, SignalGenerateData, signal_result};
use tracer_engine::event::Event;
use zerocopy::FromBytes;

use crate::rows::TotalsByKey;

/// Instead of a handler: what the kernel does by default (`SIG_DFL`), and nothing (`SIG_IGN`).
const DEFAULT: u64 = 0;
const IGNORE: u64 = 1;

/// A signal to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SignalKey {
    /// The process that it was sent to, or to a thread of.
    pub pid: i32,
    /// The signal number.
    pub signal: u32,
}

/// How often a signal was sent to a process, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignalTotal {
    /// Times that it was sent.
    pub sent: u64,
    /// Times that the process ignored it.
    pub ignored: u64,
    /// Times that it was pending already.
    pub pending: u64,
    /// Times that it was lost, since the queue of the process was full.
    pub lost: u64,
    /// Times that it was sent without its `siginfo_t`, since the queue of the process was full.
    pub without_info: u64,
    /// Times that a thread took it.
    pub taken: u64,
    /// Times that it was taken by a handler.
    pub handled: u64,
    /// Times that it was taken for what the kernel does by default.
    pub by_default: u64,
    /// Times that it was taken for nothing: the process ignores it by now.
    pub dropped: u64,
    /// The name of the thread that it was sent to last.
    pub comm: [u8; COMM_BYTES],
}

/// The signals of all processes.
#[derive(Debug, Default)]
pub struct Signals {
    totals: TotalsByKey<SignalKey, SignalTotal>,
}

impl Signals {
    /// Goes on by one event.
    pub fn feed(&mut self, event: &Event<'_>) {
        match event.header.event_type {
            EventTypeId::SIGNAL_GENERATE => {
                if let Ok((data, _)) = SignalGenerateData::read_from_prefix(event.data) {
                    self.send(&data);
                }
            }
            EventTypeId::SIGNAL_DELIVER => {
                if let Some(data) = read_taken(event.data) {
                    self.take(event.header.pid, &data);
                }
            }
            _ => {}
        }
    }

    fn send(&mut self, data: &SignalGenerateData) {
        let total = self.totals.get_or_insert(SignalKey {
            pid: data.target_pid.cast_signed(),
            signal: data.signal,
        });
        total.comm = data.target_comm;
        add_one(&mut total.sent);
        match data.result {
            signal_result::IGNORED => add_one(&mut total.ignored),
            signal_result::PENDING => add_one(&mut total.pending),
            signal_result::OVERFLOW => add_one(&mut total.lost),
            signal_result::WITHOUT_INFO => add_one(&mut total.without_info),
            _ => {}
        }
    }

    fn take(&mut self, pid: i32, data: &SignalDeliverData) {
        let signal = data.signal;
        let total = self.totals.get_or_insert(SignalKey { pid, signal });
        add_one(&mut total.taken);
        match data.handler {
            DEFAULT => add_one(&mut total.by_default),
            IGNORE => add_one(&mut total.dropped),
            _ => add_one(&mut total.handled),
        }
    }

    /// Returns the totals by process and signal.
    #[must_use]
    pub fn totals(&self) -> &TotalsByKey<SignalKey, SignalTotal> {
        &self.totals
    }
}

/// Reads the data of a signal that is taken, which had less in earlier versions.
fn read_taken(untrusted: &[u8]) -> Option<SignalDeliverData> {
    read_grown(untrusted, offset_of!(SignalDeliverData, address))
}

fn add_one(count: &mut u64) {
    *count = count.saturating_add(1);
}

#[cfg(test)]
mod tests {
    use zerocopy::{FromZeros, IntoBytes};

    use super::*;
    use crate::story::{PID, header};

    fn send(signals: &mut Signals, to: u32, signal: u32, result: u32) {
        let mut data = SignalGenerateData::new_zeroed();
        (data.target_pid, data.signal, data.result) = (to, signal, result);
        signals.feed(&Event {
            header: header(1, EventTypeId::SIGNAL_GENERATE, 11, 0),
            data: data.as_bytes(),
        });
    }

    fn take(signals: &mut Signals, signal: u32, handler: u64) {
        let mut data = SignalDeliverData::new_zeroed();
        (data.signal, data.handler) = (signal, handler);
        signals.feed(&Event {
            header: header(1, EventTypeId::SIGNAL_DELIVER, 11, 0),
            data: data.as_bytes(),
        });
    }

    #[test]
    fn signals_are_their_receivers_with_what_became_of_them() {
        let mut signals = Signals::default();
        for result in [0, 0, 1, 2, 3, 4, 99] {
            send(&mut signals, 20, 12, result);
        }
        send(
            &mut signals,
            PID.unsigned_abs(),
            15,
            signal_result::DELIVERED,
        );
        for handler in [0x5555_0000, 0x5555_0000, DEFAULT, IGNORE] {
            take(&mut signals, 15, handler);
        }

        let [(first, of_15), (second, of_12)] = signals.totals().sorted()[..] else {
            panic!("{signals:?}");
        };
        assert_eq!((first.pid, first.signal), (PID, 15));
        let expected = SignalTotal {
            sent: 1,
            taken: 4,
            handled: 2,
            by_default: 1,
            dropped: 1,
            ..SignalTotal::default()
        };
        assert_eq!(*of_15, expected);
        assert_eq!((second.pid, second.signal), (20, 12));
        let expected = SignalTotal {
            sent: 7,
            ignored: 1,
            pending: 1,
            lost: 1,
            without_info: 1,
            ..SignalTotal::default()
        };
        assert_eq!(*of_12, expected);
    }
}
