//! Making streams, and opening logs.

use std::ffi::c_int;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};

use tracer_area::{self as area, ErrnoGuard};
use tracer_engine::Attributes;
use tracer_log::LogReader;
use tracer_posix::stream::{CreateError, LoggedStream, Stream};

use super::clock;
use super::codes::{Invalid, status};
use super::kind::Kind;
use super::log_file::LogFile;
use super::memory;
use super::stream::store;
use super::table;
use super::types::{TraceAttr, TraceId};

/// Makes a stream without a log for tracing process `pid`; 0 for the caller's.
///
/// # Errors
///
/// Returns `ESRCH`, `EPERM`, `EINVAL`, `EAGAIN` or `ENOMEM` as the standard says.
///
/// # Safety
///
/// `attr` is null or a valid object, `trid` null or valid for writes.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_create(
    pid: libc::pid_t,
    attr: *const TraceAttr,
    trid: *mut TraceId,
) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe { create(pid, attr, trid, active) }
}

/// As [`posix_trace_create`], with a log in the file `file_desc`.
///
/// # Errors
///
/// As [`posix_trace_create`]; `EBADF` for what is not open for writing, `EINVAL` for what is no
/// regular file or a log too small for one event, `ENOSPC` and `EFBIG` where there is no space for
/// the log.
///
/// # Safety
///
/// As [`posix_trace_create`].
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_create_withlog(
    pid: libc::pid_t,
    attr: *const TraceAttr,
    file_desc: c_int,
    trid: *mut TraceId,
) -> c_int {
    let _errno = ErrnoGuard::keep();
    // Before anything is opened here: that would be given a descriptor which the program has
    // closed.
    let file = duplicate(file_desc);
    // SAFETY: as promised by the caller.
    unsafe {
        create(pid, attr, trid, |pid, attributes| {
            logged(pid, attributes, &file?)
        })
    }
}

/// # Safety
///
/// As [`posix_trace_create`].
unsafe fn create(
    pid: libc::pid_t,
    attr: *const TraceAttr,
    trid: *mut TraceId,
    make: impl FnOnce(libc::pid_t, &Attributes) -> Result<Kind, c_int>,
) -> c_int {
    let _errno = ErrnoGuard::keep();
    if let Err(error) = memory::check() {
        return error;
    }
    let pid = if pid == 0 { area::own_pid() } else { pid };
    // The standard gives no order among the errors: the target first, then the attributes.
    if let Err(error) = area::Area::find(pid) {
        return area::TargetError::from(error).error_number();
    }
    // SAFETY: as promised by the caller.
    let attributes = match unsafe { attr.as_ref() } {
        Some(attr) => attr.attributes(),
        None => Ok(clock::default_attributes()),
    };
    let made = match attributes {
        Ok(attributes) if !trid.is_null() => make(pid, &attributes),
        Ok(_) | Err(Invalid) => Err(libc::EINVAL),
    };
    match made.and_then(|kind| table::enter(kind).ok_or(libc::EAGAIN)) {
        // SAFETY: not null, and vouched for by the caller.
        Ok(made) => status(unsafe { store(trid, made) }),
        Err(error) => error,
    }
}

fn active(pid: libc::pid_t, attributes: &Attributes) -> Result<Kind, c_int> {
    let stream = Stream::create(pid, attributes).map_err(|error| reported(&error))?;
    Ok(Kind::Active(Box::new(stream)))
}

fn logged(pid: libc::pid_t, attributes: &Attributes, file: &OwnedFd) -> Result<Kind, c_int> {
    let stream =
        LoggedStream::create(pid, attributes, file.as_fd()).map_err(|error| reported(&error))?;
    Ok(Kind::Logged(Box::new(stream)))
}

/// A descriptor of our own for what the program means by `file_desc`, or the error number.
fn duplicate(file_desc: RawFd) -> Result<OwnedFd, c_int> {
    // SAFETY: takes no pointers; the kernel checks the descriptor.
    let copy = unsafe { libc::fcntl(file_desc, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        let error = io::Error::last_os_error();
        return Err(error.raw_os_error().unwrap_or(libc::EBADF));
    }
    // SAFETY: just opened, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// The error number of a failure. Where that alone would not explain it, the standard error says
/// what to do.
fn reported(error: &CreateError) -> c_int {
    let error_number = error.error_number();
    if let CreateError::Agent(error) = error {
        let line = format!("libposixtrace: {error} (error {error_number})\n");
        // Who has closed the standard error wants no message.
        let _ = io::stderr().write_all(line.as_bytes());
    }
    error_number
}

/// Opens the log in the file `file_desc` for reading.
///
/// # Errors
///
/// Returns `EINVAL` for what is no log, or not open for reading, or a null pointer; `EAGAIN` when
/// this process has too many streams; `EMFILE` or `ENFILE` when no descriptor is left to read it
/// by.
///
/// # Safety
///
/// `trid` is null or valid for writes.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_trace_open(file_desc: c_int, trid: *mut TraceId) -> c_int {
    let _errno = ErrnoGuard::keep();
    if trid.is_null() {
        return libc::EINVAL;
    }
    if let Err(error) = memory::check() {
        return error;
    }
    // The program may close its own while we read.
    let file = match duplicate(file_desc) {
        Ok(file) => File::from(file),
        Err(error @ (libc::EMFILE | libc::ENFILE)) => return error,
        Err(_no_descriptor) => return libc::EINVAL,
    };
    let Some(log) = LogFile::new(file)
        .ok()
        .and_then(|file| LogReader::open(file).ok())
    else {
        return libc::EINVAL;
    };
    match table::enter(Kind::Recorded(Box::new(log))) {
        // SAFETY: not null, and vouched for by the caller.
        Some(made) => status(unsafe { store(trid, made) }),
        None => libc::EAGAIN,
    }
}

/// Closes a log that was opened for reading; not the descriptor.
///
/// # Errors
///
/// Returns `EINVAL` for what is no pre-recorded stream.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub extern "C" fn posix_trace_close(trid: TraceId) -> c_int {
    let _errno = ErrnoGuard::keep();
    status(table::find(trid).and_then(|found| {
        let mut held = found.lock()?;
        if held.stream()?.kind.is_active() {
            return Err(Invalid);
        }
        held.remove().map(drop)
    }))
}

/// Makes the oldest event of a log the next one.
///
/// # Errors
///
/// Returns `EINVAL` for what is no pre-recorded stream.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub extern "C" fn posix_trace_rewind(trid: TraceId) -> c_int {
    status(super::stream::with_stream(trid, |stream| {
        stream.kind.rewind()
    }))
}
