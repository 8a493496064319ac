//! Calls of `bpf(2)` that the loader does not offer.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use aya::programs::ProgramError;

const PROGRAM_LOAD: libc::c_int = 5;
pub(super) const LINK_CREATE: libc::c_int = 28;

/// `union bpf_attr` of `BPF_PROG_LOAD`, as far as it is needed.
#[repr(C)]
#[derive(Default)]
pub(super) struct ProgramAttributes {
    pub(super) kind: u32,
    /// Number of instructions.
    pub(super) count: u32,
    pub(super) instructions: u64,
    pub(super) license: u64,
    pub(super) log_level: u32,
    pub(super) log_size: u32,
    pub(super) log: u64,
    pub(super) version: u32,
    pub(super) flags: u32,
    pub(super) name: [u8; 16],
    pub(super) device: u32,
    pub(super) expected_attach_type: u32,
    pub(super) types: u32,
    pub(super) function_size: u32,
    pub(super) functions: u64,
    pub(super) function_count: u32,
    pub(super) line_size: u32,
    pub(super) lines: u64,
    pub(super) line_count: u32,
    /// Identifier, in the kernel's types, of the function that the program is attached to.
    pub(super) function: u32,
    pub(super) target: u32,
    pub(super) nothing: u32,
}

/// `union bpf_attr` of `BPF_PROG_TEST_RUN`, as far as it is needed.
#[repr(C)]
#[derive(Default)]
struct RunAttributes {
    program: u32,
    /// Result of the program: the kernel writes it.
    result: u32,
    data_bytes: [u32; 2],
    data: [u64; 2],
    repeat: u32,
    nanoseconds: u32,
    context_bytes: u32,
    context_out_bytes: u32,
    context: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    nothing: u32,
}

/// Most times that a program is loaded: the kernel gives up where a signal comes meanwhile, as the
/// one by which a stopped process goes on.
const MOST_LOADS: usize = 200;

/// Loads a program, again where a signal came meanwhile.
pub(super) fn load(mut once: impl FnMut() -> Result<(), ProgramError>) -> Result<(), ProgramError> {
    let was_interrupted = |error: &ProgramError| match error {
        ProgramError::LoadError { io_error, .. } => is_again(io_error),
        _ => false,
    };
    for _ in 1..MOST_LOADS {
        match once() {
            Err(error) if was_interrupted(&error) => {
                tracing::debug!("a signal came while a program was loaded: again");
            }
            done => return done,
        }
    }
    once()
}

fn is_again(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EAGAIN)
}

/// Loads a program by the call itself, likewise.
///
/// # Safety
///
/// As of [`bpf`].
pub(super) unsafe fn load_program(attributes: &ProgramAttributes) -> io::Result<OwnedFd> {
    // SAFETY: the caller's.
    let once = || unsafe { bpf(PROGRAM_LOAD, attributes) };
    for _ in 1..MOST_LOADS {
        match once() {
            Err(error) if is_again(&error) => {}
            done => return done,
        }
    }
    once()
}

