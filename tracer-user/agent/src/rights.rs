//! Proof that a client may trace a process: descriptors that the kernel gave it by ptrace's rules,
//! or a call that it allowed by these rules.
//!
//! `/proc/PID/mem` is opened only by a process that may attach to PID with `ptrace`: the kernel
//! asks for users, groups, capabilities, dumpability, user namespaces, and its security modules
//! (Yama). So a client that has it open has, or has had, that right. What is checked here is that
//! the descriptor is that file, of a process of this pid namespace that lives: by what the kernel
//! has of it, whichever mount of `/proc` it was opened in, or, where that cannot be asked, by its
//! device and inode. These say less: the number of an inode has 32 bits there, and is used again.
//!
//! The file has an owner and a mode too, so that a process that may trace another user's by a
//! capability (`CAP_SYS_PTRACE`) alone cannot open it. Such a client makes a call that the kernel
//! allows by the same rules, with the pidfd that it has sent, and the kernel's answer is seen
//! ([`ExpectedCall`]).
//!
//! Nothing is read from such a descriptor, and nothing asked that another process could answer, or
//! leave unanswered: it may be a file of FUSE, a FIFO or a device.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use crate::mounts::{AttachWatch, AttachWatches, OtherMounts};

/// Process that a client may trace, as its descriptors prove.
#[derive(Debug)]
pub struct Proven {
    /// Its pid here.
    pub pid: i32,
    process: OwnedFd,
}

impl Proven {
    fn new(pid: i32, process: &OwnedFd) -> Result<Self, NotProven> {
        let process = process.try_clone();
        let process = process.map_err(|_none_free| NotProven::NoFreeDescriptor)?;
        Ok(Self { pid, process })
    }

    /// Tells whether the process still lives, so that the pid is its own.
    pub fn lives(&self) -> bool {
        lives(&self.process)
    }
}

/// Reason why descriptors prove nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotProven {
    /// They are not both there.
    #[error(
        "the kernel does not let the program open /proc/PID/mem of that process: it may not trace \
         it (ptrace), or has no /proc or no descriptor left"
    )]
    NoDescriptors,
    /// The first is no pidfd.
    #[error("the first descriptor is no pidfd")]
    NoProcess,
    /// The pidfd is of a process that is not in this pid namespace, or of a thread.
    #[error(
        "the pidfd is of a process in a pid namespace that the service does not see, or of a thread"
    )]
    NotHere,
    /// The process has ended.
    #[error("there is no such process any more")]
    Ended,
    /// The second descriptor is not open for reading.
    #[error("the second descriptor is not open for reading")]
    NotOpen,
    /// No descriptor is free.
    #[error("the service has no free descriptor; try again later")]
    NoFreeDescriptor,
    /// Too many other clients show a right by a call.
    #[error("the service watches for the calls of too many other programs; try again later")]
    TooManyWatches,
    /// The kernel's answer to a call cannot be seen.
    #[error(
        "the kernel does not let the program open /proc/PID/mem of that process, and the service \
         cannot see here what else it allows: it has said why; give the program CAP_DAC_READ_SEARCH"
    )]
    NotSeen,
    /// The kernel was not seen to allow the call.
    #[error(
        "the kernel does not let the program trace that process (ptrace): it allows neither to \
         open /proc/PID/mem nor pidfd_getfd(), or this was not called as docs/agent.md says"
    )]
    NotAllowed,
    /// The second descriptor is another file.
    #[error("the second descriptor is not /proc/PID/mem of the pidfd's process")]
    AnotherFile,
    /// The second descriptor is another file, or of another mount.
    #[error(
        "the second descriptor is not /proc/PID/mem of the pidfd's process in the mount of /proc \
         that the service has, and those of other mounts (ProtectProc=, a container) cannot be \
         compared here: Linux before 5.10 has no way, else the service has said why"
    )]
    NotCompared,
}

impl NotProven {
    /// Returns the standard's error number for it.
    pub fn error_number(self) -> i32 {
        match self {
            Self::Ended => libc::ESRCH,
            Self::NoFreeDescriptor | Self::TooManyWatches => libc::EAGAIN,
            Self::NotSeen => libc::ENOTSUP,
            Self::NoDescriptors
            | Self::NotAllowed
            | Self::NoProcess
            | Self::NotHere
            | Self::NotOpen
            | Self::AnotherFile
            | Self::NotCompared => libc::EPERM,
        }
    }
}

/// Returns the process of the pidfd that a client has sent, which needs no proof, or has one still
/// to come.
///
/// # Errors
///
/// See [`NotProven`].
pub fn name(untrusted: &[OwnedFd]) -> Result<Proven, NotProven> {
    let process = untrusted.first().ok_or(NotProven::NoDescriptors)?;
    let pid = pid_of(process)?;
    if !lives(process) {
        return Err(NotProven::Ended);
    }
    Proven::new(pid, process)
}

