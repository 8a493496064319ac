//! An active stream without a log.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use tracer_common::event_type::{EventTypeId, TRACE_EVENT_NAME_MAX};

use super::poll::Readiness;
use super::traced::Traced;
use super::{CreateError, RealtimeClock};
use crate::agent;
use crate::stream_limit::Counted;
use tracer_area::{
    Bell, DeferredSource, NameTooLong, RingMode, StreamRequest, monotonic_now, own_pid,
    own_thread_id, own_tid, realtime_now,
};
use tracer_engine::event::KnownNames;
use tracer_engine::source::Source;
use tracer_engine::{
    ActiveStream, Attributes, EventSet, EventTypes, Filtering, Flow, Inheritance, Origin, Status,
};

/// An active trace stream without a log. Dropping it shuts it down.
pub struct Stream {
    pub(super) stream: ActiveStream,
    attributes: Attributes,
    pub(super) clock: RealtimeClock,
    /// The bell that wakes a reader that waits for signals as well. Made when such a reader first
    /// sleeps.
    pub(super) bell: Option<Arc<Bell>>,
    /// The descriptor that can be read when there is an event, where the program asked for it.
    pub(super) readiness: Option<Readiness>,
    /// Times of the last events that the reader was given.
    pub(super) flow: Flow,
    /// Names of types, for events that outlive the next call.
    pub(super) names: KnownNames,
    /// The process that is traced, if no event can come after its end.
    pub(super) target: Option<Target>,
    _counted: Counted,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream")
            .field("attributes", &self.attributes)
            .finish_non_exhaustive()
    }
}

/// The sources of a stream's events, and its entry in the count of streams.
struct Sources {
    all: Vec<Box<dyn Source>>,
    counted: Counted,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(bell) = &self.bell {
            if self.readiness.is_some() {
                // The caller that waited for the descriptor has dropped the stream.
                bell.leave();
            }
            bell.end();
        }
    }
}

