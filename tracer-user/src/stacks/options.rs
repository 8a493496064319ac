//! Which stacks are recorded.

/// Which stacks are recorded. By default none is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackOptions {
    /// The types of whose events stacks are recorded, as bits: see
    /// [`stacks`](tracer_common::kernel::stacks).
    pub types: u64,
    /// Addresses of the kernel, at most; 0: none.
    pub kernel_frames: u32,
    /// Addresses of the program, at most; 0: none.
    pub user_frames: u32,
}

impl StackOptions {
    /// Whether any are.
    #[must_use]
    pub fn are_wanted(&self) -> bool {
        self.types != 0 && (self.kernel_frames > 0 || self.user_frames > 0)
    }
}
