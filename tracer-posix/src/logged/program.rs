//! Starting the program that records.
//!
//! The recorder is a small program inside the library (crate `tracer-recorder`). So a log costs a
//! large program neither a copy of its memory nor its `pthread_atfork()` handlers, and no file has
//! to be there: the library writes the recorder into sealed memory and starts it from that. Where
//! this is forbidden (seccomp, `vm.memfd_noexec`, a security module) or impossible, the attempt has
//! no effect, and the recorder is a fork ([`process`]).

use std::ffi::{c_int, c_long, c_void};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::process;
use super::rights::Rights;

/// The program; empty where the library was built without it (by `cargo build` alone, and not by
/// `cargo xtask`).
const PROGRAM: &[u8] = include_bytes!(env!("TRACER_RECORDER_INCLUDED"));

/// Descriptor of the recorder's end of the conversation.
pub(super) const SOCKET: RawFd = 3;

/// Space for the stack of a child, which calls nothing but the kernel.
const STACK_BYTES: usize = 64 << 10;

/// Mode of the file: only its user may run it. A process whose file may not be read cannot be
/// looked into, from its first moment on.
const RUN: libc::mode_t = 0o100;
const READ_AND_RUN: libc::mode_t = 0o500;

/// Allows running a program from the file (Linux 6.3). Kernels before that allow it without the
/// flag.
const MFD_EXEC: libc::c_uint = 0x10;

/// Argument of the children.
struct Launch {
    program: &'static [u8],
    socket: RawFd,
    rights: Rights,
    /// Where the second child's stack ends.
    second_stack: *mut c_void,
    /// 0, or the number of the error for which the program was not started.
    error: c_int,
}

/// Tells whether this library has the program in it.
pub(super) fn is_there() -> bool {
    !PROGRAM.is_empty()
}

