//! Totals of the waits for locks.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;
use tracer_engine::event::MonotonicNs;

use super::{LockKey, LockTable, LockType};
use crate::rows::TotalsByKey;
use crate::state::{FunctionId, Interval, IntervalEnd, LockId, State, Task, Thread, Wait, Waker};

/// Pairs of threads that are told apart for a lock.
const MOST_PAIRS: usize = 1024;

/// Pairs of threads that are told apart in all.
const MOST_PAIRS_IN_ALL: usize = 262_144;

/// Waits that are followed at a time.
const MOST_OPEN: usize = 65_536;

/// Reason of a thread's wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockRelation {
    /// This thread had the lock; and, where it has released it itself to the waiter, and its stack
    /// was recorded then, the function in which it did.
    HeldBy(Thread, FunctionId),
    /// The holder is not known; this thread ended the wait.
    WokenBy(Task),
    /// Neither is known.
    #[default]
    Unknown,
}

impl LockRelation {
    /// Returns it in whatever function the holder released the lock, and that function.
    fn anywhere(self) -> (Self, FunctionId) {
        match self {
            Self::HeldBy(holder, function) => (Self::HeldBy(holder, FunctionId::NONE), function),
            Self::WokenBy(_) | Self::Unknown => (self, FunctionId::NONE),
        }
    }
}

/// Totals of the waits for a thread that has a lock.
#[derive(Clone, Debug)]
pub struct HolderTotal {
    /// The thread; in whatever function it released the lock.
    pub relation: LockRelation,
    /// Totals of the waits.
    pub total: RelationTotal,
    /// The functions in which it has released the lock to a waiter, and how often, as far as its
    /// stack was recorded then; the most frequent first.
    pub released_at: Vec<(FunctionId, u64)>,
}

/// Totals of the waits of a thread for another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelationTotal {
    /// Waits.
    pub waits: u64,
    /// How long, in nanoseconds.
    pub ns: u64,
    /// The longest of them, in nanoseconds.
    pub longest: u64,
    /// Waits among these that the holder ended itself.
    pub confirmed: u64,
}

/// Totals of the waits for a lock. Times are in nanoseconds, and last until the thread had a CPU
/// again.
#[derive(Clone, Debug, Default)]
pub struct LockTotal {
    /// Its type, as far as it became known.
    pub kind: LockType,
    /// Waits.
    pub waits: u64,
    /// Their time.
    pub ns: u64,
    /// Of that, until a thread was woken.
    pub blocked: u64,
    /// The longest wait.
    pub longest: u64,
    /// When that ended.
    pub longest_at: MonotonicNs,
    /// Waits that had not ended at the end of the trace, or of which the end was not seen.
    pub unended: u64,
    /// The function in which it was first waited for.
    pub function: FunctionId,
    /// Totals by waiter, and by the thread that it waited for.
    pub pairs: HashMap<(Thread, LockRelation), RelationTotal, RandomState>,
    /// Totals of pairs beyond those.
    pub other_pairs: RelationTotal,
}

impl LockTotal {
    /// Counts the threads that had it while others waited.
    #[must_use]
    pub fn held(&self) -> usize {
        let holders = self
            .pairs
            .keys()
            .filter_map(|(_, relation)| match relation {
                LockRelation::HeldBy(holder, _) => Some(*holder),
                LockRelation::WokenBy(_) | LockRelation::Unknown => None,
            });
        holders.collect::<HashSet<Thread>>().len()
    }

