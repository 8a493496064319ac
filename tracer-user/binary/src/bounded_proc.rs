//! Asking the kernel for what it knows of a process only when that process lets it.
//!
//! A process has locks of its own while it runs another program, and while a page is brought to it.
//! Where that waits for a file that its user serves (FUSE), it lasts as long as that user likes. A
//! process that asks meanwhile for its mappings, for the files that it has mapped or, of some
//! kernels, for its line of `stat` waits as well, and no signal ends that but one that kills. So
//! another thread asks, and is waited for only a limited time. A user who was waited for, in vain
//! or until a late answer came, is waited for less the next time, and the number of questions at a
//! time is limited for each user.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{self, Sender};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracer_area::Spent;

use crate::scheduling::give_way_to_none;

/// Allowance for all processes of a user: half of what is left of it is waited for.
const OF_USER: Duration = Duration::from_millis(200);

/// Allowance for all processes of all users.
const OF_ALL: Duration = Duration::from_millis(400);

/// Allowance for one process whose user has spent everything.
const LEAST: Duration = Duration::from_millis(2);

/// Time up to which an answer costs nothing: on a busy machine everyone's answers take a while.
const USUAL: Duration = Duration::from_millis(10);

/// Factor of time after which a wait no longer counts: a wait counts for this many times as long as
/// it took.
const COUNTS_FOR: u32 = 20;

/// Processes of a user, and of all, that have not answered yet: each has a thread.
const MOST_OF_USER: usize = 8;
const MOST: usize = 64;

/// Process that keeps the kernel from answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("process {pid} keeps the kernel from answering")]
pub struct HeldProcess {
    /// The process.
    pub pid: i32,
}

impl From<HeldProcess> for io::Error {
    fn from(held: HeldProcess) -> Self {
        Self::new(io::ErrorKind::TimedOut, held)
    }
}

/// Factor of waits where nothing is traced yet, and the answer itself may be long.
const BEFORE_TRACING: u32 = 10;

/// Returns the answer as [`ask_process`] does, before anything is traced: an answer of megabytes on
/// a busy machine is waited for as well.
///
/// # Errors
///
/// See [`ask_process`].
pub fn before_tracing<A: Send + 'static>(
    pid: i32,
    question: impl FnOnce() -> A + Send + 'static,
) -> Result<A, HeldProcess> {
    within(BEFORE_TRACING, pid, question)
}

/// Returns the kernel's answer to a question about process `pid`. Processes of root and of our own
/// user are trusted to let it answer.
///
/// # Errors
///
/// No answer comes in time, or too many processes of the same user have not answered yet.
pub fn ask_process<A: Send + 'static>(
    pid: i32,
    question: impl FnOnce() -> A + Send + 'static,
) -> Result<A, HeldProcess> {
    within(1, pid, question)
}

fn within<A: Send + 'static>(
    times: u32,
    pid: i32,
    question: impl FnOnce() -> A + Send + 'static,
) -> Result<A, HeldProcess> {
    match other_user_of(pid) {
        None => Ok(question()),
        Some(user) => ask(user, pid, times, question).ok_or(HeldProcess { pid }),
    }
}

/// Returns the user of the process, if that is neither root nor our own.
fn other_user_of(pid: i32) -> Option<u32> {
    // The folder itself has the effective user, whether the process may be looked into or not.
    let user = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    // SAFETY: takes nothing and cannot fail.
    let own = unsafe { libc::geteuid() };
    (user != 0 && user != own).then_some(user)
}

fn ask<A: Send + 'static>(
    user: u32,
    pid: i32,
    times: u32,
    question: impl FnOnce() -> A + Send + 'static,
) -> Option<A> {
    let (wait, idle) = {
        let mut asked = asked();
        (asked.timeout(user, pid, Instant::now())?, asked.idle.take())
    };
    let asker = idle.or_else(start_asker)?;
    let (answer, answers) = mpsc::sync_channel(1);
    let question = Box::new(move || {
        let answered = question();
        let mut asked = asked();
        asked.answered(user, pid);
        let unwanted = answer.send(answered);
        drop(asked);
        // An answer that came too late may take a while to drop.
        drop(unwanted);
    });
    let start = Instant::now();
    asker.send(question).ok()?;
    let answer = answers.recv_timeout(wait * times);
    let mut asked = asked();
    // With the lock, since it may have come just now.
    let answer = answer.or_else(|_| answers.try_recv());
    match answer {
        Ok(answer) => {
            asked.idle = Some(asker);
            // Before anything is traced, a long wait delays no event.
            if times == 1 {
                asked.waited(user, start.elapsed(), Instant::now());
            }
            Some(answer)
        }
        Err(_) => {
            asked.waited_in_vain(user, pid, wait, Instant::now());
            None
        }
    }
}

