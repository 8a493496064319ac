//! Proof that this process may trace another: descriptors that the kernel gives by the rules of
//! `ptrace`, or a call that it allows by them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::thread;

use super::protocol::PROOF_DESCRIPTORS;
use super::unforked::Unforked;
use crate::logged::BlockedSignals;
use tracer_area::descriptor::Guarded;
use tracer_area::own_pid;

/// Descriptors that go with a message that names a process. They are open only while the message is
/// sent, and this process forks no child meanwhile: a child with fewer rights would have them too.
/// A thread has one proof at a time.
#[derive(Debug)]
pub struct Proof {
    // Dropped in this order.
    process: OwnedFd,
    /// An error where it cannot be opened: the agent may serve the process all the same.
    memory: io::Result<File>,
    _unforked: Unforked,
}

impl Proof {
    /// Opens the descriptors; `None` where there is no such process or no descriptor is free. An
    /// agent that needs no proof does without.
    pub fn open(pid: i32) -> Option<Self> {
        let memory = if pid == own_pid() {
            "/proc/self/mem".to_owned()
        } else {
            format!("/proc/{pid}/mem")
        };
        let unforked = Unforked::begin();
        let process = open_process(pid).ok()?;
        let memory = OpenOptions::new().read(true).open(memory);
        Some(Self {
            process,
            memory,
            _unforked: unforked,
        })
    }

    /// Writes them into `to` in the order in which they are sent, and returns them.
    pub fn descriptors<'a>(&self, to: &'a mut [RawFd; PROOF_DESCRIPTORS]) -> &'a [RawFd] {
        let memory = self.memory.as_ref().map(File::as_raw_fd);
        *to = [
            self.process.as_raw_fd(),
            memory.as_ref().copied().unwrap_or(-1),
        ];
        let count = 1 + usize::from(memory.is_ok());
        to.get(..count).unwrap_or_default()
    }

    /// Tells whether the kernel has refused the memory, maybe for the owner and the mode of the
    /// file alone: then a call may prove the right.
    pub fn is_refused(&self) -> bool {
        let error = self.memory.as_ref().err();
        error.is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Goes on to the call, with the pidfd alone: that gives a child no right.
    pub fn into_call(self) -> io::Result<ProvingCall> {
        let process = Guarded::new(self.process)?;
        Ok(ProvingCall { process })
    }
}

/// Call that proves the right to trace a process, for an agent that has its pidfd from here.
#[derive(Debug)]
pub struct ProvingCall {
    process: Guarded<OwnedFd>,
}

impl ProvingCall {
    /// Makes the call, in a thread with a table of descriptors of its own: no other thread can
    /// replace the pidfd there meanwhile, so that the agent believes what it sees. It changes
    /// nothing: no process has the descriptor that it asks for.
    pub fn make(self) {
        let Ok(process) = self.process.get() else {
            return;
        };
        // A handler of the program's is not to run in this thread.
        let _signals = BlockedSignals::new();
        thread::scope(|scope| {
            let call = || {
                let process = process.as_fd();
                // SAFETY: takes an integer.
                unsafe { libc::unshare(libc::CLONE_FILES) };
                // SAFETY: takes integers only.
                unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), -1, 0) };
            };
            // Without a thread the agent sees no call, and refuses.
            let _ = thread::Builder::new().spawn_scoped(scope, call);
        });
    }
}

fn open_process(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes integers only.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let opened = RawFd::try_from(opened).map_err(io::Error::other)?;
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}

/// Returns when a process began, in ticks of the kernel, which tells apart two processes that have
/// had one pid. `None` where there is no such process.
pub fn start_time(pid: i32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name of the process, which comes before, may hold any bytes.
    let stat = stat.rsplit(|byte| *byte == b')').next()?;
    let mut fields = stat.split(|byte| *byte == b' ').filter(|it| !it.is_empty());
    /// The index of the field behind the name.
    const START_TIME: usize = 19;
    std::str::from_utf8(fields.nth(START_TIME)?)
        .ok()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_began_after_its_parent() {
        let own = start_time(own_pid()).unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = child.id().cast_signed();
        let later = start_time(pid).unwrap();
        let proof = Proof::open(pid).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(own > 0 && later >= own, "{own} {later}");
        let mut to = [-1; PROOF_DESCRIPTORS];
        let [process, memory] = *proof.descriptors(&mut to) else {
            panic!("the kernel lets a parent open a child's memory");
        };
        let target = |file| fs::read_link(format!("/proc/self/fd/{file}")).unwrap();
        assert!(target(process).to_string_lossy().contains("pidfd"));
        assert!(target(memory).ends_with("mem"));
        drop(proof);
        assert_eq!(start_time(i32::MAX), None);
        assert!(Proof::open(i32::MAX).is_none());
    }
}
