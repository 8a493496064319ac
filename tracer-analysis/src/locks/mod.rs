//! Locks that threads wait for, and who has them.
//!
//! The kernel's part reads the memory around the futex as a wait begins; the layouts of C libraries
//! say whose lock it is then ([`layouts`](crate::layouts)). What is said of a lock:
//!
//! - its owner, where a layout fits in each part and the owner is a thread of the process, by the
//!   process's own numbers;
//! - of a lock that processes share, an owner in another process only where that process has waited
//!   for a lock at that address too, or that thread ends the wait;
//! - else that nothing is known.

mod totals;

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{COMM_BYTES, ForkData, LockWaitData, lock_memory};
use tracer_engine::event::Event;
use zerocopy::{FromBytes, IntoBytes};

use crate::layouts::{self, FoundLock, FutexWait, LockKind, LockOwner};
use crate::state::{LockId, Task, Thread, Waker};

pub use totals::{HolderTotal, LockRelation, LockTotal, LockTotals, RelationTotal};

/// Locks with their holders that are told apart.
const MOST_LOCKS: usize = 65_536;

/// Processes and threads that are remembered.
const MOST_REMEMBERED: usize = 65_536;

/// A lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockKey {
    /// Process that waits for it.
    pub pid: i32,
    /// Number of programs that the process had run before: each has its own addresses.
    pub program: u32,
    /// Where it begins; where its layout is not known, the address of the futex.
    pub address: u64,
}

/// Type of a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockType {
    /// A futex of a layout that is not known.
    #[default]
    Futex,
    /// A mutex.
    Mutex,
    /// A mutex whose owner may die.
    RobustMutex,
    /// A lock of readers and a writer.
    RwLock,
    /// The end of a thread.
    ThreadEnd,
}

impl LockType {
    /// Returns its name, as programs read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Futex => "futex",
            Self::Mutex => "mutex",
            Self::RobustMutex => "robust_mutex",
            Self::RwLock => "rwlock",
            Self::ThreadEnd => "thread_end",
        }
    }
}

impl From<LockKind> for LockType {
    fn from(kind: LockKind) -> Self {
        match kind {
            LockKind::Mutex => Self::Mutex,
            LockKind::RobustMutex => Self::RobustMutex,
            LockKind::RwLock => Self::RwLock,
            LockKind::ThreadEnd => Self::ThreadEnd,
        }
    }
}

/// A lock, and who has it as a wait begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitedLock {
    /// The lock.
    pub key: LockKey,
    /// Its type.
    pub kind: LockType,
    /// Thread that has it, as its memory says; where names are the same, its name alone.
    holder: Option<Task>,
    /// Whether that is so only if this thread ends the wait.
    is_claim: bool,
    /// Number of readers that have it, which the memory does not name.
    pub readers: u32,
}

impl WaitedLock {
    /// Returns the thread that has it; `None` where that is not known. `waker` ends the wait.
    #[must_use]
    pub fn holder(&self, waker: Option<&Waker>) -> Option<Task> {
        let holder = self.holder?;
        match waker {
            _ if !self.is_claim => Some(holder),
            Some(Waker::Thread(waker)) if waker.thread == holder.thread => Some(holder),
            _ => None,
        }
    }

    /// Returns it without the number of its holder: for waits of threads of one name.
    fn by_name(self) -> Self {
        let holder = self.holder.map(|holder| Task {
            thread: Thread::default(),
            ..holder
        });
        Self {
            holder: holder.filter(|_| !self.is_claim),
            is_claim: false,
            ..self
        }
    }
}

/// Facts about threads that the table asks for.
pub trait KnownThreads {
    /// Returns the process of a thread that is there.
    fn process_of(&self, tid: i32) -> Option<i32>;
    /// Returns its name.
    fn name_of(&self, thread: Thread) -> [u8; COMM_BYTES];
}

/// The locks that were waited for.
#[derive(Debug, Default)]
pub struct LockTable {
    locks: Vec<WaitedLock>,
    known: HashMap<WaitedLock, u32, RandomState>,
    /// By process: which program it runs.
    programs: HashMap<i32, u32, RandomState>,
    /// By process and number in the thread's own pid namespace, where that is another one.
    own: HashMap<(i32, i32), i32, RandomState>,
    /// Locks of several processes, by a process that has waited for it and the address there.
    shared: HashSet<(i32, u64), RandomState>,
    /// Waits for locks beyond those that are told apart.
    beyond: u64,
}

impl LockTable {
    /// Returns a lock by its number; `None` for none.
    #[must_use]
    pub fn get(&self, lock: LockId) -> Option<&WaitedLock> {
        let index = usize::try_from(lock.exact).ok()?.checked_sub(1)?;
        self.locks.get(index)
    }