type Question = Box<dyn FnOnce() + Send>;

/// Starts a thread that asks, until its sender is dropped.
fn start_asker() -> Option<Sender<Question>> {
    let (sender, questions) = mpsc::channel::<Question>();
    let asker = thread::Builder::new().name("asker".to_owned());
    let started = asker.spawn(move || {
        give_way_to_none();
        questions.into_iter().for_each(|question| question());
    });
    started.ok().map(|_| sender)
}

static ASKED: LazyLock<Mutex<Asked>> = LazyLock::new(Mutex::default);

fn asked() -> MutexGuard<'static, Asked> {
    ASKED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State of the questions asked so far.
#[derive(Default)]
struct Asked {
    /// Users whose processes answered late or have not answered yet.
    users: HashMap<u32, User>,
    by_all: Spent<COUNTS_FOR>,
    /// Thread that has nothing to ask.
    idle: Option<Sender<Question>>,
}

#[derive(Default)]
struct User {
    spent: Spent<COUNTS_FOR>,
    /// Their processes that have not answered yet.
    unanswered: HashSet<i32>,
}

impl Asked {
    /// Returns how long to wait for an answer, or `None` where nothing may be asked.
    fn timeout(&self, user: u32, pid: i32, now: Instant) -> Option<Duration> {
        let unanswered = |user: &User| user.unanswered.len();
        if self.users.values().map(unanswered).sum::<usize>() >= MOST {
            return None;
        }
        let mut left = OF_ALL.saturating_sub(self.by_all.at(now));
        if let Some(user) = self.users.get(&user) {
            if user.unanswered.contains(&pid) || unanswered(user) >= MOST_OF_USER {
                return None;
            }
            left = left.min(OF_USER.saturating_sub(user.spent.at(now)));
        }
        Some((left.min(OF_USER) / 2).max(LEAST))
    }

    /// Notes how long an answer took that has come.
    fn waited(&mut self, user: u32, time: Duration, now: Instant) {
        if time > USUAL {
            self.by_all.add(time, now);
            self.user(user, now).spent.add(time, now);
        }
    }

    fn waited_in_vain(&mut self, user: u32, pid: i32, time: Duration, now: Instant) {
        // Each user is given this much in any case: it takes nothing from others.
        if time > LEAST {
            self.by_all.add(time, now);
        }
        let user = self.user(user, now);
        user.spent.add(time, now);
        user.unanswered.insert(pid);
    }

    /// Returns the entry of a user whose process was waited for; forgets the users whose waits no
    /// longer count.
    fn user(&mut self, user: u32, now: Instant) -> &mut User {
        self.users
            .retain(|_, user| !user.unanswered.is_empty() || !user.spent.at(now).is_zero());
        self.users.entry(user).or_default()
    }

