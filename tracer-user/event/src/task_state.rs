//! State in which a thread left its CPU, as a letter and a word.

/// Returns the meaning of the kernel's state bits: the letter that `ps` shows, and a word.
///
/// The bits are those of `include/linux/sched.h` since Linux 4.14.
pub fn task_state(bits: u32, is_preempted: bool) -> (&'static str, &'static str) {
    const UNINTERRUPTIBLE: u32 = 0x2;
    const NO_LOAD: u32 = 0x400;
    // The lowest of the bits that are set decides, but for idle, which is made of two.
    const STATES: [(u32, &str, &str); 10] = [
        (0x1, "S", "sleeping"),
        (UNINTERRUPTIBLE, "D", "uninterruptible"),
        (0x4, "T", "stopped"),
        (0x8, "t", "stopped by a debugger"),
        (0x10, "X", "dead"),
        (0x20, "Z", "zombie"),
        (0x40, "P", "parked"),
        (0x80, "X", "dead"),
        // Waiting for a spinlock of a real-time kernel.
        (0x1000, "D", "waiting for a lock"),
        (0x8000, "D", "frozen"),
    ];
    if is_preempted {
        return ("R", "preempted");
    }
    if bits & (UNINTERRUPTIBLE | NO_LOAD) == UNINTERRUPTIBLE | NO_LOAD {
        return ("I", "idle");
    }
    if bits == 0 {
        return ("R", "gave way");
    }
    STATES
        .iter()
        .find(|(bit, ..)| bits & bit != 0)
        .map_or(("?", "in an unknown state"), |(_, letter, word)| {
            (letter, word)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_read_as_in_ps() {
        assert_eq!(task_state(0, false), ("R", "gave way"));
        assert_eq!(task_state(0, true), ("R", "preempted"));
        assert_eq!(task_state(1, true), ("R", "preempted"));
        assert_eq!(task_state(1, false).0, "S");
        assert_eq!(task_state(0x102, false).0, "D");
        assert_eq!(task_state(0x402, false).0, "I");
        assert_eq!(task_state(0x80, false).0, "X");
        assert_eq!(task_state(0x4000_0000, false).0, "?");
    }
}
