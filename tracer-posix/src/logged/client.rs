//! The controller's side of a stream with a log.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::EventTypeId;
use crate::agent::{self, AgentSource};
use crate::area::{self, RingMode, StreamRequest, TargetSource, monotonic_now};
use crate::census::Counted;
use crate::descriptor::Guarded;
use crate::engine::{Attributes, EventSet, Filtering, Inheritance, Origin, StreamFullPolicy};
use crate::error_number::ErrorNumber;
use crate::event::{EventHeader, MonotonicNs, RealtimeNs};
use crate::log::{ClockAnchor, LogHeader, LogOptions, LogWriter};

use crate::stream::{CreateError, RealtimeClock};

use super::protocol::{LoggedStatus, MESSAGE_BYTES, Reply, Request};
use super::serve::{Controller, serve, settle_down};
use super::{Activity, Recording, process};

mod untrusted;

#[doc(hidden)]
pub use untrusted::{ask_recorder, hear_recorder};

/// The least that a thread's ring has under `POSIX_TRACE_FLUSH`: what a fast thread emits until the
/// recorder comes by again.
const LEAST_RING: usize = 2 << 20;
/// How long a status waits for a flush that nobody asked for: longer than most take, so that its answer
/// is the whole truth then.
const OWN_FLUSH_WAIT: Duration = Duration::from_millis(500);

/// A stream with a log: what its recorder does is asked for here. Dropping it shuts it down.
#[derive(Debug)]
pub struct LoggedStream {
    socket: Guarded<OwnedFd>,
    attributes: Attributes,
    message: Vec<u8>,
    is_shut_down: bool,
    recorder: libc::pid_t,
    clock: RealtimeClock,
    /// What the recorder filters, so that nobody waits for it to be told.
    filter: EventSet,
    activity: Arc<Activity>,
}

/// The recorder is gone: somebody has killed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the process that records is gone; its log may be incomplete")]
pub struct RecorderGone;

