//! How threads are scheduled: by which policy, and with which priority.

use std::ffi::c_int;

/// The policy of a thread, and its priority where that is a real-time one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scheduling {
    policy: c_int,
    priority: c_int,
}

impl Scheduling {
    /// Scheduling of ordinary threads.
    pub(crate) const OTHER: Self = Self {
        policy: libc::SCHED_OTHER,
        priority: 0,
    };

    /// Bits of a policy that are not the policy.
    const RESET_ON_FORK: c_int = 0x4000_0000;

    /// Tells whether the calling thread is a real-time one of any kind.
    pub(crate) fn is_caller_real_time() -> bool {
        matches!(
            Self::policy_of_caller(),
            libc::SCHED_FIFO | libc::SCHED_RR | libc::SCHED_DEADLINE
        )
    }

    /// Returns the calling thread's scheduling, if it is a real-time one with a priority; else
    /// [`OTHER`](Self::OTHER).
    ///
    /// This makes the system calls itself. They are about a thread, and musl's functions of the
    /// same names only fail, since POSIX defines these for processes.
    pub(crate) fn of_caller() -> Self {
        let policy = Self::policy_of_caller();
        if policy != libc::SCHED_FIFO && policy != libc::SCHED_RR {
            return Self::OTHER;
        }
        let mut priority: c_int = 0;
        // SAFETY: the kernel's `struct sched_param` has the priority alone.
        unsafe { libc::syscall(libc::SYS_sched_getparam, 0, &raw mut priority) };
        Self { policy, priority }
    }

    fn policy_of_caller() -> c_int {
        // SAFETY: takes no pointers.
        let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
        c_int::try_from(policy).unwrap_or(0) & !Self::RESET_ON_FORK
    }

    /// Schedules a thread of this process like this; 0 stands for the caller. Where that is not
    /// permitted, the thread stays as it is.
    pub(crate) fn give_to(self, tid: i32) {
        let Self { policy, priority } = self;
        // SAFETY: as above.
        unsafe {
            libc::syscall(
                libc::SYS_sched_setscheduler,
                tid,
                policy,
                &raw const priority,
            )
        };
    }

    /// Returns the scheduling as a word.
    pub(crate) fn to_word(self) -> u64 {
        let half = |value: c_int| u64::from(value.unsigned_abs());
        half(self.policy) << 32 | half(self.priority)
    }

    /// Decodes a [word](Self::to_word).
    pub(crate) fn from_word(word: u64) -> Self {
        let half = |value: u64| c_int::try_from(value & 0x7fff_ffff).unwrap_or(0);
        Self {
            policy: half(word >> 32),
            priority: half(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_what_it_was_made_of() {
        let fifo = Scheduling {
            policy: libc::SCHED_FIFO,
            priority: 99,
        };
        for scheduling in [fifo, Scheduling::OTHER] {
            assert_eq!(Scheduling::from_word(scheduling.to_word()), scheduling);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no scheduling")]
    fn a_thread_that_is_no_real_time_one_is_an_ordinary_one() {
        let ended = std::thread::spawn(|| {
            Scheduling::OTHER.give_to(0);
            Scheduling::of_caller()
        });
        assert_eq!(ended.join().unwrap(), Scheduling::OTHER);
    }
}
