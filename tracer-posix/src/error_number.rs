//! The standard's error numbers.

use std::ffi::c_int;

use crate::agent::AgentError;
use crate::area::{FindError, NameTooLong, OpenError, TargetError};
use crate::census::TooManyStreams;
use crate::engine::InvalidAttribute;
use crate::log::WriteError;
use crate::stream::CreateError;

/// The error number the standard gives a failure. No wildcard arm: a new failure does not compile
/// until someone has looked up its number.
pub(crate) trait ErrorNumber {
    fn error_number(&self) -> c_int;
}

impl ErrorNumber for NameTooLong {
    fn error_number(&self) -> c_int {
        libc::ENAMETOOLONG
    }
}

impl ErrorNumber for InvalidAttribute {
    fn error_number(&self) -> c_int {
        match self {
            Self::MaxDataSize { .. } | Self::FlushWithoutLog => libc::EINVAL,
            Self::StreamMinSize { .. } => libc::ENOMEM,
        }
    }
}

impl ErrorNumber for TargetError {
    fn error_number(&self) -> c_int {
        match self {
            Self::Find(FindError::NoSuchProcess { .. }) => libc::ESRCH,
            Self::Find(
                FindError::NotPermitted { .. }
                | FindError::OnlyMapped { .. }
                | FindError::Confined { .. }
                | FindError::Unreadable { .. },
            ) => libc::EPERM,
            Self::Find(FindError::Map { .. }) => libc::ENOMEM,
            Self::Open(OpenError::TooManyStreams { .. }) => libc::EAGAIN,
        }
    }
}

impl ErrorNumber for AgentError {
    fn error_number(&self) -> c_int {
        match self {
            Self::NoAgent => libc::ENOTSUP,
            Self::Refused { error, .. } => *error,
            Self::Untrusted { .. } | Self::Silent(_) => libc::EPERM,
        }
    }
}

impl ErrorNumber for TooManyStreams {
    fn error_number(&self) -> c_int {
        libc::EAGAIN
    }
}

impl ErrorNumber for WriteError {
    fn error_number(&self) -> c_int {
        Self::error_number(self)
    }
}

impl ErrorNumber for CreateError {
    fn error_number(&self) -> c_int {
        match self {
            Self::Attribute(error) => error.error_number(),
            Self::Target(error) => error.error_number(),
            Self::Log(error) => error.error_number(),
            Self::Agent(error) => error.error_number(),
            Self::Count(error) => error.error_number(),
            Self::Recorder(_) => libc::ENOMEM,
            Self::Refused(number) => *number,
        }
    }
}
