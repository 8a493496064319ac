//! CPU time that reading events takes from others: that of the tracer itself, less the time for
//! which a CPU of the machine was idle.

use std::fs;

use libc::CLOCK_PROCESS_CPUTIME_ID;

/// Time after which it is asked for again, in nanoseconds.
const ASK_EVERY_NS: u64 = 500_000_000;

/// Length of a tick of `/proc/stat`, in nanoseconds: a part of the kernel's interface.
const TICK_NS: u64 = 10_000_000;

/// Cost of reading an event for those who would have had the CPU. What was long ago counts less.
#[derive(Debug, Default)]
pub struct OwnCost {
    asked_ns: u64,
    last: Use,
    lately: Use,
}

/// CPU times, in nanoseconds, and events, since some moment.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    own_ns: u64,
    idle_ns: u64,
    events: u64,
}

impl OwnCost {
    /// Begins at this moment.
    pub fn new(now_ns: u64) -> Self {
        Self {
            asked_ns: now_ns,
            last: Use::now(0).unwrap_or_default(),
            lately: Use::default(),
        }
    }

    /// Returns the cost of reading one event, in nanoseconds, where so many were read since the
    /// beginning: 0 where CPUs were idle for as long as the tracer had one, or where this is not
    /// known.
    pub fn of_event(&mut self, now_ns: u64, events: u64) -> u64 {
        if now_ns.saturating_sub(self.asked_ns) >= ASK_EVERY_NS {
            self.asked_ns = now_ns;
            if let Some(now) = Use::now(events) {
                self.lately = self.lately.half().plus(now.since(self.last));
                self.last = now;
            }
        }
        self.lately.of_event()
    }
}

impl Use {
    /// Returns all up to now; `None` where it cannot be read.
    fn now(events: u64) -> Option<Self> {
        Some(Self {
            own_ns: own_ns()?,
            idle_ns: idle_ns(&fs::read_to_string("/proc/stat").ok()?)?,
            events,
        })
    }

    fn since(self, before: Self) -> Self {
        Self {
            own_ns: self.own_ns.saturating_sub(before.own_ns),
            idle_ns: self.idle_ns.saturating_sub(before.idle_ns),
            events: self.events.saturating_sub(before.events),
        }
    }

    fn half(self) -> Self {
        Self {
            own_ns: self.own_ns / 2,
            idle_ns: self.idle_ns / 2,
            events: self.events / 2,
        }
    }

    fn plus(self, more: Self) -> Self {
        Self {
            own_ns: self.own_ns.saturating_add(more.own_ns),
            idle_ns: self.idle_ns.saturating_add(more.idle_ns),
            events: self.events.saturating_add(more.events),
        }
    }

    fn of_event(self) -> u64 {
        let taken = self.own_ns.saturating_sub(self.idle_ns);
        taken.checked_div(self.events).unwrap_or(0)
    }
}

/// Returns how long this process has had CPUs.
fn own_ns() -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure lives.
    let failed = unsafe { libc::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    let (seconds, ns) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
    (failed == 0).then(|| seconds.saturating_mul(1_000_000_000).saturating_add(ns))
}

/// Returns how long all CPUs together were idle, by the text of `/proc/stat`.
fn idle_ns(untrusted: &str) -> Option<u64> {
    let line = untrusted.lines().next()?.strip_prefix("cpu ")?;
    let mut fields = line.split_whitespace().skip(3);
    let mut next = || fields.next()?.parse::<u64>().ok();
    // While a disk is waited for, too.
    Some(next()?.saturating_add(next()?).saturating_mul(TICK_NS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_that_no_idle_cpu_had_costs_others() {
        let busy = Use {
            own_ns: 500_000,
            idle_ns: 100_000,
            events: 400,
        };
        assert_eq!(busy.of_event(), 1000);
        let idle = Use {
            idle_ns: 900_000,
            ..busy
        };
        assert_eq!(idle.of_event(), 0);
        assert_eq!(Use::default().of_event(), 0);
    }

    #[test]
    fn idle_time_is_read_from_the_kernels_text() {
        let text = "cpu  10 20 30 400 5 0 7 0 0 0\ncpu0 1 2 3 4 5\n";
        assert_eq!(idle_ns(text), Some(4_050_000_000));
        for damaged in ["", "cpu", "cpu  1 2 3", "cpu  1 2 3 x 5", "intr 5"] {
            assert_eq!(idle_ns(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn a_thread_that_spins_is_seen_to_cost() {
        let mut cost = OwnCost::new(0);
        let before = own_ns().unwrap();
        while own_ns().unwrap() - before < 20_000_000 {}
        // No CPU was idle since, as far as it knows.
        cost.last.idle_ns = u64::MAX;
        let each = cost.of_event(ASK_EVERY_NS, 1000);
        assert!(each >= 20_000, "{each}");
        assert_eq!(cost.of_event(ASK_EVERY_NS + 1, 2000), each);
    }
}
