//! Proof of the right to trace a process by a call that the kernel allows, where it does not let
//! the client open the process's memory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use tests::attacker::{ATTACKER, VICTIM, command_as};
use tests::rights::missing_right;
use tests::target::Target;
use tests::wait_until;
use tracer_posix::agent::protocol::{Answer, Ask, PLAIN_VERSION};
use tracer_posix::descriptors::send_with_files;
use tracer_posix::wire::{framed, read_message};

use crate::serve::{SOON, Service, address, lines, sleeper};

/// Watches that the service has at a time.
const MOST_WATCHES: usize = 4;

/// A client that says what it likes.
struct Client(UnixStream);

impl Client {
    fn connect(service: &Service) -> Self {
        let connection = UnixStream::connect(address(service.folder.path())).unwrap();
        connection.set_read_timeout(Some(SOON)).unwrap();
        Self(connection)
    }

    fn ask(&mut self, ask: &Ask, process: &OwnedFd) -> io::Result<Answer> {
        let message = framed(ask)?;
        send_with_files(self.0.as_fd(), &message, &[process.as_raw_fd()])?;
        read_message(&mut self.0)
    }

    /// Announces a call. Returns the error number of a refusal, or 0.
    fn announce(&mut self, process: &OwnedFd) -> i32 {
        error_of(&self.ask(&Ask::Prove, process).unwrap())
    }

    /// Asks for a stream of a process. Returns the error number of a refusal, or 0.
    fn hello(&mut self, process: &OwnedFd) -> i32 {
        let hello = Ask::Hello {
            version: PLAIN_VERSION,
            pid: 0,
            inherit: false,
            capacity: 4096,
            keeps_oldest: true,
        };
        error_of(&self.ask(&hello, process).unwrap())
    }
}

fn error_of(answer: &Answer) -> i32 {
    match answer {
        Answer::Done => 0,
        Answer::Refused { error, .. } => *error,
        Answer::Events { .. } => panic!("{answer:?}"),
    }
}

fn pidfd(of: &Target) -> OwnedFd {
    // SAFETY: takes integers only.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, of.pid(), 0) };
    let opened = i32::try_from(opened).unwrap();
    assert!(opened >= 0);
    // SAFETY: just opened, and no other value owns it.
    unsafe { OwnedFd::from_raw_fd(opened) }
}

/// Makes the call. Returns its error.
fn call(process: &OwnedFd) -> i32 {
    // SAFETY: takes integers only.
    let made = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), -1, 0) };
    assert_eq!(made, -1);
    io::Error::last_os_error().raw_os_error().unwrap()
}

/// Makes the call in a thread with a table of descriptors of its own. Returns its error.
fn call_apart(process: &OwnedFd) -> i32 {
    thread::scope(|scope| {
        let call = || {
            // SAFETY: takes an integer; the thread's descriptors are copies from here on.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
            call(process)
        };
        scope.spawn(call).join().unwrap()
    })
}

#[test]
#[ignore = "loads eBPF"]
fn a_right_is_proven_by_a_call_with_the_process_that_is_asked_for() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let (one, other) = (sleeper(VICTIM), sleeper(VICTIM));
    let (one, other) = (pidfd(&one), pidfd(&other));
    let announced = || {
        let mut client = Client::connect(&service);
        assert_eq!(client.announce(&one), 0);
        client
    };
    let mut client = announced();
    assert_eq!(call_apart(&one), libc::EBADF);
    assert_eq!(client.hello(&one), 0);
    // Another process needs a proof of its own, also later.
    assert_eq!(client.announce(&other), 0);
    assert_eq!(call_apart(&other), libc::EBADF);
    let add = client.ask(&Ask::Add { pid: 0 }, &other).unwrap();
    assert_eq!(error_of(&add), 0);
    assert_eq!(client.announce(&other), 0);
    let add = client.ask(&Ask::Add { pid: 0 }, &other).unwrap();
    assert_eq!(error_of(&add), libc::EPERM);

    // No call.
    assert_eq!(announced().hello(&one), libc::EPERM);
    // That of a task whose descriptors others can replace.
    let mut client = announced();
    assert_eq!(call(&one), libc::EBADF);
    assert_eq!(client.hello(&one), libc::EPERM);
    // One with another process; and one for this, while another is asked for.
    let mut client = announced();
    assert_eq!(call_apart(&other), libc::EBADF);
    assert_eq!(client.hello(&one), libc::EPERM);
    let mut client = announced();
    assert_eq!(call_apart(&one), libc::EBADF);
    assert_eq!(client.hello(&other), libc::EPERM);
    // One before it is announced.
    assert_eq!(call_apart(&one), libc::EBADF);
    assert_eq!(announced().hello(&one), libc::EPERM);
    // Two at a time.
    assert_eq!(announced().announce(&one), libc::EINVAL);
}