/// Why a call that writes the log failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogCallError {
    /// Nobody records any more.
    #[error(transparent)]
    Gone(#[from] RecorderGone),
    /// The log cannot be written: `ENOSPC`, `EFBIG`, `EIO`...
    #[error("the log cannot be written")]
    Log(#[source] io::Error),
}

impl LogCallError {
    /// What a recorder's answer says.
    fn check(reply: &Reply) -> Result<(), Self> {
        match reply {
            Reply::Failed(number) => Err(Self::Log(io::Error::from_raw_os_error(*number))),
            _ => Ok(()),
        }
    }
}

impl LoggedStream {
    /// Makes a stream that traces process `pid`, with its log in `file`.
    ///
    /// # Errors
    ///
    /// See [`CreateError`].
    pub fn create(
        pid: i32,
        attributes: &Attributes,
        file: BorrowedFd<'_>,
    ) -> Result<Self, CreateError> {
        let mut attributes = attributes.for_stream_with_log()?;
        let anchor = clocks_now();
        attributes.creation_time = anchor.realtime;
        // The agent has to see who asks: the controller, and not its recorder.
        let kernel = agent::source_if_wanted(pid, &attributes)?;
        let (ours, theirs) = socket_pair().map_err(CreateError::Recorder)?;
        let ours = Guarded::new(ours).map_err(CreateError::Recorder)?;
        let inode = ours.identity().inode;
        // Away from the standard descriptors, which the recorder gives up.
        let log = duplicate(file).map_err(|error| CreateError::Log(error.into()))?;
        let activity = Activity::new().map_err(CreateError::Recorder)?;
        let activity = Arc::new(activity);
        let end = ours.number();
        let controller = area::own_pid();
        let header = LogHeader {
            attributes: attributes.clone(),
            anchor,
        };
        let mut parts = Some((log, kernel));
        process::spawn(&mut || {
            let Some((log, kernel)) = parts.take() else {
                return;
            };
            let area = area::own_file();
            let agent = kernel.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            let kept = [
                theirs.as_raw_fd(),
                log.as_raw_fd(),
                area.unwrap_or(-1),
                agent,
            ];
            settle_down(&kept);
            let controller_seen = Controller::new(controller, end, inode);
            let made = record(pid, controller, &header, (File::from(log), kernel));
            let first = match &made {
                Ok(_) => Reply::Ready(std::process::id().cast_signed()),
                Err(error) => Reply::Failed(error.error_number()),
            };
            let told = postcard::to_stdvec(&first).map_err(io::Error::other);
            let told = told.and_then(|bytes| send(&theirs, &bytes));
            if let Ok((mut recording, _counted)) = made
                && told.is_ok()
            {
                recording.set_activity(Arc::clone(&activity));
                serve(recording, &theirs, controller_seen);
            }
        })
        .map_err(CreateError::Recorder)?;
        drop(theirs);
        let mut stream = Self {
            socket: ours,
            attributes,
            message: vec![0; MESSAGE_BYTES],
            is_shut_down: false,
            recorder: 0,
            clock: RealtimeClock::new(),
            filter: EventSet::EMPTY,
            activity,
        };
        match stream.reply() {
            Ok(Reply::Ready(recorder)) => {
                stream.recorder = recorder;
                Ok(stream)
            }
            Ok(Reply::Failed(number)) => {
                stream.is_shut_down = true;
                Err(CreateError::Refused(number))
            }
            Ok(_) | Err(RecorderGone) => {
                stream.is_shut_down = true;
                Err(CreateError::Recorder(io::ErrorKind::UnexpectedEof.into()))
            }
        }
    }

    /// The attributes that the stream has.
    #[must_use]
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Starts the stream.
    ///
    /// # Errors
    ///
    /// See [`RecorderGone`]; of all that follows, too.
    pub fn start(&mut self, caller: Origin) -> Result<(), RecorderGone> {
        self.ask(&Request::Start(caller.into())).map(drop)
    }

    /// Stops the stream.
    ///
    /// # Errors
    ///
    /// See [`RecorderGone`].
    pub fn stop(&mut self, caller: Origin) -> Result<(), RecorderGone> {
        self.ask(&Request::Stop(caller.into())).map(drop)
    }

    /// Drops all that stream and log hold.
    ///
    /// # Errors
    ///
    /// See [`LogCallError`].
    pub fn clear(&mut self) -> Result<(), LogCallError> {
        let cleared = self.ask(&Request::Clear)?;
        self.filter = EventSet::EMPTY;
        LogCallError::check(&cleared)
    }

    /// Flushes the stream to its log, and returns when that is done.
    ///
    /// # Errors
    ///
    /// See [`LogCallError`].
    pub fn flush(&mut self, caller: Origin) -> Result<(), LogCallError> {
        LogCallError::check(&self.ask(&Request::Flush(caller.into()))?)
    }

    /// Changes the filter.
    ///
    /// # Errors
    ///
    /// See [`RecorderGone`].
    pub fn set_filter(
        &mut self,
        set: &EventSet,
        how: Filtering,
        caller: Origin,
    ) -> Result<(), RecorderGone> {
        let request = Request::SetFilter {
            set: *set.words(),
            how: how.into(),
            caller: caller.into(),
        };
        self.ask(&request)?;
        self.filter = how.apply(&self.filter, set);
        Ok(())
    }

    /// The set of types that are not recorded. Nobody is asked for it.
    #[must_use]
    pub fn filter(&self) -> EventSet {
        self.filter
    }

    /// What the recorder is about, for threads that must not wait for what this stream was asked for.
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// The status now; losses and the error of a flush are told once. A flush that the recorder makes by
    /// itself is waited for, but not for long: what it was before is told then, and that it is flushing.
    ///
    /// # Errors
    ///
    /// See [`RecorderGone`].
    pub fn status(&mut self) -> Result<LoggedStatus, RecorderGone> {
        let deadline = Instant::now() + OWN_FLUSH_WAIT;
        // There is nothing to hear from the recorder but its end.
        while self.activity.is_flushing() && !self.is_readable() {
            if Instant::now() > deadline {
                return Ok(self.activity.last_status());
            }
        }
        match self.ask(&Request::Status)? {
            Reply::Status(status) => Ok(status),
            _ => Err(RecorderGone),
        }
    }

    /// The oldest event that is not flushed yet and was not shown, with its data and its time. It stays in
    /// the stream.
    ///
    /// # Errors
    ///
    /// See [`RecorderGone`].
    pub fn show_next(
        &mut self,
    ) -> Result<Option<(EventHeader, Vec<u8>, RealtimeNs)>, RecorderGone> {
        match self.ask(&Request::ShowNext)? {
            Reply::Event(None) => Ok(None),
            Reply::Event(Some(event)) => {
                self.clock.look();
                let header = event.header();
                Ok(Some((header, event.data, self.clock.time(header.time))))
            }
            _ => Err(RecorderGone),
        }
    }

    /// The number of the user event type `name`; defines it where it is new.
    ///
    /// # Errors
    ///
    /// See [`RecorderGone`].
    pub fn define_event_type(&mut self, name: &[u8]) -> Result<EventTypeId, RecorderGone> {
        match self.ask(&Request::DefineEventType(name.to_vec()))? {
            Reply::EventType(Some(id)) => Ok(EventTypeId(id)),
            _ => Err(RecorderGone),
        }
    }

    /// The name of a type, if it has one.
    ///
    /// # Errors
    ///
    /// See [`RecorderGone`].
    pub fn event_type_name(&mut self, id: EventTypeId) -> Result<Option<Vec<u8>>, RecorderGone> {
        match self.ask(&Request::EventTypeName(id.0))? {
            Reply::Name(name) => Ok(name),
            _ => Err(RecorderGone),
        }
    }

    /// The first type with this number or a higher one.
    ///
    /// # Errors
    ///
    /// See [`RecorderGone`].
    pub fn event_type_from(
        &mut self,
        id: EventTypeId,
    ) -> Result<Option<EventTypeId>, RecorderGone> {
        match self.ask(&Request::EventTypeFrom(id.0))? {
            Reply::EventType(id) => Ok(id.map(EventTypeId)),
            _ => Err(RecorderGone),
        }
    }

    /// Stops the stream, flushes it, and completes the log.
    ///
    /// # Errors
    ///
    /// See [`LogCallError`]: the stream is ended all the same.
    pub fn shut_down(mut self, caller: Origin) -> Result<(), LogCallError> {
        LogCallError::check(&self.end(caller)?)
    }

    fn end(&mut self, caller: Origin) -> Result<Reply, RecorderGone> {
        self.is_shut_down = true;
        let reply = self.ask(&Request::Shutdown(caller.into()));
        process::reap(self.recorder);
        reply
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, RecorderGone> {
        let bytes = postcard::to_stdvec(request).map_err(|_never| RecorderGone)?;
        send(self.open_socket()?, &bytes).map_err(|_closed| RecorderGone)?;
        self.reply()
    }

    fn reply(&mut self) -> Result<Reply, RecorderGone> {
        let socket = self.socket.get().map_err(|_closed| RecorderGone)?;
        let bytes = receive(socket, &mut self.message).map_err(|_closed| RecorderGone)?;
        postcard::from_bytes(bytes).map_err(|_nonsense| RecorderGone)
    }
}

impl LoggedStream {
    /// Our end of the conversation: the program may have closed it.
    fn open_socket(&self) -> Result<&OwnedFd, RecorderGone> {
        self.socket.get().map_err(|_closed| RecorderGone)
    }

    /// Whether there is something to hear from the recorder, if only that it is gone, within a millisecond.
    fn is_readable(&self) -> bool {
        self.open_socket().map_or(true, is_readable)
    }
}

impl Drop for LoggedStream {
    fn drop(&mut self) {
        if !self.is_shut_down {
            // The log is completed all the same when the recorder finds us gone.
            let _ = self.end(Origin::NONE);
        }
    }
}

/// In the recorder: the stream and its log.
fn record(
    pid: i32,
    controller: i32,
    header: &LogHeader,
    (log, kernel): (File, Option<AgentSource>),
) -> Result<(Recording, Counted), CreateError> {
    let counted = Counted::new()?;
    let attributes = &header.attributes;
    let policy = attributes.stream_full_policy();
    let ring_bytes = match policy {
        StreamFullPolicy::Flush => attributes.stream_min_size().max(LEAST_RING),
        StreamFullPolicy::Loop | StreamFullPolicy::UntilFull => attributes.stream_min_size(),
    };
    let request = StreamRequest {
        target: Some(pid),
        inherit: attributes.inheritance() == Inheritance::Inherited,
        is_only_source: kernel.is_none(),
        bytes: ring_bytes,
        mode: RingMode::of(policy),
        max_data: attributes.max_data_size(),
        lease: None,
    };
    // The controller's own area is ours as well, whatever the kernel lets others see of it.
    let source = if pid == controller {
        TargetSource::open_own(pid, request)?
    } else {
        TargetSource::open(pid, request)?
    };
    let options = LogOptions {
        policy: attributes.log_full_policy(),
        max_size: attributes.log_max_size() as u64,
    };
    let log = LogWriter::create(log, header, options)?;
    let mut recording = Recording::new(policy, attributes.stream_min_size(), monotonic_now, log);
    recording.meet(pid);
    recording.add_source(Box::new(source));
    if let Some(kernel) = kernel {
        recording.add_source(Box::new(kernel));
    }
    Ok((recording, counted))
}

fn clocks_now() -> ClockAnchor {
    let before = monotonic_now();
    let realtime = area::realtime_now();
    let after = monotonic_now();
    ClockAnchor {
        monotonic: MonotonicNs(before.0 + (after.0 - before.0) / 2),
        realtime,
    }
}

fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: room for two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and nobody else's.
    Ok(ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) }).into())
}

