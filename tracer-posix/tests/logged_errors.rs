//! A log that cannot be written is an error of the call that writes it. Alone in its file, for the
//! limit is the whole process's.

use std::os::fd::AsFd;

use tracer_engine::{Attributes, LogFullPolicy};
use tracer_posix::emit::UserEvent;
use tracer_posix::stream::{LogCallError, LoggedStream};

#[test]
fn a_flush_that_fails_is_an_error() {
    let event = UserEvent::open("an event").unwrap();
    let attributes = Attributes::default().with_log_full_policy(LogFullPolicy::Append);
    let file = tempfile::tempfile().unwrap();
    // The library has its own memory by now.
    let limit = libc::rlimit {
        rlim_cur: 20_000,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `limit` is a valid object.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
    assert_eq!(result, 0);
    let own = std::process::id().cast_signed();
    let mut stream = LoggedStream::create(own, &attributes, file.as_fd()).unwrap();
    stream.start().unwrap();
    for _ in 0..1000 {
        event.emit(&[7; 100]);
    }

    let error_of = |result: Result<(), LogCallError>| match result.unwrap_err() {
        LogCallError::Log(error) => error.raw_os_error(),
        other => panic!("{other}"),
    };
    assert_eq!(error_of(stream.flush()), Some(libc::EFBIG));
    assert_eq!(error_of(stream.shut_down()), Some(libc::EFBIG));
}