impl Stream {
    /// Makes a stream that traces process `pid`: suspended, empty, with an empty filter.
    ///
    /// # Errors
    ///
    /// See [`CreateError`].
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_create()`.
    #[doc(alias = "posix_trace_create")]
    pub fn create(pid: i32, attributes: &Attributes) -> Result<Self, CreateError> {
        Self::create_on_heap(pid, attributes).map(|stream| *stream)
    }

    /// Makes a stream like [`create`](Self::create), on the heap: it is large, and a thread may
    /// have little stack.
    #[doc(hidden)]
    pub fn create_on_heap(pid: i32, attributes: &Attributes) -> Result<Box<Self>, CreateError> {
        let sources = Self::sources(pid, attributes)?;
        Self::with_sources(pid, attributes, sources)
    }

    /// Opens the sources of its events.
    #[inline(never)]
    fn sources(pid: i32, attributes: &Attributes) -> Result<Sources, CreateError> {
        let attributes = attributes.for_stream_without_log()?;
        let counted = Counted::new()?;
        let policy = attributes.stream_full_policy();
        let request = StreamRequest {
            target: Some(pid),
            inherit: attributes.inheritance() == Inheritance::Inherited,
            is_only_source: !agent::are_wanted(&attributes),
            bytes: attributes.stream_min_size(),
            mode: RingMode::for_policy(policy),
            max_data: attributes.max_data_size(),
            lease: None,
        };
        let source = DeferredSource::open(pid, request)?;
        let mut sources = Sources {
            all: vec![Box::new(source)],
            counted,
        };
        if let Some(kernel) = agent::source_if_wanted(pid, &attributes)? {
            sources.all.push(Box::new(kernel));
        }
        Ok(sources)
    }

    #[inline(never)]
    fn with_sources(
        pid: i32,
        attributes: &Attributes,
        sources: Sources,
    ) -> Result<Box<Self>, CreateError> {
        let mut attributes = attributes.for_stream_without_log()?;
        attributes.creation_time = realtime_now();
        let policy = attributes.stream_full_policy();
        let capacity = attributes.stream_min_size();
        let mut made = Box::new(Self {
            stream: ActiveStream::new(policy, capacity, monotonic_now),
            target: Target::open(pid, &attributes),
            attributes,
            clock: RealtimeClock::new(),
            bell: None,
            readiness: None,
            flow: Flow::default(),
            names: KnownNames::default(),
            _counted: sources.counted,
        });
        for source in sources.all {
            made.stream.add_source(source);
        }
        Ok(made)
    }

    /// Makes a stream that traces this process.
    ///
    /// # Errors
    ///
    /// See [`CreateError`].
    pub fn create_for_self(attributes: &Attributes) -> Result<Self, CreateError> {
        Self::create(own_pid(), attributes)
    }

    /// Returns the attributes that the stream has.
    #[doc(alias = "posix_trace_get_attr")]
    #[must_use]
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Starts the stream. One that runs, or is full, is left as it is.
    #[doc(alias = "posix_trace_start")]
    pub fn start(&mut self) {
        self.start_for(caller(0));
    }

    /// Stops the stream; what is recorded stays readable.
    #[doc(alias = "posix_trace_stop")]
    pub fn stop(&mut self) {
        self.stop_for(caller(0));
    }

    /// Drops everything recorded so far, and the filter.
    #[doc(alias = "posix_trace_clear")]
    pub fn clear(&mut self) {
        self.begin_call();
        self.stream.clear();
    }

    /// Returns the set of types that are not recorded.
    #[doc(alias = "posix_trace_get_filter")]
    #[must_use]
    pub fn filter(&self) -> &EventSet {
        self.stream.filter()
    }

    /// Changes the set of types that are not recorded.
    #[doc(alias = "posix_trace_set_filter")]
    pub fn set_filter(&mut self, set: &EventSet, how: Filtering) {
        self.set_filter_for(set, how, caller(0));
    }

    /// Returns the status now. It reports once that events were lost.
    #[doc(alias = "posix_trace_get_status")]
    pub fn status(&mut self) -> Status {
        self.stream.status()
    }

    /// Returns the user event type `name`, in the target as well as in this stream.
    ///
    /// # Errors
    ///
    /// [`NameTooLong`] (`ENAMETOOLONG`).
    #[doc(alias = "posix_trace_trid_eventid_open")]
    pub fn define_event_type(&mut self, name: &[u8]) -> Result<EventTypeId, NameTooLong> {
        if name.len() > TRACE_EVENT_NAME_MAX {
            return Err(NameTooLong { length: name.len() });
        }
        Ok(self.stream.define_event_type(name))
    }

    /// Returns the event types that are known now.
    #[doc(alias = "posix_trace_eventid_get_name")]
    #[doc(alias = "posix_trace_eventtypelist_getnext_id")]
    pub fn event_types(&mut self) -> &EventTypes {
        self.stream.learn_event_types();
        self.stream.event_types()
    }

    /// Returns the oldest event, if one is available without collecting.
    #[doc(hidden)]
    #[inline(always)]
    pub fn next_held(&mut self) -> Option<Traced<'_>> {
        let (event, types) = self.stream.next_event_and_types()?;
        let realtime = self.clock.time(event.header.time);
        self.flow.came(event.header.time);
        Some(Traced::new(event, realtime, types))
    }

    /// Returns the oldest event, if one is there. It is taken out of the stream.
    ///
    /// ```
    /// # use tracer_posix::{Attributes, Stream, UserEvent};
    /// # let request = UserEvent::open("request")?;
    /// # let mut stream = Stream::create_for_self(&Attributes::default())?;
    /// # stream.start();
    /// # request.emit(b"hello");
    /// # let mut found = Vec::new();
    /// while let Some(traced) = stream.try_next() {
    ///     println!("{} of process {}", traced.name(), traced.event.header.pid);
    ///     # found.push(traced.name().into_owned());
    /// }
    /// # assert_eq!(found, ["posix_trace_start", "request"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "posix_trace_trygetnext_event")]
    #[inline]
    pub fn try_next(&mut self) -> Option<Traced<'_>> {
        if self.stream.held() == 0 {
            self.stream.fetch();
            self.clock.look();
            if self.stream.held() == 0 && self.readiness.is_some() {
                self.wait_for_next();
            }
        }
        self.next_held()
    }

    /// Returns the most bytes of memory that collecting all events takes.
    #[doc(hidden)]
    pub fn memory_needed(&self) -> usize {
        self.stream.memory_needed()
    }

    /// Sets whether there is too little memory to collect anything.
    #[doc(hidden)]
    pub fn set_poor(&mut self, is_poor: bool) {
        self.stream.set_poor(is_poor);
    }

    #[doc(hidden)]
    pub fn start_for(&mut self, caller: Origin) {
        self.begin_call();
        self.stream.start(caller);
        self.ring();
    }

    #[doc(hidden)]
    pub fn stop_for(&mut self, caller: Origin) {
        self.begin_call();
        self.stream.stop(caller);
        self.ring();
    }

    #[doc(hidden)]
    pub fn set_filter_for(&mut self, set: &EventSet, how: Filtering, caller: Origin) {
        self.begin_call();
        self.stream.set_filter(set, how, caller);
        self.ring();
    }

    /// Begins a call that waits for emissions under way. (Emissions of this process are restarted
    /// in any case, since this process reads them.)
    fn begin_call(&mut self) {
        self.stream.set_terms(tracer_area::call_terms(false));
    }

    /// Announces that the reader is about to sleep; it has to collect once more before that.
    /// Returns the bell that wakes it; `None` where it has to look again and again.
    #[doc(hidden)]
    pub fn announce_sleep(&mut self) -> Option<&Arc<Bell>> {
        if self.bell.is_none() {
            let word = self.stream.waiting_word()?;
            self.bell = Bell::new(word).ok();
        }
        self.bell.as_ref().filter(|_| self.stream.announce_sleep())
    }

    /// Returns the bell that wakes the reader, if the reader has slept before.
    #[doc(hidden)]
    pub fn bell(&self) -> Option<&Arc<Bell>> {
        self.bell.as_ref()
    }

    /// Rings the bell: the stream may have an event of its own, which a sleeping reader has to
    /// collect.
    pub(super) fn ring(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }
}

