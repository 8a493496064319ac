//! CPU time that reading events takes from others: that of the tracer itself, as far as no CPU of
//! the machine was idle then.

use std::fs;

use libc::CLOCK_PROCESS_CPUTIME_ID;

/// Time after which it is asked for again, in nanoseconds: where few events came, and where many
/// did.
const ASK_EVERY_NS: (u64, u64) = (500_000_000, 100_000_000);

/// Events that are many.
const MANY: u64 = 5000;

/// Most that reading an event is taken to cost, in nanoseconds: what takes longer is work for
/// processes that are new, and does not grow with the events.
const MOST_NS: u64 = 2000;

/// Length of a tick of `/proc/stat`, in nanoseconds: a part of the kernel's interface.
const TICK_NS: u64 = 10_000_000;

/// CPUs of a machine that are looked at: of more, one is idle often enough.
const MOST_CPUS: usize = 64;

/// Cost of reading an event for those who would have had the CPU. What was long ago counts less.
#[derive(Debug, Default)]
pub struct OwnCost {
    asked_ns: u64,
    last: Use,
    /// CPU time that others would have had, in nanoseconds, and events that were read for it.
    lately: (u64, u64),
}

/// Sums since some moment, times in nanoseconds.
#[derive(Clone, Debug, Default)]
struct Use {
    own_ns: u64,
    /// Of each CPU.
    idle_ns: Vec<u64>,
    events: u64,
}

impl OwnCost {
    /// Begins at this moment.
    pub fn new(now_ns: u64) -> Self {
        Self {
            asked_ns: now_ns,
            last: Use::now(0).unwrap_or_default(),
            lately: (0, 0),
        }
    }

    /// Returns the cost of reading one event, in nanoseconds, where so many were read since the
    /// beginning: 0 where a CPU was idle, or where this is not known.
    pub fn of_event(&mut self, now_ns: u64, events: u64) -> u64 {
        let elapsed = now_ns.saturating_sub(self.asked_ns);
        let has_many = events.saturating_sub(self.last.events) >= MANY;
        let (of_few, of_many) = ASK_EVERY_NS;
        if elapsed >= if has_many { of_many } else { of_few } {
            self.asked_ns = now_ns;
            if let Some(now) = Use::now(events) {
                let (taken, read) = &mut self.lately;
                *taken = (*taken / 2).saturating_add(now.taken_since(&self.last, elapsed));
                *read = (*read / 2).saturating_add(events.saturating_sub(self.last.events));
                self.last = now;
            }
        }
        let (taken, read) = self.lately;
        taken.checked_div(read).unwrap_or(0).min(MOST_NS)
    }
}

impl Use {
    /// Returns all up to now; `None` where it cannot be read.
    fn now(events: u64) -> Option<Self> {
        Some(Self {
            own_ns: own_cpu_ns()?,
            idle_ns: idle_ns(&fs::read_to_string("/proc/stat").ok()?)?,
            events,
        })
    }

    /// Returns the CPU time of this process since then, as far as others would have had it: by the
    /// chance that all CPUs were busy with them at a moment. The tracer runs where others do least.
    fn taken_since(&self, before: &Self, elapsed_ns: u64) -> u64 {
        let own = self.own_ns.saturating_sub(before.own_ns);
        if self.idle_ns.len() != before.idle_ns.len() {
            return 0;
        }
        let idle = self.idle_ns.iter().zip(&before.idle_ns);
        let busy = idle.map(|(now, then)| elapsed_ns.saturating_sub(now.saturating_sub(*then)));
        let mut busy: Vec<u64> = busy.collect();
        busy.sort_unstable();
        if let Some(least) = busy.first_mut() {
            *least = least.saturating_sub(own);
        }
        let part = |taken: u64, busy: &u64| {
            let taken = u128::from(taken) * u128::from(*busy) / u128::from(elapsed_ns.max(1));
            u64::try_from(taken).unwrap_or(u64::MAX)
        };
        busy.iter().fold(own, part)
    }
}

/// Returns how long this process has had CPUs.
pub fn own_cpu_ns() -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure lives.
    let failed = unsafe { libc::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    let (seconds, ns) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
    (failed == 0).then(|| seconds.saturating_mul(1_000_000_000).saturating_add(ns))
}

/// Returns how long each CPU was idle, by the text of `/proc/stat`.
fn idle_ns(untrusted: &str) -> Option<Vec<u64>> {
    let lines = untrusted.lines().skip(1);
    let of_cpus = lines.take_while(|line| line.starts_with("cpu"));
    let idle = of_cpus.take(MOST_CPUS).map(|line| {
        let mut fields = line.split_whitespace().skip(4);
        let mut next = || fields.next()?.parse::<u64>().ok();
        // While a disk is waited for, too.
        Some(next()?.saturating_add(next()?).saturating_mul(TICK_NS))
    });
    let idle: Vec<u64> = idle.collect::<Option<_>>()?;
    (!idle.is_empty()).then_some(idle)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn idle_after_a_second(own_ns: u64, idle_ns: &[u64]) -> Use {
        Use {
            own_ns,
            idle_ns: idle_ns.to_vec(),
            events: 0,
        }
    }

    #[test]
    fn only_time_that_no_idle_cpu_had_costs_others() {
        let before = idle_after_a_second(0, &[0, 0]);
        let taken =
            |own, idle: [u64; 2]| idle_after_a_second(own, &idle).taken_since(&before, SECOND);
        // The other CPU has nothing but the tracer.
        assert_eq!(taken(300_000_000, [0, 700_000_000]), 0);
        // Both are busy all the time, one of them for a part of it with the tracer.
        assert_eq!(taken(200_000_000, [0, 0]), 160_000_000);
        assert_eq!(taken(200_000_000, [0, 400_000_000]), 80_000_000);
        // A CPU came or went: nothing is known.
        let three = idle_after_a_second(200_000_000, &[0, 0, 0]);
        assert_eq!(three.taken_since(&before, SECOND), 0);
    }

    #[test]
    fn idle_time_is_read_from_the_kernels_text() {
        let text = "cpu  10 20 30 400 5 0 7 0 0 0\ncpu0 1 2 3 4 5\ncpu1 1 2 3 7 0 1\nintr 5\n";
        assert_eq!(idle_ns(text), Some(vec![90_000_000, 70_000_000]));
        for damaged in ["", "cpu", "cpu  1 2 3 4 5\ncpu0 1 2 3 x 5", "cpu 1\nintr 5"] {
            assert_eq!(idle_ns(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn a_thread_that_spins_is_seen_to_cost() {
        let mut cost = OwnCost::new(0);
        let before = own_cpu_ns().unwrap();
        while own_cpu_ns().unwrap() - before < 20_000_000 {}
        // No CPU was idle since, as far as it knows.
        cost.last.idle_ns.fill(u64::MAX);
        let (of_few, of_many) = ASK_EVERY_NS;
        // 20 ms for so many.
        let each = cost.of_event(of_few, 50_000);
        assert!((200..=MOST_NS).contains(&each), "{each}");
        assert_eq!(cost.of_event(of_few + of_many, 52_000), each);
        let read = 52_000 + MANY;
        assert_ne!(
            cost.of_event(of_few + of_many, read),
            each,
            "many are asked for soon"
        );
    }
}
