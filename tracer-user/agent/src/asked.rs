//! The way in which a conversation has the newest events brought.

use std::sync::Arc;

/// Callback that asks for a round, which brings the kernel's events up to now. It does not wait.
#[derive(Clone)]
pub struct RoundRequest(Arc<dyn Fn() -> bool + Send + Sync>);

impl RoundRequest {
    /// Makes it of a function that returns whether the round will come: after the end of a trace
    /// none does.
    pub fn new(ask: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// Asks for a round. Returns whether it will come.
    #[must_use]
    pub fn ask(&self) -> bool {
        (self.0)()
    }
}
