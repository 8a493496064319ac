//! Making a process that is no child of this one, without a signal or a zombie that the program
//! could notice.
//!
//! A child in between makes the new process and ends, so that the new process has no parent here.
//! The child shares this process's memory, like a child of `vfork()`, and sends no signal when it
//! ends. The new process is a program of its own ([`exec`](super::program)), or a fork where no
//! program may be started. It has to be the C library's `fork()`: only that makes the library's own
//! state (the allocator's locks above all) fit for use in the new process.

use std::ffi::{c_int, c_void};
use std::io;

/// Space for the stack of a child that forks, which runs the program's own handlers
/// (`pthread_atfork()`).
const STACK_BYTES: usize = 1 << 20;

unsafe extern "C" {
    /// `clone()` under a name that race detectors do not intercept: they would take this very
    /// process for a forked child from then on, and not let it make threads.
    fn __clone(
        run: extern "C" fn(*mut c_void) -> c_int,
        stack: *mut c_void,
        flags: c_int,
        argument: *mut c_void,
        ...
    ) -> c_int;
}

/// First function of a child that shares this process's memory.
pub(super) type Beginning = extern "C" fn(*mut c_void) -> c_int;

/// Argument of the child that forks.
struct Task<'a> {
    run: &'a mut dyn FnMut(),
    /// 0, or the number of the error for which there is no recorder.
    error: c_int,
}

/// Runs `run` in a copy of this process, with all signals blocked. That process ends when `run`
/// returns.
///
/// # Errors
///
/// No process, or no memory, is available.
pub(super) fn spawn(run: &mut dyn FnMut()) -> io::Result<()> {
    let mut task = Task { run, error: 0 };
    // SAFETY: `fork_and_end` takes a task, and ends before this returns.
    unsafe { run_in_child(fork_and_end, (&raw mut task).cast(), STACK_BYTES) }?;
    match task.error {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Runs `begin` in a child that shares this process's memory, with all signals blocked. The calling
/// thread waits for the end of the child.
///
/// # Safety
///
/// `begin` may be called with `argument`, takes no more than `stack_bytes` of stack, calls nothing
/// that is not async-signal-safe (but `fork()`), and ends the child by [`end_process`].
pub(super) unsafe fn run_in_child(
    begin: Beginning,
    argument: *mut c_void,
    stack_bytes: usize,
) -> io::Result<()> {
    let stack = Stack::new(stack_bytes)?;
    let signals = BlockedSignals::new();
    // SAFETY: as promised by the caller; this thread waits.
    let child = unsafe { child_sharing_memory(begin, stack.top(), argument) };
    let error = io::Error::last_os_error();
    if child > 0 {
        reap(child);
    }
    drop(signals);
    if child < 0 {
        return Err(error);
    }
    Ok(())
}

/// Makes a child that shares this process's memory and sends no signal when it ends. Returns the
/// child's pid, or -1, once the child has ended or runs another program.
///
/// # Safety
///
/// As for [`run_in_child`]; `stack` is the end of memory for it.
pub(super) unsafe fn child_sharing_memory(
    begin: Beginning,
    stack: *mut c_void,
    argument: *mut c_void,
) -> libc::pid_t {
    // SAFETY: as promised by the caller, whose thread waits (CLONE_VFORK) and so keeps all of it
    // alive.
    unsafe { __clone(begin, stack, libc::CLONE_VM | libc::CLONE_VFORK, argument) }
}

/// Forks, in the child that shares this process's memory, and ends.
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
    // Not by the C library: its work at the end of a process would change the memory that this
    // child shares.
    end_process();
    0
}

/// Ends the calling process by a system call, without any work in memory that it may share.
pub(super) fn end_process() {
    // SAFETY: takes no pointers, and does not return.
    unsafe { libc::syscall(libc::SYS_exit_group, 0) };
}

/// Waits for the end of a process, if it is a child of this one. The child that shares this
/// process's memory is one, though no `wait()` of the program sees it: it was made without a
/// signal. The recorder is one too where orphans become this process's children: when this is the
/// first process of a container.
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
struct Stack {
    start: *mut c_void,
    bytes: usize,
}

impl Stack {
    fn new(bytes: usize) -> io::Result<Self> {
        // SAFETY: asks for a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start, bytes })
    }

    fn top(&self) -> *mut c_void {
        // SAFETY: one past the end of the mapping.
        unsafe { self.start.byte_add(self.bytes) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: `self` owns the mapping, and no thread runs on it any more.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

/// Guard that blocks all signals of the thread until it is dropped.
#[derive(Debug)]
pub(crate) struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    pub(crate) fn new() -> Self {
        // SAFETY: a set of signals is plain integers.
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
        // SAFETY: valid for writes.
        unsafe { libc::sigfillset(&raw mut all) };
        // SAFETY: valid for reads and writes.
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
