//! Circles of waits: threads of which none goes on unless another of them does.

use std::collections::{BTreeMap, BTreeSet};

use super::threads::ThreadId;
use super::waits::{ThreadActivity, WaitHolder};

/// Facts that are known of the waits of some threads.
pub trait Waits {
    /// Returns what a thread does; `None` where it was not looked at.
    fn activity(&self, thread: ThreadId) -> Option<&ThreadActivity>;
    /// Returns all threads that were looked at.
    fn threads(&self) -> Vec<ThreadId>;
    /// Returns all threads of a process; `None` where not all of them were looked at.
    fn of_process(&self, pid: i32) -> Option<Vec<ThreadId>>;
}

/// Returns the threads that go on only if a thread of these does.
///
/// A thread that may go on by itself, after some time, or by what is not known is none of them.
fn stuck(waits: &impl Waits) -> BTreeSet<ThreadId> {
    let mut stuck: BTreeMap<ThreadId, Vec<ThreadId>> = BTreeMap::new();
    for thread in waits.threads() {
        if let Some(enders) = enders(waits, thread) {
            stuck.insert(thread, enders);
        }
    }
    loop {
        let is_free = |enders: &Vec<ThreadId>| enders.iter().any(|one| !stuck.contains_key(one));
        let free = stuck.iter().filter(|(_, enders)| is_free(enders));
        let free: Vec<ThreadId> = free.map(|(thread, _)| *thread).collect();
        if free.is_empty() {
            return stuck.into_keys().collect();
        }
        for thread in free {
            stuck.remove(&thread);
        }
    }
}

/// Returns the threads that may end a wait, where all of them are known and nothing else ends it.
fn enders(waits: &impl Waits, thread: ThreadId) -> Option<Vec<ThreadId>> {
    let wait = waits.activity(thread)?.wait()?;
    if wait.has_timeout || !wait.is_whole || wait.holders.is_empty() {
        return None;
    }
    let mut enders = Vec::new();
    for holder in &wait.holders {
        match holder {
            WaitHolder::Thread(thread) => enders.push(*thread),
            WaitHolder::Process(pid) => enders.extend(waits.of_process(*pid)?),
        }
    }
    (!enders.is_empty()).then_some(enders)
}

/// Finds the circles, each from its lowest thread on, and the number of threads that wait for those
/// in vain.
pub fn find(waits: &impl Waits) -> (Vec<Vec<ThreadId>>, usize) {
    let stuck = stuck(waits);
    let mut circles: BTreeSet<Vec<ThreadId>> = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for thread in &stuck {
        let mut way = Vec::new();
        let mut at = *thread;
        while seen.insert(at) {
            way.push(at);
            let next = enders(waits, at).and_then(|enders| {
                // Of several, one that is no further.
                enders.into_iter().find(|one| stuck.contains(one))
            });
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        let circle = way.iter().position(|one| *one == at);
        if let Some(circle) = circle.and_then(|from| way.get(from..)) {
            circles.insert(from_lowest(circle));
        }
    }
    let within: BTreeSet<ThreadId> = circles.iter().flatten().copied().collect();
    let behind = stuck.difference(&within).count();
    (circles.into_iter().collect(), behind)
}

/// Returns a circle from its lowest thread on.
fn from_lowest(circle: &[ThreadId]) -> Vec<ThreadId> {
    let lowest = circle.iter().enumerate().min_by_key(|(_, thread)| **thread);
    let first = lowest.map_or(0, |(index, _)| index);
    let (before, from) = circle.split_at_checked(first).unwrap_or((&[], circle));
    from.iter().chain(before).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::super::waits::{ThreadWait, WaitKind};
    use super::*;

    #[derive(Default)]
    struct Made(BTreeMap<ThreadId, ThreadActivity>);

    fn id(tid: i32) -> ThreadId {
        ThreadId { pid: tid / 10, tid }
    }

    impl Made {
        fn runs(mut self, tid: i32) -> Self {
            self.0.insert(id(tid), ThreadActivity::Runs);
            self
        }

        fn waits(mut self, tid: i32, holders: &[WaitHolder]) -> Self {
            let wait = ThreadWait::new(WaitKind::Mutex).held_by(holders.to_vec());
            self.0
                .insert(id(tid), ThreadActivity::Waits(Box::new(wait)));
            self
        }

        fn changed(mut self, tid: i32, change: impl Fn(&mut ThreadWait)) -> Self {
            if let Some(ThreadActivity::Waits(wait)) = self.0.get_mut(&id(tid)) {
                change(wait);
            }
            self
        }

        fn found(&self) -> (Vec<Vec<i32>>, usize) {
            let (circles, behind) = find(self);
            let tids = |circle: Vec<ThreadId>| circle.iter().map(|one| one.tid).collect();
            (circles.into_iter().map(tids).collect(), behind)
        }
    }

    impl Waits for Made {
        fn activity(&self, thread: ThreadId) -> Option<&ThreadActivity> {
            self.0.get(&thread)
        }
        fn threads(&self) -> Vec<ThreadId> {
            self.0.keys().copied().collect()
        }
        fn of_process(&self, pid: i32) -> Option<Vec<ThreadId>> {
            let threads = self.0.keys().copied();
            Some(threads.filter(|thread| thread.pid == pid).collect())
        }
    }

    fn thread(tid: i32) -> WaitHolder {
        WaitHolder::Thread(id(tid))
    }

    #[test]
    fn a_circle_is_found_with_those_behind_it() {
        let made = Made::default()
            .waits(12, &[thread(13)])
            .waits(13, &[thread(11)])
            .waits(11, &[thread(12)])
            .waits(14, &[thread(13)])
            .waits(15, &[thread(16)])
            .runs(16);
        assert_eq!(made.found(), (vec![vec![11, 12, 13]], 1));
    }

    #[test]
    fn a_thread_that_waits_for_itself_is_a_circle() {
        let made = Made::default().waits(11, &[thread(11)]);
        assert_eq!(made.found(), (vec![vec![11]], 0));
    }

    #[test]
    fn two_circles_are_two() {
        let made = Made::default()
            .waits(11, &[thread(12)])
            .waits(12, &[thread(11)])
            .waits(21, &[thread(22)])
            .waits(22, &[thread(21)]);
        assert_eq!(made.found(), (vec![vec![11, 12], vec![21, 22]], 0));
    }

    #[test]
    fn what_another_thread_may_end_is_no_circle() {
        let made = || {
            Made::default()
                .waits(11, &[WaitHolder::Process(2)])
                .waits(21, &[thread(11)])
        };
        assert_eq!(made().found(), (vec![vec![11, 21]], 0));
        assert!(made().runs(22).found().0.is_empty());
        let timed = made().changed(21, |wait| wait.has_timeout = true);
        assert!(timed.found().0.is_empty());
        let more = made().changed(11, |wait| wait.is_whole = false);
        assert!(more.found().0.is_empty());
        // One that was not looked at.
        let unseen = made().waits(11, &[thread(31)]);
        assert!(unseen.found().0.is_empty());
    }
}
