//! Counts that the programs keep instead of recording events: the choice of what is counted, and
//! the reader of the maps.

use std::mem::{offset_of, size_of};

use aya::Ebpf;
use aya::maps::{HashMap, Map, MapData, MapError, PerCpuArray, PerCpuHashMap, PerCpuValues};
use tracer_common::kernel::{
    CALLS_OF_ALL, CountKey, CountSum, CountedThread, NotCounted, SUMS_OF_ALL, ThreadStateData,
    counted, counting, thread_state,
};
use zerocopy::{FromBytes as _, FromZeros as _, IntoBytes as _};

use super::error::LoadError;
use super::loading::map_array;
use super::mapping::MapMemory;
use super::programs::{COUNTED_CALL_TIMES, COUNTED_CALLS, COUNTED_FAULTS, COUNTED_SWITCHES};

pub const SUMS: &str = "SUMS";
pub const OF_ALL: &str = "OF_ALL";
pub const COUNTED_THREADS: &str = "COUNTED_THREADS";
const NOT_COUNTED: &str = "NOT_COUNTED";

/// Most bytes of all sums. Each CPU has its own sums, so there are fewer of them where there are
/// many CPUs.
const SUM_BYTES: u64 = 128 << 20;
/// Least and most sums by process, thread or name.
const SUMS_BY_THREAD: (u64, u64) = (4096, 65_536);
/// Entries of the map `SUMS` where all processes are counted together: for calls beyond those in
/// the map `OF_ALL`.
const SUMS_OF_OTHERS: u32 = 1024;
/// Most threads whose activity is known at a time.
const MOST_THREADS: u32 = 65_536;

/// Choice of what is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting {
    /// System calls.
    pub calls: bool,
    /// Activity of threads.
    pub switches: bool,
    /// Page faults.
    pub faults: bool,
    /// Probes and tracepoints that were named.
    pub points: bool,
    /// Measurement of how long system calls take, which doubles what counting them costs.
    pub times: bool,
    /// Owner of each sum.
    pub by: CountsBy,
}

/// Owner of each sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountsBy {
    /// All processes together.
    All,
    /// A process.
    Process,
    /// A thread.
    Thread,
    /// All threads of a name.
    Comm,
}

/// Entries of the maps of counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CountEntries {
    /// Entries of the map `SUMS`.
    pub sums: u32,
    /// Entries of the map `OF_ALL`.
    pub of_all: u32,
    /// Entries of the map `COUNTED_THREADS`.
    pub threads: u32,
}

impl CountEntries {
    /// Entries where nothing is counted.
    pub const NONE: Self = Self {
        sums: 1,
        of_all: 1,
        threads: 1,
    };
}

impl Counting {
    /// Returns the value of the global `COUNTS`.
    pub(super) fn bits(self) -> u32 {
        let of_parts: u32 = self.parts().map(|(_, bit, _)| bit).sum();
        let points = if self.points { counting::POINTS } else { 0 };
        let times = if self.times {
            0
        } else {
            counting::WITHOUT_TIMES
        };
        of_parts | points | times
    }

    /// Returns the programs that are attached for this choice, as bits beside those of types.
    pub(super) fn attached(self) -> u64 {
        let times = if self.calls && self.times {
            COUNTED_CALL_TIMES
        } else {
            0
        };
        self.parts().fold(times, |bits, (.., bit)| bits | bit)
    }

    /// Returns the value of the global `COUNTS_BY`.
    pub(super) fn by(self) -> u32 {
        match self.by {
            CountsBy::All => counting::BY_NONE,
            CountsBy::Process => counting::BY_PROCESS,
            CountsBy::Thread => counting::BY_THREAD,
            CountsBy::Comm => counting::BY_COMM,
        }
    }

    /// Returns how many entries the maps have, for this many CPUs, probes and tracepoints.
    pub(super) fn entries(self, cpus: u32, points: usize) -> CountEntries {
        let is_of_all = self.by == CountsBy::All;
        let sums = if is_of_all {
            SUMS_OF_OTHERS.saturating_add(u32::try_from(points).unwrap_or(SUMS_OF_OTHERS))
        } else {
            let bytes = u64::try_from(size_of::<CountSum>()).unwrap_or(u64::MAX);
            let (least, most) = SUMS_BY_THREAD;
            let sums = SUM_BYTES / bytes / u64::from(cpus.max(1));
            u32::try_from(sums.clamp(least, most)).unwrap_or(SUMS_OF_OTHERS)
        };
        CountEntries {
            sums,
            of_all: if is_of_all { SUMS_OF_ALL } else { 1 },
            threads: MOST_THREADS,
        }
    }