#[test]
#[ignore = "loads eBPF"]
fn calls_are_watched_for_a_moment_and_for_few_clients() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let one = sleeper(VICTIM);
    let one = pidfd(&one);
    let is_watching = || service.attached_to("sys_enter");
    let ends = || {
        let what = "the watches to end";
        wait_until(what, SOON, || Ok((!is_watching()).then_some(()))).unwrap();
    };
    // No stream yet.
    let mut clients: Vec<Client> = (0..=MOST_WATCHES)
        .map(|_| Client::connect(&service))
        .collect();
    let answers: Vec<i32> = clients.iter_mut().map(|it| it.announce(&one)).collect();
    assert_eq!(answers[..MOST_WATCHES], [0; MOST_WATCHES]);
    assert_eq!(answers[MOST_WATCHES], libc::EAGAIN);
    assert!(is_watching());
    ends();
    // A client that has a stream keeps it.
    let mut client = Client::connect(&service);
    assert_eq!(client.announce(&one), 0);
    assert_eq!(call_apart(&one), libc::EBADF);
    assert_eq!(client.hello(&one), 0);
    assert!(!is_watching());
    assert_eq!(client.announce(&one), 0);
    assert!(is_watching());
    ends();
    assert_eq!(client.announce(&one), 0);
    assert_eq!(call_apart(&one), libc::EBADF);
    let add = client.ask(&Ask::Add { pid: 0 }, &one).unwrap();
    assert_eq!(error_of(&add), 0);
}

#[test]
#[ignore = "loads eBPF"]
fn who_may_trace_by_a_capability_alone_sees_what_ptrace_allows() {
    if missing_right().is_some() {
        return;
    }
    let mut service = Service::start().unwrap();
    let busy = |user| {
        let mut shell = command_as(user, "sh");
        let script = "echo ready; while :; do /bin/sleep 0.02; done";
        Target::start(shell.args(["-c", script])).unwrap().0
    };
    let target = busy(VICTIM);
    let tool = |capabilities: &str, duration: &str| {
        let mut tool = Command::new("setpriv");
        tool.args([
            format!("--reuid={ATTACKER}"),
            format!("--regid={ATTACKER}"),
            format!("--inh-caps=-all{capabilities}"),
            format!("--ambient-caps=-all{capabilities}"),
        ]);
        tool.args(["--clear-groups", "--"]);
        tool.arg(service.folder.path().join("dist/bin/tracer-user"));
        tool.env("LINUX_TRACE_AGENT", address(service.folder.path()));
        tool.args(["attach", "--no-user", "--format", "json"]);
        tool.args(["--duration", duration, "-p"]);
        tool.arg(target.pid().to_string()).current_dir("/");
        tool
    };
    let refused = tool("", "1s").output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("another user"),
        "{said}"
    );

    let seeing = tool(",+sys_ptrace", "8s");
    let seeing = { seeing }
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let seeing = seeing.unwrap();
    // The next service is shown the right anew, without the tool's doing.
    thread::sleep(Duration::from_secs(3));
    service.replace(|| ()).unwrap();
    let output = seeing.wait_with_output().unwrap();
    let events: Vec<serde_json::Value> = lines(&output)
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let gap = events.iter().position(|event| {
        let of_type = event["type"].as_str().unwrap();
        of_type.contains("overflow")
    });
    let gap = gap.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    for part in [&events[..gap], &events[gap..]] {
        let execs = part.iter().filter(|it| it["type"] == "linux_trace_exec");
        let ran: BTreeSet<&str> = execs.filter_map(|it| it["comm"].as_str()).collect();
        assert_eq!(ran, BTreeSet::from(["sleep"]));
    }
    assert!(!service.attached_to("sys_enter"));
}
