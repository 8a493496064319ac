//! Threads: starting the library's own threads, holding a thread's signals back for a moment, and
//! memory barriers of other threads.
//!
//! Rust's standard library is not used to start threads: it takes memory that does not come from
//! the program's allocator, and ends the program where there is none.

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

/// Signals that the processor raises at an instruction. A thread that held these back would end the
/// process where one is raised.
const RAISED_BY_INSTRUCTIONS: [c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
];

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
    // SAFETY: made above. Where so much is too little for the C library, the thread has the usual
    // size.
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

/// The thread's signal mask from before its signals were held back. The value is copied, and has
/// nothing to drop.
#[derive(Clone, Copy)]
pub struct HeldBack {
    mask: libc::sigset_t,
}

impl HeldBack {
    /// Holds the thread's signals back.
    pub fn new() -> Self {
        // SAFETY: a set of signals is plain integers.
        let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `all` may be written to.
        unsafe { libc::sigfillset(&raw mut all) };
        for signal in RAISED_BY_INSTRUCTIONS {
            // SAFETY: a valid set and signal.
            unsafe { libc::sigdelset(&raw mut all, signal) };
        }
        let mut mask = all;
        // SAFETY: both sets are valid.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut mask) };
        Self { mask }
    }

    /// Lets the signals through again.
    pub fn let_through(self) {
        let nowhere = std::ptr::null_mut();
        // SAFETY: the set is valid, and the old one is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.mask, nowhere) };
    }
}

/// Makes every running thread of the processes that have the library pass a memory barrier: what
/// they stored before is visible to this thread, and what they do next comes after.
pub(crate) fn membarrier() {
    const GLOBAL_EXPEDITED: libc::c_long = 1 << 1;
    // SAFETY: takes no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL_EXPEDITED, 0, 0) };
}

/// Lets other threads run for less than a second. (By a system call: in the C library's function a
/// thread may be cancelled.)
pub(crate) fn pause(time: Duration) {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: time.subsec_nanos().into(),
    };
    let nowhere = std::ptr::null_mut::<libc::timespec>();
    // SAFETY: a valid time; the rest of it is not asked for.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, nowhere) };
}