/// Checks what a client has sent, by `mounts` where that can compare files.
///
/// # Errors
///
/// See [`NotProven`].
pub fn prove(untrusted: &[OwnedFd], mounts: &OtherMounts) -> Result<Proven, NotProven> {
    let [process, memory, ..] = untrusted else {
        return Err(NotProven::NoDescriptors);
    };
    let pid = pid_of(process)?;
    if !is_open_for_reading(memory) {
        return Err(NotProven::NotOpen);
    }
    let given = identity(memory).map_err(|_failed| NotProven::AnotherFile)?;
    let path = format!("/proc/{pid}/mem");
    let known = fs::metadata(&path).map_err(|_gone| NotProven::Ended)?;
    let is_same = given == (known.dev(), known.ino());
    let found = mounts.is_memory_of(memory.as_fd(), pid);
    let found = found.or(is_same.then_some(true));
    // While it lives its pid is no other's: so the path was its own, and what the kernel has by the
    // pid too.
    if !lives(process) {
        return Err(NotProven::Ended);
    }
    match found {
        Some(true) => Proven::new(pid, process),
        Some(false) => Err(NotProven::AnotherFile),
        None => Err(NotProven::NotCompared),
    }
}

/// Process whose pidfd a client has sent, and the watch for its call.
#[derive(Debug)]
pub struct ExpectedCall {
    // Dropped in this order.
    watch: AttachWatch,
    process: Proven,
}

impl ExpectedCall {
    /// Watches for the call with the pidfd of this process, as a client has sent it.
    ///
    /// # Errors
    ///
    /// See [`NotProven`].
    pub fn begin(process: Proven, watches: &AttachWatches) -> Result<Self, NotProven> {
        let watch = watches.watch(process.process.as_fd());
        let watch = watch.ok_or(NotProven::TooManyWatches)?;
        let watch = watch.ok_or(NotProven::NotSeen)?;
        Ok(Self { watch, process })
    }

    /// Checks what a client has sent after its call.
    ///
    /// # Errors
    ///
    /// See [`NotProven`].
    pub fn prove(self, untrusted: &[OwnedFd]) -> Result<Proven, NotProven> {
        let named = name(untrusted)?;
        let is_allowed = self.watch.is_proven();
        // Where both live, they have one pid only if they are one process.
        if !self.process.lives() {
            return Err(NotProven::Ended);
        }
        if !is_allowed || named.pid != self.process.pid {
            return Err(NotProven::NotAllowed);
        }
        Ok(named)
    }
}

/// Returns the pid of a pidfd's process here.
fn pid_of(process: &OwnedFd) -> Result<i32, NotProven> {
    let raw = process.as_raw_fd();
    // The kernel names what is no file in a folder, and no file in a folder is called so.
    let kind = fs::read_link(format!("/proc/self/fd/{raw}"));
    let kind = kind.map_err(|_failed| NotProven::NoProcess)?;
    let kind = kind.to_string_lossy();
    if kind != "anon_inode:[pidfd]" && !kind.starts_with("pidfd:[") {
        return Err(NotProven::NoProcess);
    }
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{raw}"));
    let text = text.map_err(|_failed| NotProven::NoProcess)?;
    let mut lines = text.lines();
    let pid = lines.find_map(|line| line.strip_prefix("Pid:"));
    match pid.and_then(|pid| pid.trim().parse().ok()) {
        Some(-1) => Err(NotProven::Ended),
        Some(pid @ 1..) if is_process(pid) => Ok(pid),
        Some(1..) if !lives(process) => Err(NotProven::Ended),
        // 0: it is in a pid namespace that is not seen from here.
        Some(_) => Err(NotProven::NotHere),
        None => Err(NotProven::NoProcess),
    }
}

/// Tells whether a pid is that of a process, and not of another of its threads.
fn is_process(pid: i32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        return false;
    };
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    process.is_some_and(|of| of.trim().parse() == Ok(pid))
}

/// Tells whether a descriptor was opened for reading: for one that only names a file (`O_PATH`) the
/// kernel asks for no right.
fn is_open_for_reading(file: &OwnedFd) -> bool {
    // SAFETY: takes integers only.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    flags >= 0
        && flags & libc::O_PATH == 0
        && matches!(flags & libc::O_ACCMODE, libc::O_RDONLY | libc::O_RDWR)
}

/// Returns device and inode of what a descriptor is of, as the kernel has them: another process,
/// which may serve the file, is not asked.
fn identity(file: &OwnedFd) -> io::Result<(u64, u64)> {
    let mut found = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: an empty string that ends with a null, and space for the answer.
    let failed = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC,
            libc::STATX_INO | libc::STATX_TYPE,
            found.as_mut_ptr(),
        )
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all-zero bytes are valid, and the kernel has filled in what it knows.
    let found = unsafe { found.assume_init() };
    let is_file = u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFREG;
    if !is_file || found.stx_mask & libc::STATX_INO == 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let device = libc::makedev(found.stx_dev_major, found.stx_dev_minor);
    Ok((device, found.stx_ino))
}

