//! The controller's side of a stream with a log.

use std::collections::HashMap;
use std::ffi::c_int;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::EventTypeId;
use crate::agent;
use tracer_area as area;
use tracer_engine::event::{Event, EventHeader, EventName, OwnedEvent, RealtimeNs};
use tracer_engine::{Attributes, CallTerms, EventSet, Filtering, Origin};
use tracer_log::{LogHeader, clocks_now};

use crate::stream::{CreateError, RealtimeClock, caller};

use super::conversation::{Conversation, RecorderGone};
use super::lending::Lending;
use super::making::{Job, Made, make};
use super::protocol::{Call, LoggedStatus, Reply, Request};
use super::{Activity, process, protocol};

mod untrusted;

#[doc(hidden)]
pub use untrusted::{ask_recorder, hear_recorder};

/// A stream with a log, as its controller sees it: calls are requests to the recorder. Dropping it
/// shuts it down.
#[derive(Debug)]
pub struct LoggedStream {
    conversation: Conversation,
    attributes: Attributes,
    is_shut_down: bool,
    recorder: libc::pid_t,
    clock: RealtimeClock,
    /// The recorder's filter, so that the recorder need not be asked.
    filter: EventSet,
    activity: Arc<Activity>,
    /// Names of types, as the recorder said, for events that have memory of their own.
    names: HashMap<EventTypeId, EventName>,
    own_types: OwnTypes,
}

/// The types of this process, if it traces itself. The controller tells the recorder, which is
/// another process, of them: so they have the same identifiers in the stream.
#[derive(Clone, Copy, Debug)]
struct OwnTypes {
    is_traced: bool,
    /// Those that the recorder was told of.
    told: EventSet,
}

