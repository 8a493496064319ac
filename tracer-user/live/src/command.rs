//! A command that is started, and then waits until it is traced.

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::thread;

use tokio::sync::mpsc::UnboundedSender;

use tracer_posix::agent::ADDRESS_VARIABLE;

use super::descriptors;
use super::proc_fs;
use super::processes::Comm;
use super::wake::Wake;

/// A command that has a pid, and has not run an instruction of its program yet. Dropped, it never
/// will.
pub struct Waiting {
    pid: i32,
    go: PipeWriter,
    last_name: LastName,
}

/// The name that a process has when it ends; empty until then.
pub type LastName = Arc<OnceLock<Comm>>;

impl Waiting {
    /// Starts `command` up to the point where it waits. The new program inherits `inherited`, and
    /// is which is given where `agent` has kernel events.
    ///
    /// How it ends, or that its program cannot be started, is reported by `wakes` later.
    ///
    /// # Errors
    ///
    /// No process, thread or descriptor is available.
    pub fn start(
        command: &[OsString],
        inherited: Option<OwnedFd>,
        agent: Option<OsString>,
        wakes: UnboundedSender<Wake>,
    ) -> io::Result<Self> {
        let (mut reported, ready) = pipe()?;
        let (wait, go) = pipe()?;
        let [program, arguments @ ..] = command else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some(address) = agent {
            command.env(ADDRESS_VARIABLE, address);
        }
        let start = Start {
            ready: ready.as_raw_fd(),
            go: go.as_raw_fd(),
            wait: wait.as_raw_fd(),
            inherited: inherited.as_ref().map(AsRawFd::as_raw_fd),
        };
        // SAFETY: `Start::pass` makes only calls that are async-signal-safe and does not allocate.
        unsafe { command.pre_exec(move || start.pass()) };
        let last_name = LastName::default();
        let learnt = last_name.clone();
        // `spawn` returns only when the program runs, so that it has a thread of its own.
        thread::Builder::new()
            // The child has this name until its own program runs, and others report it by then.
            .name("tracer-user".to_owned())
            .spawn(move || {
                let wake = spawn_and_wait(&mut command, (ready, wait, inherited), &learnt);
                // The receiver is gone when the trace was ended before the command.
                let _ = wakes.send(wake);
            })?;
        let mut pid = [0; 4];
        // At the end of the pipe there is no process: `wakes` brings the reason, so that pid 0
        // goes no further than the first wake.
        let pid = match reported.read_exact(&mut pid) {
            Ok(()) => i32::from_ne_bytes(pid),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(error),
        };
        Ok(Self { pid, go, last_name })
    }

    /// Returns its process; `None` where it could not be started.
    pub fn pid(&self) -> Option<i32> {
        (self.pid != 0).then_some(self.pid)
    }

    /// Returns the name that it has when it ends, once it is known.
    pub fn last_name(&self) -> LastName {
        self.last_name.clone()
    }

    /// Lets it run.
    ///
    /// # Errors
    ///
    /// It has ended while it waited.
    pub fn release(mut self) -> io::Result<()> {
        self.go.write_all(&[1])
    }
}

fn spawn_and_wait(
    command: &mut Command,
    ends: (PipeWriter, PipeReader, Option<OwnedFd>),
    last_name: &LastName,
) -> Wake {
    let child = command.spawn();
    // Only now: the child needs them until its program runs. That `ready` is closed says that
    // there is no child.
    drop(ends);
    match child {
        Ok(mut child) => {
            // Until its status is taken, `/proc` still says what it was called.
            wait_without_taking(child.id());
            let pid = i32::try_from(child.id()).unwrap_or(0);
            if let Some(comm) = proc_fs::comm(pid, pid) {
                let _ = last_name.set(comm);
            }
            match child.wait() {
                Ok(status) => Wake::CommandEnded(status),
                Err(error) => Wake::NotStarted(error),
            }
        }
        Err(error) => Wake::NotStarted(error),
    }
}

/// Waits until a child has ended, and leaves its status to be taken.
fn wait_without_taking(pid: u32) {
    loop {
        // SAFETY: all-zero bytes are a valid `siginfo_t`, for the kernel to write to.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let how = libc::WEXITED | libc::WNOWAIT;
        // SAFETY: `info` is valid for writes.
        let waited = unsafe { libc::waitid(libc::P_PID, pid, &raw mut info, how) };
        let is_interrupted = || io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        if waited == 0 || !is_interrupted() {
            return;
        }
    }
}

/// Descriptors of the child, between fork and exec.
#[derive(Clone, Copy)]
struct Start {
    ready: RawFd,
    go: RawFd,
    wait: RawFd,
    inherited: Option<RawFd>,
}

impl Start {
    /// Reports the pid, waits for the word to continue, and hands on the descriptor that the
    /// program inherits.
    fn pass(self) -> io::Result<()> {
        // SAFETY: the call has no preconditions and cannot fail.
        let pid = unsafe { libc::getpid() }.to_ne_bytes();
        // SAFETY: `pid` has as many bytes as the call is given. A pipe takes four bytes whole.
        if unsafe { libc::write(self.ready, pid.as_ptr().cast(), pid.len()) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // The child's own copy: with it open, the end of the tracer could not be seen.
        // SAFETY: nothing in the child uses the descriptor any more.
        unsafe { libc::close(self.go) };
        self.wait_for_word()?;
        descriptors::restore_limit()?;
        let Some(fd) = self.inherited else {
            return Ok(());
        };
        // SAFETY: the call takes integers only, and the descriptor is open: the parent holds it
        // until the program runs.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    fn wait_for_word(self) -> io::Result<()> {
        let mut word = 0_u8;
        loop {
            // SAFETY: `word` is valid for the one byte that the call is given.
            match unsafe { libc::read(self.wait, (&raw mut word).cast(), 1) } {
                1 => return Ok(()),
                // The tracer is gone.
                0 => return Err(io::Error::from_raw_os_error(libc::ECANCELED)),
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    fn started(words: &[&str]) -> (Waiting, tokio::sync::mpsc::UnboundedReceiver<Wake>) {
        let (wakes, woken) = unbounded_channel();
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        (Waiting::start(&words, None, None, wakes).unwrap(), woken)
    }

    #[test]
    fn a_command_runs_when_it_is_released_and_reports_its_end() {
        let (waiting, mut woken) = started(&["sh", "-c", "exit 3"]);
        assert!(waiting.pid().is_some());
        waiting.release().unwrap();

        let Some(Wake::CommandEnded(status)) = woken.blocking_recv() else {
            panic!("the command was not run");
        };
        assert_eq!(status.into_raw() >> 8, 3);
    }

    #[test]
    fn a_command_that_is_not_there_is_reported() {
        let (waiting, mut woken) = started(&["/no/such/program"]);
        waiting.release().unwrap();

        let Some(Wake::NotStarted(error)) = woken.blocking_recv() else {
            panic!("there is no such program");
        };
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_command_that_is_not_released_never_runs() {
        let (waiting, mut woken) = started(&["true"]);
        drop(waiting);

        let Some(Wake::NotStarted(error)) = woken.blocking_recv() else {
            panic!("the command was run");
        };
        assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
    }
}
