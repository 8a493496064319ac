//! Threads of one name, together.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use foldhash::HashMap;
use tracer_analysis::{Thread, ThreadTotal};

use crate::stat::Statistics;

/// Threads of one name.
#[derive(Clone, Debug, Default)]
pub struct Crew {
    /// Their name: any bytes.
    pub comm: Vec<u8>,
    /// The first of them.
    pub first: Thread,
    /// How many.
    pub threads: usize,
    /// Their processes.
    pub processes: usize,
    /// Their activity together.
    pub total: ThreadTotal,
    /// The longest that one of them ran, in nanoseconds, and which.
    pub hottest: (u64, Thread),
}

/// All of them, by name.
#[derive(Debug, Default)]
pub struct Crews {
    by_name: Vec<Crew>,
    names: HashMap<Thread, usize>,
    unknown: Vec<u8>,
}

impl Crews {
    /// Puts the threads of `statistics` together.
    #[must_use]
    pub fn new(statistics: &Statistics) -> Self {
        let mut crews: BTreeMap<&[u8], (Crew, BTreeSet<i32>)> = BTreeMap::new();
        for (thread, comm, total) in &statistics.threads {
            let (crew, pids) = crews.entry(comm).or_insert_with(|| {
                let crew = Crew {
                    comm: comm.clone(),
                    first: *thread,
                    hottest: (0, *thread),
                    ..Crew::default()
                };
                (crew, BTreeSet::new())
            });
            crew.first = crew.first.min(*thread);
            crew.threads += 1;
            crew.total.add_all(total);
            crew.hottest = crew.hottest.max((total.running, *thread));
            pids.insert(thread.pid);
        }
        let by_name = crews.into_values().map(|(crew, pids)| Crew {
            processes: pids.len(),
            ..crew
        });
        let by_name: Vec<Crew> = by_name.collect();
        let index = |comm: &[u8]| by_name.binary_search_by(|crew| (*crew.comm).cmp(comm)).ok();
        let threads = statistics.threads.iter();
        let names = threads.filter_map(|(thread, comm, _)| Some((*thread, index(comm)?)));
        Self {
            names: names.collect(),
            by_name,
            unknown: Vec::new(),
        }
    }

    /// Returns them, by name.
    #[must_use]
    pub fn all(&self) -> &[Crew] {
        &self.by_name
    }

    /// Returns those that a thread is one of.
    #[must_use]
    pub fn find(&self, thread: Thread) -> Option<&Crew> {
        self.by_name.get(*self.names.get(&thread)?)
    }

    /// Returns those of this name.
    #[must_use]
    pub fn named(&self, comm: &[u8]) -> Option<&Crew> {
        self.by_name.iter().find(|crew| crew.comm == comm)
    }

    /// Returns the name of a thread; empty where it is not known.
    #[must_use]
    pub fn name(&self, thread: Thread) -> &[u8] {
        self.find(thread).map_or(&self.unknown, |crew| &crew.comm)
    }
}
