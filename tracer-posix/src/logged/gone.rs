//! The error that the recorder is gone.

/// The recorder is gone: it was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the process that records is gone; its log may be incomplete")]
pub struct RecorderGone;
