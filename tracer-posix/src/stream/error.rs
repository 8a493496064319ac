//! Why a stream cannot be made.

use std::ffi::c_int;
use std::io;

use crate::agent::AgentError;
use crate::stream_limit::TooManyStreams;
use tracer_area::TargetError;
use tracer_engine::InvalidAttribute;
use tracer_log::WriteError;

/// Why a stream could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// An attribute is not available.
    #[error(transparent)]
    Attribute(#[from] InvalidAttribute),
    /// The process cannot be traced.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The kernel's events are asked for and not available.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// There are too many streams.
    #[error(transparent)]
    Count(#[from] TooManyStreams),
    /// The log cannot be written.
    #[error(transparent)]
    Log(#[from] WriteError),
    /// `ENOMEM`: no recorder is available.
    #[error("cannot make the process that records")]
    Recorder(#[source] io::Error),
    /// The recorder could not make the stream; this is the standard's error number.
    #[error("the recorder cannot make the stream: {}", io::Error::from_raw_os_error(*.0))]
    Refused(i32),
}

impl CreateError {
    /// Returns the error number that the C functions return for it.
    #[must_use]
    pub fn error_number(&self) -> c_int {
        match self {
            Self::Attribute(error) => error.error_number(),
            Self::Target(error) => error.error_number(),
            Self::Log(error) => error.error_number(),
            Self::Agent(error) => error.error_number(),
            Self::Count(error) => error.error_number(),
            Self::Recorder(_) => libc::ENOMEM,
            Self::Refused(error) => *error,
        }
    }
}