    /// Returns the totals by holder, or by the thread that ended the waits: those that took longest
    /// first.
    #[must_use]
    pub fn holders(&self) -> Vec<HolderTotal> {
        let mut by: HashMap<LockRelation, HolderTotal, RandomState> = HashMap::default();
        for ((_, relation), total) in &self.pairs {
            let (relation, function) = relation.anywhere();
            let holder = by.entry(relation).or_insert_with(|| HolderTotal {
                relation,
                total: RelationTotal::default(),
                released_at: Vec::new(),
            });
            holder.total.add_all(total);
            if function == FunctionId::NONE {
                continue;
            }
            let mut known = holder.released_at.iter_mut();
            match known.find(|(known, _)| *known == function) {
                Some((_, waits)) => *waits = waits.saturating_add(total.waits),
                None => holder.released_at.push((function, total.waits)),
            }
        }
        let mut by: Vec<_> = by.into_values().collect();
        for holder in &mut by {
            let most = |(function, waits): &(FunctionId, u64)| (Reverse(*waits), *function);
            holder.released_at.sort_unstable_by_key(most);
        }
        by.sort_unstable_by_key(|holder| (Reverse(holder.total.ns), holder.relation));
        by
    }

    /// Returns the pairs, those that took longest first.
    #[must_use]
    pub fn sorted_pairs(&self) -> Vec<((Thread, LockRelation), RelationTotal)> {
        let mut sums: HashMap<(Thread, LockRelation), RelationTotal, RandomState> =
            HashMap::default();
        for ((waiter, relation), total) in &self.pairs {
            let (relation, _) = relation.anywhere();
            sums.entry((*waiter, relation)).or_default().add_all(total);
        }
        let mut pairs: Vec<_> = sums.into_iter().collect();
        pairs.sort_unstable_by_key(|(key, total)| (Reverse(total.ns), *key));
        pairs
    }
}

impl RelationTotal {
    fn add(&mut self, ns: u64, is_confirmed: bool) {
        self.waits += 1;
        self.ns = self.ns.saturating_add(ns);
        self.longest = self.longest.max(ns);
        self.confirmed += u64::from(is_confirmed);
    }

    fn add_all(&mut self, other: &Self) {
        self.waits = self.waits.saturating_add(other.waits);
        self.ns = self.ns.saturating_add(other.ns);
        self.longest = self.longest.max(other.longest);
        self.confirmed = self.confirmed.saturating_add(other.confirmed);
    }
}

/// A wait whose thread has no CPU yet.
#[derive(Clone, Copy, Debug)]
struct OpenWait {
    lock: LockId,
    function: FunctionId,
    blocked: u64,
    waker: Waker,
    /// The function of the waker.
    woken_at: FunctionId,
}

/// Totals of the waits for all locks.
#[derive(Debug, Default)]
pub struct LockTotals {
    totals: TotalsByKey<LockKey, LockTotal>,
    open: HashMap<Thread, OpenWait, RandomState>,
    pairs: usize,
}

impl LockTotals {
    /// Tells whether an interval is one of a wait for a lock, or comes after one.
    #[must_use]
    pub fn concerns(&self, interval: &Interval) -> bool {
        let is_wait =
            matches!(interval.state, State::Blocked(reason) if reason.lock != LockId::NONE);
        is_wait || (!self.open.is_empty() && self.open.contains_key(&interval.thread))
    }

    /// Adds an interval; of one that a waker ends, the function of the waker is `woken_at`. A wait
    /// counts where it ends between two moments, whole.
    pub fn add(
        &mut self,
        (interval, woken_at): (&Interval, FunctionId),
        table: &LockTable,
        (from, until): (MonotonicNs, MonotonicNs),
    ) {
        let is_in_between = from <= interval.to && interval.to <= until;
        match interval.state {
            State::Blocked(reason) if reason.lock != LockId::NONE => {
                let wait = OpenWait {
                    lock: reason.lock,
                    function: reason.function,
                    blocked: interval.ns(),
                    woken_at,
                    waker: match interval.end {
                        IntervalEnd::Woken(waker) => waker,
                        IntervalEnd::Open | IntervalEnd::Unsaid | IntervalEnd::GotCpu(_) => {
                            Waker::Unknown
                        }
                    },
                };
                let is_woken = matches!(interval.end, IntervalEnd::Woken(_));
                if is_woken && self.open.len() < MOST_OPEN {
                    self.open.insert(interval.thread, wait);
                } else if is_in_between {
                    self.count(interval, wait, (interval.ns(), is_woken), table);
                }
            }
            State::Runnable(Wait::Woken) => {
                if let Some(wait) = self.open.remove(&interval.thread)
                    && is_in_between
                {
                    let ns = wait.blocked.saturating_add(interval.ns());
                    self.count(interval, wait, (ns, true), table);
                }
            }
            State::Unknown
            | State::Running
            | State::Runnable(_)
            | State::Blocked(_)
            | State::Stopped
            | State::Dead => {
                // It got a CPU at once.
                if let Some(wait) = self.open.remove(&interval.thread)
                    && is_in_between
                {
                    self.count(interval, wait, (wait.blocked, true), table);
                }
            }
        }
    }