    /// Returns the kind that is asked for but that this kernel cannot count, in words. `has` tells
    /// which tracepoints the kernel has.
    pub(super) fn lacking(self, has: impl Fn(&str) -> bool) -> Option<&'static str> {
        (self.faults && !has("page_fault_user")).then_some("page faults")
    }

    fn parts(self) -> impl Iterator<Item = (bool, u32, u64)> {
        [
            (self.calls, counting::CALLS, COUNTED_CALLS),
            (self.switches, counting::SWITCHES, COUNTED_SWITCHES),
            (self.faults, counting::FAULTS, COUNTED_FAULTS),
        ]
        .into_iter()
        .filter(|(is_counted, ..)| *is_counted)
    }
}

type SumMap = PerCpuHashMap<MapData, [u64; KEY_WORDS], [u64; SUM_WORDS]>;
type OfAllMap = PerCpuArray<MapData, [u64; SUM_WORDS]>;
type ThreadMap = HashMap<MapData, u32, [u64; THREAD_WORDS]>;

const KEY_WORDS: usize = size_of::<CountKey>() / size_of::<u64>();
const SUM_WORDS: usize = size_of::<CountSum>() / size_of::<u64>();
const THREAD_WORDS: usize = size_of::<CountedThread>() / size_of::<u64>();

/// The maps of what was counted. They can be read as long as this exists.
pub struct CountReader {
    sums: SumMap,
    of_all: OfAllMap,
    threads: ThreadMap,
    not_counted: MapMemory,
}

impl CountReader {
    /// Takes the maps out of the object.
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self, LoadError> {
        let not_counted = map_array(ebpf, NOT_COUNTED, size_of::<NotCounted>())?;
        let map = |name, source: MapError| LoadError::Map {
            name,
            source: Box::new(source),
        };
        let sums = take(ebpf, SUMS)?.try_into();
        let of_all = take(ebpf, OF_ALL)?.try_into();
        let threads = take(ebpf, COUNTED_THREADS)?.try_into();
        Ok(Self {
            sums: sums.map_err(|source| map(SUMS, source))?,
            of_all: of_all.map_err(|source| map(OF_ALL, source))?,
            threads: threads.map_err(|source| map(COUNTED_THREADS, source))?,
            not_counted,
        })
    }

    /// Returns the sums, over all CPUs.
    ///
    /// # Errors
    ///
    /// The kernel refuses the map.
    pub fn sums(&self) -> Result<Vec<(CountKey, CountSum)>, MapError> {
        let mut sums = Vec::new();
        for entry in self.sums.iter() {
            let (key, values) = entry?;
            let Ok(key) = CountKey::read_from_bytes(key.as_bytes()) else {
                continue;
            };
            sums.push((key, joined(&values)));
        }
        for index in 0..self.of_all.len() {
            let sum = joined(&self.of_all.get(&index, 0)?);
            if sum != CountSum::new_zeroed() {
                sums.push((key_of_all(index), sum));
            }
        }
        Ok(sums)
    }

    /// Returns what threads do now, with the tid of each.
    ///
    /// # Errors
    ///
    /// The kernel refuses the map.
    pub fn threads(&self) -> Result<Vec<(u32, CountedThread)>, MapError> {
        let mut threads = Vec::new();
        for entry in self.threads.iter() {
            let (tid, value) = entry?;
            if let Ok(thread) = CountedThread::read_from_bytes(value.as_bytes()) {
                threads.push((tid, thread));
            }
        }
        Ok(threads)
    }

    /// Returns how many events and threads found no space in the maps.
    #[must_use]
    pub fn not_counted(&self) -> NotCounted {
        let word = |offset| {
            let word = self.not_counted.word(offset);
            word.map_or(0, |word| word.load(std::sync::atomic::Ordering::Relaxed))
        };
        NotCounted {
            events: word(offset_of!(NotCounted, events)),
            threads: word(offset_of!(NotCounted, threads)),
        }
    }

