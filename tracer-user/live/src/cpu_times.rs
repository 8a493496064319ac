//! CPU time of processes, by their clocks.

use std::collections::HashMap;
use std::mem::MaybeUninit;

/// CPU time that processes have had up to one moment.
#[derive(Debug)]
pub struct CpuTimes(HashMap<i32, u64>);

impl CpuTimes {
    /// Asks the clocks of these processes.
    pub fn ask(pids: impl Iterator<Item = i32>) -> Self {
        Self(pids.filter_map(|pid| Some((pid, cpu_ns(pid)?))).collect())
    }

    /// Returns how long those of the processes that are still there have had CPUs since, in
    /// nanoseconds.
    pub fn until_now(&self) -> u64 {
        let each = self.0.iter().filter_map(|(pid, before)| {
            // Less is another process's, which has the pid by now.
            cpu_ns(*pid)?.checked_sub(*before)
        });
        each.sum()
    }
}

/// Returns the CPU time that a process has had, in nanoseconds; `None` where there is none of this
/// pid.
pub fn cpu_ns(pid: i32) -> Option<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: it is valid for a write.
    let failed = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if failed != 0 {
        return None;
    }
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: it is valid for a write.
    let failed = unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) };
    // SAFETY: all-zero bytes are valid.
    let time = unsafe { time.assume_init() };
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanos = u64::try_from(time.tv_nsec).ok()?;
    (failed == 0).then_some(seconds * 1_000_000_000 + nanos)
}

#[cfg(test)]
mod tests {
    use tracer_area::own_pid;
    use tracer_common::kernel::PID_LIMIT;

    use super::*;

    #[test]
    fn the_time_of_processes_goes_on_while_they_run() {
        let none = PID_LIMIT.cast_signed();
        let times = CpuTimes::ask([own_pid(), none].into_iter());
        assert_eq!(times.0.len(), 1);
        let from = cpu_ns(own_pid()).unwrap();
        while cpu_ns(own_pid()).unwrap() < from + 20_000_000 {}
        let ran = times.until_now();
        assert!((20_000_000..1_000_000_000).contains(&ran), "{ran}");
    }
}