/// Why a call that writes the log failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogCallError {
    /// The recorder is gone.
    #[error(transparent)]
    Gone(#[from] RecorderGone),
    /// The log cannot be written: `ENOSPC`, `EFBIG`, `EIO`...
    #[error("the log cannot be written")]
    Log(#[source] io::Error),
}

impl LogCallError {
    /// Returns the error number that the C functions return for it.
    #[must_use]
    pub fn error_number(&self) -> c_int {
        match self {
            Self::Gone(RecorderGone) => libc::EINVAL,
            Self::Log(error) => error.raw_os_error().unwrap_or(libc::EIO),
        }
    }

    /// Converts a recorder's answer.
    fn check(reply: &Reply) -> Result<(), Self> {
        match reply {
            Reply::Failed(error) => Err(Self::Log(io::Error::from_raw_os_error(*error))),
            Reply::Ready(_)
            | Reply::Unfit
            | Reply::Done
            | Reply::Event(_)
            | Reply::EventType(_)
            | Reply::Name(_) => Ok(()),
        }
    }
}

impl LoggedStream {
    /// Makes a stream that traces this process, with its log in `file`.
    ///
    /// ```
    /// use std::os::fd::AsFd;
    /// use tracer_posix::{Attributes, LogReader, LoggedStream, UserEvent};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("log");
    /// let log = std::fs::File::create(&path)?;
    /// let mut stream = LoggedStream::create_for_self(&Attributes::default(), log.as_fd())?;
    /// stream.start()?;
    /// UserEvent::open("request")?.emit(b"hello");
    /// stream.shut_down()?;
    ///
    /// let mut log = LogReader::open(std::fs::File::open(&path)?)?;
    /// while let Some(record) = log.next_record()? {
    ///     println!("{} of {}", record.name(), record.event.header.pid);
    /// }
    /// # log.rewind();
    /// # assert!(log.records().any(|event| event.unwrap().name == "request"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// See [`CreateError`].
    pub fn create_for_self(
        attributes: &Attributes,
        file: BorrowedFd<'_>,
    ) -> Result<Self, CreateError> {
        Self::create(area::own_pid(), attributes, file)
    }

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
        // The agent has to see that the controller asks, not its recorder.
        let kernel = agent::source_if_wanted(pid, &attributes)?;
        // Away from the standard descriptors, which the recorder gives up.
        let log = protocol::duplicate(file).map_err(|error| CreateError::Log(error.into()))?;
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
        area::streams_changed();
        Ok(Self {
            conversation: Conversation::new(socket, Lending::to(recorder, Arc::clone(&activity))),
            attributes,
            is_shut_down: false,
            recorder,
            clock: RealtimeClock::new(),
            filter: EventSet::EMPTY,
            activity,
            names: HashMap::new(),
            own_types: OwnTypes {
                is_traced: pid == tracer_area::own_pid(),
                told: EventSet::EMPTY,
            },
        })
    }

    /// Returns the attributes that the stream has.
    #[must_use]
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Starts the stream.
    ///
    /// # Errors
    ///
    /// See [`RecorderGone`].
    #[doc(alias = "posix_trace_start")]
    pub fn start(&mut self) -> Result<(), RecorderGone> {
        self.start_for(caller(0))
    }

    #[doc(hidden)]
    pub fn start_for(&mut self, caller: Origin) -> Result<(), RecorderGone> {
        // A child may be the first to use one of these types.
        self.tell_own_types()?;
        self.ask_to(&Request::Start(self.call(caller)))
    }

    /// Stops the stream.
    ///
    /// # Errors
    ///
    /// See [`RecorderGone`].
    #[doc(alias = "posix_trace_stop")]
    pub fn stop(&mut self) -> Result<(), RecorderGone> {
        self.stop_for(caller(0))
    }

    #[doc(hidden)]
    pub fn stop_for(&mut self, caller: Origin) -> Result<(), RecorderGone> {
        self.ask_to(&Request::Stop(self.call(caller)))
    }

    /// Drops all that stream and log hold.
    ///
    /// # Errors
    ///
    /// See [`LogCallError`].
    pub fn clear(&mut self) -> Result<(), LogCallError> {
        let cleared = self.ask(&Request::Clear(self.call(Origin::NONE)))?;
        self.conversation.forget_event();
        self.filter = EventSet::EMPTY;
        LogCallError::check(&cleared)
    }

    /// Flushes the stream to its log, and returns when that is done.
    ///
    /// # Errors
    ///
    /// See [`LogCallError`].
    #[doc(alias = "posix_trace_flush")]
    pub fn flush(&mut self) -> Result<(), LogCallError> {
        self.flush_for(caller(0))
    }

    #[doc(hidden)]
    pub fn flush_for(&mut self, caller: Origin) -> Result<(), LogCallError> {
        LogCallError::check(&self.ask(&Request::Flush(self.call(caller)))?)
    }

    /// Changes the filter.
    ///
    /// # Errors
    ///
    /// See [`RecorderGone`].
    #[doc(alias = "posix_trace_set_filter")]
    pub fn set_filter(&mut self, set: &EventSet, how: Filtering) -> Result<(), RecorderGone> {
        self.set_filter_for(set, how, caller(0))
    }

    #[doc(hidden)]
    pub fn set_filter_for(
        &mut self,
        set: &EventSet,
        how: Filtering,
        caller: Origin,
    ) -> Result<(), RecorderGone> {
        self.tell_own_types()?;
        let request = Request::SetFilter {
            set: *set.words(),
            how: how.into(),
            call: self.call(caller),
        };
        self.ask_to(&request)?;
        self.filter = how.apply(&self.filter, set);
        Ok(())
    }

    /// Returns the set of types that are not recorded, without asking the recorder.
    #[must_use]
    pub fn filter(&self) -> EventSet {
        self.filter
    }

    /// Returns the recorder's activity, for threads that must not wait for the answer to a request
    /// of this stream.
    #[doc(hidden)]
    pub fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// Returns the status as the recorder knows it now; losses and the error of a flush are
    /// reported once. If the recorder does not answer at once, the status is the one that it
    /// reported last.
    ///
    /// # Errors
    ///
    /// See [`RecorderGone`].
    pub fn status(&mut self) -> Result<LoggedStatus, RecorderGone> {
        self.conversation.refresh_status()?;
        Ok(self.activity.status())
    }

    /// Returns the oldest event that was neither flushed nor shown yet, with its data and its time.
    /// It stays in the stream. If the recorder does not answer at once, this returns `None`, and a
    /// later call returns the event.
    ///
    /// # Errors
    ///
    /// See [`RecorderGone`].
    pub fn show_next(
        &mut self,
    ) -> Result<Option<(EventHeader, Vec<u8>, RealtimeNs)>, RecorderGone> {
        Ok(self.conversation.next_event()?.map(|event| {
            self.clock.look();
            let header = event.header();
            (header, event.data, self.clock.time(header.time))
        }))
    }

    /// Returns the event that [`show_next`](Self::show_next) would return, with memory of its own
    /// and the name of its type.
    ///
    /// # Errors
    ///
    /// See [`RecorderGone`].
    pub fn show_next_owned(&mut self) -> Result<Option<OwnedEvent>, RecorderGone> {
        let Some((header, data, realtime)) = self.show_next()? else {
            return Ok(None);
        };
        let id = header.event_type;
        let name = match self.names.get(&id) {
            Some(name) => name.clone(),
            None => match self.event_type_name(id)? {
                Some(name) => {
                    let name = EventName::new(&name);
                    self.names.insert(id, name.clone());
                    name
                }
                None => EventName::new(format!("#{}", id.0).as_bytes()),
            },
        };
        let event = Event {
            header,
            data: &data,
        };
        Ok(Some(OwnedEvent::new(&event, realtime, name)))
    }

    /// Returns the id of the user event type `name`; defines it where it is new.
    ///
    /// # Errors
    ///
    /// See [`RecorderGone`].
    pub fn define_event_type(&mut self, name: &[u8]) -> Result<EventTypeId, RecorderGone> {
        if !self.own_types.is_traced {
            return self.define_as(name, None);
        }
        match tracer_area::define_own_name(name) {
            Ok(EventTypeId::UNNAMED_USEREVENT) => Ok(EventTypeId::UNNAMED_USEREVENT),
            own => self.define_as(name, own.ok()),
        }
    }

    fn define_as(
        &mut self,
        name: &[u8],
        id: Option<EventTypeId>,
    ) -> Result<EventTypeId, RecorderGone> {
        let request = Request::DefineEventType(name.to_vec(), id.map(|id| id.0));
        let id = self.ask(&request)?.event_type().flatten();
        id.map(EventTypeId).ok_or(RecorderGone)
    }

    /// Tells the recorder of the types that this process has opened since the last time.
    fn tell_own_types(&mut self) -> Result<(), RecorderGone> {
        if self.own_types.is_traced {
            let told = self.own_types.told;
            for (id, name) in tracer_area::own_event_types_but(&told) {
                self.define_as(&name, Some(id))?;
                self.own_types.told.insert(id);
            }
        }
        Ok(())
    }

    /// Returns the name of a type, if it has one.
    ///
    /// # Errors
    ///
    /// See [`RecorderGone`].
    pub fn event_type_name(&mut self, id: EventTypeId) -> Result<Option<Vec<u8>>, RecorderGone> {
        self.tell_own_types()?;
        let reply = self.ask(&Request::EventTypeName(id.0))?;
        reply.name().ok_or(RecorderGone)
    }

    /// Returns the first type with this id or a higher one.
    ///
    /// # Errors
    ///
    /// See [`RecorderGone`].
    pub fn event_type_from(
        &mut self,
        id: EventTypeId,
    ) -> Result<Option<EventTypeId>, RecorderGone> {
        self.tell_own_types()?;
        let reply = self.ask(&Request::EventTypeFrom(id.0))?;
        let id = reply.event_type().ok_or(RecorderGone)?;
        Ok(id.map(EventTypeId))
    }

    /// Stops the stream, flushes it, and completes the log.
    ///
    /// # Errors
    ///
    /// See [`LogCallError`]: the stream is ended all the same.
    #[doc(alias = "posix_trace_shutdown")]
    pub fn shut_down(self) -> Result<(), LogCallError> {
        self.shut_down_for(caller(0))
    }

    #[doc(hidden)]
    pub fn shut_down_for(mut self, caller: Origin) -> Result<(), LogCallError> {
        LogCallError::check(&self.end(caller)?)
    }

    fn end(&mut self, caller: Origin) -> Result<Reply, RecorderGone> {
        self.is_shut_down = true;
        // A shutdown waits for the disk in any case, and events that it leaves behind cannot be
        // read later: so it waits for emissions under way.
        let terms = CallTerms {
            is_urgent: false,
            ..self.terms()
        };
        let reply = self.ask(&Request::Shutdown(Call::new(caller, terms)));
        process::reap(self.recorder);
        reply
    }

    /// Begins a call that waits for emissions under way. Emissions of this process are restarted,
    /// so that the recorder need not wait for them.
    fn call(&self, caller: Origin) -> Call {
        Call::new(caller, self.terms())
    }

    fn terms(&self) -> CallTerms {
        area::call_terms(self.own_types.is_traced)
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, RecorderGone> {
        self.conversation.ask(request)
    }

    /// Asks for what does not fail, except where the recorder has no memory and has completed the
    /// log: then it records nothing more.
    fn ask_to(&mut self, request: &Request) -> Result<(), RecorderGone> {
        let reply = self.ask(request)?;
        if matches!(reply, Reply::Failed(_)) {
            return Err(RecorderGone);
        }
        Ok(())
    }
}

impl Drop for LoggedStream {
    fn drop(&mut self) {
        if !self.is_shut_down {
            // If this fails, the recorder completes the log when it finds that its controller is
            // gone.
            let _ = self.end(Origin::NONE);
        }
    }
}