/// Runs a program for raw tracepoints in the calling thread, on this context. Returns its result.
///
/// # Errors
///
/// The kernel does not run the program: kernels do so since Linux 5.10.
pub(super) fn run(program: BorrowedFd<'_>, context: &[u64]) -> io::Result<u32> {
    const PROGRAM_RUN: libc::c_int = 10;
    let mut attributes = RunAttributes {
        program: program.as_raw_fd().cast_unsigned(),
        context_bytes: u32::try_from(size_of_val(context)).map_err(io::Error::other)?,
        context: context.as_ptr().expose_provenance() as u64,
        ..RunAttributes::default()
    };
    let bytes = size_of_val(&attributes);
    // SAFETY: the attributes are as long as is said, and the context lives until after the call,
    // which reads it.
    let failed = unsafe { libc::syscall(libc::SYS_bpf, PROGRAM_RUN, &raw mut attributes, bytes) };
    if failed == 0 {
        Ok(attributes.result)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Makes an array of one entry, of this many bytes, that can be mapped.
///
/// # Errors
///
/// The kernel does not make it.
pub(super) fn make_mappable(bytes: usize) -> io::Result<OwnedFd> {
    const CREATE: libc::c_int = 0;
    const ARRAY: u32 = 2;
    const MAPPABLE: u32 = 1 << 10;
    let bytes = u32::try_from(bytes).map_err(io::Error::other)?;
    let attributes: [u32; 5] = [ARRAY, 4, bytes, 1, MAPPABLE];
    // SAFETY: it names nothing in memory.
    unsafe { bpf(CREATE, &attributes) }
}

/// Runs of a program since it was loaded, as the kernel counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramRuns {
    /// Runs while the kernel timed runs ([`time_runs`]).
    pub timed: u64,
    /// How long these took, in nanoseconds.
    pub timed_ns: u64,
    /// Runs that the kernel has passed over, as the program ran already on the same CPU: 0 from
    /// kernels that never do so.
    pub passed_over: u64,
}

/// Returns the runs of a program.
///
/// # Errors
///
/// The kernel does not tell.
pub(super) fn runs_of(program: BorrowedFd<'_>) -> io::Result<ProgramRuns> {
    /// `union bpf_attr` of `BPF_OBJ_GET_INFO_BY_FD`.
    #[repr(C)]
    struct InfoAttributes {
        program: u32,
        bytes: u32,
        info: u64,
    }
    const INFO: libc::c_int = 15;
    /// Indices in `struct bpf_prog_info`, in words: `run_time_ns`, `run_cnt` and
    /// `recursion_misses`.
    const RUN_TIME: usize = 24;
    const RUN_COUNT: usize = 25;
    const RECURSION_MISSES: usize = 26;
    let mut info = [0_u64; RECURSION_MISSES + 1];
    let mut attributes = InfoAttributes {
        program: program.as_raw_fd().cast_unsigned(),
        bytes: u32::try_from(size_of_val(&info)).map_err(io::Error::other)?,
        info: info.as_mut_ptr().expose_provenance() as u64,
    };
    let bytes = size_of_val(&attributes);
    // SAFETY: the attributes are as long as is said, and `info` as long as they say.
    let failed = unsafe { libc::syscall(libc::SYS_bpf, INFO, &raw mut attributes, bytes) };
    if failed == 0 {
        Ok(ProgramRuns {
            timed: info[RUN_COUNT],
            timed_ns: info[RUN_TIME],
            passed_over: info[RECURSION_MISSES],
        })
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Has the kernel time all runs of all programs until the descriptor is closed, which costs each
/// run some 40 ns.
///
/// # Errors
///
/// The kernel does not: kernels do so since Linux 5.8, for `CAP_SYS_ADMIN`.
pub(super) fn time_runs() -> io::Result<OwnedFd> {
    const ENABLE_STATS: libc::c_int = 32;
    const RUN_TIME: u32 = 0;
    // SAFETY: it names nothing in memory.
    unsafe { bpf(ENABLE_STATS, &RUN_TIME) }
}

/// Puts a descriptor into an array at an index.
///
/// # Errors
///
/// The kernel does not take it.
pub(super) fn set_descriptor(map: &OwnedFd, index: u32, descriptor: &OwnedFd) -> io::Result<()> {
    /// `union bpf_attr` of `BPF_MAP_UPDATE_ELEM`.
    #[repr(C)]
    struct UpdateAttributes {
        map: u32,
        nothing: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    const UPDATE: libc::c_int = 2;
    let value = descriptor.as_raw_fd();
    let attributes = UpdateAttributes {
        map: map.as_raw_fd().cast_unsigned(),
        nothing: 0,
        key: (&raw const index).expose_provenance() as u64,
        value: (&raw const value).expose_provenance() as u64,
        flags: 0,
    };
    let bytes = size_of_val(&attributes);
    // SAFETY: the attributes are as long as is said, and what they name lives until after the call.
    let failed = unsafe { libc::syscall(libc::SYS_bpf, UPDATE, &raw const attributes, bytes) };
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Attaches the program to the raw tracepoint of this name; without a name, to the place that it
/// was loaded for. Returns the link.
///
/// # Errors
///
/// The kernel does not attach it.
pub(super) fn attach(program: &OwnedFd, name: Option<&std::ffi::CStr>) -> io::Result<OwnedFd> {
    /// `union bpf_attr` of `BPF_RAW_TRACEPOINT_OPEN`.
    #[repr(C)]
    struct OpenAttributes {
        name: u64,
        program: u32,
        nothing: u32,
    }
    const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
    let attributes = OpenAttributes {
        name: name.map_or(0, |name| name.as_ptr().expose_provenance() as u64),
        program: program.as_raw_fd().cast_unsigned(),
        nothing: 0,
    };
    // SAFETY: the name lives until after the call.
    unsafe { bpf(RAW_TRACEPOINT_OPEN, &attributes) }
}

/// Makes a call of `bpf(2)` that returns a descriptor.
///
/// # Safety
///
/// The memory that `attributes` points to is there until the call has returned.
pub(super) unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    let attributes = std::ptr::from_ref(attributes);
    // SAFETY: `attributes` is as long as the call is given; the kernel only reads it.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    owned(fd)
}

/// Returns the descriptor that a call has returned, or its error.
pub(super) fn owned(returned: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(returned) {
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;
    use crate::assembled::{self, Assembly, SET, register};

    fn failed(error: i32) -> ProgramError {
        ProgramError::LoadError {
            io_error: io::Error::from_raw_os_error(error),
            verifier_log: aya_obj::VerifierLog::new(String::new()),
        }
    }

    #[test]
    fn a_program_is_loaded_again_where_a_signal_came_and_not_for_ever() {
        let mut times = 0;
        let mut until = |most: usize, error: i32| {
            times = 0;
            let done = load(|| {
                times += 1;
                if times < most {
                    Err(failed(error))
                } else {
                    Ok(())
                }
            });
            (done.is_ok(), times)
        };
        assert_eq!(until(1, libc::EAGAIN), (true, 1));
        assert_eq!(until(5, libc::EAGAIN), (true, 5));
        assert_eq!(until(5, libc::EACCES), (false, 1));
        assert_eq!(until(usize::MAX, libc::EAGAIN), (false, MOST_LOADS));
    }

    /// Returns a number that the kernel says of a program in its text.
    fn in_text(program: &OwnedFd, name: &str) -> u64 {
        let path = format!("/proc/self/fdinfo/{}", program.as_raw_fd());
        let text = std::fs::read_to_string(path).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap().trim().parse().unwrap()
    }

    #[test]
    #[ignore = "loads eBPF"]
    fn runs_are_those_that_the_kernels_text_says_and_are_timed_while_that_is_asked_for() {
        const RUNS: u64 = 50;
        let mut assembly = Assembly::default();
        // The end that nothing leaves to would be no program to the kernel.
        assembly.put(SET, register::SECOND, 0, 1);
        assembly.leave_unless(register::SECOND, 1);
        assembly.put(SET, register::RESULT, 0, 7);
        let program = assembled::load("timed", &assembly.finish()).unwrap();
        let run_often =
            || (0..RUNS).for_each(|_| assert_eq!(run(program.as_fd(), &[0]).unwrap(), 7));
        let runs = || runs_of(program.as_fd()).unwrap();
        // Others may ask for it at the same time: then all runs are timed.
        let timed_for_this_alone = |_| {
            sleep(Duration::from_millis(20));
            run_often();
            let before = runs();
            let timing = time_runs().unwrap();
            run_often();
            drop(timing);
            let timed = runs();
            run_often();
            let is_alone = runs() == timed && timed.timed - before.timed == RUNS;
            is_alone.then_some((before, timed))
        };
        let (before, timed) = (0..100).find_map(timed_for_this_alone).unwrap();
        assert!(timed.timed_ns > before.timed_ns);
        let said = ["run_cnt:", "run_time_ns:", "recursion_misses:"];
        let said = said.map(|name| in_text(&program, name));
        assert_eq!(said, [timed.timed, timed.timed_ns, timed.passed_over]);
    }
}
