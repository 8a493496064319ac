//! Waits that are entered again, as they ended in vain.
//!
//! A lock that is tried again after a timeout, a condition that does not hold yet when its waiter
//! is woken: the program waits on, and the last one to wake it has ended the wait. Two waits are
//! one where all of this holds:
//!
//! - both are in one system call, which does nothing but wait for others (`futex`, `poll` and its
//!   like, `semop`, `sigtimedwait`), and on one object: its first argument, where the call was
//!   recorded; of futexes the eight bytes that it lies in, as those of a condition variable lie
//!   side by side;
//! - between them the thread ran for no longer than a retry takes, whatever it waited for a CPU:
//!   [`LONGEST_RETRY`], or [`LONGEST_KNOWN_RETRY`] where the object is known or the time of the
//!   wait was over; and, where a long time was over, no more than a small part of it, as of a data
//!   base that looks for a deadlock after a second, and waits on;
//! - it did nothing else meanwhile, as far as that was recorded: it made no thread and no user
//!   event, made no system call but those that only take something in, and woke no thread, unless
//!   both waits are for one futex that is known;
//! - where it was recorded who has a lock, that is the same thread;
//! - where futexes are known it may have waited for another one in between, for no longer than
//!   [`LONGEST_BETWEEN`]: the lock that belongs to a condition.

use std::num::NonZeroU64;

use tracer_engine::event::MonotonicNs;

use crate::calls::CallKey;
use crate::state::{Inside, IntervalEnd, LockId, Reason, State, Waker};

/// How long a thread runs at most to wait again, in nanoseconds, where it is not known for what: a
/// few times what it takes to leave a system call, look at a word and enter the call again.
const LONGEST_RETRY: u64 = 10_000;

/// As long as that where the object is known, or the wait before has brought nothing, since a
/// timer has ended it.
const LONGEST_KNOWN_RETRY: u64 = 30_000;

/// After a timeout it may run for this part of the time that it has waited,
const PART_OF_TIMEOUT: u64 = 4096;

/// which is no more than this, in nanoseconds.
const MOST_AFTER_TIMEOUT: u64 = 1_000_000;

/// How long it waits in between at most for another futex, in nanoseconds.
const LONGEST_BETWEEN: u64 = 50_000;

/// Actions of a thread in a run, beside waiting again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Acts {
    /// Nothing that was recorded.
    #[default]
    Nothing,
    /// It woke another thread.
    Woke,
    /// Something else.
    Other,
}

/// System calls by number, where they are known.
struct Numbers {
    futex: i32,
    /// Calls that do nothing but wait for what others do.
    waits: &'static [i32],
    /// Calls that take something in and change nothing for others.
    taking: &'static [i32],
}

#[cfg(target_arch = "x86_64")]
const NUMBERS: Numbers = Numbers {
    futex: 202,
    // poll, select, semop, rt_sigtimedwait, futex, semtimedop, epoll_wait, pselect6, ppoll,
    // epoll_pwait, epoll_pwait2
    waits: &[7, 23, 65, 128, 202, 220, 232, 270, 271, 281, 441],
    // read, poll, rt_sigprocmask, rt_sigreturn, pread64, readv, select, sched_yield, recvfrom,
    // recvmsg, gettimeofday, futex, clock_gettime, epoll_wait, pselect6, ppoll, epoll_pwait,
    // recvmmsg, epoll_pwait2
    taking: &[
        0, 7, 14, 15, 17, 19, 23, 24, 45, 47, 96, 202, 228, 232, 270, 271, 281, 299, 441,
    ],
};

#[cfg(target_arch = "aarch64")]
const NUMBERS: Numbers = Numbers {
    futex: 98,
    // epoll_pwait, pselect6, ppoll, futex, rt_sigtimedwait, semtimedop, semop, epoll_pwait2
    waits: &[22, 72, 73, 98, 137, 192, 193, 441],
    // epoll_pwait, read, readv, pread64, pselect6, ppoll, futex, clock_gettime, sched_yield,
    // rt_sigprocmask, rt_sigreturn, gettimeofday, recvfrom, recvmsg, recvmmsg, epoll_pwait2
    taking: &[
        22, 63, 65, 67, 72, 73, 98, 113, 124, 135, 139, 169, 207, 212, 243, 441,
    ],
};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const NUMBERS: Numbers = Numbers {
    futex: -1,
    waits: &[],
    taking: &[],
};

/// Tells whether a system call only takes something in.
fn only_takes(key: CallKey) -> bool {
    !key.is_compat && NUMBERS.taking.contains(&key.nr)
}

