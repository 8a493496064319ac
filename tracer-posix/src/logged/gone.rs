//! That nobody records any more.

/// The recorder is gone: somebody has killed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the process that records is gone; its log may be incomplete")]
pub struct RecorderGone;
