//! Work in the time that no other thread wants: the thread that loads the programs, and then reads
//! events, is scheduled as `SCHED_IDLE` while it keeps up, so that what is traced goes first.
//!
//! On a busy machine such a thread gets almost no CPU. A watcher of the usual policy gives the
//! reader its share again where it falls behind, before the rings are full, and takes it back after
//! a while: the longer, the more often that has happened lately. Meanwhile it closes windows that
//! the reader comes too late for.
//!
//! The kernel compares threads of one scheduling group alone. Between control groups that share
//! CPUs by weight, and between sessions (`sched_autogroup`), the reader gives way less.

use std::ffi::c_int;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::brake::Brake;
use super::own_cost::own_cpu_ns;

/// Interval between looks at the reader, while events come and while hardly any do: each look
/// interrupts a thread of the program where no CPU is idle.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(50));

/// Looks without progress after which the reader gets its share again: a ring takes longer to fill.
const MOST_MISSED: u32 = 2;

/// Looks for which it has that share, at first and at most.
const HELD: (u32, u32) = (10, 640);

/// Looks with progress after which it is as if it had never fallen behind.
const CALM: u32 = 1000;

/// Least part of a CPU that work needs to go on with, of so many parts.
const LEAST_PART: u64 = 10;

/// Does some work in the calling thread, which gives way to others meanwhile, as do the threads
/// that it starts, until the work is done. Where this process had less than a tenth of a CPU in a
/// time of `patience`, all have their share from then on.
///
/// Where the thread has another policy than the usual one, or the way back to that is not
/// permitted, it stays as it is.
pub fn give_way<T>(patience: Duration, work: impl FnOnce() -> T) -> T {
    if policy_of(0) != i64::from(libc::SCHED_OTHER) || !is_way_back_permitted() {
        return work();
    }
    // SAFETY: takes no pointers.
    let worker = unsafe { libc::gettid() };
    // The channel closes when the work is done, also by a panic.
    let (working, has_ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        // Threads that this one begins inherit its policy: the watcher comes first.
        let watcher = thread::Builder::new().name("idle-time".to_owned());
        let watcher = watcher.spawn_scoped(scope, move || {
            let mut before = own_cpu_ns().unwrap_or_default();
            let least = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX) / LEAST_PART;
            // Returns when the work is done, or after this time.
            while has_ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                let now = own_cpu_ns().unwrap_or_default();
                if now.saturating_sub(before) < least {
                    give_all_their_share(worker);
                }
                before = now;
            }
            give_all_their_share(worker);
        });
        if let Err(error) = watcher.and_then(|_| Policy::Idle.give_to(worker)) {
            tracing::debug!(%error, "the tracer does not give way to others");
        }
        let made = work();
        drop(working);
        made
    })
}

/// A reader that gives way to others, as long as this lives.
#[derive(Debug)]
pub struct IdleTime {
    reader: i32,
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

/// Words between the reader and its watcher.
#[derive(Debug, Default)]
struct Shared {
    /// Times that the reader had read all that there was. Written by the reader.
    caught_up: AtomicU64,
    /// Whether hardly any events come. Written by the reader.
    is_resting: AtomicBool,
    /// Whether the watcher is to end. Written by the reader.
    has_ended: AtomicBool,
}

impl IdleTime {
    /// Has the calling thread give way from now on. `None` where it has another policy than the
    /// usual one already, or where no thread can be made.
    ///
    /// Threads that it starts meanwhile give way too, and are not watched. At each look the brake
    /// of its windows is pulled, where that is due.
    ///
    /// Where the way back to the usual policy is not permitted (without `CAP_SYS_NICE`, as a rule),
    /// the thread stays as it is.
    pub fn start(brake: Option<Arc<Brake>>) -> Option<Self> {
        if policy_of(0) != i64::from(libc::SCHED_OTHER) {
            return None;
        }
        // SAFETY: takes no pointers.
        let reader = unsafe { libc::gettid() };
        let shared = Arc::new(Shared::default());
        let watched = Arc::clone(&shared);
        let watcher = thread::Builder::new().name("idle-time".to_owned());
        let watcher = watcher.spawn(move || watch(reader, &watched, brake.as_deref()));
        match watcher {
            Ok(watcher) => Some(Self {
                reader,
                shared,
                watcher: Some(watcher),
            }),
            Err(error) => {
                tracing::debug!(%error, "the tracer does not give way to others");
                None
            }
        }
    }

    /// Says whether hardly any events come for now.
    pub fn set_resting(&self, is_resting: bool) {
        let was_resting = self.shared.is_resting.swap(is_resting, Ordering::Relaxed);
        if was_resting
            && !is_resting
            && let Some(watcher) = &self.watcher
        {
            watcher.thread().unpark();
        }
    }