/// Returns the object of a system call with this first argument.
fn object(key: CallKey, argument: u64) -> Option<NonZeroU64> {
    let object = if is_futex(key) {
        argument & !7
    } else {
        argument
    };
    NonZeroU64::new(object.wrapping_add(1))
}

fn is_futex(key: CallKey) -> bool {
    !key.is_compat && key.nr == NUMBERS.futex
}

fn only_waits(key: CallKey) -> bool {
    !key.is_compat && NUMBERS.waits.contains(&key.nr)
}

/// Tells whether a wait that ends so has brought what was waited for, or may yet.
pub fn is_of_use(end: IntervalEnd) -> bool {
    match end {
        IntervalEnd::Woken(Waker::Thread(_) | Waker::Interrupt | Waker::SoftInterrupt)
        | IntervalEnd::Open => true,
        IntervalEnd::Woken(Waker::Timer | Waker::Unknown)
        | IntervalEnd::Unsaid
        | IntervalEnd::GotCpu(_) => false,
    }
}

/// A wait.
#[derive(Clone, Copy, Debug)]
struct Wait {
    key: CallKey,
    object: Option<NonZeroU64>,
    /// The lock with its holder, where that is known.
    lock: LockId,
    /// Since when, with those before that ended in vain.
    since: MonotonicNs,
    /// How long it took until a timer ended it, in nanoseconds; 0 where none did.
    timeout_ns: u64,
}

/// Watches a thread between its waits: whether it waits again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retries {
    /// The system call that it is in, where that was recorded, and its object.
    call: Option<(CallKey, Option<NonZeroU64>)>,
    /// Whether that call does something when it returns.
    is_act: bool,
    /// Its actions since the last wait was over,
    acts: Acts,
    /// and how long it ran, in nanoseconds.
    ran_ns: u64,
    /// The last wait that was over.
    last: Option<Wait>,
    /// The wait that it is in now, and since when without those before.
    now: Option<(Wait, MonotonicNs)>,
}

impl Retries {
    /// Returns since when the thread waits for what it waits for now, where it does.
    pub fn waits_since(&self) -> Option<MonotonicNs> {
        self.now.map(|(wait, _)| wait.since)
    }

    /// Forgets the last wait: it is not known that the thread did no more than to wait again.
    pub fn forget(&mut self) {
        let (call, is_act) = (self.call, self.is_act);
        *self = Self {
            call,
            is_act,
            ..Self::default()
        };
    }

    /// Forgets the system call that it is in: the ones that come are not recorded.
    pub fn forget_call(&mut self) {
        (self.call, self.is_act) = (None, false);
    }

    /// Notes that it did something while it ran.
    pub fn act(&mut self, acts: Acts) {
        self.acts = self.acts.max(acts);
    }

    /// Notes that it enters a system call with this first argument.
    pub fn enter(&mut self, key: CallKey, argument: u64) {
        self.call = Some((key, object(key, argument)));
        self.is_act = !only_takes(key);
    }

    /// Notes that it waits for the futex at this address as it leaves its CPU.
    pub fn will_wait(&mut self, address: u64) {
        let key = CallKey {
            is_compat: false,
            nr: NUMBERS.futex,
        };
        self.call = Some((key, object(key, address)));
    }

    /// Notes that it leaves its system call.
    pub fn leave(&mut self) {
        if self.is_act {
            self.act(Acts::Other);
        }
        (self.call, self.is_act) = (None, false);
    }

    /// Notes that it ran for so long, and leaves its CPU in this state.
    pub fn leave_cpu(&mut self, at: MonotonicNs, ran_ns: u64, state: State) {
        self.ran_ns = self.ran_ns.saturating_add(ran_ns);
        self.now = None;
        match state {
            State::Runnable(_) => {}
            State::Blocked(Reason {
                inside: Inside::Call(key),
                lock,
                ..
            }) if only_waits(key) => self.wait(at, key, lock),
            State::Blocked(_) | State::Unknown | State::Running | State::Stopped | State::Dead => {
                self.forget()
            }
        }
    }

    fn wait(&mut self, at: MonotonicNs, key: CallKey, lock: LockId) {
        let call = self.call.filter(|(of, _)| *of == key);
        let object = call.and_then(|(_, object)| object);
        // It waits in that call: what it does is told by the wait.
        self.is_act = false;
        let again = self.last.filter(|last| self.is_retry(last));
        let mut wait = Wait {
            key,
            object,
            lock,
            since: at,
            timeout_ns: 0,
        };
        self.last = None;
        if let Some(last) = again.filter(|last| last.key == key) {
            if last.object == object && last.lock == lock {
                wait.since = last.since;
            } else if is_futex(key) && object.is_some() && last.object.is_some() {
                // The lock of a condition, maybe: that depends on how long it takes.
                self.last = Some(last);
            }
        }
        self.now = Some((wait, at));
    }