    /// Tells whether no lock was waited for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// Counts the waits for locks beyond those that are told apart.
    #[must_use]
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Continues by one event. Returns the lock that its thread begins to wait for, and the address
    /// of its word; `None` for any other event.
    pub fn feed(
        &mut self,
        event: &Event<'_>,
        threads: &impl KnownThreads,
    ) -> Option<(LockId, u64)> {
        let header = event.header;
        match header.event_type {
            EventTypeId::LOCK_WAIT => {}
            EventTypeId::FORK | EventTypeId::THREAD_CREATE => {
                self.learn_made(event.data);
                return None;
            }
            EventTypeId::EXEC | EventTypeId::EXIT => {
                if let Some(program) = self.programs.get_mut(&header.pid) {
                    *program = program.wrapping_add(1);
                }
                return None;
            }
            _ => return None,
        }
        let (data, _) = LockWaitData::read_from_prefix(event.data).ok()?;
        let waiter = Thread {
            pid: header.pid,
            tid: header.tid,
        };
        self.learn_own(waiter, data.own_tid);
        let lock = self.lock(waiter, &data, threads);
        Some((self.number(lock), data.address))
    }

    /// Learns the number of a thread that is made in its own pid namespace.
    fn learn_made(&mut self, untrusted: &[u8]) {
        if let Ok((made, _)) = ForkData::read_from_prefix(untrusted) {
            let thread = Thread {
                pid: made.child_pid.cast_signed(),
                tid: made.child_tid.cast_signed(),
            };
            self.learn_own(thread, made.child_ns_tid);
        }
    }

    /// Learns the number of a thread in its own pid namespace.
    fn learn_own(&mut self, thread: Thread, own: u32) {
        let own = own.cast_signed();
        let key = (thread.pid, own);
        let has_space = self.own.len() < MOST_REMEMBERED || self.own.contains_key(&key);
        if own != 0 && own != thread.tid && has_space {
            self.own.insert(key, thread.tid);
        }
    }

    fn lock(
        &mut self,
        waiter: Thread,
        data: &LockWaitData,
        threads: &impl KnownThreads,
    ) -> WaitedLock {
        let has_space = self.programs.len() < MOST_REMEMBERED;
        let program = match self.programs.get(&waiter.pid) {
            Some(program) => *program,
            None => {
                if has_space {
                    self.programs.insert(waiter.pid, 0);
                }
                0
            }
        };
        let unknown = WaitedLock {
            key: LockKey {
                pid: waiter.pid,
                program,
                address: data.address,
            },
            ..WaitedLock::default()
        };
        let Some((found, is_private)) = find_lock(data) else {
            return unknown;
        };
        if !is_private && self.shared.len() < MOST_REMEMBERED {
            self.shared.insert((waiter.pid, found.address));
        }
        let lock = WaitedLock {
            key: LockKey {
                address: found.address,
                ..unknown.key
            },
            kind: found.kind.into(),
            ..unknown
        };
        match found.owner {
            LockOwner::Readers(readers) => WaitedLock { readers, ..lock },
            LockOwner::Thread(tid) => match self.owner(waiter, data.own_tid, tid, threads) {
                Some(thread) => {
                    let is_own = thread.pid == waiter.pid;
                    // That process has the lock in its memory too.
                    let has_it = is_own || self.shared.contains(&(thread.pid, found.address));
                    WaitedLock {
                        holder: Some(Task {
                            thread,
                            comm: threads.name_of(thread),
                        })
                        .filter(|_| is_own || !is_private),
                        is_claim: !has_it,
                        ..lock
                    }
                }
                // What has no owner that could be one is no lock that is known.
                None => unknown,
            },
        }
    }

    /// Finds the thread that a lock names by the numbers of the waiter's pid namespace.
    fn owner(
        &self,
        waiter: Thread,
        own: u32,
        tid: i32,
        threads: &impl KnownThreads,
    ) -> Option<Thread> {
        let shown = if own.cast_signed() == waiter.tid {
            tid
        } else {
            *self.own.get(&(waiter.pid, tid))?
        };
        let pid = threads.process_of(shown)?;
        Some(Thread { pid, tid: shown })
    }

    fn number(&mut self, lock: WaitedLock) -> LockId {
        let id = LockId {
            exact: self.index(lock),
            by_name: self.index(lock.by_name()),
        };
        if id.exact == LockId::BEYOND.exact || id.by_name == LockId::BEYOND.by_name {
            self.beyond = self.beyond.saturating_add(1);
            return LockId::BEYOND;
        }
        id
    }