    fn count(
        &mut self,
        interval: &Interval,
        wait: OpenWait,
        (ns, is_ended): (u64, bool),
        table: &LockTable,
    ) {
        let lock = table.get(wait.lock);
        let total = match lock {
            Some(lock) => self.totals.get_or_insert(lock.key),
            None => self.totals.others_mut(),
        };
        if total.waits == 0 {
            total.function = wait.function;
        }
        if let Some(lock) = lock
            && total.kind == LockType::Futex
        {
            total.kind = lock.kind;
        }
        total.waits += 1;
        total.ns = total.ns.saturating_add(ns);
        total.blocked = total.blocked.saturating_add(wait.blocked);
        total.unended += u64::from(!is_ended);
        if ns > total.longest {
            (total.longest, total.longest_at) = (ns, interval.to);
        }
        let holder = lock.and_then(|lock| lock.holder(Some(&wait.waker)));
        // A thread is one, whatever it was called meanwhile.
        let holder = holder.map(|holder| holder.thread);
        let (relation, is_confirmed) = match (holder, wait.waker) {
            (Some(holder), Waker::Thread(waker)) if waker.thread == holder => {
                (LockRelation::HeldBy(holder, wait.woken_at), true)
            }
            (Some(holder), _) => (LockRelation::HeldBy(holder, FunctionId::NONE), false),
            (None, Waker::Thread(waker)) => (LockRelation::WokenBy(waker), false),
            (None, _) => (LockRelation::Unknown, false),
        };
        let key = (interval.thread, relation);
        if let Some(pair) = total.pairs.get_mut(&key) {
            pair.add(ns, is_confirmed);
        } else if lock.is_some() && total.pairs.len() < MOST_PAIRS && self.pairs < MOST_PAIRS_IN_ALL
        {
            self.pairs += 1;
            total.pairs.entry(key).or_default().add(ns, is_confirmed);
        } else {
            total.other_pairs.add(ns, is_confirmed);
        }
    }

    /// Returns the locks, those that were waited for longest first.
    #[must_use]
    pub fn sorted(&self) -> Vec<(LockKey, &LockTotal)> {
        let mut sorted = self.totals.sorted();
        sorted.sort_by_key(|(_, total)| Reverse(total.ns));
        sorted
    }

    /// Returns the totals of locks beyond those that are told apart; `None` without any.
    #[must_use]
    pub fn others(&self) -> Option<&LockTotal> {
        self.totals.others()
    }
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::EventTypeId;
    use tracer_common::kernel::{COMM_BYTES, LockWaitData};
    use tracer_engine::event::Event;
    use zerocopy::{FromZeros, IntoBytes};

    use super::*;
    use crate::locks::KnownThreads;
    use crate::state::Reason;
    use crate::story::{header, thread};

    struct All;

    impl KnownThreads for All {
        fn process_of(&self, tid: i32) -> Option<i32> {
            Some(thread(tid).pid)
        }

        fn name_of(&self, _: Thread) -> [u8; COMM_BYTES] {
            [0; COMM_BYTES]
        }
    }

    const ALL: (MonotonicNs, MonotonicNs) = (MonotonicNs(0), MonotonicNs(u64::MAX));

    fn task(tid: i32) -> Task {
        Task {
            thread: thread(tid),
            ..Task::default()
        }
    }

