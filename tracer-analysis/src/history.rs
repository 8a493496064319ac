//! Recent history of threads, as far back as may be asked for.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;
use tracer_engine::event::MonotonicNs;

use crate::gaps::CpuGap;
use crate::held::{Held, Queue, Shapes};
use crate::interrupts::InterruptRun;
use crate::state::{Interval, IntervalEnd, State, Task, Thread};
use crate::thread_states::{Birth, CpuTaken, Finding, ThreadStates};

/// Intervals that are held: what a hundred thousand switches a second make in ten seconds.
const MOST_INTERVALS: usize = 2_000_000;

/// CPUs: more than any machine has.
const MOST_CPUS: usize = 16_384;

/// Additions between two looks at what can no longer be asked for.
const PRUNE_EVERY: usize = 4096;

/// Recent history of one thread.
#[derive(Debug, Default)]
struct Track {
    pid: i32,
    born: Option<Birth>,
    intervals: Queue<Held>,
    /// Moments of page faults.
    faults: VecDeque<MonotonicNs>,
    /// Gaps of the CPU that it had.
    gaps: VecDeque<CpuGap>,
}

impl Track {
    fn held(&self) -> usize {
        self.intervals.len() + self.faults.len() + self.gaps.len()
    }

    fn since(&self, from: MonotonicNs) -> impl Iterator<Item = &Held> {
        let first = self.intervals.partition_point(|one| one.to() <= from);
        self.intervals.since(first)
    }
}

/// A thread that had a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Had {
    /// Since when.
    pub since: MonotonicNs,
    /// The thread.
    pub by: Task,
    /// Whether its own events are seen: then it had the CPU until the next one is known to have
    /// got it. Otherwise others may have had it in between.
    pub is_seen: bool,
}

/// Recent history of threads.
///
/// Nothing is held until [`keep_from`](Self::keep_from) says from when on may be asked for: memory
/// grows with what happens in open spans.
#[derive(Debug)]
pub struct History {
    tracks: HashMap<i32, Track, RandomState>,
    shapes: Shapes,
    /// Threads that had each CPU, and since when: at least the last one.
    cpus: HashMap<u32, Queue<Had>, RandomState>,
    /// Interrupts of each CPU, of which none lies within another one.
    interrupts: HashMap<u32, VecDeque<InterruptRun>, RandomState>,
    /// `None`: nothing is held.
    from: Option<MonotonicNs>,
    held: usize,
    since_prune: usize,
    /// Latest time that was remembered, and that at the last prune: once this one is too old, so is
    /// all that was there then.
    newest: MonotonicNs,
    newest_at_prune: MonotonicNs,
    /// Time before which everything was given up, as it was too much.
    given_up: MonotonicNs,
}

impl Default for History {
    fn default() -> Self {
        Self {
            tracks: HashMap::default(),
            shapes: Shapes::default(),
            cpus: HashMap::default(),
            interrupts: HashMap::default(),
            from: None,
            held: 0,
            since_prune: 0,
            newest: MonotonicNs(0),
            newest_at_prune: MonotonicNs(0),
            given_up: MonotonicNs(0),
        }
    }
}

impl History {
    /// Sets the time from which on is held: what is older will not be asked for. `None`: nothing
    /// will be.
    pub fn keep_from(&mut self, from: Option<MonotonicNs>) {
        self.from = from;
        if from.is_none() && self.held > PRUNE_EVERY {
            self.prune();
        }
    }

    /// Remembers what was found.
    pub fn add(&mut self, found: &Finding) {
        if let Finding::Taken(taken) = found {
            self.take(taken);
            return;
        }
        let Some(from) = self.from else {
            return;
        };
        match found {
            Finding::Interval(interval) if interval.to > from => {
                if let Some(held) = self.shapes.hold(interval) {
                    self.track(interval.thread).intervals.push(held);
                    self.held += 1;
                    self.since_prune += 1;
                }
                self.bound(interval.to);
            }
            Finding::Birth(birth) => {
                let track = self.track(birth.thread);
                track.born = Some(*birth);
                self.since_prune += 1;
                self.bound(birth.at);
            }
            Finding::Interval(_) | Finding::Death(_) | Finding::Taken(_) => {}
        }
    }

    /// Remembers an interrupt that has ended. What it has interrupted itself is apart from it.
    pub fn add_interrupt(&mut self, run: &InterruptRun) {
        let Some(cpu) = run.key.cpu else {
            return;
        };
        let is_bounded = self.interrupts.len() < MOST_CPUS || self.interrupts.contains_key(&cpu);
        if self.from.is_none_or(|from| run.to <= from) || !is_bounded {
            return;
        }
        let of_cpu = self.interrupts.entry(cpu).or_default();
        let first = of_cpu.partition_point(|one| one.from < run.from);
        let before = of_cpu.len();
        let inner = of_cpu.split_off(first);
        let mut at = run.from;
        let piece = |from: MonotonicNs, to: MonotonicNs, of_cpu: &mut VecDeque<_>| {
            if from < to {
                of_cpu.push_back(InterruptRun { from, to, ..*run });
            }
        };
        for one in inner {
            piece(at, one.from.min(run.to), of_cpu);
            at = at.max(one.to);
            of_cpu.push_back(one);
        }
        piece(at, run.to, of_cpu);
        let added = of_cpu.len().saturating_sub(before);
        self.held += added;
        self.since_prune += added;
        self.bound(run.to);
    }