    fn answered(&mut self, user: u32, pid: i32) {
        if let Some(user) = self.users.get_mut(&user) {
            user.unanswered.remove(&pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users that no process of a test has.
    const USER: u32 = 4_000_000_001;

    #[test]
    fn who_does_not_answer_is_not_waited_for_and_asked_again_when_it_has() {
        let (release, released) = mpsc::channel::<()>();
        let start = Instant::now();
        let never = ask(USER, 1, 1, move || released.recv().is_err());
        assert_eq!(never, None);
        assert!(start.elapsed() >= OF_USER / 2);
        assert_eq!(ask(USER, 1, 1, || 1), None, "it is still being asked");
        // A busy machine may take its time.
        while ask(USER, 2, 1, || 2).is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        drop(release);
        while ask(USER, 1, 1, || 1).is_none() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn who_asks_does_not_give_way_as_who_began_it_does() {
        // SAFETY: takes no pointers.
        let policy = || unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
        let usual = policy();
        let beginner = thread::spawn(move || {
            let priority: libc::c_int = 0;
            // SAFETY: the priority lives.
            let lowered = unsafe {
                libc::syscall(
                    libc::SYS_sched_setscheduler,
                    0,
                    libc::SCHED_IDLE,
                    &raw const priority,
                )
            };
            assert_eq!((lowered, policy()), (0, i64::from(libc::SCHED_IDLE)));
            let (answer, answers) = mpsc::channel();
            let question = Box::new(move || answer.send(policy()).unwrap());
            start_asker().unwrap().send(question).unwrap();
            let of_asker = answers.recv().unwrap();
            // Where this thread may go back, so may the other one.
            give_way_to_none();
            assert_eq!(of_asker, policy());
            // SAFETY: takes no pointers.
            let is_root = unsafe { libc::geteuid() } == 0;
            assert!(!is_root || of_asker == usual);
        });
        beginner.join().unwrap();
    }

    #[test]
    fn who_is_waited_for_again_and_again_takes_no_more_than_there_is() {
        let now = Instant::now();
        let mut asked = Asked::default();
        let mut in_all = Duration::ZERO;
        for pid in 0..1000 {
            let wait = asked.timeout(7, pid, now).unwrap();
            in_all += wait;
            asked.waited_in_vain(7, pid, wait, now);
            asked.answered(7, pid);
        }
        assert!(in_all < OF_USER + LEAST * 1000, "{in_all:?}");
        assert_eq!(asked.timeout(7, 0, now), Some(LEAST));
        assert_eq!(asked.timeout(8, 0, now), Some(OF_USER / 2), "another user");
        let later = now + in_all * COUNTS_FOR;
        assert_eq!(asked.timeout(7, 0, later), Some(OF_USER / 2));
    }

    #[test]
    fn who_answers_late_again_and_again_takes_no_more_than_there_is() {
        let now = Instant::now();
        let mut asked = Asked::default();
        let mut beyond_usual = Duration::ZERO;
        for pid in 0..1000 {
            // The latest answer that comes in time, as who runs programs for ever may give to each
            // look.
            let wait = asked.timeout(7, pid, now).unwrap();
            beyond_usual += wait.saturating_sub(USUAL);
            asked.waited(7, wait, now);
        }
        assert!(beyond_usual < OF_USER, "{beyond_usual:?}");
        assert!(asked.timeout(7, 0, now).unwrap() <= USUAL);
        assert_eq!(asked.timeout(8, 0, now), Some(OF_USER / 2), "another user");
    }

    #[test]
    fn an_answer_as_late_as_is_usual_counts_for_nothing() {
        let now = Instant::now();
        let mut asked = Asked::default();
        for _ in 0..1000 {
            asked.waited(7, USUAL, now);
        }
        assert_eq!(asked.timeout(7, 0, now), Some(OF_USER / 2));
    }

    #[test]
    fn a_late_answer_is_noted() {
        let user = USER + 1;
        let late = || thread::sleep(USUAL * 2);
        // A busy machine may be later than that.
        while ask(user, 1, 1, late).is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(asked().users[&user].spent.at(Instant::now()) >= USUAL);
    }

    #[test]
    fn processes_that_do_not_answer_take_so_many_threads_and_no_more() {
        let now = Instant::now();
        let mut asked = Asked::default();
        let mut threads = 0;
        for user in 0..100 {
            for pid in 0..100 {
                if let Some(wait) = asked.timeout(user, user.cast_signed() * 100 + pid, now) {
                    asked.waited_in_vain(user, user.cast_signed() * 100 + pid, wait, now);
                    threads += 1;
                }
            }
            let users = usize::try_from(user).unwrap() + 1;
            assert_eq!(threads, MOST.min(MOST_OF_USER * users));
        }
        assert_eq!(asked.timeout(1000, 1, now), None);
        for pid in 0..100 {
            asked.answered(0, pid);
        }
        assert_eq!(asked.timeout(1000, 1, now), Some(LEAST));
    }

    #[test]
    fn all_users_together_are_not_waited_for_longer_than_there_is() {
        let now = Instant::now();
        let mut asked = Asked::default();
        let mut beyond_least = Duration::ZERO;
        for user in 0..1000 {
            let wait = asked.timeout(user, 1, now).unwrap();
            beyond_least += wait.saturating_sub(LEAST);
            asked.waited_in_vain(user, 1, wait, now);
            asked.answered(user, 1);
        }
        assert!(beyond_least < OF_ALL, "{beyond_least:?}");
    }
}
