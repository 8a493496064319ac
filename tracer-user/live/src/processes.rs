//! Traced processes, and names of threads, from the events of the stream.

use std::mem::offset_of;

use foldhash::HashMap;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{COMM_BYTES, ExecData, ForkData, RenameData};
use tracer_engine::event::{Event, MonotonicNs};
use zerocopy::FromBytes;

use tracer_event::event_view::NamespaceIds;

/// The name of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comm([u8; COMM_BYTES]);

impl Comm {
    /// Takes the name in `bytes`, up to a null and to the kernel's limit.
    pub fn new(bytes: &[u8]) -> Self {
        let mut comm = [0; COMM_BYTES];
        for (to, from) in comm
            .iter_mut()
            .zip(bytes.iter().take_while(|byte| **byte != 0))
        {
            *to = *from;
        }
        Self(comm)
    }

    /// Returns its bytes, without nulls.
    pub fn bytes(&self) -> &[u8] {
        let mut parts = self.0.split(|byte| *byte == 0);
        parts.next().unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    pid: i32,
    comm: Comm,
    /// Process and thread as the thread itself sees them, where they are known.
    inside: Option<NamespaceIds>,
    ended: Option<MonotonicNs>,
    /// Whether its process was known when it got its name.
    is_of_known: bool,
    /// Whether it was given a name that is empty, and not just none that is known.
    is_nameless: bool,
}

impl Thread {
    /// Returns its ids in its own pid namespace; those in the tracer's where they are not known.
    fn as_it_calls_itself(&self, tid: i32) -> NamespaceIds {
        self.inside.unwrap_or(NamespaceIds { pid: self.pid, tid })
    }

    /// Returns its ids in its own pid namespace, where they differ from those in the tracer's.
    fn inside_elsewhere(&self, tid: i32) -> Option<NamespaceIds> {
        let ours = NamespaceIds { pid: self.pid, tid };
        self.inside.filter(|inside| *inside != ours)
    }
}

/// Traced processes and their threads.
///
/// A process or thread that has ended stays known for a while ([`forget`](Self::forget)), since its
/// last switch away comes after its end.
#[derive(Debug, Default)]
pub struct Processes {
    follows_children: bool,
    /// Traced processes that live, with their threads.
    live: HashMap<i32, Vec<i32>>,
    ended: HashMap<i32, MonotonicNs>,
    threads: HashMap<i32, Thread>,
    /// Threads by their ids in their own pid namespace, where those differ from the ones here. A
    /// thread may have others by now.
    elsewhere: HashMap<NamespaceIds, Vec<i32>>,
}

impl Processes {
    /// Starts with no processes. With `follows_children` a child of a traced process is one too.
    pub fn new(follows_children: bool) -> Self {
        Self {
            follows_children,
            ..Self::default()
        }
    }

    /// Adds a traced process.
    pub fn add(&mut self, pid: i32) {
        self.ended.remove(&pid);
        self.live.entry(pid).or_default();
    }

    /// Tells whether a thread may be one of this process: it is, or is not known.
    pub fn may_be_of(&self, tid: i32, pid: i32) -> bool {
        let thread = self.threads.get(&tid);
        thread.is_none_or(|thread| thread.pid == pid || thread.ended.is_some())
    }

    /// Gives a thread its name, which may be empty.
    pub fn name(&mut self, pid: i32, tid: i32, comm: Comm) {
        self.note(pid, tid, comm);
        self.mark_nameless(tid);
    }

    /// Notes a thread whose name is not known.
    pub fn note_without_name(&mut self, pid: i32, tid: i32) {
        self.note(pid, tid, Comm::new(b""));
    }

    fn note(&mut self, pid: i32, tid: i32, comm: Comm) {
        let known = self.threads.get(&tid).filter(|thread| thread.pid == pid);
        let inside = known.and_then(|thread| thread.inside);
        self.put(pid, tid, comm, inside);
    }

