//! Counts that the programs keep, where nothing is recorded: their choice, and the reader's end of
//! their maps.

use std::mem::{offset_of, size_of};

use aya::Ebpf;
use aya::maps::{HashMap, Map, MapData, MapError, PerCpuHashMap};
use tracer_common::kernel::{
    CountKey, CountSum, CountedThread, NotCounted, ThreadStateData, counted, counting, thread_state,
};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::error::LoadError;
use super::loading::map_array;
use super::mapping::MapMemory;
use super::programs::{COUNTED_CALLS, COUNTED_FAULTS, COUNTED_SWITCHES};

pub const SUMS: &str = "SUMS";
pub const COUNTED_THREADS: &str = "COUNTED_THREADS";
const NOT_COUNTED: &str = "NOT_COUNTED";

/// Bytes that all sums take at most: there are fewer where there are many CPUs, each of which has
/// its own.
const SUM_BYTES: u64 = 128 << 20;
/// Least and most sums by process, thread or name.
const SUMS_BY_THREAD: (u64, u64) = (4096, 65_536);
/// Sums where there is one for each call: more than both tables have calls.
const SUMS_OF_ALL: u32 = 2048;
/// Threads of which it is known what they do.
const MOST_THREADS: u32 = 65_536;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting {
    /// System calls.
    pub calls: bool,
    /// What threads do.
    pub switches: bool,
    /// Page faults.
    pub faults: bool,
    /// Whose sums there are.
    pub by: CountsBy,
}

/// Whose sums there are.
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

impl Counting {
    /// Returns the value of the global `COUNTS`.
    pub(super) fn bits(self) -> u32 {
        self.parts().map(|(_, bit, _)| bit).sum()
    }

    /// Returns what is attached for it, as bits.
    pub(super) fn attached(self) -> u64 {
        self.parts().fold(0, |bits, (.., bit)| bits | bit)
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

    /// Returns how many entries the maps `SUMS` and `COUNTED_THREADS` have, on so many CPUs.
    pub(super) fn entries(self, cpus: u32) -> (u32, u32) {
        let sums = if self.by == CountsBy::All {
            SUMS_OF_ALL
        } else {
            let bytes = u64::try_from(size_of::<CountSum>()).unwrap_or(u64::MAX);
            let (least, most) = SUMS_BY_THREAD;
            let sums = SUM_BYTES / bytes / u64::from(cpus.max(1));
            u32::try_from(sums.clamp(least, most)).unwrap_or(SUMS_OF_ALL)
        };
        (sums, MOST_THREADS)
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
type ThreadMap = HashMap<MapData, u32, [u64; THREAD_WORDS]>;

const KEY_WORDS: usize = size_of::<CountKey>() / size_of::<u64>();
const SUM_WORDS: usize = size_of::<CountSum>() / size_of::<u64>();
const THREAD_WORDS: usize = size_of::<CountedThread>() / size_of::<u64>();

/// The maps of what was counted. They can be read as long as this exists.
pub struct Counts {
    sums: SumMap,
    threads: ThreadMap,
    not_counted: MapMemory,
}

impl Counts {
    /// Takes the maps out of the object.
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self, LoadError> {
        let not_counted = map_array(ebpf, NOT_COUNTED, size_of::<NotCounted>())?;
        let map = |name, source: MapError| LoadError::Map {
            name,
            source: Box::new(source),
        };
        let sums = take(ebpf, SUMS)?.try_into();
        let threads = take(ebpf, COUNTED_THREADS)?.try_into();
        Ok(Self {
            sums: sums.map_err(|source| map(SUMS, source))?,
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
            let mut sum = [0_u64; SUM_WORDS];
            let longest = offset_of!(CountSum, longest_ns) / size_of::<u64>();
            for of_cpu in values.iter() {
                for (index, (all, more)) in sum.iter_mut().zip(of_cpu).enumerate() {
                    *all = if index == longest {
                        (*all).max(*more)
                    } else {
                        all.saturating_add(*more)
                    };
                }
            }
            if let Ok(sum) = CountSum::read_from_bytes(sum.as_bytes()) {
                sums.push((key, sum));
            }
        }
        Ok(sums)
    }

    /// Returns what threads do now, by the number of each.
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

    /// Returns what found no space.
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

    /// Notes what a thread did at this time, unless the programs have seen it do something since:
    /// then they know.
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
        // Where it is known, or there is no space, it stays as it is.
        let _ = self.threads.insert(tid.cast_unsigned(), words, BPF_NOEXIST);
    }
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
        by: CountsBy::All,
    };

    #[test]
    fn the_more_cpus_there_are_the_fewer_sums_each_has() {
        let by = CountsBy::Thread;
        let bytes = |cpus: u32| {
            let (sums, _) = Counting { by, ..ALL }.entries(cpus);
            u64::from(sums) * u64::from(cpus) * u64::try_from(size_of::<CountSum>()).unwrap()
        };
        assert!(bytes(2) <= SUM_BYTES && bytes(64) <= SUM_BYTES);
        assert_eq!(Counting { by, ..ALL }.entries(8192).0, 4096);
        assert_eq!(ALL.entries(8192), ALL.entries(1));
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
        assert_eq!(calls.attached(), COUNTED_CALLS);
        assert_eq!(
            ALL.bits(),
            counting::CALLS | counting::SWITCHES | counting::FAULTS
        );
    }
}
