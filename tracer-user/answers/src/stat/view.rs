//! Rows of threads, and their order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use tracer_analysis::{Thread, ThreadTotal};

use super::Statistics;
use super::table::LISTED;
use crate::queries::words::thread;
use tracer_text::escape::push_for_people;

/// View of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Rows; `None`: a thread, or a name where there are more threads than are listed.
    pub by: Option<By>,
    /// Order of rows.
    pub sort: SortBy,
    /// Whether locks are shown with their holders, and the threads that waited for these.
    pub has_holders: bool,
}

/// A kind of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// A thread.
    Thread,
    /// A process, with its threads.
    Process,
    /// All threads of a name.
    Comm,
}

/// The column by which rows are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum SortBy {
    /// The longest on a CPU.
    #[default]
    Running,
    /// The longest wait for CPUs, all together.
    Runnable,
    /// The longest blocked.
    Blocked,
    /// The longest stopped.
    Stopped,
    /// The longest unknown.
    Unknown,
    /// The most waits for a CPU.
    Waits,
    /// Those that had to give way most often.
    Forced,
    /// The longest waits for a CPU in the mean.
    Mean,
    /// The longest 99th percentile of them.
    P99,
    /// The longest of them.
    Max,
    /// By name.
    Name,
    /// By process and thread.
    Pid,
}

impl SortBy {
    /// Returns the value by which rows are sorted, the largest first; 0 where there is none.
    fn most(self, total: &ThreadTotal) -> u64 {
        match self {
            Self::Running => total.running,
            Self::Runnable => total.runnable,
            Self::Blocked => total.blocked,
            Self::Stopped => total.stopped,
            Self::Unknown => total.unknown,
            Self::Waits => total.waits.count(),
            Self::Forced => total.preempted,
            Self::Mean => total.waits.mean().unwrap_or(0),
            Self::P99 => total.waits.quantile(0.99).unwrap_or(0),
            Self::Max => total.waits.longest(),
            Self::Name | Self::Pid => 0,
        }
    }
}

/// Threads that are shown together.
#[derive(Clone, Debug)]
pub struct Group {
    /// Name of the threads.
    pub comm: Vec<u8>,
    /// Their processes.
    pub processes: usize,
    /// Number of threads.
    pub threads: usize,
    /// The first of them.
    pub first: Thread,
    /// Totals of the threads.
    pub total: ThreadTotal,
}

impl Group {
    /// Returns the text of the first column.
    #[must_use]
    pub fn label(&self, by: By) -> String {
        let leader = Thread {
            pid: self.first.pid,
            tid: self.first.pid,
        };
        match by {
            By::Thread => thread(self.first, &self.comm),
            By::Process => thread(leader, &self.comm),
            By::Comm => {
                let mut name = Vec::new();
                push_for_people(&mut name, &self.comm);
                let name = match &*String::from_utf8_lossy(&name) {
                    "" => "(no name)".to_owned(),
                    name => name.to_owned(),
                };
                match (self.processes, self.threads) {
                    (1, 1) => format!("{name} {}", self.first.tid),
                    (1, threads) => format!("{name} ({threads} threads)"),
                    (processes, threads) if processes == threads => format!("{name} ({processes})"),
                    (processes, threads) => format!("{name} ({processes}, {threads} threads)"),
                }
            }
        }
    }
}

impl Statistics {
    /// Returns the kind of rows of this view.
    #[must_use]
    pub fn by(&self, view: View) -> By {
        let is_more_than_listed = self.threads.len() > LISTED;
        view.by.unwrap_or(if is_more_than_listed {
            By::Comm
        } else {
            By::Thread
        })
    }

    /// Returns the threads, in this order.
    #[must_use]
    pub fn sorted(&self, sort: SortBy) -> Vec<&(Thread, Vec<u8>, ThreadTotal)> {
        let mut threads: Vec<_> = self.threads.iter().collect();
        threads.sort_by(|one, other| {
            let most = |total: &ThreadTotal| Reverse(sort.most(total));
            let name = |comm: &'_ Vec<u8>| (sort == SortBy::Name).then(|| comm.clone());
            (most(&one.2), name(&one.1), one.0).cmp(&(most(&other.2), name(&other.1), other.0))
        });
        threads
    }

    /// Returns the rows of threads.
    #[must_use]
    pub fn groups(&self, by: By, sort: SortBy) -> Vec<Group> {
        let mut groups = match by {
            // Two that had the same ids one after the other stay two.
            By::Thread => {
                let threads = self.threads.iter();
                threads
                    .map(|(of, comm, total)| Group {
                        comm: comm.clone(),
                        processes: 1,
                        threads: 1,
                        first: *of,
                        total: total.clone(),
                    })
                    .collect()
            }
            // The name is that of the process, whichever thread is seen.
            By::Process => self.together(|of, _| {
                let leader = Thread {
                    pid: of.pid,
                    tid: of.pid,
                };
                (leader, self.paths.names().get(leader).to_vec())
            }),
            By::Comm => self.together(|_, comm| (Thread::default(), comm.to_vec())),
        };
        groups.sort_by(|one, other| {
            let most = |group: &Group| Reverse(sort.most(&group.total));
            let name = |group: &Group| (sort == SortBy::Name).then(|| group.comm.clone());
            (most(one), name(one), one.first).cmp(&(most(other), name(other), other.first))
        });
        groups
    }

    fn together(&self, key: impl Fn(Thread, &[u8]) -> (Thread, Vec<u8>)) -> Vec<Group> {
        let mut groups: BTreeMap<(Thread, Vec<u8>), (Group, BTreeSet<i32>)> = BTreeMap::new();
        for (of, comm, total) in &self.threads {
            let key = key(*of, comm);
            let comm = key.1.clone();
            let (group, processes) = groups.entry(key).or_insert_with(|| {
                let group = Group {
                    comm,
                    processes: 0,
                    threads: 0,
                    first: *of,
                    total: ThreadTotal::default(),
                };
                (group, BTreeSet::new())
            });
            group.threads += 1;
            group.first = group.first.min(*of);
            group.total.add_all(total);
            processes.insert(of.pid);
            group.processes = processes.len();
        }
        groups.into_values().map(|(group, _)| group).collect()
    }
}
