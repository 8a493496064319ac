//! Options for recording stacks.

use std::time::Duration;

use tracer_common::kernel::stacks;

/// Stacks to record. By default none is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackOptions {
    /// The types of whose events stacks are recorded, as bits: see
    /// [`stacks`](tracer_common::kernel::stacks).
    pub types: u64,
    /// Recording of stacks for user events.
    pub user_events: bool,
    /// Addresses of the kernel, at most; 0: none.
    pub kernel_frames: u32,
    /// Addresses of the program, at most; 0: none.
    pub user_frames: u32,
    /// Frames of Python, at most; 0: none.
    pub python_frames: u32,
    /// Bytes of the program's stack that are copied, so that its functions are found by the unwind
    /// data of their files; 0: they are found by frame pointers.
    pub copied_bytes: u32,
    /// The stack of a thread that was blocked for longer is recorded as it gets a CPU again.
    pub off_cpu: Option<Duration>,
    /// Samples per second of the thread that has each CPU, and of its stack; 0: none.
    pub samples_per_second: u32,
}

impl StackOptions {
    /// Tells whether any stacks are to be recorded.
    #[must_use]
    pub fn are_wanted(&self) -> bool {
        let is_any =
            self.recorded_types() != 0 || self.off_cpu.is_some() || self.samples_per_second > 0;
        is_any && (self.kernel_frames > 0 || self.user_frames > 0 || self.python_frames > 0)
    }

    /// Returns the types of which our programs record stacks, as bits. A user event has the stack
    /// of a probe.
    #[must_use]
    pub fn recorded_types(&self) -> u64 {
        if self.user_events {
            self.types | stacks::PROBES
        } else {
            self.types
        }
    }

    /// Returns the time on a CPU that a sample stands for, in nanoseconds; 0 where there are none.
    #[must_use]
    pub fn sampled_ns(&self) -> u32 {
        1_000_000_000_u32
            .checked_div(self.samples_per_second)
            .unwrap_or(0)
    }
}