    /// Notes that all was read that there was.
    pub fn has_caught_up(&self) {
        self.shared.caught_up.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for IdleTime {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Relaxed);
        // Before it waits, too: on a busy machine it would not be woken soon.
        let _ = Policy::Usual.give_to(self.reader);
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            // It does not panic.
            let _ = watcher.join();
        }
        // The watcher may have had another word.
        let _ = Policy::Usual.give_to(self.reader);
    }
}

/// Watches the reader until it wants no more of it.
fn watch(reader: i32, shared: &Shared, brake: Option<&Brake>) {
    if let Err(error) = try_way_back() {
        tracing::debug!(%error, "the tracer does not give way to others");
        return;
    }
    let mut pace = Pace::default();
    let mut policy = Some(Policy::Idle);
    loop {
        if let Some(Err(error)) = policy.map(|policy| policy.give_to(reader)) {
            tracing::debug!(%error, ?policy, "the tracer stays as it is");
        }
        let (usual, resting) = LOOK_EVERY;
        let is_resting = shared.is_resting.load(Ordering::Relaxed);
        thread::park_timeout(if is_resting { resting } else { usual });
        if shared.has_ended.load(Ordering::Relaxed) {
            return;
        }
        if let Some(brake) = brake {
            brake.look();
        }
        policy = pace.look(shared.caught_up.load(Ordering::Relaxed));
    }
}

/// Gives a thread its share again, and all others of this process that give way.
fn give_all_their_share(worker: i32) {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
    let tids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let is_idle = |tid: &i32| policy_of(*tid) == i64::from(libc::SCHED_IDLE);
    // Without /proc, at least the worker.
    for tid in [worker].into_iter().chain(tids).filter(is_idle) {
        // It may have ended meanwhile.
        if let Err(error) = Policy::Usual.give_to(tid) {
            tracing::debug!(tid, %error, "a thread of the tracer goes on giving way");
        }
    }
}

/// Tells whether threads of this process that give way can have the usual policy again. It is tried
/// in a thread of its own, which gives way for good where they cannot.
fn is_way_back_permitted() -> bool {
    let tried = thread::Builder::new().name("idle-time".to_owned());
    let tried = tried.spawn(try_way_back).map(JoinHandle::join);
    match tried {
        Ok(Ok(Ok(()))) => true,
        other => {
            tracing::debug!(?other, "the tracer does not give way to others");
            false
        }
    }
}

/// Tries in the calling thread whether the usual policy can be had again.
fn try_way_back() -> io::Result<()> {
    Policy::Idle.give_to(0)?;
    Policy::Usual.give_to(0)
}

/// Returns the policy of a thread of this process; 0 for the caller. The function of musl's C
/// library only fails.
fn policy_of(tid: i32) -> i64 {
    // SAFETY: takes no pointers.
    unsafe { libc::syscall(libc::SYS_sched_getscheduler, tid) }
}

/// How the reader is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// It gets what others leave.
    Idle,
    /// It gets its share.
    Usual,
}

impl Policy {
    /// Gives it to a thread of this process; 0 for the caller.
    fn give_to(self, tid: i32) -> io::Result<()> {
        let policy: c_int = match self {
            Self::Idle => libc::SCHED_IDLE,
            Self::Usual => libc::SCHED_OTHER,
        };
        // The kernel's `struct sched_param` has the priority alone.
        let priority: c_int = 0;
        // SAFETY: the priority lives.
        let failed = unsafe {
            libc::syscall(
                libc::SYS_sched_setscheduler,
                tid,
                policy,
                &raw const priority,
            )
        };
        if failed == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

/// Decisions of the watcher, one a look.
#[derive(Debug)]
struct Pace {
    /// Times that the reader had caught up at the last look.
    caught_up: u64,
    /// Looks since then, where it has not.
    missed: u32,
    /// Looks since it fell behind last.
    calm: u32,
    /// Looks for which it keeps its share; 0 where it gives way.
    share_left: u32,
    /// Looks for which it is to have its share the next time.
    next_held: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            caught_up: 0,
            missed: 0,
            calm: 0,
            share_left: 0,
            next_held: HELD.0,
        }
    }
}

