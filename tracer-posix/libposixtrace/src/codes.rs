//! Constants of `trace.h`, and the error numbers that calls return.

use std::ffi::c_int;

use tracer_area::NameTooLong;
use tracer_engine::{Filtering, Inheritance, LogFullPolicy, SetKind, StreamFullPolicy};
use tracer_log::WriteError;
use tracer_posix::stream::CreateError;

/// An argument that is none of the values that the standard names, or an identifier of no stream
/// that the call takes: `EINVAL`.
#[derive(Debug)]
pub(super) struct Invalid;

/// A failure that has an error number of the standard.
pub(super) trait ErrorNumber {
    fn error_number(&self) -> c_int;
}

/// Failures that have a function of this name already.
macro_rules! have_error_number {
    ($($failure:ty)*) => {
        $(impl ErrorNumber for $failure {
            fn error_number(&self) -> c_int {
                self.error_number()
            }
        })*
    };
}

have_error_number!(CreateError NameTooLong WriteError);

impl ErrorNumber for Invalid {
    fn error_number(&self) -> c_int {
        libc::EINVAL
    }
}

/// Returns the error number, as the calls do; they do not set `errno`.
pub(super) fn status<E: ErrorNumber>(result: Result<(), E>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => error.error_number(),
    }
}

/// The constants of `trace.h`; a test compares them with what the C compiler says.
pub mod constants {
    use std::ffi::c_int;

    macro_rules! constants {
        ($($name:ident = $value:literal)*) => {
            $(#[doc = concat!("`", stringify!($name), "`.")] pub const $name: c_int = $value;)*
            /// All of them, with their names.
            pub const ALL: &[(&str, c_int)] = &[$((stringify!($name), $name)),*];
        };
    }

    constants! {
        POSIX_TRACE_RUNNING = 1
        POSIX_TRACE_SUSPENDED = 2
        POSIX_TRACE_NOT_FULL = 0
        POSIX_TRACE_FULL = 1
        POSIX_TRACE_NO_OVERRUN = 0
        POSIX_TRACE_OVERRUN = 1
        POSIX_TRACE_NOT_FLUSHING = 0
        POSIX_TRACE_FLUSHING = 1
        POSIX_TRACE_NOT_TRUNCATED = 0
        POSIX_TRACE_TRUNCATED_RECORD = 1
        POSIX_TRACE_TRUNCATED_READ = 2
        POSIX_TRACE_LOOP = 1
        POSIX_TRACE_UNTIL_FULL = 2
        POSIX_TRACE_FLUSH = 3
        POSIX_TRACE_APPEND = 4
        POSIX_TRACE_CLOSE_FOR_CHILD = 1
        POSIX_TRACE_INHERITED = 2
        POSIX_TRACE_WOPID_EVENTS = 1
        POSIX_TRACE_SYSTEM_EVENTS = 2
        POSIX_TRACE_ALL_EVENTS = 3
        POSIX_TRACE_SET_EVENTSET = 1
        POSIX_TRACE_ADD_EVENTSET = 2
        POSIX_TRACE_SUB_EVENTSET = 3
        LINUX_TRACE_KERNEL_EVENTS_DEFAULT = 0
        LINUX_TRACE_KERNEL_EVENTS_OFF = 1
        LINUX_TRACE_KERNEL_EVENTS_ON = 2
    }
}

/// C constants and what they mean.
macro_rules! named_values {
    ($type:ty: $($name:ident = $value:expr),*) => {
        impl NamedValue for $type {
            const VALUES: &'static [(c_int, Self)] = &[$((constants::$name, $value)),*];
        }
    };
}

/// A type whose values have constants in `trace.h`.
pub(super) trait NamedValue: Copy + PartialEq + 'static {
    const VALUES: &'static [(c_int, Self)];

    fn from_code(code: c_int) -> Result<Self, Invalid> {
        let known = Self::VALUES.iter().find(|(known, _)| *known == code);
        known.map(|(_, value)| *value).ok_or(Invalid)
    }

    fn code(self) -> c_int {
        let known = Self::VALUES.iter().find(|(_, value)| *value == self);
        known.map_or(0, |(code, _)| *code)
    }
}

named_values!(StreamFullPolicy:
    POSIX_TRACE_LOOP = StreamFullPolicy::Loop,
    POSIX_TRACE_UNTIL_FULL = StreamFullPolicy::UntilFull,
    POSIX_TRACE_FLUSH = StreamFullPolicy::Flush);
named_values!(LogFullPolicy:
    POSIX_TRACE_LOOP = LogFullPolicy::Loop,
    POSIX_TRACE_UNTIL_FULL = LogFullPolicy::UntilFull,
    POSIX_TRACE_APPEND = LogFullPolicy::Append);
named_values!(Inheritance:
    POSIX_TRACE_CLOSE_FOR_CHILD = Inheritance::CloseForChild,
    POSIX_TRACE_INHERITED = Inheritance::Inherited);
named_values!(SetKind:
    POSIX_TRACE_WOPID_EVENTS = SetKind::WithoutProcess,
    POSIX_TRACE_SYSTEM_EVENTS = SetKind::System,
    POSIX_TRACE_ALL_EVENTS = SetKind::All);
named_values!(Filtering:
    POSIX_TRACE_SET_EVENTSET = Filtering::Set,
    POSIX_TRACE_ADD_EVENTSET = Filtering::Add,
    POSIX_TRACE_SUB_EVENTSET = Filtering::Sub);