    /// Tells whether it did no more since that wait than to wait again.
    fn is_retry(&self, last: &Wait) -> bool {
        let is_known = last.object.is_some();
        let longest = if is_known || last.timeout_ns > 0 {
            let part = last.timeout_ns / PART_OF_TIMEOUT;
            LONGEST_KNOWN_RETRY.max(part.min(MOST_AFTER_TIMEOUT))
        } else {
            LONGEST_RETRY
        };
        let most_acts = if is_known && is_futex(last.key) {
            Acts::Woke
        } else {
            Acts::Nothing
        };
        self.ran_ns <= longest && self.acts <= most_acts
    }

    /// Notes that it is woken.
    pub fn wake(&mut self, at: MonotonicNs, end: IntervalEnd) {
        let Some((mut wait, from)) = self.now.take() else {
            return;
        };
        let took = at.0.saturating_sub(from.0);
        if end == IntervalEnd::Woken(Waker::Timer) {
            wait.timeout_ns = took;
        }
        if self.last.is_some() && took <= LONGEST_BETWEEN {
            return;
        }
        self.last = Some(wait);
        (self.acts, self.ran_ns) = (Acts::Nothing, 0);
    }
}

#[cfg(test)]
// Elsewhere no numbers are known.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tests {
    use tracer_common::event_type::EventTypeId;

    use super::*;
    use crate::path::{PathPart, critical_path};
    use crate::story::{Story, header, thread};

    fn locks() -> u16 {
        u16::try_from(NUMBERS.futex).unwrap()
    }

    /// A call that does something.
    const WRITES: u16 = 999;

    /// Thread 1 waits in this call until it is woken by each of these (0: a timer), 100 us after
    /// it began to wait, and runs in between for as long as `between` makes it run.
    fn waits(
        call: u16,
        wakers: &[i32],
        mut between: impl FnMut(&mut Story, u64) -> u64,
    ) -> Vec<(u64, Waker)> {
        let mut story = Story::new();
        for (cpu, tid) in [(1, 2), (2, 3)] {
            story.switch(1, cpu, (0, None), tid);
        }
        let mut at = 10;
        story.switch(at, 0, (0, None), 1);
        for (index, waker) in wakers.iter().enumerate() {
            if index > 0 {
                at += between(&mut story, at);
            }
            story.switch(at, 0, (1, Some(call)), 0);
            at += 100_000;
            story.wake(at, 1, 0, *waker);
            at += 500;
            story.switch(at, 0, (0, None), 1);
        }
        find_waits(&story, at)
    }

    /// How long thread 1 was blocked, and woken by which thread, the newest first.
    fn find_waits(story: &Story, at: u64) -> Vec<(u64, Waker)> {
        let window = (MonotonicNs(10), MonotonicNs(at));
        let steps = critical_path(&story.states, &story.history, thread(1), window, 1000);
        let own = steps.iter().filter(|step| step.depth == 0);
        own.filter_map(|step| match step.part {
            PathPart::Blocked(_, waker) => Some((step.ns(), waker)),
            _ => None,
        })
        .collect()
    }

    fn by(tid: i32) -> Waker {
        Waker::Thread(crate::state::Task {
            thread: thread(tid),
            ..Default::default()
        })
    }

    #[test]
    fn a_wait_whose_time_was_over_and_that_is_entered_again_goes_on() {
        let waits = waits(locks(), &[0, 0, 0, 2], |_, _| 20_000);
        assert_eq!(waits, [(4 * 100_000 + 3 * 20_500, by(2))]);
    }

    #[test]
    fn who_wakes_last_has_ended_a_wait_that_others_ended_in_vain() {
        let waits = waits(locks(), &[3, 3, 2], |_, _| 2_000);
        assert_eq!(waits, [(3 * 100_000 + 2 * 2_500, by(2))]);
    }

    #[test]
    fn what_is_no_retry_is_a_wait_of_its_own() {
        let alone = [(100_000, by(2)), (100_000, by(3))];
        let ran = waits(locks(), &[3, 2], |_, _| LONGEST_RETRY + 1);
        assert_eq!(ran, alone, "it ran for longer");
        let woke = waits(locks(), &[3, 2], |story, at| {
            story.wake(at + 500, 3, 0, 1);
            2_000
        });
        assert_eq!(woke, alone, "it woke another one");
        let ran = waits(locks(), &[0, 2], |_, _| LONGEST_KNOWN_RETRY + 1);
        assert_eq!(ran.len(), 2, "it ran for longer after its time was over");
        let emitted = waits(locks(), &[3, 2], |story, at| {
            let user = EventTypeId(tracer_common::event_type::FIRST_USER_EVENT);
            story.event(header(at + 500, user, 1, 0), &[]);
            2_000
        });
        assert_eq!(emitted, alone, "it emitted an event");
        let wrote = waits(locks(), &[3, 2], |story, at| {
            story.enter(at + 500, 1, WRITES, 1);
            story.leave(at + 600, 1, WRITES);
            2_000
        });
        assert_eq!(wrote, alone, "it made another system call");
        // As a disk is waited for: several times in one call, each for something else.
        let works = waits(WRITES, &[3, 2], |_, _| 2_000);
        assert_eq!(works, alone, "the call does something");
    }

    #[test]
    fn after_a_long_timeout_it_may_run_for_a_small_part_of_it() {
        let call = NUMBERS.waits[0];
        let waits_after = |ran: u64| {
            let mut story = Story::new();
            story.switch(1, 1, (0, None), 2);
            story.switch(10, 0, (0, None), 1);
            let mut at = 10;
            for (took, waker) in [(1_000_000_000, 0), (2_000_000_000, 2)] {
                at += ran;
                story.switch(at, 0, (1, u16::try_from(call).ok()), 0);
                at += took;
                story.wake(at, 1, 0, waker);
                story.switch(at, 0, (0, None), 1);
            }
            find_waits(&story, at)
        };
        let part = 1_000_000_000 / PART_OF_TIMEOUT;
        assert_eq!(waits_after(part), [(3_000_000_000 + part, by(2))]);
        assert_eq!(waits_after(part + 1).len(), 2);
    }

    #[test]
    fn what_takes_something_in_may_be_a_retry() {
        let takes = u16::try_from(NUMBERS.taking[0]).unwrap();
        let read = waits(
            u16::try_from(NUMBERS.waits[0]).unwrap(),
            &[3, 2],
            |story, at| {
                story.enter(at + 500, 1, takes, 1);
                story.leave(at + 600, 1, takes);
                2_000
            },
        );
        assert_eq!(read, [(202_500, by(2))]);
    }

    #[test]
    fn futexes_that_are_known_are_one_by_their_address() {
        let waits_for = |futexes: [u64; 2]| {
            let mut futexes = futexes.into_iter();
            let mut story = Story::new();
            story.switch(1, 1, (0, None), 2);
            story.switch(10, 0, (0, None), 1);
            let mut at = 10;
            for futex in &mut futexes {
                story.enter(at, 1, locks(), futex);
                story.switch(at + 100, 0, (1, Some(locks())), 0);
                at += 100_100;
                story.wake(at, 1, 0, 2);
                story.switch(at, 0, (0, None), 1);
                story.leave(at + 100, 1, locks());
                // It gives a lock back, for which another one waits.
                story.wake(at + 200, 2, 1, 1);
                at += 20_000;
            }
            find_waits(&story, at).len()
        };
        assert_eq!(waits_for([0x1000, 0x1000]), 1);
        assert_eq!(waits_for([0x1000, 0x1004]), 1, "halves of a condition");
        assert_eq!(waits_for([0x1000, 0x1008]), 2, "two locks");
    }

    #[test]
    fn the_lock_of_a_condition_may_be_waited_for_in_between() {
        let waits_between = |lock_ns: u64| {
            let mut story = Story::new();
            for (cpu, tid) in [(1, 2), (2, 3)] {
                story.switch(1, cpu, (0, None), tid);
            }
            story.switch(10, 0, (0, None), 1);
            let mut at = 10;
            for (futex, ns, waker) in [
                (0x1000, 100_000, 3),
                (0x2000, lock_ns, 3),
                (0x1004, 100_000, 2),
            ] {
                story.enter(at, 1, locks(), futex);
                story.switch(at + 100, 0, (1, Some(locks())), 0);
                at += 100 + ns;
                story.wake(at, 1, 0, waker);
                story.switch(at, 0, (0, None), 1);
                story.leave(at + 100, 1, locks());
                at += 1_000;
            }
            find_waits(&story, at)
        };
        let whole = 100_000 + 1_000 + 100 + 2_000 + 1_000 + 100 + 100_000;
        assert_eq!(waits_between(2_000), [(whole, by(2))]);
        let apart = [(100_000, by(2)), (60_000, by(3)), (100_000, by(3))];
        assert_eq!(waits_between(60_000), apart);
    }
}
