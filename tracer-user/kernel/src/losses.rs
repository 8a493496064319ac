//! Events that the programs could not record.

use std::fs;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tracer_common::kernel::LostOnCpu;
use tracer_engine::event::MonotonicNs;

use super::mapping::MapMemory;
use super::unended::UnendedRequests;

/// Interval between questions for missed runs: a few system calls a program, for something that
/// hardly ever happens.
const MISSES_EVERY: Duration = Duration::from_millis(100);

/// Count that only grows, and the part of it that was reported.
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
    /// Time of the first of them, or of one that was reported before.
    pub since: MonotonicNs,
}

/// The map `LOST`, an entry a CPU: the number of events that found a ring full since the programs
/// were loaded. It can be read as long as it exists, even when the programs are gone.
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

    /// Returns CPUs and their numbers of lost events, without those that lost none.
    #[must_use]
    pub fn counts(&self) -> Vec<(usize, u64)> {
        (0..self.cpus)
            .map(|cpu| (cpu, self.count_on(cpu, offset_of!(LostOnCpu, ring_full))))
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// Returns how many events of guarded processes were withheld, since these could not be looked
    /// into. They are not among the lost ones.
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

    /// Events that found a ring full since the last call, by CPU. Those that did not are left out.
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
        // The time is written after the count, and stays that of an earlier one where events are
        // counted between our look and our word that they were reported.
        let first_ns = word(offset_of!(LostOnCpu, first_ns))?.load(Ordering::Relaxed);
        reported.store(so_far, Ordering::Release);
        Some(LostOnOneCpu {
            cpu,
            count,
            since: MonotonicNs(first_ns),
        })
    }

    /// Returns of functions that the kernel did not see since the last call, since too many were
    /// pending.
    pub fn unseen_returns(&mut self) -> u64 {
        let count = self.unseen_returns.word(0);
        let count = count.map_or(0, |count| count.load(Ordering::Relaxed));
        self.returns.growth(count)
    }

    /// Ends of requests that the kernel did not report since the last call, as their reuse has
    /// shown; after [`ask_soon`](Self::ask_soon) also those of requests that were not reused yet.
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

    /// Runs that the kernel skipped because the program was running on that CPU already, since the
    /// last call that reported any. Asked for now and then only; see [`ask_soon`](Self::ask_soon).
    pub fn missed(&mut self) -> u64 {
        if self
            .missed_read
            .is_some_and(|read| read.elapsed() < MISSES_EVERY)
        {
            return 0;
        }
        self.missed_read = Some(Instant::now());
        let count = self.programs.iter().filter_map(recursion_misses).sum();
        self.missed.growth(count)
    }

    /// Makes the next call of [`missed`](Self::missed) ask, and, where the stream ends, that of
    /// [`untold_ends`](Self::untold_ends), which takes a tenth of a second then.
    pub fn ask_soon(&mut self, is_end: bool) {
        self.missed_read = None;
        self.looks_at_unended = is_end;
    }
}

/// Returns the kernel's count for a program (since 5.12; before that they were not counted).
fn recursion_misses(program: &OwnedFd) -> Option<u64> {
    let fd = program.as_raw_fd();
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    parse_recursion_misses(&info)
}

fn parse_recursion_misses(info: &str) -> Option<u64> {
    let value = info
        .lines()
        .find_map(|line| line.strip_prefix("recursion_misses:"))?;
    value.trim().parse().ok()
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

    #[test]
    fn missed_runs_are_found_in_the_kernels_text() {
        assert_eq!(
            parse_recursion_misses("prog_id:\t7\nrecursion_misses:\t12\nverified_insns:\t9\n"),
            Some(12)
        );
        assert_eq!(parse_recursion_misses("prog_id:\t7\n"), None);
    }
}
