//! Threads of the library's own.
//!
//! Those of Rust's standard library take memory that does not come from the program's allocator,
//! and end the program where there is none.

use std::ffi::{CStr, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// The function that a thread runs.
type Run = Box<dyn FnOnce() + Send>;

/// Starts a thread that is never joined.
///
/// # Errors
///
/// There is no memory for it, or no thread.
pub(crate) fn spawn(name: &'static CStr, stack_bytes: usize, run: Run) -> io::Result<()> {
    let task = Box::into_raw(Box::new((name, run)));
    let error = start(stack_bytes, task.cast());
    if error == 0 {
        return Ok(());
    }
    // SAFETY: made above, and no thread has it.
    drop(unsafe { Box::from_raw(task) });
    Err(io::Error::from_raw_os_error(error))
}

fn start(stack_bytes: usize, task: *mut c_void) -> libc::c_int {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: valid for writes.
    let error = unsafe { libc::pthread_attr_init(attributes) };
    if error != 0 {
        return error;
    }
    // SAFETY: made above.
    unsafe { libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED) };
    // SAFETY: made above. Where so much is too little, it has the usual size.
    unsafe { libc::pthread_attr_setstacksize(attributes, stack_bytes) };
    let mut thread = MaybeUninit::uninit();
    // SAFETY: valid attributes; `begin` takes the task.
    let error = unsafe { libc::pthread_create(thread.as_mut_ptr(), attributes, begin, task) };
    // SAFETY: made above.
    unsafe { libc::pthread_attr_destroy(attributes) };
    error
}

extern "C" fn begin(task: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` gives the task away.
    let task = unsafe { Box::from_raw(task.cast::<(&CStr, Run)>()) };
    let (name, run) = *task;
    // SAFETY: a string ended by a null.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    run();
    ptr::null_mut()
}
