//! Waiting for events, and going through them.

use std::time::{Duration, Instant};

use tracer_engine::event::OwnedEvent;

use super::Stream;
use super::traced::Traced;

/// How often a stream is looked at whose events come from elsewhere too: a trace point wakes its
/// reader, and the agent does not.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How often it is made sure that the process that is traced has not ended, which wakes no reader.
const TARGET_LOOK: Duration = Duration::from_millis(100);

impl Stream {
    /// The oldest event; waits for one.
    ///
    /// `None` when none can come any more: the stream is stopped and empty; or the process that it
    /// traces has ended, and its children are not traced.
    ///
    /// ```
    /// use tracer_posix::{Attributes, Stream, UserEvent};
    ///
    /// let request = UserEvent::open("request")?;
    /// let mut stream = Stream::create_for_self(&Attributes::default())?;
    /// stream.start();
    /// let emitting = std::thread::spawn(move || request.emit(b"hello"));
    /// while let Some(traced) = stream.next() {
    ///     println!("{}", traced.name());
    ///     if traced.event.data == b"hello" {
    ///         stream.stop();
    ///     }
    /// }
    /// emitting.join().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "posix_trace_getnext_event")]
    #[expect(
        clippy::should_implement_trait,
        reason = "what it returns is lent; `events()` is an iterator"
    )]
    pub fn next(&mut self) -> Option<Traced<'_>> {
        self.wait(None);
        self.try_next()
    }

    /// Returns the oldest event; waits for one, but not longer than `timeout`. Like
    /// [`next`](Self::next) it does not wait for what cannot come.
    #[doc(alias = "posix_trace_timedgetnext_event")]
    pub fn next_within(&mut self, timeout: Duration) -> Option<Traced<'_>> {
        self.wait(Some(timeout));
        self.try_next()
    }

    /// Returns all events, each waited for as by [`next`](Self::next).
    ///
    /// ```
    /// use tracer_posix::{Attributes, Stream, UserEvent};
    ///
    /// let request = UserEvent::open("request")?;
    /// let mut stream = Stream::create_for_self(&Attributes::default())?;
    /// stream.start();
    /// request.emit(b"hello");
    /// stream.stop();
    /// let names: Vec<String> = stream.events().map(|event| event.name.to_string()).collect();
    /// assert_eq!(names, ["posix_trace_start", "request", "posix_trace_stop"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn events(&mut self) -> Events<'_> {
        Events { stream: self }
    }

    /// Returns the events that are there, as [`try_next`](Self::try_next) gives them.
    pub fn try_events(&mut self) -> TryEvents<'_> {
        TryEvents { stream: self }
    }

    /// As [`try_next`](Self::try_next), for who holds the event for longer.
    pub fn try_next_owned(&mut self) -> Option<OwnedEvent> {
        // The name is looked up in names that are known: it costs no memory of its own.
        let Self { names, .. } = self;
        let mut names = std::mem::take(names);
        let owned = self.try_next().map(|traced| {
            let name = names.name(traced.event_types(), traced.event.header.event_type);
            OwnedEvent::new(&traced.event, traced.realtime, name)
        });
        self.names = names;
        owned
    }

    /// Waits until an event is held, or none can come any more, or for so long.
    fn wait(&mut self, timeout: Option<Duration>) {
        let since = Instant::now();
        while self.stream.held() == 0 {
            self.stream.fetch();
            self.clock.look();
            let left = timeout.map_or(Duration::MAX, |timeout| {
                timeout.saturating_sub(since.elapsed())
            });
            if self.stream.held() > 0 || left.is_zero() || self.is_over() {
                break;
            }
            if let Some(nap) = self.nap() {
                std::thread::sleep(left.min(nap));
                continue;
            }
            let most = match self.target {
                Some(_) => TARGET_LOOK,
                // The kernel counts no further.
                None => Duration::from_secs(1 << 20),
            };
            self.stream.sleep(left.min(most), LOOK_EVERY);
        }
    }

    /// Returns for how long the reader sleeps before it looks again, while events come: so no
    /// thread that emits has to wake it. A real-time thread is woken.
    #[doc(hidden)]
    pub fn nap(&self) -> Option<Duration> {
        self.flow
            .nap(tracer_area::monotonic_now())
            .filter(|_| !tracer_area::is_caller_real_time())
    }

    /// Tells whether no event is there, and none can come.
    pub(super) fn is_over(&mut self) -> bool {
        if !self.stream.is_open() {
            return self.stream.held() == 0;
        }
        let has_ended = self
            .target
            .as_ref()
            .is_some_and(|target| target.has_ended());
        if has_ended {
            // What it has emitted until then is there, or comes now.
            self.stream.settle();
        }
        has_ended && self.stream.held() == 0
    }
}

/// The events of a stream, each waited for.
#[derive(Debug)]
pub struct Events<'s> {
    stream: &'s mut Stream,
}

impl Iterator for Events<'_> {
    type Item = OwnedEvent;

    fn next(&mut self) -> Option<OwnedEvent> {
        self.stream.wait(None);
        self.stream.try_next_owned()
    }
}

/// The events of a stream that are there.
#[derive(Debug)]
pub struct TryEvents<'s> {
    stream: &'s mut Stream,
}

impl Iterator for TryEvents<'_> {
    type Item = OwnedEvent;

    fn next(&mut self) -> Option<OwnedEvent> {
        self.stream.try_next_owned()
    }
}