    /// Remembers a page fault.
    pub fn add_fault(&mut self, thread: Thread, at: MonotonicNs) {
        if self.from.is_none_or(|from| at < from) {
            return;
        }
        self.track(thread).faults.push_back(at);
        self.held += 1;
        self.since_prune += 1;
        self.bound(at);
    }

    /// Remembers a gap of the CPU that a thread had.
    pub fn add_gap(&mut self, gap: CpuGap) {
        if self.from.is_none_or(|from| gap.to <= from) {
            return;
        }
        self.track(gap.thread).gaps.push_back(gap);
        self.held += 1;
        self.since_prune += 1;
        self.bound(gap.to);
    }

    /// Returns the interrupts of a CPU between two moments, the last first.
    pub fn interrupts(
        &self,
        cpu: u32,
        from: MonotonicNs,
        to: MonotonicNs,
    ) -> impl Iterator<Item = &InterruptRun> {
        let of_cpu = self.interrupts.get(&cpu);
        of_cpu.into_iter().flat_map(move |of_cpu| {
            let first = of_cpu.partition_point(|one| one.to <= from);
            let end = of_cpu.partition_point(|one| one.from < to);
            of_cpu.range(first.min(end)..end).rev()
        })
    }

    /// Returns the page faults of a thread between two moments, the last first.
    pub fn faults(
        &self,
        thread: Thread,
        from: MonotonicNs,
        to: MonotonicNs,
    ) -> impl Iterator<Item = MonotonicNs> {
        let track = self.tracks.get(&thread.tid);
        let track = track.filter(|track| track.pid == thread.pid);
        track.into_iter().flat_map(move |track| {
            let first = track.faults.partition_point(|at| *at < from);
            let end = track.faults.partition_point(|at| *at < to);
            track.faults.range(first.min(end)..end).rev().copied()
        })
    }

    /// Returns the gaps of the CPU that a thread had between two moments, the last first.
    pub fn gaps(
        &self,
        thread: Thread,
        from: MonotonicNs,
        to: MonotonicNs,
    ) -> impl Iterator<Item = &CpuGap> {
        let track = self.tracks.get(&thread.tid);
        let track = track.filter(|track| track.pid == thread.pid);
        track.into_iter().flat_map(move |track| {
            let first = track.gaps.partition_point(|one| one.to <= from);
            let end = track.gaps.partition_point(|one| one.from < to);
            track.gaps.range(first.min(end)..end).rev()
        })
    }

    /// Drops what is too old, now and then, after something of this time was remembered.
    fn bound(&mut self, at: MonotonicNs) {
        self.newest = self.newest.max(at);
        // A burst goes with its time, however little comes after it.
        let is_all_old = self.from.is_some_and(|from| from > self.newest_at_prune);
        let enough = if is_all_old { 0 } else { self.held };
        if self.since_prune > PRUNE_EVERY.max(enough) {
            self.prune();
        }
        if self.held > MOST_INTERVALS {
            self.give_up();
        }
    }

    fn take(&mut self, taken: &CpuTaken) {
        if self.cpus.len() >= MOST_CPUS && !self.cpus.contains_key(&taken.cpu) {
            return;
        }
        let of_cpu = self.cpus.entry(taken.cpu).or_default();
        match of_cpu.last_mut() {
            // A switch is two events, of which one knows the name.
            Some(last) if last.since == taken.at && last.by.thread == taken.by.thread => {
                if last.by.comm == Task::default().comm {
                    last.by.comm = taken.by.comm;
                }
                last.is_seen |= taken.is_own;
                return;
            }
            _ => {}
        }
        if self.from.is_none() {
            of_cpu.clear();
        }
        of_cpu.push(Had {
            since: taken.at,
            by: taken.by,
            is_seen: taken.is_own,
        });
        self.held += 1;
        self.since_prune += 1;
    }

    /// Notes that events are missing: it is not known which thread has which CPU.
    pub fn lose(&mut self) {
        for of_cpu in self.cpus.values_mut() {
            self.held -= of_cpu.len().min(self.held);
            of_cpu.clear();
        }
    }

    /// Returns the thread that is known last to have got a CPU before `until`; `None` where none is
    /// known.
    #[must_use]
    pub fn had_cpu(&self, cpu: u32, until: MonotonicNs) -> Option<Had> {
        let of_cpu = self.cpus.get(&cpu)?;
        let after = of_cpu.partition_point(|one| one.since < until);
        of_cpu.get(after.checked_sub(1)?).copied()
    }

    fn track(&mut self, thread: Thread) -> &mut Track {
        let track = self.tracks.entry(thread.tid).or_default();
        if track.pid != thread.pid {
            self.held -= track.held().min(self.held);
            *track = Track {
                pid: thread.pid,
                ..Track::default()
            };
        }
        track
    }