    /// Notes what a thread did at this time. Where the programs have seen the thread do something
    /// since, their entry stays.
    pub fn note(&mut self, (pid, tid): (i32, i32), time_ns: u64, state: &ThreadStateData) {
        let does = match state.state {
            thread_state::RUNNING => counted::RUNNING,
            thread_state::RUNNABLE => counted::RUNNABLE,
            thread_state::BLOCKED => counted::BLOCKED,
            thread_state::STOPPED | thread_state::TRACED => counted::STOPPED,
            _ => return,
        };
        let thread = CountedThread {
            since_ns: time_ns,
            entered_ns: 0,
            pid: pid.cast_unsigned(),
            does,
            kind: 0,
            number: 0,
            is_new: 0,
            is_forced: 0,
        };
        let mut words = [0_u64; THREAD_WORDS];
        words.as_mut_bytes().copy_from_slice(thread.as_bytes());
        // Where the map has the thread already, or has no space, it stays as it is.
        let _ = self.threads.insert(tid.cast_unsigned(), words, BPF_NOEXIST);
    }
}

/// Returns the key of an entry of the map `OF_ALL`.
fn key_of_all(index: u32) -> CountKey {
    let (kind, number) = match index.checked_sub(2 * CALLS_OF_ALL) {
        Some(kind) => (kind, 0),
        None => (index / CALLS_OF_ALL, index % CALLS_OF_ALL),
    };
    CountKey {
        who: [0; 2],
        kind,
        number,
    }
}

/// Returns the sum over all CPUs.
fn joined(values: &PerCpuValues<[u64; SUM_WORDS]>) -> CountSum {
    const LONGEST: usize = offset_of!(CountSum, longest_ns) / size_of::<u64>();
    let mut sum = [0_u64; SUM_WORDS];
    for of_cpu in values.iter() {
        for (index, (all, more)) in sum.iter_mut().zip(of_cpu).enumerate() {
            *all = if index == LONGEST {
                (*all).max(*more)
            } else {
                all.saturating_add(*more)
            };
        }
    }
    zerocopy::transmute!(sum)
}

/// Makes an entry only where there is none.
const BPF_NOEXIST: u64 = 1;

fn take(ebpf: &mut Ebpf, name: &'static str) -> Result<Map, LoadError> {
    ebpf.take_map(name).ok_or(LoadError::PartMissing { name })
}

const _: () = {
    assert!(KEY_WORDS * size_of::<u64>() == size_of::<CountKey>());
    assert!(THREAD_WORDS * size_of::<u64>() == size_of::<CountedThread>());
};

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Counting = Counting {
        calls: true,
        switches: true,
        faults: true,
        points: false,
        times: true,
        by: CountsBy::All,
    };

    #[test]
    fn the_more_cpus_there_are_the_fewer_sums_each_has() {
        let by = CountsBy::Thread;
        let bytes = |cpus: u32| {
            let sums = Counting { by, ..ALL }.entries(cpus, 0).sums;
            u64::from(sums) * u64::from(cpus) * u64::try_from(size_of::<CountSum>()).unwrap()
        };
        assert!(bytes(2) <= SUM_BYTES && bytes(64) <= SUM_BYTES);
        assert_eq!(Counting { by, ..ALL }.entries(8192, 0).sums, 4096);
        assert_eq!(ALL.entries(8192, 3), ALL.entries(1, 3));
        assert_eq!(ALL.entries(1, 3).sums, ALL.entries(1, 0).sums + 3);
    }

    #[test]
    fn only_what_is_asked_for_is_attached() {
        let none = Counting {
            calls: false,
            switches: false,
            faults: false,
            ..ALL
        };
        assert_eq!((none.bits(), none.attached()), (0, 0));
        let calls = Counting {
            calls: true,
            ..none
        };
        assert_eq!(calls.attached(), COUNTED_CALLS | COUNTED_CALL_TIMES);
        let times = false;
        assert_eq!(Counting { times, ..calls }.attached(), COUNTED_CALLS);
        assert_eq!(
            ALL.bits(),
            counting::CALLS | counting::SWITCHES | counting::FAULTS
        );
    }
}
