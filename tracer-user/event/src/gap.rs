//! Gaps, where events are missing.

use tracer_common::event_type::EventTypeId;
use tracer_engine::EventSet;
use tracer_engine::event::{Event, MonotonicNs};
use tracer_engine::source::LossCause;

/// Gap: events are missing before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Time of the next event that is not missing, or an earlier time.
    pub next: MonotonicNs,
    /// Earliest possible time of the first event that is not missing; `None`: more events may be
    /// missing from now on.
    pub until: Option<MonotonicNs>,
    /// Whether only events of the kernel are missing.
    pub is_kernels: bool,
    /// Whether they were not to be recorded: none is lost. Without `until` they are missing until a
    /// gap like this one has it.
    pub is_unrecorded: bool,
    /// The thread whose events are missing; `None`: they may be those of any.
    pub tid: Option<i32>,
}

/// Types without which it is not known how long a thread has its CPU.
const SWITCHES: [EventTypeId; 2] = [EventTypeId::SWITCH_IN, EventTypeId::SWITCH_OUT];

/// Tells whether switches are recorded where this is the filter of the stream.
#[must_use]
pub fn has_switches(filter: &EventSet) -> bool {
    !SWITCHES.iter().any(|id| filter.contains(*id))
}

/// Tells whether switches were recorded before an event that changes the stream's filter, and are
/// from then on; `None` of any other event.
#[must_use]
pub fn switches_by(event: &Event<'_>) -> Option<(bool, bool)> {
    if event.header.event_type != EventTypeId::FILTER {
        return None;
    }
    let before = EventSet::from_bytes(event.data)?;
    let now = EventSet::from_bytes(event.data.get(size_of::<EventSet>()..)?)?;
    Some((has_switches(&before), has_switches(&now)))
}

/// Numbers of events lost so far, as far as they leave gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Events of the kernel that were lost on their way to the tracer.
    pub kernel: u64,
    /// Events that were lost otherwise, of any source.
    pub others: u64,
}

impl Missing {
    /// Sums up the losses, by the number that each cause has. A switch that the kernel did not
    /// report leaves no gap: the thread's next event shows that it is missing.
    pub fn sum_up(lost: impl Fn(LossCause) -> u64) -> Self {
        let mut missing = Self::default();
        for cause in LossCause::ALL {
            let count = match cause {
                LossCause::KernelNotReported => continue,
                LossCause::KernelRingFull
                | LossCause::KernelMissed
                | LossCause::ReturnTooDeep
                | LossCause::Withheld => &mut missing.kernel,
                _ => &mut missing.others,
            };
            *count = count.saturating_add(lost(cause));
        }
        missing
    }

    /// Tells whether more is missing than `before`.
    #[must_use]
    pub fn is_more_than(&self, before: &Self) -> bool {
        self.kernel > before.kernel || self.others > before.others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_did_not_report_leaves_no_gap() {
        let lost = |cause| match cause {
            LossCause::KernelNotReported => 100,
            LossCause::KernelRingFull | LossCause::KernelMissed => 10,
            LossCause::Late => 1,
            _ => 0,
        };
        let missing = Missing::sum_up(lost);
        assert_eq!((missing.kernel, missing.others), (20, 1));
        assert!(!missing.is_more_than(&missing));
        assert!(missing.is_more_than(&Missing::default()));
    }
}
