//! Reasons why calls failed, for users who ask for them.
//!
//! A library prints nothing: in a program that has closed descriptor 2, a data file may have that
//! number. A call says by its error number what is wrong. Where that leaves several causes, the
//! library prints the cause if [`DEBUG`]`=1` is in the environment; not in a program that has more
//! rights than its caller.

use std::error::Error;
use std::ffi::{CStr, c_int};
use std::fmt::Write as _;
use std::panic;
use std::process;

/// The variable of the environment that asks for reasons.
const DEBUG: &CStr = c"LINUX_TRACE_DEBUG";

/// Prints why a call fails with this error number, if the environment asks for it.
pub(super) fn say(error: &dyn Error, error_number: c_int) {
    if is_asked_for() {
        print(error, error_number);
    }
}

/// Makes a panic end the program like any other bug of a library in C: without a message, unless
/// the environment asks for one. A panic cannot leave a C function in any case.
pub(super) fn hold_panics_back() {
    // Tests of this library are Rust programs: their panics have to print.
    if cfg!(debug_assertions) {
        return;
    }
    panic::set_hook(Box::new(|panic| {
        if is_asked_for() {
            let mut line = String::from("libposixtrace: ");
            let _ = writeln!(line, "{panic}");
            write(&line);
        }
        process::abort();
    }));
}

fn is_asked_for() -> bool {
    // SAFETY: takes no pointers.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return false;
    }
    // SAFETY: a string ended by a null. While a program changes its environment, no other thread of
    // it may call a function that reads it.
    let value = unsafe { libc::getenv(DEBUG.as_ptr()) };
    // SAFETY: null, or a string ended by a null.
    !value.is_null() && unsafe { CStr::from_ptr(value) } == c"1"
}

#[cold]
#[inline(never)]
fn print(error: &dyn Error, error_number: c_int) {
    let mut line = format!("libposixtrace: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        // Writing into a string does not fail.
        let _ = write!(line, ": {error}");
        cause = error.source();
    }
    let _ = writeln!(line, " (error {error_number})");
    write(&line);
}

/// Writes to descriptor 2. If it is closed, there is no message.
fn write(line: &str) {
    // SAFETY: so many bytes are there.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}
