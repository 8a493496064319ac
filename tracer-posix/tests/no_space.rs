//! Where a device is full, a call returns that as an error. Alone in its file, for it goes into a
//! mount namespace of its own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::OpenOptions;
use std::os::fd::AsFd;

use tracer_engine::{Attributes, LogFullPolicy};
use tracer_posix::emit::UserEvent;
use tracer_posix::stream::{CreateError, LogCallError, LoggedStream};

/// Returns a file on a file system of 64 KiB that only this thread has, and what it starts.
fn file_on_a_small_device(folder: &std::path::Path) -> std::fs::File {
    let path = std::ffi::CString::new(folder.to_str().unwrap()).unwrap();
    // SAFETY: takes an integer only.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    let mount = |kind: *const libc::c_char, path: &std::ffi::CStr, flags, data: *const _| {
        // SAFETY: strings that end with a null, or null.
        let result = unsafe { libc::mount(kind, path.as_ptr(), kind, flags, data) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    };
    let private = libc::MS_REC | libc::MS_PRIVATE;
    mount(std::ptr::null(), c"/", private, std::ptr::null());
    mount(c"tmpfs".as_ptr(), &path, 0, c"size=64k".as_ptr().cast());
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create_new(true);
    options.open(folder.join("log")).unwrap()
}

#[test]
#[ignore = "needs root: mounts a file system"]
fn a_log_on_a_full_device_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = file_on_a_small_device(folder.path());
    let own = std::process::id().cast_signed();
    let code_of = |error: LogCallError| match error {
        LogCallError::Log(error) => error.raw_os_error(),
        other => panic!("{other}"),
    };

    // One that takes its space at once.
    let looping = Attributes::default().with_log_full_policy(LogFullPolicy::Loop);
    let error = LoggedStream::create(own, &looping, file.as_fd()).unwrap_err();
    let refused = match &error {
        CreateError::Log(error) => error.error_number(),
        CreateError::Refused(code) => *code,
        other => panic!("{other}"),
    };
    assert_eq!(refused, libc::ENOSPC, "{error}");

    let growing = Attributes::default().with_log_full_policy(LogFullPolicy::Append);
    let mut stream = LoggedStream::create(own, &growing, file.as_fd()).unwrap();
    let event = UserEvent::open("an event").unwrap();
    stream.start().unwrap();
    for _ in 0..2000 {
        event.emit(&[7; 100]);
    }
    let flushed = stream.flush().unwrap_err();
    assert_eq!(code_of(flushed), Some(libc::ENOSPC));
    let ended = stream.shut_down().unwrap_err();
    assert_eq!(code_of(ended), Some(libc::ENOSPC));
}
