//! Events that the programs could not record.

use std::mem::offset_of;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tracer_common::kernel::LostOnCpu;
use tracer_engine::event::MonotonicNs;

use super::call::runs_of;
use super::mapping::MapMemory;
use super::unended::UnendedRequests;

/// Interval at which the kernel is asked for missed runs: this takes a system call for each
/// program, and runs are hardly ever missed.
const MISSES_EVERY: Duration = Duration::from_millis(100);

/// Part of a count that was reported. The count only grows.
#[derive(Debug, Default)]
struct Reported(u64);

impl Reported {
    /// Returns the growth since the last call.
    fn growth(&mut self, count: u64) -> u64 {
        let growth = count.saturating_sub(self.0);
        self.0 = self.0.max(count);
        growth
    }
}

/// Events that one CPU could not record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostOnOneCpu {
    /// The CPU.
    pub cpu: usize,
    /// Number of events.
    pub count: u64,
    /// Time of the first of these events, or of one before them that was reported already.
    pub since: MonotonicNs,
}

/// The map `LOST`, with an entry for each CPU: the number of events that found a ring full since
/// the programs were loaded. The map can be read as long as this value exists, even when the
/// programs are gone.
#[derive(Clone)]
pub struct LostByCpu {
    lost: Arc<MapMemory>,
    cpus: usize,
}

impl LostByCpu {
    pub(super) fn new(lost: MapMemory, cpus: usize) -> Self {
        Self {
            lost: Arc::new(lost),
            cpus,
        }
    }

    /// Returns the CPUs that have lost events, each with the number of these events.
    #[must_use]
    pub fn counts(&self) -> Vec<(usize, u64)> {
        (0..self.cpus)
            .map(|cpu| (cpu, self.count_on(cpu, offset_of!(LostOnCpu, ring_full))))
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// Returns how many events of guarded processes were withheld, since the processes could not be
    /// looked into. These are not among the lost events.
    #[must_use]
    pub fn withheld(&self) -> u64 {
        let on_each = (0..self.cpus).map(|cpu| self.count_on(cpu, offset_of!(LostOnCpu, withheld)));
        on_each.sum()
    }

    fn count_on(&self, cpu: usize, field: usize) -> u64 {
        let word = self.lost.word(cpu * size_of::<LostOnCpu>() + field);
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }
}

/// Reads the counts of lost events.
pub struct LossReader {
    by_cpu: LostByCpu,
    programs: Vec<OwnedFd>,
    missed: Reported,
    missed_read: Option<Instant>,
    /// Count of returns that the kernel did not see.
    unseen_returns: MapMemory,
    returns: Reported,
    /// Count of ends of requests that the kernel did not report.
    untold_ends: MapMemory,
    /// Requests whose end may not have been reported, where ends are recorded.
    unended: Option<UnendedRequests>,
    looks_at_unended: bool,
    ends: Reported,
}

impl LossReader {
    pub fn new(
        by_cpu: LostByCpu,
        programs: Vec<OwnedFd>,
        unseen_returns: MapMemory,
        untold_ends: MapMemory,
        unended: Option<UnendedRequests>,
    ) -> Self {
        Self {
            by_cpu,
            programs,
            missed: Reported::default(),
            missed_read: None,
            unseen_returns,
            returns: Reported::default(),
            untold_ends,
            unended,
            looks_at_unended: false,
            ends: Reported::default(),
        }
    }

    /// Returns the events that found a ring full since the last call, by CPU. CPUs without any are
    /// left out.
    pub fn ring_full(&self) -> impl Iterator<Item = LostOnOneCpu> {
        (0..self.by_cpu.cpus).filter_map(|cpu| self.ring_full_on(cpu))
    }

    fn ring_full_on(&self, cpu: usize) -> Option<LostOnOneCpu> {
        let at = cpu * size_of::<LostOnCpu>();
        let word = |offset| self.by_cpu.lost.word(at + offset);
        let reported = word(offset_of!(LostOnCpu, reported))?;
        let so_far = word(offset_of!(LostOnCpu, ring_full))?.load(Ordering::Acquire);
        let count = so_far.saturating_sub(reported.load(Ordering::Relaxed));
        if count == 0 {
            return None;
        }
        // The programs write the time after the count. Where they count events between the look at
        // the count and the store to `reported` below, the time stays that of an earlier event.
        let first_ns = word(offset_of!(LostOnCpu, first_ns))?.load(Ordering::Relaxed);
        reported.store(so_far, Ordering::Release);
        Some(LostOnOneCpu {
            cpu,
            count,
            since: MonotonicNs(first_ns),
        })
    }

    /// Returns the number of function returns that the kernel did not see since the last call,
    /// because too many were pending.
    pub fn unseen_returns(&mut self) -> u64 {
        let count = self.unseen_returns.word(0);
        let count = count.map_or(0, |count| count.load(Ordering::Relaxed));
        self.returns.growth(count)
    }

    /// Returns the number of ends of requests that the kernel did not report since the last call,
    /// as the reuse of these requests has shown. After [`ask_soon`](Self::ask_soon) at the end of a
    /// stream, the ends of requests that were not reused yet count too.
    pub fn untold_ends(&mut self) -> u64 {
        let reused = || {
            let count = self.untold_ends.word(0);
            count.map_or(0, |count| count.load(Ordering::Relaxed))
        };
        let unended = self.unended.as_ref().filter(|_| self.looks_at_unended);
        let count = unended.map_or_else(reused, |unended| unended.with_reused(reused));
        self.looks_at_unended = false;
        self.ends.growth(count)
    }

    /// Returns the number of runs that the kernel skipped because the program was running on that
    /// CPU already, since the last call that reported any. The kernel is asked only now and then;
    /// see [`ask_soon`](Self::ask_soon).
    pub fn missed(&mut self) -> u64 {
        if self
            .missed_read
            .is_some_and(|read| read.elapsed() < MISSES_EVERY)
        {
            return 0;
        }
        self.missed_read = Some(Instant::now());
        let runs = self.programs.iter().map(|program| runs_of(program.as_fd()));
        let count = runs.flatten().map(|runs| runs.passed_over).sum();
        self.missed.growth(count)
    }

    /// Makes the next call of [`missed`](Self::missed) ask the kernel. At the end of a stream
    /// (`is_end`), also makes the next call of [`untold_ends`](Self::untold_ends) look at requests
    /// that were not reused yet, which may take a tenth of a second, or two.
    pub fn ask_soon(&mut self, is_end: bool) {
        self.missed_read = None;
        self.looks_at_unended = is_end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_reported_is_not_reported_again() {
        let mut reported = Reported::default();

        assert_eq!(
            [reported.growth(3), reported.growth(3), reported.growth(5)],
            [3, 0, 2]
        );
    }

    #[test]
    fn a_count_that_could_not_be_read_in_full_is_not_reported_twice_later() {
        let mut reported = Reported::default();

        assert_eq!(
            [reported.growth(5), reported.growth(2), reported.growth(6)],
            [5, 0, 1]
        );
    }
}