fn duplicate(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let copy = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Sends one message.
pub(super) fn send(socket: &OwnedFd, message: &[u8]) -> io::Result<()> {
    loop {
        // SAFETY: the message has so many bytes.
        let sent = unsafe {
            libc::send(
                socket.as_raw_fd(),
                message.as_ptr().cast(),
                message.len(),
                libc::MSG_NOSIGNAL,
            )
        };
        if sent >= 0 {
            return Ok(());
        }
        interrupted_or_failed()?;
    }
}

/// Receives one message; an error when the other side has closed its end.
pub(super) fn receive<'a>(socket: &OwnedFd, room: &'a mut [u8]) -> io::Result<&'a [u8]> {
    loop {
        // SAFETY: there is so much room.
        let received =
            unsafe { libc::recv(socket.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), 0) };
        match usize::try_from(received) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => return Ok(room.get(..length).unwrap_or_default()),
            Err(_failed) => interrupted_or_failed()?,
        }
    }
}

/// Whether the other side has said something, or has closed its end, within a millisecond.
fn is_readable(socket: &OwnedFd) -> bool {
    let mut polled = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one valid entry.
    unsafe { libc::poll(&raw mut polled, 1, 1) };
    polled.revents != 0
}

/// A signal does not end a conversation.
fn interrupted_or_failed() -> io::Result<()> {
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted {
        return Ok(());
    }
    Err(error)
}
