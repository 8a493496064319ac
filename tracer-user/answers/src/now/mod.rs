//! This moment: what threads wait for, who has it, and circles of such waits.
//!
//! This takes no tracing: the facts are read from `/proc`, and from the memory of programs where a
//! layout is known. A fact that differs between two reads, or that does not fit, is *unknown*.
//!
//! - `threads` has what the kernel says of threads, `table` all processes, `descriptors` and
//!   `sockets` what descriptors are and who else has them, `file_locks` the locks of files,
//!   `maps` the memory that processes share;
//! - `layouts` finds the owner of a lock, and `robust` the locks that a thread has;
//! - `contexts` finds the trace and the span that a thread works for;
//! - `asking` asks the kernel without waiting for long;
//! - `places` finds functions and variables;
//! - `look` finds from all of this what each thread waits for (`waits`);
//! - `circles` finds deadlocks, and `text` and `json` show the answer.

mod asking;
mod circles;
mod contexts;
mod descriptors;
mod file_locks;
mod json;
mod look;
mod maps;
mod places;
mod robust;
mod sockets;
mod table;
mod text;
mod threads;
mod unix_peer;
mod waits;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use circles::Waits;
use look::{LookedAt, WaitLook};
use threads::{ProcessAccess, read_thread};
use waits::{ThreadActivity, WaitHolder};

pub use json::json;
pub use text::text;
pub use threads::ThreadId;

/// Greatest number of processes that are looked at without being asked for, as they have what
/// others wait for.
const MOST_OTHERS: usize = 64;

/// Greatest number of searches for circles: another one follows where a second look no longer finds
/// one of them.
const TRIES: usize = 3;

/// A look at some processes.
pub struct WaitSnapshot {
    threads: BTreeMap<ThreadId, LookedAt>,
    /// The processes that were asked for.
    asked: BTreeSet<i32>,
    /// The trace that was asked for.
    trace: Option<[u8; 16]>,
    /// Processes of which all threads were looked at.
    whole: BTreeSet<i32>,
    /// Circles, each from its lowest thread on.
    deadlocks: Vec<Vec<ThreadId>>,
    /// Number of threads outside of the circles that wait for those in vain.
    behind: usize,
    missing: Missing,
}

/// Processes and threads that were not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Missing {
    /// Processes that this user may not trace.
    refused: Vec<i32>,
    /// Processes that keep the kernel from answering.
    held: Vec<i32>,
    /// Number of processes for which there was no time, or that are too many beside those that the
    /// user asked for.
    processes: usize,
    /// Number of threads for which there was no time, or of which a process has too many.
    threads: usize,
}

impl WaitSnapshot {
    /// Looks at the threads of these processes, and of the processes that have what these wait for.
    #[must_use]
    pub fn look(pids: &[i32]) -> Self {
        let mut moment = Self::once(pids);
        for _ in 1..TRIES {
            if moment.confirm() {
                return moment;
            }
            moment = Self::once(pids);
        }
        if !moment.confirm() {
            moment.deadlocks.clear();
            moment.behind = 0;
        }
        moment
    }

    /// Asks only for threads that work for this trace of OpenTelemetry.
    #[must_use]
    pub fn of_trace(mut self, trace: [u8; 16]) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Tells whether a thread is one of those that were asked for.
    fn is_asked(&self, thread: ThreadId) -> bool {
        let looked = self.threads.get(&thread);
        let context = looked.and_then(|looked| looked.context);
        let is_of_trace = |trace| context.is_some_and(|context| context.trace_id == trace);
        self.asked.contains(&thread.pid) && self.trace.is_none_or(is_of_trace)
    }

    fn once(pids: &[i32]) -> Self {
        let mut moment = Self {
            threads: BTreeMap::new(),
            asked: pids.iter().copied().collect(),
            trace: None,
            whole: BTreeSet::new(),
            deadlocks: Vec::new(),
            behind: 0,
            missing: Missing::default(),
        };
        let mut look = WaitLook::new();
        let mut queue: VecDeque<i32> = pids.iter().copied().collect();
        let mut known: BTreeSet<i32> = moment.asked.clone();
        let mut left_out = BTreeSet::new();
        let most = known.len() + MOST_OTHERS;
        while let Some(pid) = queue.pop_front() {
            if look.is_late() {
                moment.missing.processes += 1;
                continue;
            }
            for holder in moment.look_at(&mut look, pid) {
                let holder = holder.pid();
                if known.len() < most && known.insert(holder) {
                    queue.push_back(holder);
                } else if !known.contains(&holder) {
                    left_out.insert(holder);
                }
            }
        }
        moment.missing.processes += left_out.len();
        (moment.deadlocks, moment.behind) = circles::find(&moment);
        moment
    }

    /// Looks at a process. Returns the threads and processes that have what its threads wait for.
    fn look_at(&mut self, look: &mut WaitLook, pid: i32) -> Vec<WaitHolder> {
        let Some(process) = look.process(pid) else {
            return Vec::new();
        };
        // Among several processes, one of the kernel that has nothing to do tells nothing.
        if process.is_kernel && self.asked.len() > 1 {
            let mut threads = process.threads.values();
            if threads.all(|thread| matches!(thread.state, b'I' | b'S')) {
                return Vec::new();
            }
        }
        let facts: Vec<_> = process.threads.values().cloned().collect();
        let mut left_out = process.left_out;
        match process.access {
            ProcessAccess::Whole => {}
            ProcessAccess::Refused => self.missing.refused.push(pid),
            ProcessAccess::Held => self.missing.held.push(pid),
        }
        let is_whole = process.access == ProcessAccess::Whole;
        let mut holders = BTreeSet::new();
        for facts in facts {
            if look.is_late() {
                left_out += 1;
                continue;
            }
            let tid = facts.tid;
            if let Some(looked) = look.thread(pid, facts) {
                holders.extend(looked.activity.holders());
                self.threads.insert(ThreadId { pid, tid }, looked);
            }
        }
        self.missing.threads += left_out;
        if is_whole && left_out == 0 {
            self.whole.insert(pid);
        }
        holders.into_iter().collect()
    }

    /// Looks once more at the threads of the circles. Returns whether none of them has run since,
    /// and all wait for the same holders: then each circle was there, with all of its waits at
    /// once, when the first look ended.
    fn confirm(&self) -> bool {
        let mut look = WaitLook::new();
        self.deadlocks.iter().flatten().all(|thread| {
            let Some(before) = self.threads.get(thread) else {
                return false;
            };
            let Ok(Some(now)) = read_thread(thread.pid, thread.tid) else {
                return false;
            };
            let is_unmoved = now.is_unmoved_since(&before.facts);
            let again = look.thread(thread.pid, now);
            is_unmoved
                && again.is_some_and(|again| {
                    again.activity.holders() == before.activity.holders()
                        && again.facts.is_unmoved_since(&before.facts)
                })
        })
    }

    /// Tells whether there was nothing to look at.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty() && self.missing.held.is_empty()
    }
}

impl Waits for WaitSnapshot {
    fn activity(&self, thread: ThreadId) -> Option<&ThreadActivity> {
        self.threads.get(&thread).map(|looked| &looked.activity)
    }

    fn threads(&self) -> Vec<ThreadId> {
        self.threads.keys().copied().collect()
    }

    fn of_process(&self, pid: i32) -> Option<Vec<ThreadId>> {
        if !self.whole.contains(&pid) {
            return None;
        }
        let of = self
            .threads
            .range(ThreadId { pid, tid: i32::MIN }..=ThreadId { pid, tid: i32::MAX });
        Some(of.map(|(thread, _)| *thread).collect())
    }
}
