//! Sums by whose they are.

use std::collections::BTreeMap;

use tracer_analysis::{CallKey, Thread};
use tracer_common::kernel::{COUNT_RANGES, CountKey, CountSum, NotCounted, counted};
use zerocopy::{FromZeros as _, IntoBytes as _};

use crate::queries::LastNames;
use crate::stat::By;
use tracer_event::counts::{CountsRead, PointNames};
use tracer_event::fields::until_null;

/// Owner of a sum.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SumOwner {
    /// All threads together.
    All,
    /// A process.
    Process(i32),
    /// A thread.
    Thread(Thread),
    /// All threads of a name.
    Comm(Vec<u8>),
}

/// Subject of a sum, in the order in which it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Returns of a system call.
    Call(CallKey),
    /// Passes of a probe, the first one of its name.
    Probe(u32),
    /// Passes of a tracepoint.
    Tracepoint(u32),
    /// Another kind, of [`counted`].
    Kind(u32),
}

/// A sum, and what goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The part of it that has ended.
    pub ended: CountSum,
    /// Threads that do it at the end of the time.
    pub open: u64,
    /// For how long they have done so by then, in nanoseconds.
    pub open_ns: u64,
    /// Whether the longest time is that of this part of the time, and not only of all of it.
    pub has_longest: bool,
}

impl Default for Sum {
    fn default() -> Self {
        Self {
            ended: CountSum::new_zeroed(),
            open: 0,
            open_ns: 0,
            has_longest: true,
        }
    }
}

/// Sums of one owner, by what is counted.
pub type SumsByKind = BTreeMap<What, Sum>;

/// Sums by whose they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountTable {
    /// The sums.
    pub sums: BTreeMap<SumOwner, SumsByKind>,
    /// Events that found no space in the kernel.
    pub not_counted: NotCounted,
}

impl SumOwner {
    fn from_key(who: [u64; 2], by: Option<By>) -> Self {
        let [first, _] = who;
        let pid = half(first >> 32);
        match by {
            None => Self::All,
            Some(By::Process) => Self::Process(pid),
            Some(By::Thread) => Self::Thread(Thread {
                pid,
                tid: half(first & 0xffff_ffff),
            }),
            // Before 6.1 a shorter name has the rest of the one before behind it.
            Some(By::Comm) => Self::Comm(until_null(who.as_bytes()).to_vec()),
        }
    }

    /// Returns whose what a thread does is.
    fn from_thread(thread: Thread, by: Option<By>, names: &LastNames) -> Self {
        match by {
            None => Self::All,
            Some(By::Process) => Self::Process(thread.pid),
            Some(By::Thread) => Self::Thread(thread),
            Some(By::Comm) => Self::Comm(names.get(thread).to_vec()),
        }
    }
}

fn half(word: u64) -> i32 {
    u32::try_from(word).unwrap_or(0).cast_signed()
}

impl What {
    fn from_key(key: &CountKey, names: &PointNames) -> Self {
        let call = |is_compat| Self::Call(CallKey::new(is_compat, key.number.cast_signed()));
        match key.kind {
            counted::CALL => call(false),
            counted::COMPAT_CALL => call(true),
            counted::PROBE => Self::Probe(first_of_name(key.number, &names.probes)),
            counted::TRACEPOINT => Self::Tracepoint(key.number),
            kind => Self::Kind(kind),
        }
    }
}

impl What {
    /// Returns the sum as it counts. The end of a signal handler gives back the register of the
    /// code that was interrupted, which is no error.
    fn counted(self, sum: &CountSum) -> CountSum {
        let has_errors = match self {
            Self::Call(key) => key.fails_with(-1),
            Self::Probe(_) | Self::Tracepoint(_) | Self::Kind(_) => true,
        };
        CountSum {
            also: if has_errors { sum.also } else { 0 },
            ..*sum
        }
    }
}

/// Returns the index of the first probe that has the name of this one.
fn first_of_name(index: u32, names: &[String]) -> u32 {
    let name = usize::try_from(index).ok().and_then(|at| names.get(at));
    let first = name.and_then(|name| names.iter().position(|other| other == name));
    first.and_then(|at| u32::try_from(at).ok()).unwrap_or(index)
}

impl CountTable {
    /// Sums up what was read. Threads are called by these names.
    pub fn new(
        read: &CountsRead,
        by: Option<By>,
        (points, names): (&PointNames, &LastNames),
    ) -> Self {
        let mut table = Self {
            sums: BTreeMap::new(),
            not_counted: read.not_counted,
        };
        for (key, sum) in &read.sums {
            let sums = table
                .sums
                .entry(SumOwner::from_key(key.who, by))
                .or_default();
            let what = What::from_key(key, points);
            let known = sums.entry(what).or_default();
            known.ended = joined(&known.ended, &what.counted(sum));
        }
        for (tid, thread) in &read.threads {
            if thread.does == 0 {
                continue;
            }
            let of = Thread {
                pid: thread.pid.cast_signed(),
                tid: *tid,
            };
            let who = SumOwner::from_thread(of, by, names);
            let sums = table.sums.entry(who).or_default();
            let known = sums.entry(What::Kind(thread.does)).or_default();
            known.open += 1;
            let ns = read.at.0.saturating_sub(thread.since_ns);
            known.open_ns = known.open_ns.saturating_add(ns);
        }
        table
    }

