//! Making the recorder: a process that is no child of ours, without a signal or a zombie that the
//! program could notice.
//!
//! A child that shares our memory, as `vfork()` makes one, and that tells nobody when it ends, calls
//! `fork()`, and ends: so the recorder belongs to nobody here, and the C library has made its own state
//! (the allocator's locks above all) fit for use in it, which it does only in `fork()`.

use std::ffi::{c_int, c_void};
use std::io;

/// Room for the recorder's stack.
const STACK_BYTES: usize = 1 << 20;

unsafe extern "C" {
    /// `clone()` under the name that race detectors do not take: they would believe this very process to be a
    /// forked child from then on, and not let it make threads.
    fn __clone(
        run: extern "C" fn(*mut c_void) -> c_int,
        stack: *mut c_void,
        flags: c_int,
        argument: *mut c_void,
        ...
    ) -> c_int;
}

/// What the child is given.
struct Task<'a> {
    run: &'a mut dyn FnMut(),
    /// 0, or why there is no recorder.
    error: c_int,
}

/// Runs `run` in a process of its own, with all signals blocked. Its end is the end of that process.
///
/// # Errors
///
/// No process, or no memory, is to be had.
pub(super) fn spawn(run: &mut dyn FnMut()) -> io::Result<()> {
    let stack = Stack::new()?;
    let mut task = Task { run, error: 0 };
    let signals = BlockedSignals::new();
    // SAFETY: the stack has so much room, and the child runs `fork_and_end` on it, while this thread
    // waits (CLONE_VFORK) and keeps `task` alive.
    let child = unsafe {
        __clone(
            fork_and_end,
            stack.top(),
            libc::CLONE_VM | libc::CLONE_VFORK,
            (&raw mut task).cast::<c_void>(),
        )
    };
    let error = io::Error::last_os_error();
    if child > 0 {
        reap(child);
    }
    drop(signals);
    if child < 0 {
        return Err(error);
    }
    match task.error {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

/// In the child that shares our memory.
extern "C" fn fork_and_end(task: *mut c_void) -> c_int {
    // SAFETY: `spawn` gives a task, and waits until we have ended.
    let Some(task) = (unsafe { task.cast::<Task<'_>>().as_mut() }) else {
        return 1;
    };
    // SAFETY: the thread that made us waits; to the C library we are that thread.
    match unsafe { libc::fork() } {
        0 => {
            (task.run)();
            end_process();
        }
        -1 => {
            task.error = io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EAGAIN)
        }
        _ => {}
    }
    // Not by the C library: what it does at the end of a process would be done to the one we share
    // our memory with.
    end_process();
    0
}

fn end_process() {
    // SAFETY: takes no pointers, and does not return.
    unsafe { libc::syscall(libc::SYS_exit_group, 0) };
}

/// Takes notice of the end of a child, if it is one. The child that shares our memory is, though no `wait()` of the
/// program sees it: it was made without a signal. The recorder is where orphans become our children: when this
/// is the first process of a container.
pub(super) fn reap(child: libc::pid_t) {
    loop {
        // SAFETY: no status is asked for.
        let reaped = unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::__WALL) };
        if reaped >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

/// Memory for the child's stack.
struct Stack(*mut c_void);

impl Stack {
    fn new() -> io::Result<Self> {
        // SAFETY: asks for a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                STACK_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(start))
    }

    fn top(&self) -> *mut c_void {
        // SAFETY: one past the end of the mapping.
        unsafe { self.0.byte_add(STACK_BYTES) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody runs on it any more.
        unsafe { libc::munmap(self.0, STACK_BYTES) };
    }
}

/// All signals blocked, until dropped: no handler runs in a child that shares our memory.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    fn new() -> Self {
        // SAFETY: a set of signals is plain numbers.
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
        // SAFETY: a valid place.
        unsafe { libc::sigfillset(&raw mut all) };
        // SAFETY: valid places.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
        Self(before)
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: a valid set.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut())
        };
    }
}