    fn index(&mut self, lock: WaitedLock) -> u32 {
        if let Some(known) = self.known.get(&lock) {
            return *known;
        }
        if self.locks.len() >= 2 * MOST_LOCKS {
            return LockId::BEYOND.exact;
        }
        self.locks.push(lock);
        let index = u32::try_from(self.locks.len()).unwrap_or(LockId::BEYOND.exact);
        self.known.insert(lock, index);
        index
    }
}

/// Returns the lock that recorded memory shows, as that says; `None` where no layout fits. Whether
/// the owner is a thread that could have it is not looked at.
#[must_use]
pub fn recorded_lock(untrusted: &[u8]) -> Option<FoundLock> {
    let (data, _) = LockWaitData::read_from_prefix(untrusted).ok()?;
    find_lock(&data).map(|(found, _)| found)
}

/// Finds the lock that recorded memory shows, and whether it is of one process alone.
fn find_lock(data: &LockWaitData) -> Option<(FoundLock, bool)> {
    let args = [
        data.address,
        data.operation.into(),
        data.value.into(),
        data.timed.into(),
        0,
        0,
    ];
    let wait = FutexWait::from_args(&args)?;
    let read = |address, to: &mut [u32]| read_words(data, address, to);
    Some((layouts::find_any(&wait, &read)?, wait.is_private))
}

/// Reads words of the memory that was recorded; false where they are not all there.
fn read_words(data: &LockWaitData, address: u64, to: &mut [u32]) -> bool {
    const WORD: usize = size_of::<u32>();
    let first = data.address.wrapping_sub(lock_memory::BEFORE);
    let Ok(from) = usize::try_from(address.wrapping_sub(first)) else {
        return false;
    };
    let memory = data.memory.as_bytes();
    let Some(end) = from.checked_add(to.len() * WORD) else {
        return false;
    };
    let Some(bytes) = memory.get(from..end) else {
        return false;
    };
    let parts = from / lock_memory::PART..end.div_ceil(lock_memory::PART);
    let is_read = |part| data.parts >> part & 1 != 0;
    if !parts.into_iter().all(is_read) {
        return false;
    }
    for (to, word) in to.iter_mut().zip(bytes.chunks_exact(WORD)) {
        *to = word
            .first_chunk()
            .map_or(0, |word| u32::from_ne_bytes(*word));
    }
    true
}

#[cfg(test)]
mod tests {
    use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
    use zerocopy::FromZeros;

    use super::*;

    const AT: u64 = 0x7000;

    /// Threads 11 and 12 of process 10, and 21 of process 20.
    struct Three;

    impl KnownThreads for Three {
        fn process_of(&self, tid: i32) -> Option<i32> {
            match tid {
                11 | 12 => Some(10),
                21 => Some(20),
                _ => None,
            }
        }

        fn name_of(&self, _: Thread) -> [u8; COMM_BYTES] {
            *b"worker\0\0\0\0\0\0\0\0\0\0"
        }
    }

    fn header(event_type: EventTypeId) -> EventHeader {
        EventHeader {
            time: MonotonicNs(1),
            event_type,
            pid: 10,
            tid: 11,
            thread_id: 0,
            program_address: 0,
            cpu: Some(0),
            truncation: Truncation::None,
        }
    }

    /// The wait of thread 11 for a mutex of glibc with this owner.
    fn wait(operation: u32, kind: u32, owner: u32) -> LockWaitData {
        let mut data = LockWaitData::new_zeroed();
        (data.address, data.operation, data.value) = (AT, operation, 2);
        (data.parts, data.own_tid) = (7, 11);
        data.memory[2] = 2;
        data.memory[3] = u64::from(owner) | 1 << 32;
        data.memory[4] = kind.into();
        data
    }

    const PRIVATE: u32 = 128;

    fn feed(table: &mut LockTable, data: &LockWaitData) -> (LockId, WaitedLock) {
        let event = Event {
            header: header(EventTypeId::LOCK_WAIT),
            data: data.as_bytes(),
        };
        let (id, address) = table.feed(&event, &Three).unwrap();
        assert_eq!(address, data.address);
        (id, *table.get(id).unwrap())
    }

    fn holder(lock: &WaitedLock, waker: i32) -> Option<i32> {
        let thread = Thread {
            pid: Three.process_of(waker).unwrap_or(0),
            tid: waker,
        };
        let waker = Waker::Thread(Task {
            thread,
            ..Task::default()
        });
        lock.holder(Some(&waker)).map(|task| task.thread.tid)
    }

    #[test]
    fn the_owner_in_the_memory_has_the_lock_where_it_is_a_thread_of_the_process() {
        let mut table = LockTable::default();
        let (_, lock) = feed(&mut table, &wait(PRIVATE, 0, 12));
        assert_eq!((lock.kind, lock.key.address), (LockType::Mutex, AT));
        assert_eq!(holder(&lock, 11), Some(12));
        assert_eq!(lock.holder(None).map(|task| task.thread.tid), Some(12));
        for none in [0, 13, 21, 1 << 29, u32::MAX] {
            let (_, lock) = feed(&mut table, &wait(PRIVATE, 0, none));
            assert_eq!(lock.holder(None), None, "{none}");
        }
    }