/// Process that a stream traces, if no event can come after its end: another process than this one,
/// whose children are not traced.
#[derive(Debug)]
pub(super) struct Target {
    /// Readable when it has ended.
    process: Arc<OwnedFd>,
}

impl Target {
    /// Returns the process `pid`; `None` where events may come after its end, or where its end
    /// cannot be noticed.
    pub fn open(pid: i32, attributes: &Attributes) -> Option<Self> {
        if pid == own_pid() || attributes.inheritance() == Inheritance::Inherited {
            return None;
        }
        // SAFETY: takes no pointers.
        let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let process = RawFd::try_from(process).ok().filter(|fd| *fd >= 0)?;
        Some(Self {
            // SAFETY: just opened, and no other value owns it.
            process: Arc::new(unsafe { OwnedFd::from_raw_fd(process) }),
        })
    }

    /// Returns a descriptor that can be read when it has ended.
    #[cfg(feature = "async")]
    pub fn file(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.process)
    }

    /// Tells whether it has ended.
    pub fn has_ended(&self) -> bool {
        let mut polled = libc::pollfd {
            fd: self.process.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&raw mut polled, 1, 0) == 1 }
    }
}

/// Returns the calling thread, and the address that it calls from; 0 where that is not known.
#[doc(hidden)]
#[must_use]
pub fn caller(address: u64) -> Origin {
    Origin {
        pid: own_pid(),
        tid: own_tid(),
        thread_id: own_thread_id(),
        program_address: address,
    }
}