/// Starts the program, with one end of a conversation. It is no child of this process.
///
/// # Errors
///
/// The program is not there, or may not be started.
pub(super) fn start(socket: &OwnedFd, rights: Rights) -> io::Result<()> {
    if !is_there() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // Of the largest alignment that a stack needs.
    let mut second_stack = vec![0_u128; STACK_BYTES / size_of::<u128>()];
    let mut launch = Launch {
        program: PROGRAM,
        socket: socket.as_raw_fd(),
        rights,
        second_stack: second_stack.as_mut_ptr_range().end.cast(),
        error: 0,
    };
    // SAFETY: `make_and_end` takes a launch, needs little stack, calls nothing but the kernel, and
    // ends the child.
    unsafe { process::run_in_child(make_and_end, (&raw mut launch).cast(), STACK_BYTES) }?;
    match launch.error {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Makes the second child in the first one, and ends, so that the second is no child of this
/// process.
extern "C" fn make_and_end(launch: *mut c_void) -> c_int {
    // SAFETY: `start` gives a launch, and waits until we have ended.
    if let Some(launch) = unsafe { launch.cast::<Launch>().as_mut() } {
        make(launch);
    }
    process::end_process();
    0
}

fn make(launch: &mut Launch) {
    let (stack, argument) = (launch.second_stack, (&raw mut *launch).cast());
    // SAFETY: `become_the_program` takes a launch, needs little stack, calls nothing but the
    // kernel, and ends the child.
    let child = unsafe { process::child_sharing_memory(become_the_program, stack, argument) };
    if child < 0 {
        launch.error = error();
        return;
    }
    // If the second child is no program by now, it has ended, if only by a signal: seccomp may end
    // a process that tries. SAFETY: no status is asked for.
    let ended = unsafe {
        libc::syscall(
            libc::SYS_wait4,
            child,
            std::ptr::null_mut::<c_int>(),
            libc::__WALL | libc::WNOHANG,
            std::ptr::null_mut::<c_void>(),
        )
    };
    if ended > 0 && launch.error == 0 {
        launch.error = libc::ECHILD;
    }
}

/// Runs the program, in the second child.
extern "C" fn become_the_program(launch: *mut c_void) -> c_int {
    // SAFETY: `start` gives a launch. It waits, and so does the first child.
    if let Some(launch) = unsafe { launch.cast::<Launch>().as_mut() } {
        // `exec` returns only with an error.
        if let Err(error) = exec(launch) {
            launch.error = error;
        }
    }
    process::end_process();
    0
}

/// Runs the program instead of this child. The child has a copy of the controller's descriptors: it
/// keeps its end of the conversation, and nothing else. The standard descriptors become the
/// program's own file, which no process can write to.
fn exec(launch: &Launch) -> Result<(), c_int> {
    if launch.socket == SOCKET {
        checked(call(
            libc::SYS_fcntl,
            [SOCKET.into(), libc::F_SETFD.into(), 0],
        ))?;
    } else {
        checked(call(
            libc::SYS_dup3,
            [launch.socket.into(), SOCKET.into(), 0],
        ))?;
    }
    // Kernels without this call leave descriptors open that exec does not close.
    call(libc::SYS_close_range, [0, c_long::from(SOCKET) - 1, 0]);
    call(
        libc::SYS_close_range,
        [c_long::from(SOCKET) + 1, c_long::from(u32::MAX), 0],
    );
    let file = file_of(launch)?;
    for standard in (0..SOCKET).filter(|standard| *standard != file) {
        checked(call(libc::SYS_dup3, [file.into(), standard.into(), 0]))?;
    }
    launch.rights.capabilities.keep_over_exec();
    let arguments = [c"posixtrace-log".as_ptr(), std::ptr::null()];
    let environment = [std::ptr::null::<libc::c_char>()];
    // SAFETY: strings and lists ended by nulls.
    checked(unsafe {
        libc::syscall(
            libc::SYS_execveat,
            file,
            c"".as_ptr(),
            arguments.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    })
    .map(drop)
}

/// Returns the program in sealed memory.
fn file_of(launch: &Launch) -> Result<RawFd, c_int> {
    let name = c"posixtrace-log".as_ptr();
    let make = |flags: libc::c_uint| {
        // SAFETY: a string ended by a null.
        unsafe {
            libc::syscall(
                libc::SYS_memfd_create,
                name,
                flags | libc::MFD_ALLOW_SEALING,
            )
        }
    };
    let mut made = make(MFD_EXEC);
    if made < 0 && error() == libc::EINVAL {
        made = make(0);
    }
    let file = checked(made)?;
    let mut rest = launch.program;
    while !rest.is_empty() {
        // SAFETY: there are so many bytes.
        let written = unsafe { libc::syscall(libc::SYS_write, file, rest.as_ptr(), rest.len()) };
        match usize::try_from(written) {
            Ok(0) => return Err(libc::ENOSPC),
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(_) => return Err(error()),
        }
    }
    let mode = if launch.rights.is_dumpable {
        READ_AND_RUN
    } else {
        RUN
    };
    checked(call(libc::SYS_fchmod, [file.into(), mode.into(), 0]))?;
    let seals = libc::F_SEAL_WRITE | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    checked(call(
        libc::SYS_fcntl,
        [file.into(), libc::F_ADD_SEALS.into(), seals.into()],
    ))?;
    Ok(file)
}

/// Makes a system call that takes integers only.
fn call(nr: c_long, [first, second, third]: [c_long; 3]) -> c_long {
    // SAFETY: no pointers are passed.
    unsafe { libc::syscall(nr, first, second, third) }
}

fn checked(result: c_long) -> Result<c_int, c_int> {
    match c_int::try_from(result) {
        Ok(value) if value >= 0 => Ok(value),
        _ => Err(error()),
    }
}

/// Returns the error of the last call. (The thread that this `errno` belongs to waits.)
fn error() -> c_int {
    // SAFETY: takes nothing and cannot fail.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: it is the thread's own.
    unsafe { errno.read() }
}