    #[test]
    fn another_process_has_a_shared_lock_only_if_it_ends_the_wait() {
        let mut table = LockTable::default();
        let (_, lock) = feed(&mut table, &wait(0, 128, 21));
        assert_eq!(lock.kind, LockType::Mutex);
        assert_eq!((holder(&lock, 21), holder(&lock, 12)), (Some(21), None));
        assert_eq!(lock.holder(None), None);
        let (_, own) = feed(&mut table, &wait(0, 128, 12));
        assert_eq!(holder(&own, 21), Some(12));
        // The other one has waited for it itself.
        let data = LockWaitData {
            own_tid: 21,
            ..wait(0, 128, 12)
        };
        let event = Event {
            header: EventHeader {
                pid: 20,
                tid: 21,
                ..header(EventTypeId::LOCK_WAIT)
            },
            data: data.as_bytes(),
        };
        table.feed(&event, &Three);
        let (_, lock) = feed(&mut table, &wait(0, 128, 21));
        assert_eq!(holder(&lock, 12), Some(21));
        let (_, private) = feed(&mut table, &wait(PRIVATE, 0, 21));
        assert_eq!(private.holder(None), None);
    }

    #[test]
    fn owners_are_named_by_the_numbers_of_their_own_namespace() {
        let mut table = LockTable::default();
        let data = LockWaitData {
            own_tid: 2,
            ..wait(PRIVATE, 0, 3)
        };
        let (_, lock) = feed(&mut table, &data);
        assert_eq!(lock.holder(None), None, "nobody is known by that");
        let mut made = ForkData::new_zeroed();
        (made.child_pid, made.child_tid) = (10, 12);
        (made.child_ns_pid, made.child_ns_tid) = (1, 3);
        let made = Event {
            header: header(EventTypeId::THREAD_CREATE),
            data: made.as_bytes(),
        };
        assert_eq!(table.feed(&made, &Three), None);
        let (_, lock) = feed(&mut table, &data);
        assert_eq!(lock.holder(None).map(|task| task.thread.tid), Some(12));
    }

    #[test]
    fn memory_that_could_not_be_read_is_no_lock() {
        let whole = wait(PRIVATE, 0, 12);
        assert!(recorded_lock(whole.as_bytes()).is_some());
        for parts in 0..7 {
            let data = LockWaitData { parts, ..whole };
            // What lies before the word is not needed.
            let is_there = parts == 6;
            assert_eq!(
                recorded_lock(data.as_bytes()).is_some(),
                is_there,
                "{parts}"
            );
        }
        for address in [0, 3, u64::MAX] {
            let data = LockWaitData { address, ..whole };
            assert!(recorded_lock(data.as_bytes()).is_some(), "{address}");
        }
        assert_eq!(recorded_lock(&whole.as_bytes()[..70]), None);
    }

    #[test]
    fn another_program_has_other_locks_and_threads_of_one_name_have_one() {
        let mut table = LockTable::default();
        let (first, _) = feed(&mut table, &wait(PRIVATE, 0, 12));
        let (again, _) = feed(&mut table, &wait(PRIVATE, 0, 12));
        assert_eq!(first, again);
        let (other, _) = feed(&mut table, &wait(PRIVATE, 0, 11));
        assert_ne!(first.exact, other.exact);
        assert_eq!(first.with_name(), other.with_name());
        let exec = Event {
            header: header(EventTypeId::EXEC),
            data: &[],
        };
        table.feed(&exec, &Three);
        let (later, lock) = feed(&mut table, &wait(PRIVATE, 0, 12));
        assert_ne!(first.exact, later.exact);
        assert_eq!(lock.key.program, 1);
    }

    #[test]
    fn locks_beyond_those_that_are_told_apart_are_counted() {
        let mut table = LockTable::default();
        let mut data = wait(PRIVATE, 99, 0);
        let mut ids = 0;
        for nth in 0..2 * MOST_LOCKS as u64 + 5 {
            data.address = AT + 8 * nth;
            let event = Event {
                header: header(EventTypeId::LOCK_WAIT),
                data: data.as_bytes(),
            };
            let (id, _) = table.feed(&event, &Three).unwrap();
            ids += usize::from(id != LockId::BEYOND);
        }
        assert_eq!((ids, table.beyond()), (2 * MOST_LOCKS, 5));
        assert_eq!(table.get(LockId::BEYOND), None);
        assert_eq!(table.get(LockId::NONE), None);
    }
}