impl Pace {
    /// Returns what the reader is to become, where that is to change.
    fn look(&mut self, caught_up: u64) -> Option<Policy> {
        let has_progress = std::mem::replace(&mut self.caught_up, caught_up) != caught_up;
        self.missed = if has_progress { 0 } else { self.missed + 1 };
        if self.share_left > 0 {
            self.share_left -= 1;
            // One that has its share and is behind keeps it.
            self.share_left = self.share_left.max(u32::from(!has_progress));
            return (self.share_left == 0).then_some(Policy::Idle);
        }
        if self.missed >= MOST_MISSED {
            self.share_left = self.next_held;
            self.next_held = (2 * self.next_held).min(HELD.1);
            self.calm = 0;
            return Some(Policy::Usual);
        }
        self.calm = self.calm.saturating_add(1);
        if self.calm == CALM {
            self.next_held = HELD.0;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Looks at a reader that catches up at each look or never. Returns what it became, and after
    /// how many looks.
    fn changes(pace: &mut Pace, looks: u32, keeps_up: bool) -> Vec<(u32, Policy)> {
        let changes = (1..=looks).filter_map(|look| {
            let caught_up = pace.caught_up + u64::from(keeps_up);
            Some((look, pace.look(caught_up)?))
        });
        changes.collect()
    }

    #[test]
    fn a_reader_that_keeps_up_stays_as_it_is() {
        assert_eq!(changes(&mut Pace::default(), 10 * CALM, true), []);
    }

    #[test]
    fn a_reader_that_falls_behind_has_its_share_until_it_keeps_up_and_longer_each_time() {
        let mut pace = Pace::default();
        let raised = [(MOST_MISSED, Policy::Usual)];
        for held in [20, 80, 320, 640, 640] {
            assert_eq!(changes(&mut pace, MOST_MISSED, false), raised);
            // As long as it is behind.
            assert_eq!(changes(&mut pace, 2 * HELD.1, false), []);
            assert_eq!(changes(&mut pace, 1, true), [(1, Policy::Idle)]);
            // And for a time in any case.
            assert_eq!(changes(&mut pace, MOST_MISSED, false), raised);
            assert_eq!(changes(&mut pace, held, true), [(held, Policy::Idle)]);
        }
        assert_eq!(changes(&mut pace, CALM, true), []);
        assert_eq!(changes(&mut pace, MOST_MISSED, false), raised);
        assert_eq!(changes(&mut pace, HELD.0, true), [(HELD.0, Policy::Idle)]);
    }

    /// Held by a test whose threads give way: all of the process have their share again where those
    /// of one have.
    static GIVING_WAY: Mutex<()> = Mutex::new(());

    #[test]
    fn work_gives_way_as_long_as_it_goes_on() {
        let _alone = GIVING_WAY.lock();
        let is_permitted = is_way_back_permitted();
        let worker = thread::spawn(move || {
            let before = policy_of(0);
            let is_usual = || policy_of(0) == before;
            if is_permitted {
                give_way(Duration::from_millis(100), || {
                    assert!(!is_usual());
                    // Threads that it starts give way with it, and have their share again with it.
                    let (other, ended) = mpsc::channel();
                    let started = thread::spawn(move || {
                        // SAFETY: takes no pointers.
                        let tid = unsafe { libc::gettid() };
                        other.send((tid, policy_of(0))).unwrap();
                        thread::sleep(Duration::from_secs(3600));
                    });
                    let (tid, policy) = ended.recv().unwrap();
                    assert_eq!(policy, i64::from(libc::SCHED_IDLE));
                    // It takes no CPU time.
                    while policy_of(tid) != before {
                        thread::sleep(Duration::from_millis(1));
                    }
                    assert!(is_usual());
                    drop(started);
                });
            }
            let made = give_way(Duration::from_secs(3600), || 7);
            assert_eq!((made, is_usual()), (7, true));
            let failed = std::panic::catch_unwind(|| {
                give_way(Duration::from_secs(3600), || panic!("the work"));
            });
            assert!(failed.is_err() && is_usual());
        });
        worker.join().unwrap();
    }

    #[test]
    fn the_usual_policy_is_given_back() {
        let _alone = GIVING_WAY.lock();
        let is_permitted = is_way_back_permitted();
        let reader = thread::spawn(move || {
            let before = policy_of(0);
            let is_usual = || policy_of(0) == before;
            let idle_time = IdleTime::start(None).unwrap();
            if is_permitted {
                // As soon as the watcher runs. On a busy machine the thread gets no CPU from then
                // on, until it is behind.
                wait_until(|| {
                    idle_time.has_caught_up();
                    !is_usual()
                });
                // It reads nothing, and is given its share for that.
                wait_until(is_usual);
                wait_until(|| {
                    idle_time.has_caught_up();
                    !is_usual()
                });
            }
            drop(idle_time);
            assert!(is_usual());
        });
        reader.join().unwrap();
    }

    fn wait_until(holds: impl Fn() -> bool) {
        while !holds() {
            thread::yield_now();
        }
    }
}