    /// Notes the ids of a thread that has a name in its own pid namespace.
    pub fn set_inside(&mut self, tid: i32, inside: NamespaceIds) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.inside = Some(inside);
        }
        self.list_elsewhere(tid);
    }

    fn list_elsewhere(&mut self, tid: i32) {
        let thread = self.threads.get(&tid);
        if let Some(inside) = thread.and_then(|thread| thread.inside_elsewhere(tid)) {
            let called = self.elsewhere.entry(inside).or_default();
            if !called.contains(&tid) {
                called.push(tid);
            }
        }
    }

    /// Tells whether a thread is known that has other ids in its own pid namespace, of those
    /// processes of which `may_be` is true.
    pub fn has_any_elsewhere(&self, may_be: impl Fn(i32) -> bool) -> bool {
        let mut listed = self.elsewhere.values().flatten();
        listed.any(|tid| {
            self.threads
                .get(tid)
                .is_some_and(|thread| may_be(thread.pid))
        })
    }

    /// Finds the process and thread that call themselves `inside`, of those processes of which
    /// `may_be` is true; those that have ended only where no other does. `None` where it may be
    /// several, or none.
    pub fn called(
        &self,
        inside: NamespaceIds,
        may_be: impl Fn(i32) -> bool,
    ) -> Option<NamespaceIds> {
        let listed = self.elsewhere.get(&inside).into_iter().flatten();
        let candidates: Vec<(i32, &Thread)> = std::iter::once(&inside.tid)
            .chain(listed)
            .filter_map(|tid| Some((*tid, self.threads.get(tid)?)))
            .filter(|(tid, thread)| thread.as_it_calls_itself(*tid) == inside && may_be(thread.pid))
            .collect();
        let mut living = candidates
            .iter()
            .filter(|(_, thread)| thread.ended.is_none());
        let (tid, thread) = match (living.next(), living.next(), &candidates[..]) {
            (Some(only), None, _) | (None, _, [only]) => only,
            _ => return None,
        };
        let (tid, pid) = (*tid, thread.pid);
        Some(NamespaceIds { pid, tid })
    }

    /// Returns the name and ids that a thread is shown with: its name or its process's, where
    /// known, and its ids in its own pid namespace, where they differ from those in the tracer's.
    pub fn shown(&self, tid: i32) -> (Option<&Comm>, Option<NamespaceIds>) {
        let Some(thread) = self.threads.get(&tid) else {
            return (None, None);
        };
        let named = |of: &'_ Thread| of.is_nameless || !of.comm.bytes().is_empty();
        let main = || self.threads.get(&thread.pid);
        let comm = [Some(thread), main()].into_iter().flatten();
        let comm = comm.into_iter().find(|of| named(of)).map(|of| &of.comm);
        (comm, thread.inside_elsewhere(tid))
    }

    /// Tells whether a thread of a process that is [known](Self::knows) has a name.
    pub fn is_registered(&self, pid: i32, tid: i32) -> bool {
        let thread = self.threads.get(&tid);
        thread.is_some_and(|thread| thread.pid == pid && thread.is_of_known)
    }

    fn put(&mut self, pid: i32, tid: i32, comm: Comm, inside: Option<NamespaceIds>) {
        let is_of_known = self.knows(pid);
        let before = self.threads.insert(
            tid,
            Thread {
                pid,
                comm,
                inside,
                ended: None,
                is_of_known,
                is_nameless: false,
            },
        );
        // The same tid may have been that of a thread of another process before.
        let is_listed = before.is_some_and(|before| before.pid == pid && before.ended.is_none());
        if !is_listed && let Some(threads) = self.live.get_mut(&pid) {
            threads.push(tid);
        }
        self.list_elsewhere(tid);
    }

    /// Returns the name of a thread, where known.
    pub fn comm(&self, tid: i32) -> Option<&Comm> {
        self.threads.get(&tid).map(|thread| &thread.comm)
    }

    /// Tells whether a process is traced, or was until it ended.
    pub fn knows(&self, pid: i32) -> bool {
        self.live.contains_key(&pid) || self.ended.contains_key(&pid)
    }

    /// Tells whether a process is traced and has not ended.
    pub fn is_live(&self, pid: i32) -> bool {
        self.live.contains_key(&pid)
    }

    /// Returns the traced processes that have not ended.
    pub fn live(&self) -> impl Iterator<Item = i32> {
        self.live.keys().copied()
    }

    /// Returns the known threads of processes that have not ended, each after its process.
    pub fn live_threads(&self) -> impl Iterator<Item = (i32, i32)> {
        self.live
            .iter()
            .flat_map(|(pid, threads)| threads.iter().map(|tid| (*pid, *tid)))
    }

    /// Tells whether children are traced too.
    pub fn follows_children(&self) -> bool {
        self.follows_children
    }

    /// Tells whether every traced process has ended.
    pub fn have_all_ended(&self) -> bool {
        self.live.is_empty()
    }

    /// Notes that a process has ended.
    pub fn end(&mut self, pid: i32, at: MonotonicNs) {
        if let Some(threads) = self.live.remove(&pid) {
            self.ended.insert(pid, at);
            for tid in threads {
                self.end_thread(pid, tid, at);
            }
        }
    }

    /// Learns from an event.
    pub fn learn(&mut self, event: &Event<'_>) {
        let (header, data) = (&event.header, event.data);
        let (pid, tid) = (header.pid, header.tid);
        match header.event_type {
            EventTypeId::FORK | EventTypeId::THREAD_CREATE => {
                let Ok((fork, _)) = ForkData::read_from_prefix(data) else {
                    return;
                };
                let child = fork.child_pid.cast_signed();
                if self.follows_children && child != pid {
                    self.add(child);
                }
                // Its process may be found to have ended before this event is read.
                if self.knows(child) {
                    let inside = NamespaceIds {
                        pid: fork.child_ns_pid.cast_signed(),
                        tid: fork.child_ns_tid.cast_signed(),
                    };
                    let is_known = inside.pid != 0 && inside.tid != 0;
                    let comm = Comm::new(&fork.child_comm);
                    let tid = fork.child_tid.cast_signed();
                    self.put(child, tid, comm, is_known.then_some(inside));
                    self.mark_nameless(tid);
                }
            }
            EventTypeId::EXEC => {
                let name = data.get(..offset_of!(ExecData, old_tid)).unwrap_or(data);
                self.keep_only_first_thread(pid, header.time);
                self.name(pid, tid, Comm::new(name));
            }
            EventTypeId::RENAME => {
                if let Ok((rename, _)) = RenameData::read_from_prefix(data) {
                    self.name(pid, tid, Comm::new(&rename.comm));
                }
            }
            EventTypeId::EXIT => self.end(pid, header.time),
            EventTypeId::THREAD_EXIT => {
                if let Some(threads) = self.live.get_mut(&pid) {
                    threads.retain(|thread| *thread != tid);
                }
                self.end_thread(pid, tid, header.time);
            }
            _ => {}
        }
    }

    /// Notes that the name of a thread is known from an event, and may be empty.
    fn mark_nameless(&mut self, tid: i32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.is_nameless = thread.comm.bytes().is_empty();
        }
    }

    /// Forgets processes that ended before `time`.
    pub fn forget(&mut self, time: MonotonicNs) {
        self.ended.retain(|_, ended| *ended >= time);
        let (live, ended) = (&self.live, &self.ended);
        self.threads.retain(|_, thread| match thread.ended {
            Some(ended) => ended >= time,
            // First seen when its process had ended already.
            None => live.contains_key(&thread.pid) || ended.contains_key(&thread.pid),
        });
        let threads = &self.threads;
        self.elsewhere.retain(|inside, called| {
            let is_it = |thread: &Thread| thread.inside == Some(*inside);
            called.retain(|tid| threads.get(tid).is_some_and(is_it));
            !called.is_empty()
        });
    }

    fn keep_only_first_thread(&mut self, pid: i32, at: MonotonicNs) {
        let threads = self.live.get_mut(&pid).map(std::mem::take);
        for tid in threads.into_iter().flatten() {
            self.end_thread(pid, tid, at);
        }
    }

    fn end_thread(&mut self, pid: i32, tid: i32, at: MonotonicNs) {
        if let Some(thread) = self.threads.get_mut(&tid)
            && thread.pid == pid
        {
            thread.ended = Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use tracer_engine::event::{EventHeader, Truncation};
    use zerocopy::IntoBytes;

    use super::*;

    /// Reports of process 10, an event a nanosecond.
    struct Story {
        processes: Processes,
        now: u64,
    }

    impl Story {
        fn of_process_10(follows_children: bool) -> Self {
            let mut processes = Processes::new(follows_children);
            processes.add(10);
            processes.name(10, 10, Comm::new(b"shell"));
            Self { processes, now: 0 }
        }

        fn then(mut self, event_type: EventTypeId, pid: i32, tid: i32, data: &[u8]) -> Self {
            self.now += 1;
            let header = EventHeader {
                time: MonotonicNs(self.now),
                event_type,
                pid,
                tid,
                cpu: None,
                thread_id: 0,
                program_address: 0,
                truncation: Truncation::None,
            };
            self.processes.learn(&Event { header, data });
            self
        }

        fn forked(self, parent: i32, child: u32) -> Self {
            let data = ForkData {
                child_pid: child,
                child_tid: child,
                child_comm: Comm::new(b"shell").0,
                child_ns_pid: child,
                child_ns_tid: child,
            };
            self.then(EventTypeId::FORK, parent, parent, data.as_bytes())
        }

        fn with_thread(self, pid: u32, tid: u32) -> Self {
            let data = ForkData {
                child_pid: pid,
                child_tid: tid,
                child_comm: Comm::new(b"thread").0,
                child_ns_pid: pid,
                child_ns_tid: tid,
            };
            let pid = pid.cast_signed();
            self.then(EventTypeId::THREAD_CREATE, pid, pid, data.as_bytes())
        }

        fn comm(&self, tid: i32) -> Option<&str> {
            let comm = self.processes.comm(tid)?;
            std::str::from_utf8(comm.bytes()).ok()
        }
    }

    #[test]
    fn children_are_followed_and_outlive_their_parent() {
        let story = Story::of_process_10(true).forked(10, 11).forked(11, 12);
        let story =
            story
                .then(EventTypeId::EXIT, 10, 10, &[0; 8])
                .then(EventTypeId::EXIT, 11, 11, &[0; 8]);
        assert!(!story.processes.have_all_ended());
        assert_eq!(story.comm(12), Some("shell"));

        let story = story.then(EventTypeId::EXIT, 12, 12, &[0; 8]);
        assert!(story.processes.have_all_ended());
    }

    #[test]
    fn a_thread_is_registered_once_its_process_is_known_and_it_has_a_name() {
        let mut story = Story::of_process_10(true).forked(10, 11);
        assert!(story.processes.is_registered(11, 11));
        assert!(!story.processes.is_registered(11, 12), "has no name");
        assert!(!story.processes.is_registered(12, 11), "is another's");

        story.processes.name(20, 21, Comm::new(b"foreign"));
        assert!(
            !story.processes.is_registered(20, 21),
            "its process is unknown"
        );
        story.processes.add(20);
        story.processes.name(20, 21, Comm::new(b"ours"));
        assert!(story.processes.is_registered(20, 21));
    }

    #[test]
    fn without_inheritance_children_are_not_traced() {
        let story = Story::of_process_10(false).forked(10, 11);
        assert!(!story.processes.knows(11));
    }

    #[test]
    fn an_exec_names_the_process_and_ends_its_other_threads() {
        let mut data = b"make\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        data.extend_from_slice(&[0; 8]);
        let mut story =
            Story::of_process_10(true)
                .with_thread(10, 20)
                .then(EventTypeId::EXEC, 10, 10, &data);
        assert_eq!(story.comm(10), Some("make"));

        story.processes.forget(MonotonicNs(3));
        assert_eq!(story.comm(20), None);
        assert_eq!(story.comm(10), Some("make"));
    }

    #[test]
    fn a_thread_is_named_although_its_process_was_found_to_have_ended() {
        let mut story = Story::of_process_10(true);
        story.processes.end(10, MonotonicNs(1));

        let story = story.with_thread(10, 20);

        assert_eq!(story.comm(20), Some("thread"));
    }

    #[test]
    fn a_thread_whose_name_is_not_known_has_its_processs() {
        let mut story = Story::of_process_10(true);
        story.processes.note_without_name(10, 20);

        let (shown, _) = story.processes.shown(20);

        assert_eq!(shown.map(Comm::bytes), Some(&b"shell"[..]));
    }

    #[test]
    fn an_empty_name_is_one_and_one_that_is_not_known_is_none() {
        let mut story = Story::of_process_10(true);
        story.processes.name(10, 20, Comm::new(b""));
        let (shown, _) = story.processes.shown(20);
        assert_eq!(shown.map(Comm::bytes), Some(&b""[..]));

        story.processes.note_without_name(10, 10);
        assert_eq!(story.processes.shown(10).0, None);
    }

    #[test]
    fn names_outlive_the_end_until_they_are_forgotten() {
        let mut story = Story::of_process_10(true)
            .with_thread(10, 20)
            .then(EventTypeId::THREAD_EXIT, 10, 20, &[0; 8])
            .then(EventTypeId::EXIT, 10, 10, &[0; 8]);
        assert_eq!(
            (story.comm(10), story.comm(20)),
            (Some("shell"), Some("thread"))
        );
        assert!(story.processes.knows(10) && !story.processes.is_live(10));

        story.processes.forget(MonotonicNs(3));
        assert_eq!((story.comm(10), story.comm(20)), (Some("shell"), None));
        story.processes.forget(MonotonicNs(4));
        assert!(!story.processes.knows(10));
    }

    #[test]
    fn a_pid_that_is_used_again_is_another_process() {
        let mut story = Story::of_process_10(true)
            .forked(10, 11)
            .then(EventTypeId::EXIT, 11, 11, &[0; 8])
            .forked(10, 11);
        story.processes.forget(MonotonicNs(100));

        assert!(story.processes.is_live(11));
        assert_eq!(story.comm(11), Some("shell"));
    }

    #[test]
    fn what_a_thread_is_to_itself_is_shown_where_it_differs_and_outlives_an_exec() {
        let mut data = ForkData {
            child_pid: 11,
            child_tid: 11,
            child_comm: Comm::new(b"init").0,
            child_ns_pid: 1,
            child_ns_tid: 1,
        };
        let story = Story::of_process_10(true).then(EventTypeId::FORK, 10, 10, data.as_bytes());
        let inside = NamespaceIds { pid: 1, tid: 1 };
        assert_eq!(story.processes.shown(11).1, Some(inside));
        assert_eq!(story.processes.shown(10).1, None);

        let story = story.then(EventTypeId::EXEC, 11, 11, b"make\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(story.processes.shown(11).1, Some(inside));

        // The tid is used again, outside.
        (data.child_ns_pid, data.child_ns_tid) = (11, 11);
        let story = story.then(EventTypeId::EXIT, 11, 11, &[0; 8]).then(
            EventTypeId::FORK,
            10,
            10,
            data.as_bytes(),
        );
        assert_eq!(story.processes.shown(11).1, None);
    }

    #[test]
    fn truncated_data_changes_nothing() {
        let story = Story::of_process_10(true)
            .then(EventTypeId::FORK, 10, 10, &[1, 2])
            .then(EventTypeId::RENAME, 10, 10, b"short");
        assert_eq!(story.processes.live().count(), 1);
        assert_eq!(story.comm(10), Some("shell"));
    }
}
