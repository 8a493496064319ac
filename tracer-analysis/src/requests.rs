//! Requests to block devices, with how long the devices took.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{BlockCompleteData, BlockIssueData};
use tracer_engine::event::{Event, MonotonicNs};
use zerocopy::FromBytes;

use crate::durations::Durations;
use crate::rows::TotalsByKey;

/// Requests that are followed at a time: more than devices take.
const MOST_OPEN: usize = 65_536;

/// A kind of request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestKey {
    /// Major number of the device.
    pub major: u32,
    /// Minor number of the device.
    pub minor: u32,
    /// Operation: `enum req_op` of the kernel.
    pub operation: u32,
}

/// Totals of all such requests.
#[derive(Clone, Debug, Default)]
pub struct RequestTotal {
    /// Times that one went to the device.
    pub issued: u64,
    /// How much they asked for.
    pub bytes: u64,
    /// Times that the device could not do it.
    pub failed: u64,
    /// How long the device took, where both were seen.
    pub took: Durations,
}

/// The requests to all devices.
#[derive(Debug, Default)]
pub struct Requests {
    /// By device, operation and sector: when it went there.
    open: HashMap<(RequestKey, u64), MonotonicNs, RandomState>,
    totals: TotalsByKey<RequestKey, RequestTotal>,
}

impl Requests {
    /// Notes that events were lost before the next one: what is under way may have ended.
    pub fn lose(&mut self) {
        self.open.clear();
    }

    /// Goes on by one event, which counts or only says when a request began.
    pub fn feed(&mut self, event: &Event<'_>, is_counted: bool) {
        match event.header.event_type {
            EventTypeId::BLOCK_ISSUE => {
                let Ok((data, _)) = BlockIssueData::read_from_prefix(event.data) else {
                    return;
                };
                let key = RequestKey {
                    major: data.major,
                    minor: data.minor,
                    operation: data.operation,
                };
                let at = (key, data.sector);
                if self.open.len() < MOST_OPEN || self.open.contains_key(&at) {
                    self.open.insert(at, event.header.time);
                }
                if is_counted {
                    let total = self.totals.get_or_insert(key);
                    total.issued += 1;
                    total.bytes = total.bytes.saturating_add(data.bytes.into());
                }
            }
            EventTypeId::BLOCK_COMPLETE => {
                let Ok((data, _)) = BlockCompleteData::read_from_prefix(event.data) else {
                    return;
                };
                let key = RequestKey {
                    major: data.major,
                    minor: data.minor,
                    operation: data.operation,
                };
                let from = self.open.remove(&(key, data.sector));
                if is_counted {
                    let total = self.totals.get_or_insert(key);
                    total.failed += u64::from(data.status != 0);
                    if let Some(from) = from {
                        total.took.add(event.header.time.0.saturating_sub(from.0));
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the totals by device and operation.
    #[must_use]
    pub fn totals(&self) -> &TotalsByKey<RequestKey, RequestTotal> {
        &self.totals
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::{FromZeros, IntoBytes};

    use super::*;
    use crate::story::header;

    fn issue(requests: &mut Requests, at: u64, minor: u32, sector: u64) {
        let mut data = BlockIssueData::new_zeroed();
        (data.major, data.minor, data.sector, data.bytes) = (8, minor, sector, 4096);
        let header = header(at, EventTypeId::BLOCK_ISSUE, 10, 0);
        let data = data.as_bytes();
        requests.feed(&Event { header, data }, at >= 10);
    }

    fn complete(requests: &mut Requests, at: u64, minor: u32, sector: u64, status: i32) {
        let mut data = BlockCompleteData::new_zeroed();
        (data.major, data.minor, data.sector, data.status) = (8, minor, sector, status);
        let header = header(at, EventTypeId::BLOCK_COMPLETE, 10, 0);
        let data = data.as_bytes();
        requests.feed(&Event { header, data }, at >= 10);
    }

    #[test]
    fn each_request_takes_from_its_issue_to_its_completion() {
        let mut requests = Requests::default();
        issue(&mut requests, 5, 0, 100);
        issue(&mut requests, 10, 0, 200);
        issue(&mut requests, 11, 1, 200);
        complete(&mut requests, 30, 0, 200, 0);
        complete(&mut requests, 35, 0, 100, 5);
        requests.lose();
        complete(&mut requests, 40, 1, 200, 0);
        requests.feed(
            &Event {
                header: header(50, EventTypeId::BLOCK_ISSUE, 10, 0),
                data: b"x",
            },
            true,
        );
        let of = |minor| {
            let all = requests.totals().sorted().into_iter();
            let mut of = all.filter(move |(key, _)| key.minor == minor);
            of.next().unwrap().1.clone()
        };
        let (first, second) = (of(0), of(1));
        assert_eq!((first.issued, first.bytes, first.failed), (1, 4096, 1));
        assert_eq!((first.took.count(), first.took.total()), (2, 50));
        assert_eq!((second.issued, second.took.count()), (1, 0));
    }
}
