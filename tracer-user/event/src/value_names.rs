//! Names of the values to which the kernel gives codes.

use tracer_common::kernel::{others as had_it, signal_result, thread_state, waker_context};

/// Returns the name of the outcome of a signal.
pub fn signal_result(result: u32) -> Option<&'static str> {
    Some(match result {
        signal_result::DELIVERED => "delivered",
        signal_result::IGNORED => "ignored",
        signal_result::PENDING => "pending already",
        signal_result::OVERFLOW => "lost",
        signal_result::WITHOUT_INFO => "without siginfo",
        _ => return None,
    })
}

/// Returns the name of a soft interrupt, as in `/proc/softirqs`.
pub fn softirq(vector: u32) -> Option<&'static str> {
    const NAMES: [&str; 10] = [
        "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER",
        "RCU",
    ];
    NAMES.get(usize::try_from(vector).ok()?).copied()
}

/// Returns the name of the origin of a wake-up.
pub fn waker_context(context: u32) -> Option<&'static str> {
    Some(match context {
        waker_context::UNKNOWN => "unknown",
        waker_context::THREAD => "thread",
        waker_context::IRQ => "irq",
        waker_context::SOFTIRQ => "softirq",
        waker_context::HRTIMER => "hrtimer",
        waker_context::TIMER => "timer",
        waker_context::PACKET => "packet",
        _ => return None,
    })
}

/// Returns the word for whether others had a CPU too.
pub fn others(code: u32) -> Option<&'static str> {
    Some(match code {
        had_it::UNKNOWN => "unknown",
        had_it::NONE => "none",
        had_it::SOME => "some",
        had_it::NOT_WOKEN => "not_woken",
        _ => return None,
    })
}

/// Returns the word for the observed state of a thread.
pub fn thread_state(state: u32) -> Option<&'static str> {
    Some(match state {
        thread_state::UNKNOWN => "unknown",
        thread_state::RUNNING => "running",
        thread_state::RUNNABLE => "runnable",
        thread_state::BLOCKED => "blocked",
        thread_state::STOPPED => "stopped",
        thread_state::TRACED => "traced",
        _ => return None,
    })
}

/// Returns the name of the operation of a block request.
pub fn block_operation(operation: u32) -> Option<&'static str> {
    Some(match operation {
        0 => "read",
        1 => "write",
        2 => "flush",
        3 => "discard",
        5 => "secure erase",
        7 => "zone append",
        9 => "write zeroes",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_soft_interrupt_is_named_as_the_kernel_names_it() {
        // Every kernel has this file.
        let text = std::fs::read_to_string("/proc/softirqs").unwrap();
        let rows = text.lines().skip(1);
        for (vector, row) in (0..).zip(rows) {
            let name = row.trim_start().split(':').next();
            assert_eq!(softirq(vector), name, "{row}");
        }
    }
}