    fn prune(&mut self) {
        let Some(from) = self.from else {
            self.tracks.clear();
            self.shapes = Shapes::default();
            self.interrupts.clear();
            for of_cpu in self.cpus.values_mut() {
                of_cpu.drop_first(of_cpu.len().saturating_sub(1));
            }
            (self.held, self.since_prune) = (self.cpus.len(), 0);
            return;
        };
        self.drop_before(from);
        (self.since_prune, self.newest_at_prune) = (0, self.newest);
    }

    fn drop_before(&mut self, from: MonotonicNs) {
        let mut held = 0;
        self.tracks.retain(|_, track| {
            let old = track.intervals.partition_point(|one| one.to() <= from);
            track.intervals.drop_first(old);
            track.born = track.born.filter(|birth| birth.at > from);
            let old = track.faults.partition_point(|at| *at < from);
            track.faults.drain(..old);
            let old = track.gaps.partition_point(|one| one.to <= from);
            track.gaps.drain(..old);
            held += track.held();
            track.held() > 0 || track.born.is_some()
        });
        self.interrupts.retain(|_, of_cpu| {
            let old = of_cpu.partition_point(|one| one.to <= from);
            of_cpu.drain(..old);
            held += of_cpu.len();
            !of_cpu.is_empty()
        });
        for of_cpu in self.cpus.values_mut() {
            let old = of_cpu.partition_point(|one| one.since <= from);
            of_cpu.drop_first(old.saturating_sub(1));
            held += of_cpu.len();
        }
        self.held = held;
        if self.shapes.are_many(held) {
            let all = self.tracks.values_mut().map(|track| &mut track.intervals);
            self.shapes.drop_unused(all);
        }
    }

    /// Gives up the older half of the time.
    fn give_up(&mut self) {
        let times = self.tracks.values().flat_map(|track| {
            let middle = track.intervals.get(track.intervals.len() / 2);
            let of_faults = track.faults.get(track.faults.len() / 2);
            [
                middle.map(|middle| (track.intervals.len(), middle.to())),
                of_faults.map(|middle| (track.faults.len(), *middle)),
            ]
        });
        let of_interrupts = self.interrupts.values().map(|of_cpu| {
            let middle = of_cpu.get(of_cpu.len() / 2)?;
            Some((of_cpu.len(), middle.to))
        });
        let Some((_, middle)) = times.chain(of_interrupts).flatten().max() else {
            return;
        };
        self.given_up = self.given_up.max(middle);
        self.drop_before(middle);
    }

    /// Returns when a thread was made, and by which thread, where that was not long ago.
    #[must_use]
    pub fn birth(&self, thread: Thread) -> Option<Birth> {
        let track = self.tracks.get(&thread.tid)?;
        track.born.filter(|birth| birth.thread == thread)
    }

    /// Returns the interval of a thread right before `until`: the interval up to there, or up to
    /// its end where that is later. `None` where nothing is known of it from before.
    #[must_use]
    pub fn before(
        &self,
        states: &ThreadStates,
        thread: Thread,
        until: MonotonicNs,
    ) -> Option<Interval> {
        if let Some(current) = states.current(thread, until) {
            return Some(current);
        }
        let track = self.tracks.get(&thread.tid)?;
        if track.pid != thread.pid {
            return None;
        }
        let after = track.intervals.partition_point(|one| one.from() < until);
        let held = track.intervals.get(after.checked_sub(1)?)?;
        let interval = self.shapes.interval(thread, held)?;
        if interval.to >= until {
            return Some(interval);
        }
        // There is more of it, but not this.
        Some(Interval {
            state: State::Unknown,
            from: interval.to,
            to: until,
            end: IntervalEnd::Unsaid,
            waits_since: interval.to,
            ..interval
        })
    }

    /// Returns the intervals of a thread that were not over at `from`, as far as they are held, in
    /// order of time. Its current one is not among them.
    pub fn intervals_since(
        &self,
        thread: Thread,
        from: MonotonicNs,
    ) -> impl Iterator<Item = Interval> {
        let track = self.tracks.get(&thread.tid);
        let track = track.filter(|track| track.pid == thread.pid);
        let held = track.into_iter().flat_map(move |track| track.since(from));
        held.filter_map(move |held| self.shapes.interval(thread, held))
    }

    /// Returns the moment before which nothing is known, as it was too much to hold.
    #[must_use]
    pub fn given_up(&self) -> MonotonicNs {
        self.given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_with_its_time() {
        const BURST: u64 = 200_000;
        let thread = Thread { pid: 1, tid: 1 };
        let mut history = History::default();
        history.keep_from(Some(MonotonicNs(0)));
        for at in 0..BURST {
            history.add_fault(thread, MonotonicNs(at));
        }
        assert_eq!(history.held, 200_000);

        history.keep_from(Some(MonotonicNs(BURST)));
        for at in BURST..BURST + 5000 {
            history.add_fault(thread, MonotonicNs(at));
        }
        assert!(history.held <= 5000, "{}", history.held);
    }
}
