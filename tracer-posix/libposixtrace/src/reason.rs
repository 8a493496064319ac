//! Why a call failed, for who asks.
//!
//! A library prints nothing: what is the standard error to one program is a data file to another,
//! which has closed descriptor 2. A call says by its error number what is wrong. Where that leaves
//! several causes, [`DEBUG`]`=1` in the environment has them printed; not in a program that has
//! more rights than who runs it.

use std::error::Error;
use std::ffi::{CStr, c_int};
use std::fmt::Write as _;
use std::panic;
use std::process;

/// The variable of the environment that asks for reasons.
const DEBUG: &CStr = c"LINUX_TRACE_DEBUG";

/// Prints why a call fails with this error number, if that was asked for.
pub(super) fn say(error: &dyn Error, error_number: c_int) {
    if is_asked_for() {
        print(error, error_number);
    }
}

/// Prints nothing from now on either where a bug would end the program: it is ended as by any other
/// bug of a library in C. A panic cannot leave a C function in any case.
pub(super) fn hold_panics_back() {
    // In tests of this library, where it is a part of a Rust program, that prints.
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
    // SAFETY: a string ended by a null. A program that changes its environment meanwhile has
    // threads that must not call any function which reads it.
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
        // What cannot be written into a string does not fail.
        let _ = write!(line, ": {error}");
        cause = error.source();
    }
    let _ = writeln!(line, " (error {error_number})");
    write(&line);
}

/// Writes to descriptor 2. Who has closed it wants no message.
fn write(line: &str) {
    // SAFETY: so many bytes are there.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}
