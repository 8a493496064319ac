//! Work of the recorder: it collects, flushes, answers its controller, and completes the log when
//! there is no controller any more.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use crate::EventTypeId;
use tracer_area::reserve::Share;
use tracer_engine::{EventSet, Origin};

use super::LogRecording;
use super::lending::Borrowing;
use super::protocol::{Call, LoggedStatus, MESSAGE_BYTES, Reply, Request};
use crate::wire::SentEvent;

/// How often the recorder looks at a running stream: its chunks have to hold what comes meanwhile.
const BUSY: Duration = Duration::from_millis(1);
/// How often the recorder looks while nothing comes.
const QUIET: Duration = Duration::from_millis(8);
/// How often the recorder checks that the controller still has its end of the conversation: a child
/// of the controller may hold that open after the controller has ended or runs another program.
const CONTROLLER_LOOK: Duration = Duration::from_millis(250);

/// The controller, as the recorder sees it.
pub(super) struct Controller {
    pid: libc::pid_t,
    /// Readable when the controller has ended.
    process: Option<OwnedFd>,
    /// The controller's end of the conversation: its descriptor, and the inode of the socket.
    end: (RawFd, u64),
    next_look: Instant,
}

impl Controller {
    /// Returns the controller with this pid, and with this descriptor and inode of its end.
    pub(super) fn new(pid: libc::pid_t, end: (RawFd, u64)) -> Self {
        // SAFETY: takes no pointers.
        let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let process = RawFd::try_from(process).ok().filter(|fd| *fd >= 0);
        Self {
            pid,
            // SAFETY: just opened, and no other value owns it.
            process: process.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
            end,
            next_look: Instant::now() + CONTROLLER_LOOK,
        }
    }

    /// Tells whether the controller still runs the program that made this recorder. If this cannot
    /// be seen, it is assumed.
    fn is_there(&mut self) -> bool {
        if Instant::now() < self.next_look {
            return true;
        }
        self.next_look = Instant::now() + CONTROLLER_LOOK;
        let descriptors = format!("/proc/{}/fd", self.pid);
        match fs::metadata(format!("{descriptors}/{}", self.end.0)) {
            Ok(end) => end.ino() == self.end.1,
            // There may be no `/proc`, or one that hides other processes.
            Err(error) => {
                error.kind() != io::ErrorKind::NotFound || fs::metadata(descriptors).is_err()
            }
        }
    }
}

/// Reason why the recorder stopped waiting.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Woken {
    Request(Request),
    Time,
    /// The controller has ended, has closed its end, or has sent nonsense.
    End,
}

/// The conversation with the controller.
pub(super) struct Asker<'a> {
    socket: &'a OwnedFd,
    controller: Controller,
    borrowing: Borrowing,
    message: Vec<u8>,
}

impl<'a> Asker<'a> {
    pub(super) fn new(socket: &'a OwnedFd, controller: Controller, borrowing: Borrowing) -> Self {
        Self {
            socket,
            controller,
            borrowing,
            message: vec![0; MESSAGE_BYTES],
        }
    }

    /// Waits for a request, for `time` at most.
    fn wait(&mut self, time: Duration) -> Woken {
        self.borrowing.hold();
        wait_for(self.socket, &self.controller, time, &mut self.message)
    }

    /// Answers the request that was heard last.
    fn answer(&mut self, reply: &Reply) -> io::Result<()> {
        let sent = send(self.socket, reply);
        self.borrowing.answered();
        sent
    }
}

/// Serves until the controller shuts the stream down or is gone. Ends the log in either case.
///
/// If `memory` does not suffice and there is no more, the recorder completes the log with what was
/// collected, and the controller gets `ENOMEM` from then on.
pub(super) fn serve(mut recording: LogRecording, memory: &mut Share, mut asker: Asker<'_>) {
    let mut pause = BUSY;
    loop {
        let wait = if recording.needs_ticks() {
            pause
        } else {
            CONTROLLER_LOOK
        };
        match asker.wait(wait) {
            woken if memory.enlarge_to(recording.memory_needed()).is_err() => {
                complete_without_memory(recording);
                answer_without_memory(woken, asker);
                return;
            }
            Woken::Request(Request::Shutdown(call)) => {
                let caller = begun(&mut recording, call);
                let reply = match recording.complete(caller) {
                    Ok(()) => Reply::Done,
                    Err(error) => Reply::Failed(error),
                };
                // A controller that is gone needs no answer.
                let _ = asker.answer(&reply);
                return;
            }
            Woken::Request(request) => {
                let reply = answer(&mut recording, request);
                recording.report();
                if asker.answer(&reply).is_err() {
                    break;
                }
            }
            Woken::Time if asker.controller.is_there() => {}
            Woken::Time | Woken::End => break,
        }
        pause = if recording.tick() {
            BUSY
        } else {
            (pause * 2).min(QUIET)
        };
        recording.report();
    }
    // The controller is gone: an error reaches no caller; the log says what it lacks.
    let _ = recording.complete(Origin::NONE);
}

/// Completes the log with what was collected; the status says that more is missing.
fn complete_without_memory(mut recording: LogRecording) {
    recording.set_poor();
    let activity = recording.activity();
    // The controller gets an error in any case.
    let _ = recording.complete(Origin::NONE);
    if let Some(activity) = activity {
        activity.report(LoggedStatus {
            is_overrun: true,
            is_log_overrun: true,
            flush_error: libc::ENOMEM,
            ..LoggedStatus::default()
        });
    }
}

