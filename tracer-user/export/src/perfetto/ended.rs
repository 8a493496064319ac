//! Threads that have left their CPU for good.
//!
//! The engine takes a thread that is named after its end for a new one without a name. But events
//! of the kernel do come later: another CPU completes a wake-up that the thread asked for, and a
//! process continues after its main thread has ended. So an end is held back, and written at the
//! last moment at which the thread or its process is heard of: the kernel's own event of an end
//! comes late too.

use std::collections::{HashMap, VecDeque};

use tracer_engine::event::MonotonicNs;

use super::switches::SwitchedTask;
use crate::names::LogThread;

/// Limit of ends that are held back: many more than there are between a wake-up and its completion.
const MOST_HELD: usize = 4096;

/// End of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadEnd {
    /// Thread that ends.
    pub task: SwitchedTask,
    /// CPU of the last event that concerned it.
    pub cpu: u32,
    /// Time right after that event: behind everything of the same time.
    pub at: MonotonicNs,
}

/// Ends that are held back.
#[derive(Debug, Default)]
pub struct HeldEnds {
    /// Ends by thread, each with whether the thread was heard of since it was queued.
    held: HashMap<i32, (ThreadEnd, bool)>,
    queue: VecDeque<i32>,
}

impl HeldEnds {
    /// Holds back the end of a thread that leaves a CPU for good. Returns one that is held no
    /// longer.
    pub fn hold(&mut self, task: SwitchedTask, cpu: u32, at: MonotonicNs) -> Option<ThreadEnd> {
        let tid = task.tid;
        let at = behind(at);
        let end = ThreadEnd { task, cpu, at };
        let before = self.held.insert(tid, (end, false));
        if before.is_some() {
            return None;
        }
        self.queue.push_back(tid);
        if self.queue.len() > MOST_HELD {
            self.release_oldest()
        } else {
            None
        }
    }

    /// Notes that something is heard of a thread: its process continues.
    pub fn hear(&mut self, thread: LogThread, cpu: u32, at: MonotonicNs) {
        let own = behind(at);
        // A process ends with its main thread, and has to be there for the end of another one.
        let main = if thread.pid == thread.tid {
            own
        } else {
            behind(own)
        };
        for (tid, at) in [(thread.tid, own), (thread.pid, main)] {
            if let Some((end, is_heard)) = self.held.get_mut(&tid) {
                (end.cpu, end.at, *is_heard) = (cpu, at.max(end.at), true);
            }
        }
    }

    /// Returns the end of a thread whose tid another one gets.
    pub fn release(&mut self, tid: i32) -> Option<ThreadEnd> {
        let (end, _) = self.held.remove(&tid)?;
        self.queue.retain(|queued| *queued != tid);
        Some(end)
    }

    /// Returns all remaining ends, in the order in which they came.
    pub fn release_all(&mut self) -> impl Iterator<Item = ThreadEnd> + use<> {
        let mut held = std::mem::take(&mut self.held);
        let queue = std::mem::take(&mut self.queue);
        queue
            .into_iter()
            .filter_map(move |tid| held.remove(&tid).map(|(end, _)| end))
    }

    /// Returns the held end whose thread was not heard of for longest.
    fn release_oldest(&mut self) -> Option<ThreadEnd> {
        // Each is passed over once at most.
        for _ in 0..=self.queue.len() {
            let tid = self.queue.pop_front()?;
            match self.held.get_mut(&tid) {
                Some((_, is_heard)) if *is_heard => {
                    *is_heard = false;
                    self.queue.push_back(tid);
                }
                _ => return self.held.remove(&tid).map(|(end, _)| end),
            }
        }
        None
    }
}

fn behind(at: MonotonicNs) -> MonotonicNs {
    MonotonicNs(at.0.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(ended: &mut HeldEnds, tid: i32, at: u64) -> Option<i32> {
        let task = SwitchedTask {
            tid,
            comm: b"x".to_vec(),
        };
        let released = ended.hold(task, 0, MonotonicNs(at));
        released.map(|end| end.task.tid)
    }

    fn thread(pid: i32, tid: i32) -> LogThread {
        LogThread { pid, tid }
    }

    fn left(ended: &mut HeldEnds) -> Vec<(i32, u64)> {
        let ends = ended.release_all();
        ends.map(|end| (end.task.tid, end.at.0)).collect()
    }

    #[test]
    fn an_end_is_when_the_thread_is_heard_of_last() {
        let mut ended = HeldEnds::default();
        hold(&mut ended, 7, 10);
        hold(&mut ended, 8, 11);
        ended.hear(thread(7, 7), 1, MonotonicNs(12));
        ended.hear(thread(9, 9), 1, MonotonicNs(13));
        assert_eq!(left(&mut ended), [(7, 13), (8, 12)]);
    }

    #[test]
    fn a_main_thread_ends_no_earlier_than_its_process_is_heard_of() {
        let mut ended = HeldEnds::default();
        hold(&mut ended, 7, 10);
        ended.hear(thread(7, 8), 1, MonotonicNs(20));
        assert_eq!(left(&mut ended), [(7, 22)]);
    }

    #[test]
    fn a_tid_that_is_given_again_ends_its_thread_before() {
        let mut ended = HeldEnds::default();
        hold(&mut ended, 7, 10);
        assert_eq!(ended.release(7).unwrap().at, MonotonicNs(11));
        assert_eq!(ended.release(7), None);
        assert_eq!(left(&mut ended), []);
    }

    #[test]
    fn ends_without_tid_are_held_in_bounded_memory() {
        let mut ended = HeldEnds::default();
        let mut released = Vec::new();
        for tid in 0..20_000 {
            released.extend(hold(&mut ended, tid, 1));
            // A process that goes on without its main thread.
            ended.hear(thread(5, 30_000), 0, MonotonicNs(2));
        }
        assert!(ended.queue.len() <= MOST_HELD && ended.held.len() == ended.queue.len());
        assert_eq!(released.len() + ended.held.len(), 20_000);
        assert!(!released.contains(&5) && released.is_sorted());
    }
}
