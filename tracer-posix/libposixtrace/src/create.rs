//! Making streams, and opening logs.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};

use tracer_area::{self as area, ErrnoGuard};
use tracer_engine::Attributes;
use tracer_log::{LogReader, OpenError};
use tracer_posix::stream::{CreateError, LoggedStream, Stream};

use super::clock;
use super::codes::{Invalid, status};
use super::kind::{Kind, LogFile};
use super::memory::Memory;
use super::reason;
use super::stream::store;
use super::table;
use super::types::{TraceAttr, TraceId};

/// Makes a stream without a log that traces process `pid`; 0 stands for the calling process.
///
/// # Errors
///
/// Returns `ESRCH`, `EPERM`, `EINVAL`, `EAGAIN` or `ENOMEM` as the standard says; `EMFILE` or
/// `ENFILE` when no descriptor is left to find the process's area.
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

/// Makes a stream like [`posix_trace_create`], with a log in the file `file_desc`.
///
/// # Errors
///
/// As [`posix_trace_create`]; `EBADF` for a descriptor that is not open for writing; `EINVAL` for a
/// file that is not a regular one, or a log too small for one event; `ENOSPC` and `EFBIG` where
/// there is no space for the log; `EMFILE` and `ENFILE` where no descriptor is left for it and for
/// the recorder.
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
    // Comes first: if the program has closed the descriptor, whatever is opened here next would get
    // its number.
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
    let memory = match Memory::take() {
        Ok(memory) => memory,
        Err(error) => return error,
    };
    let pid = if pid == 0 { area::own_pid() } else { pid };
    // The standard gives no order among the errors. This checks the target first, then the
    // attributes.
    if let Err(error) = area::Area::find(pid) {
        return reported(&area::TargetError::from(error).into());
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
    match made.and_then(|kind| entered(kind, memory)) {
        // SAFETY: not null, and vouched for by the caller.
        Ok(made) => status(unsafe { store(trid, made) }),
        Err(error) => error,
    }
}

/// Enters a stream into the table, with all the memory that the calls on it need.
fn entered(kind: Kind, mut memory: Memory) -> Result<TraceId, c_int> {
    memory.suffice_for(&kind)?;
    table::enter(kind, memory).ok_or(libc::EAGAIN)
}

#[inline(never)]
fn active(pid: libc::pid_t, attributes: &Attributes) -> Result<Kind, c_int> {
    let stream = Stream::create_on_heap(pid, attributes).map_err(|error| reported(&error))?;
    Ok(Kind::Active(stream))
}

#[inline(never)]
fn logged(pid: libc::pid_t, attributes: &Attributes, file: &OwnedFd) -> Result<Kind, c_int> {
    let stream =
        LoggedStream::create(pid, attributes, file.as_fd()).map_err(|error| reported(&error))?;
    Ok(Kind::Logged(Box::new(stream)))
}

/// Returns a copy of the program's descriptor `file_desc`, or the error number.
fn duplicate(file_desc: RawFd) -> Result<OwnedFd, c_int> {
    // SAFETY: takes no pointers; the kernel checks the descriptor.
    let copy = unsafe { libc::fcntl(file_desc, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        let error = io::Error::last_os_error();
        return Err(error.raw_os_error().unwrap_or(libc::EBADF));
    }
    // SAFETY: just opened, and no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Returns the error number of a failure. Prints the reason, if the environment asks for it.
#[cold]
#[inline(never)]
fn reported(error: &CreateError) -> c_int {
    let error_number = error.error_number();
    reason::say(error, error_number);
    error_number
}

/// Opens the log in the file `file_desc` for reading.
///
/// # Errors
///
/// Returns `EINVAL` for a file that is no log or is not open for reading, or a null pointer;
/// `EAGAIN` when this process has too many streams; `EMFILE` or `ENFILE` when no descriptor is left
/// for reading; `ENOMEM`.
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
    let memory = match Memory::take() {
        Ok(memory) => memory,
        Err(error) => return error,
    };
    // The program may close its own descriptor while the library reads.
    let file = match duplicate(file_desc) {
        Ok(file) => File::from(file),
        Err(error @ (libc::EMFILE | libc::ENFILE)) => return error,
        Err(_no_descriptor) => return libc::EINVAL,
    };
    let opened = recorded(file).and_then(|kind| entered(kind, memory));
    match opened {
        // SAFETY: not null, and vouched for by the caller.
        Ok(made) => status(unsafe { store(trid, made) }),
        Err(error) => error,
    }
}

/// Opens a log, or returns the error number.
#[inline(never)]
fn recorded(file: File) -> Result<Kind, c_int> {
    let file = LogFile::new(file).map_err(|error| log_error(&error.into()))?;
    let log = LogReader::open(file).map_err(|error| log_error(&error))?;
    Ok(Kind::Recorded(Box::new(log)))
}

#[cold]
#[inline(never)]
fn log_error(error: &OpenError) -> c_int {
    let lacks_memory =
        matches!(error, OpenError::Io(error) if error.kind() == io::ErrorKind::OutOfMemory);
    let error_number = if lacks_memory {
        libc::ENOMEM
    } else {
        libc::EINVAL
    };
    reason::say(error, error_number);
    error_number
}

/// Closes a log that was opened for reading. The program's descriptor stays open.
///
/// # Errors
///
/// Returns `EINVAL` if `trid` is no pre-recorded stream.
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
/// Returns `EINVAL` if `trid` is no pre-recorded stream.
// SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
#[unsafe(no_mangle)]
pub extern "C" fn posix_trace_rewind(trid: TraceId) -> c_int {
    status(super::stream::with_stream(trid, |stream| {
        stream.kind.rewind()
    }))
}
