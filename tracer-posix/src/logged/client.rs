//! The controller's side of a stream with a log.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::EventTypeId;
use crate::agent;
use crate::area::{self, monotonic_now};
use crate::descriptor::Guarded;
use crate::engine::{Attributes, EventSet, Filtering, Origin};
use crate::event::{EventHeader, MonotonicNs, RealtimeNs};
use crate::log::{ClockAnchor, LogHeader};

use crate::stream::{CreateError, RealtimeClock};

use super::making::{Job, Made, make};
use super::protocol::{LoggedStatus, MESSAGE_BYTES, Reply, Request};
use super::socket::{self, receive, send};
use super::{Activity, process};

/// How long a status waits for a flush that nobody asked for: longer than most take, so that its answer
/// is the whole truth then.
const A_MILLISECOND: Duration = Duration::from_millis(1);
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
        // Away from the standard descriptors, which the recorder gives up.
        let log = socket::duplicate(file).map_err(|error| CreateError::Log(error.into()))?;
        let header = LogHeader {
            attributes: attributes.clone(),
            anchor,
        };
        let job = Job {
            target: pid,
            header,
            log,
            kernel,
        };
        let Made {
            socket,
            activity,
            recorder,
        } = make(job)?;
        Ok(Self {
            socket,
            attributes,
            message: vec![0; MESSAGE_BYTES],
            is_shut_down: false,
            recorder,
            clock: RealtimeClock::new(),
            filter: EventSet::EMPTY,
            activity,
        })
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
        self.open_socket()
            .map_or(true, |socket| socket::is_readable(socket, A_MILLISECOND))
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

fn clocks_now() -> ClockAnchor {
    let before = monotonic_now();
    let realtime = area::realtime_now();
    let after = monotonic_now();
    ClockAnchor {
        monotonic: MonotonicNs(before.0 + (after.0 - before.0) / 2),
        realtime,
    }
}