    /// Returns what was counted since this earlier table.
    pub fn since(&self, earlier: &Self) -> Self {
        let none = SumsByKind::new();
        let sums = self.sums.iter().map(|(who, sums)| {
            let before = earlier.sums.get(who).unwrap_or(&none);
            let sums = sums.iter().filter_map(|(what, sum)| {
                let sum = sum.since(before.get(what).copied().unwrap_or_default());
                (sum.ended.count > 0 || sum.total_ns() > 0).then_some((*what, sum))
            });
            (who.clone(), sums.collect::<SumsByKind>())
        });
        let space = (&self.not_counted, &earlier.not_counted);
        Self {
            sums: sums.filter(|(_, sums)| !sums.is_empty()).collect(),
            not_counted: NotCounted {
                events: space.0.events.saturating_sub(space.1.events),
                threads: space.0.threads.saturating_sub(space.1.threads),
            },
        }
    }
}

impl Sum {
    /// Returns how long it was in all, what goes on included.
    pub fn total_ns(&self) -> u64 {
        self.ended.total_ns.saturating_add(self.open_ns)
    }

    /// Returns how often it is known how long it took.
    pub fn timed(&self) -> u64 {
        let ranges = self.ended.ranges.iter();
        ranges.fold(0, |all, count| all.saturating_add(*count))
    }

    /// Returns how long it took in the mean, where it is known.
    pub fn mean_ns(&self) -> Option<u64> {
        self.ended.total_ns.checked_div(self.timed())
    }

    /// Returns how long it took at most, where that is known.
    pub fn longest_ns(&self) -> Option<u64> {
        (self.has_longest && self.timed() > 0).then_some(self.ended.longest_ns)
    }

    /// Returns the power of two up to which this part of the durations is, in nanoseconds; the
    /// longest where that is shorter.
    pub fn up_to_ns(&self, part: f64) -> Option<u64> {
        let timed = self.timed();
        let mut so_far = 0_u64;
        #[expect(
            clippy::cast_precision_loss,
            reason = "it is compared with a part of a count"
        )]
        let most = |count: u64| count as f64 >= part * timed as f64;
        self.ranges()
            .into_iter()
            .find_map(|(end, count)| {
                so_far = so_far.saturating_add(count);
                (timed > 0 && most(so_far)).then_some(end)
            })
            .map(|end| self.longest_ns().map_or(end, |longest| end.min(longest)))
    }

    /// Returns how many durations are up to each power of two and above the one before, from the
    /// first that has some to the last.
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        let has = |count: &&u64| **count > 0;
        let ranges = &self.ended.ranges;
        let before = ranges.iter().take_while(|count| !has(count)).count();
        let behind = ranges.iter().rev().take_while(|count| !has(count)).count();
        let counts = ranges.iter().enumerate().skip(before);
        let counts = counts.take(COUNT_RANGES.saturating_sub(before + behind));
        counts
            .map(|(range, count)| (1_u64 << range, *count))
            .collect()
    }

    /// Returns what was counted since an earlier moment. The kernel keeps the longest time of all:
    /// where it has not grown, that of this part of the time is not known.
    fn since(&self, earlier: Self) -> Self {
        let (now, before) = (&self.ended, &earlier.ended);
        let mut ranges = now.ranges;
        for (now, before) in ranges.iter_mut().zip(before.ranges) {
            *now = now.saturating_sub(before);
        }
        let total = self.total_ns().saturating_sub(earlier.total_ns());
        // What went on before may have ended since, and what goes on may have begun before.
        let ended_ns = now.total_ns.saturating_sub(before.total_ns).min(total);
        Self {
            ended: CountSum {
                count: now.count.saturating_sub(before.count),
                also: now.also.saturating_sub(before.also),
                total_ns: ended_ns,
                longest_ns: now.longest_ns,
                ranges,
            },
            open: self.open,
            open_ns: total - ended_ns,
            has_longest: now.longest_ns > before.longest_ns,
        }
    }
}

fn joined(one: &CountSum, other: &CountSum) -> CountSum {
    let mut ranges = one.ranges;
    for (all, more) in ranges.iter_mut().zip(other.ranges) {
        *all = all.saturating_add(more);
    }
    CountSum {
        count: one.count.saturating_add(other.count),
        also: one.also.saturating_add(other.also),
        total_ns: one.total_ns.saturating_add(other.total_ns),
        longest_ns: one.longest_ns.max(other.longest_ns),
        ranges,
    }
}