    /// A table, and the number of a mutex that thread 2 has.
    fn table() -> (LockTable, LockId) {
        let mut data = LockWaitData::new_zeroed();
        (data.address, data.operation, data.value) = (0x1000, 128, 2);
        (data.parts, data.own_tid) = (7, 1);
        (data.memory[2], data.memory[3]) = (2, 2 | 1 << 32);
        let mut table = LockTable::default();
        let event = Event {
            header: header(1, EventTypeId::LOCK_WAIT, 1, 0),
            data: data.as_bytes(),
        };
        let (lock, _) = table.feed(&event, &All).unwrap();
        (table, lock)
    }

    fn interval(state: State, from: u64, to: u64, end: IntervalEnd) -> Interval {
        Interval {
            thread: thread(1),
            state,
            from: MonotonicNs(from),
            to: MonotonicNs(to),
            end,
            cpu: None,
            waits_since: MonotonicNs(from),
        }
    }

    fn blocked(lock: LockId) -> State {
        State::Blocked(Reason {
            lock,
            ..Reason::default()
        })
    }

    const RUNNABLE: State = State::Runnable(Wait::Woken);

    #[test]
    fn a_wait_lasts_until_its_thread_has_a_cpu_again() {
        let (table, lock) = table();
        let mut totals = LockTotals::default();
        let at = FunctionId(7);
        for (waker, woken_at) in [(2, at), (3, at)] {
            let woken = IntervalEnd::Woken(Waker::Thread(task(waker)));
            let wait = interval(blocked(lock), 100, 160, woken);
            assert!(totals.concerns(&wait));
            totals.add((&wait, woken_at), &table, ALL);
            let comes = interval(RUNNABLE, 160, 200, IntervalEnd::Unsaid);
            assert!(totals.concerns(&comes));
            totals.add((&comes, FunctionId::NONE), &table, ALL);
            assert!(!totals.concerns(&comes));
        }
        let sorted = totals.sorted();
        let [(key, total)] = sorted[..] else {
            panic!("{sorted:?}");
        };
        assert_eq!((key.address, total.kind), (0x1000, LockType::Mutex));
        assert_eq!((total.waits, total.ns, total.blocked), (2, 200, 120));
        assert_eq!((total.longest, total.longest_at), (100, MonotonicNs(200)));
        assert_eq!((total.held(), total.unended), (1, 0));
        // Only where it ended the wait itself is it known where it released the lock.
        let holders = total.holders();
        let [holder] = &holders[..] else {
            panic!("{holders:?}");
        };
        let held = LockRelation::HeldBy(thread(2), FunctionId::NONE);
        assert_eq!(holder.relation, held);
        assert_eq!((holder.total.waits, holder.total.confirmed), (2, 1));
        assert_eq!(holder.released_at, [(at, 1)]);
        let pairs = total.sorted_pairs();
        assert_eq!(pairs.len(), 1);
        assert_eq!((pairs[0].0.0, pairs[0].1.waits), (thread(1), 2));
    }

    #[test]
    fn a_wait_that_has_not_ended_or_lies_elsewhere_is_told_as_such() {
        let (table, lock) = table();
        let mut totals = LockTotals::default();
        let open = interval(blocked(lock), 100, 160, IntervalEnd::Open);
        totals.add((&open, FunctionId::NONE), &table, ALL);
        let early = (MonotonicNs(0), MonotonicNs(150));
        totals.add((&open, FunctionId::NONE), &table, early);
        let total = totals.sorted()[0].1;
        assert_eq!((total.waits, total.unended, total.ns), (1, 1, 60));
        let other = interval(blocked(LockId::NONE), 100, 160, IntervalEnd::Open);
        assert!(!totals.concerns(&other));
    }

    #[test]
    fn what_is_beyond_the_table_is_added_up() {
        let (table, _) = table();
        let mut totals = LockTotals::default();
        let open = interval(blocked(LockId::BEYOND), 100, 160, IntervalEnd::Open);
        totals.add((&open, FunctionId::NONE), &table, ALL);
        assert!(totals.sorted().is_empty());
        let others = totals.others().unwrap();
        assert_eq!((others.waits, others.other_pairs.waits), (1, 1));
    }
}