/// Tells whether the process of a pidfd has not ended.
fn lives(process: &OwnedFd) -> bool {
    let process: BorrowedFd<'_> = process.as_fd();
    let mut polled = libc::pollfd {
        fd: process.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one valid entry.
    unsafe { libc::poll(&raw mut polled, 1, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::os::fd::{FromRawFd as _, RawFd};
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::path::Path;
    use std::process::{Child, Command};

    use super::*;

    fn pidfd(pid: i32) -> OwnedFd {
        pidfd_with(pid, 0).unwrap()
    }

    fn pidfd_with(pid: i32, flags: libc::c_int) -> io::Result<OwnedFd> {
        // SAFETY: takes integers only.
        let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, flags) };
        if opened < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, and no other value owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(RawFd::try_from(opened).unwrap()) })
    }

    fn memory(pid: i32) -> OwnedFd {
        File::open(format!("/proc/{pid}/mem")).unwrap().into()
    }

    fn own() -> i32 {
        std::process::id().cast_signed()
    }

    fn child() -> Child {
        Command::new("sleep").arg("100").spawn().unwrap()
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn refused(process: OwnedFd, memory: OwnedFd) -> NotProven {
        prove(&[process, memory], &OtherMounts::uncompared()).unwrap_err()
    }

    #[test]
    fn who_has_the_memory_open_may_trace_the_process() {
        for pid in [own(), { child().id().cast_signed() }] {
            let proven = prove(&[pidfd(pid), memory(pid)], &OtherMounts::uncompared()).unwrap();
            assert!(proven.pid == pid && proven.lives());
            if pid != own() {
                // SAFETY: takes integers only; it is the test's child.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                while proven.lives() {
                    std::thread::yield_now();
                }
            }
        }
    }

    #[test]
    fn a_thread_is_no_process() {
        /// `PIDFD_THREAD`, since 6.9.
        const THREAD: libc::c_int = libc::O_EXCL;
        let thread = std::thread::spawn(|| {
            let tid = tracer_area::own_tid();
            let descriptor = pidfd_with(tid, THREAD);
            descriptor.map(|descriptor| refused(descriptor, memory(tid)))
        });
        match thread.join().unwrap() {
            Ok(refusal) => assert!(matches!(refusal, NotProven::NotHere), "{refusal:?}"),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EINVAL)),
        }
    }

    #[test]
    fn what_is_not_the_processs_memory_proves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let name = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
        // SAFETY: a string that ends with a null.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let mut reading = OpenOptions::new();
        reading.read(true);
        let open = |flags: i32, path: &Path| -> OwnedFd {
            reading
                .clone()
                .custom_flags(flags)
                .open(path)
                .unwrap()
                .into()
        };
        let own_status = Path::new("/proc/self/status");
        for other in [
            open(libc::O_NONBLOCK, &fifo),
            open(0, Path::new("/")),
            open(0, Path::new("/proc/self")),
            open(0, Path::new("/dev/null")),
            open(0, own_status),
            open(0, Path::new("/etc/passwd")),
            memory(std::os::unix::process::parent_id().cast_signed()),
        ] {
            let why = refused(pidfd(own()), other);
            assert!(matches!(
                why,
                NotProven::AnotherFile | NotProven::NotCompared
            ));
        }
    }

    #[test]
    fn a_descriptor_for_which_the_kernel_asked_no_right_proves_nothing() {
        // As any user may have it of any process.
        let mut naming = OpenOptions::new();
        let naming = naming.read(true).custom_flags(libc::O_PATH);
        let named: OwnedFd = naming.open("/proc/self/mem").unwrap().into();
        assert_eq!(identity(&named).unwrap(), identity(&memory(own())).unwrap());
        assert_eq!(refused(pidfd(own()), named), NotProven::NotOpen);
        let writing = OpenOptions::new().write(true).open("/proc/self/mem");
        let writing = OwnedFd::from(writing.unwrap());
        assert_eq!(refused(pidfd(own()), writing), NotProven::NotOpen);
    }

    #[test]
    fn both_descriptors_are_of_one_process() {
        let child = child();
        let pid = child.id().cast_signed();
        assert_eq!(refused(pidfd(pid), memory(own())), NotProven::NotCompared);
        assert_eq!(refused(pidfd(own()), memory(pid)), NotProven::NotCompared);
        end(child);
    }

    #[test]
    fn a_process_that_has_ended_is_not_traced() {
        let child = child();
        let pid = child.id().cast_signed();
        let (process, memory) = (pidfd(pid), memory(pid));
        end(child);
        assert_eq!(refused(process, memory), NotProven::Ended);
    }

    #[test]
    fn what_is_no_pidfd_names_no_process() {
        let folder = tempfile::tempdir().unwrap();
        let named = folder.path().join("pidfd:[1]");
        fs::write(&named, "Pid:\t1\n").unwrap();
        for other in [
            File::open(named).unwrap(),
            File::open("/proc/self").unwrap(),
        ] {
            assert_eq!(refused(other.into(), memory(own())), NotProven::NoProcess);
        }
        let none = prove(&[], &OtherMounts::uncompared());
        assert_eq!(none.unwrap_err(), NotProven::NoDescriptors);
    }
}
