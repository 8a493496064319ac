//! Where events are missing.

use tracer_engine::event::MonotonicNs;
use tracer_engine::source::LossCause;

/// Events are missing before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// When the next event is that is here, or before that.
    pub next: MonotonicNs,
    /// The first event that is not missing is not before this moment; `None`: others may be
    /// missing from now on.
    pub until: Option<MonotonicNs>,
    /// Whether only events of the kernel are.
    pub is_kernels: bool,
}

/// Events that were lost so far, as far as they leave gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Events of the kernel that were lost on their way to the tracer.
    pub kernel: u64,
    /// Events that were lost otherwise, whosever they are.
    pub others: u64,
}

impl Missing {
    /// What is missing where so many were lost for each cause. A switch that the kernel did not
    /// report leaves none: the thread's next event shows that it is missing.
    pub fn of(lost: impl Fn(LossCause) -> u64) -> Self {
        let mut missing = Self::default();
        for cause in LossCause::ALL {
            let count = match cause {
                LossCause::KernelNotReported => continue,
                LossCause::KernelRingFull | LossCause::KernelMissed | LossCause::ReturnTooDeep => {
                    &mut missing.kernel
                }
                _ => &mut missing.others,
            };
            *count = count.saturating_add(lost(cause));
        }
        missing
    }

    /// Whether more is missing than `before`.
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
        let missing = Missing::of(lost);
        assert_eq!((missing.kernel, missing.others), (20, 1));
        assert!(!missing.is_more_than(&missing));
        assert!(missing.is_more_than(&Missing::default()));
    }
}
