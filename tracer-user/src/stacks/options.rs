//! Which stacks are recorded.

use std::time::Duration;

use tracer_common::kernel::stacks;

/// Which stacks are recorded. By default none is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackOptions {
    /// The types of whose events stacks are recorded, as bits: see
    /// [`stacks`](tracer_common::kernel::stacks).
    pub types: u64,
    /// Whether user events have them.
    pub user_events: bool,
    /// Addresses of the kernel, at most; 0: none.
    pub kernel_frames: u32,
    /// Addresses of the program, at most; 0: none.
    pub user_frames: u32,
    /// Bytes of the program's stack that are copied, so that its functions are found by what their
    /// files say of them; 0: they are found by frame pointers.
    pub copied_bytes: u32,
    /// The stack of a thread that was blocked for longer is recorded as it gets a CPU again.
    pub off_cpu: Option<Duration>,
    /// How often a second it is recorded who has each CPU, and where it is; 0: never.
    pub samples_per_second: u32,
}

impl StackOptions {
    /// Whether any are.
    #[must_use]
    pub fn are_wanted(&self) -> bool {
        let is_any =
            self.recorded_types() != 0 || self.off_cpu.is_some() || self.samples_per_second > 0;
        is_any && (self.kernel_frames > 0 || self.user_frames > 0)
    }

    /// The types of which our programs record stacks, as bits. A user event has the stack of a
    /// probe.
    #[must_use]
    pub fn recorded_types(&self) -> u64 {
        if self.user_events {
            self.types | stacks::PROBES
        } else {
            self.types
        }
    }

    /// For how much time on a CPU a sample counts, in nanoseconds; 0 where there are none.
    #[must_use]
    pub fn sampled_ns(&self) -> u32 {
        1_000_000_000_u32
            .checked_div(self.samples_per_second)
            .unwrap_or(0)
    }
}
