//! System calls of one kind of a process.

use std::collections::BTreeMap;

use tracer_analysis::Thread;

/// Returned errors that are told apart in one sum; those beyond count as the last of them.
const MOST_ERRORS: usize = 8;

/// Threads that are told apart in one sum.
const MOST_CALLERS: usize = 1024;

/// Bytes up to which a read or a write is a small one.
pub const SMALL_BYTES: i64 = 512;

/// Time of a call, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTime {
    /// All of it.
    pub took: u64,
    /// The part in which its thread had a CPU.
    pub on_cpu: u64,
}

/// Calls of one kind of a process.
#[derive(Clone, Debug, Default)]
pub struct CallSum {
    /// How many returned.
    pub count: u64,
    /// How long they took, in nanoseconds.
    pub ns: u64,
    /// How long their threads had a CPU then, in nanoseconds.
    pub cpu_ns: u64,
    /// Errors, with how often each came.
    pub errors: Vec<(i64, u64)>,
    /// How long the threads had a CPU in those that failed, in nanoseconds.
    pub failed_ns: u64,
    /// How many returned 0.
    pub zero: u64,
    /// Bytes that they returned, where that is what they return.
    pub bytes: u64,
    /// How many of them returned few bytes.
    pub small: u64,
    /// How long the threads had a CPU in these, in nanoseconds.
    pub small_ns: u64,
    /// The threads that made them: how long each had a CPU then, in nanoseconds, and how many.
    pub callers: BTreeMap<Thread, (u64, u64)>,
    /// The part of the time from which all of this is estimated, in thousandths; `None` where all
    /// calls were recorded.
    pub sampled: Option<u64>,
    /// Least and most that `count` is, where it is an estimate.
    pub count_between: Option<(u64, u64)>,
}

impl CallSum {
    /// Adds a call that returned a value; `failed` is the error.
    pub fn add(
        &mut self,
        thread: Thread,
        name: &str,
        (returned, failed): (i64, Option<i64>),
        time: CallTime,
    ) {
        self.count += 1;
        self.ns = self.ns.saturating_add(time.took);
        self.cpu_ns = self.cpu_ns.saturating_add(time.on_cpu);
        if self.callers.len() < MOST_CALLERS || self.callers.contains_key(&thread) {
            let (ns, calls) = self.callers.entry(thread).or_default();
            *ns = ns.saturating_add(time.on_cpu);
            *calls += 1;
        }
        self.zero += u64::from(returned == 0);
        if let Some(error) = failed {
            self.fail(error);
            self.failed_ns = self.failed_ns.saturating_add(time.on_cpu);
        } else if returns_bytes(name) && returned > 0 {
            self.bytes = self.bytes.saturating_add(returned.unsigned_abs());
            if returned <= SMALL_BYTES {
                self.small += 1;
                self.small_ns = self.small_ns.saturating_add(time.on_cpu);
            }
        }
    }

    fn fail(&mut self, error: i64) {
        if let Some((_, count)) = self.errors.iter_mut().find(|(known, _)| *known == error) {
            *count += 1;
        } else if self.errors.len() < MOST_ERRORS {
            self.errors.push((error, 1));
        } else if let Some((_, count)) = self.errors.last_mut() {
            *count += 1;
        }
    }

    /// Makes estimates of the whole of what was counted in a part of the time.
    pub fn scale(&mut self, whole: impl Fn(u64) -> u64, whole_ns: impl Fn(u64) -> u64) {
        let Self {
            count,
            ns,
            cpu_ns,
            errors,
            failed_ns,
            zero,
            bytes,
            small,
            small_ns,
            callers: _,
            sampled: _,
            count_between: _,
        } = self;
        for counted in [count, zero, bytes, small] {
            *counted = whole(*counted);
        }
        errors
            .iter_mut()
            .for_each(|(_, count)| *count = whole(*count));
        for time in [ns, cpu_ns, failed_ns, small_ns] {
            *time = whole_ns(*time);
        }
    }

    /// Returns the error that came most often, and how often.
    #[must_use]
    pub fn main_error(&self) -> Option<(i64, u64)> {
        let errors = self.errors.iter().copied();
        errors.max_by_key(|(error, count)| (*count, std::cmp::Reverse(*error)))
    }
}

/// Tells whether a call returns how many bytes it has read or written.
#[must_use]
pub fn returns_bytes(name: &str) -> bool {
    const NAMES: [&str; 14] = [
        "read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2",
        "pwritev2", "recvfrom", "recvmsg", "sendto", "sendmsg",
    ];
    NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_wait_for_in_calls_is_no_work() {
        let thread = |tid| Thread { pid: 1, tid };
        let time = |took, on_cpu| CallTime { took, on_cpu };
        let mut sum = CallSum::default();
        sum.add(thread(2), "read", (10, None), time(1000, 10));
        sum.add(thread(2), "read", (-11, Some(11)), time(5000, 20));
        sum.add(thread(3), "read", (9, None), time(100, 100));
        assert_eq!((sum.ns, sum.cpu_ns), (6100, 130));
        assert_eq!((sum.failed_ns, sum.small, sum.small_ns), (20, 2, 110));
        assert_eq!(sum.main_error(), Some((11, 1)));
        let callers: Vec<_> = sum.callers.into_iter().collect();
        assert_eq!(callers, [(thread(2), (30, 2)), (thread(3), (100, 1))]);
    }
}