/// Answers, once the log is complete, until the controller shuts the stream down or is gone.
fn answer_without_memory(mut woken: Woken, mut asker: Asker<'_>) {
    loop {
        let (reply, is_last) = match woken {
            Woken::Request(Request::Shutdown(_)) => (Some(Reply::Failed(libc::ENOMEM)), true),
            Woken::Request(Request::Status) => (Some(Reply::Done), false),
            Woken::Request(Request::ShowNext) => (Some(Reply::Event(None)), false),
            Woken::Request(_) => (Some(Reply::Failed(libc::ENOMEM)), false),
            Woken::Time => (None, !asker.controller.is_there()),
            Woken::End => (None, true),
        };
        let is_heard = reply.is_none_or(|reply| asker.answer(&reply).is_ok());
        if is_last || !is_heard {
            return;
        }
        woken = asker.wait(CONTROLLER_LOOK);
    }
}

/// Notes the terms of a call. Returns its caller.
pub(super) fn begun(recording: &mut LogRecording, call: Call) -> Origin {
    recording.set_terms(call.terms());
    call.caller()
}

pub(super) fn answer(recording: &mut LogRecording, request: Request) -> Reply {
    let done = |result: Result<(), i32>| match result {
        Ok(()) => Reply::Done,
        Err(error) => Reply::Failed(error),
    };
    match request {
        Request::Start(call) => {
            let caller = begun(recording, call);
            recording.start(caller);
        }
        Request::Stop(call) => {
            let caller = begun(recording, call);
            recording.stop(caller);
        }
        Request::Clear(call) => {
            begun(recording, call);
            return done(recording.clear());
        }
        Request::SetFilter { set, how, call } => {
            let caller = begun(recording, call);
            recording.set_filter(&EventSet::from_words(set), how.into(), caller);
        }
        Request::Flush(call) => {
            let caller = begun(recording, call);
            return done(recording.flush(caller));
        }
        // The caller of this reports the status after each request.
        Request::Status => recording.collect(),
        Request::ShowNext => {
            return Reply::Event(recording.show_next().map(|event| SentEvent::new(&event)));
        }
        Request::DefineEventType(name, id) => {
            let id = id.map(EventTypeId);
            return Reply::EventType(Some(recording.define_event_type(&name, id).0));
        }
        Request::EventTypeName(id) => {
            let types = recording.event_types();
            return Reply::Name(types.name(EventTypeId(id)).map(<[u8]>::to_vec));
        }
        Request::EventTypeFrom(id) => {
            return Reply::EventType(
                recording
                    .event_types()
                    .next_from(EventTypeId(id))
                    .map(|id| id.0),
            );
        }
        // Served by the caller of this.
        Request::Shutdown(_) => {}
    }
    Reply::Done
}

fn wait_for(
    socket: &OwnedFd,
    controller: &Controller,
    wait: Duration,
    message: &mut [u8],
) -> Woken {
    let poll = |fd: RawFd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let ended = controller.process.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    let mut polled = [poll(socket.as_raw_fd()), poll(ended)];
    let timeout = libc::c_int::try_from(wait.as_millis()).unwrap_or(1);
    // SAFETY: two valid entries.
    unsafe { libc::poll(polled.as_mut_ptr(), 2, timeout) };
    let [conversation, end] = polled;
    // A request that the controller sent before it ended comes first.
    if conversation.revents != 0 {
        return match super::protocol::receive(socket, message) {
            Ok(bytes) => postcard::from_bytes(bytes).map_or(Woken::End, Woken::Request),
            Err(_gone) => Woken::End,
        };
    }
    if end.revents != 0 {
        return Woken::End;
    }
    Woken::Time
}

pub(super) fn send(socket: &OwnedFd, reply: &Reply) -> io::Result<()> {
    let bytes = postcard::to_stdvec(reply).map_err(io::Error::other)?;
    super::protocol::send(socket, &bytes)
}

/// Detaches a new recorder from its controller: it has no terminal, no files but `open`, no working
/// directory that could not be unmounted, no real-time scheduling.
pub(super) fn settle_down(open: &[RawFd]) {
    // SAFETY: takes no pointers.
    unsafe { libc::setsid() };
    // SAFETY: a string ended by a null.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"posixtrace-log".as_ptr()) };
    // SAFETY: a string ended by a null.
    unsafe { libc::chdir(c"/".as_ptr()) };
    let priority: libc::c_int = 0;
    // By a system call: the function of musl always fails, since the kernel's call concerns one
    // thread.
    // SAFETY: the kernel's `struct sched_param` has the priority alone.
    unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_OTHER,
            &raw const priority,
        )
    };
    // SAFETY: a string ended by a null.
    let nothing = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    for standard in 0..3 {
        if nothing >= 0 && !open.contains(&standard) {
            // SAFETY: takes no pointers; what the descriptor was belongs to the controller.
            unsafe { libc::dup2(nothing, standard) };
        }
    }
    let mut open: Vec<u32> = open
        .iter()
        .filter_map(|fd| u32::try_from(*fd).ok())
        .collect();
    open.sort_unstable();
    let mut first = 3;
    for fd in open.into_iter().chain([u32::MAX]) {
        if first < fd {
            // Kernels without this call keep the controller's files open until its log is complete.
            // SAFETY: takes no pointers; these descriptors belong to the controller.
            unsafe { libc::syscall(libc::SYS_close_range, first, fd - 1, 0) };
        }
        first = first.max(fd.saturating_add(1));
    }
}
