//! Waiting for events, and going through them.

use std::time::{Duration, Instant};

use tracer_engine::event::OwnedEvent;

use super::Stream;
use super::traced::Traced;

/// How often the reader looks at a stream that has events from the agent too: trace points wake the
/// reader, the agent does not.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How often the reader checks whether the traced process has ended, which does not wake it.
const TARGET_LOOK: Duration = Duration::from_millis(100);

impl Stream {
    /// Returns the oldest event; waits for one.
    ///
    /// Returns `None` when no event can come any more: the stream is stopped and empty; or the
    /// process that it traces has ended, and its children are not traced.
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
    /// [`next`](Self::next), it does not wait when no event can come any more.
    #[doc(alias = "posix_trace_timedgetnext_event")]
    pub fn next_within(&mut self, timeout: Duration) -> Option<Traced<'_>> {
        self.wait(Some(timeout));
        self.try_next()
    }

    /// Returns an iterator over the events, which waits for each as [`next`](Self::next) does.
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

    /// Returns the oldest event, if one is there, with memory of its own.
    pub fn try_next_owned(&mut self) -> Option<OwnedEvent> {
        // Known names are shared: a name takes no memory of its own.
        let Self { names, .. } = self;
        let mut names = std::mem::take(names);
        let owned = self.try_next().map(|traced| {
            let name = names.name(traced.event_types(), traced.event.header.event_type);
            OwnedEvent::new(&traced.event, traced.realtime, name)
        });
        self.names = names;
        owned
    }

    /// Waits until an event is held, no event can come any more, or `timeout` has passed.
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
                // This is 12 days: the loop sleeps again after them.
                None => Duration::from_secs(1 << 20),
            };
            self.stream.sleep(left.min(most), LOOK_EVERY);
        }
    }

    /// Returns for how long the reader sleeps before it looks again, while events come: no thread
    /// that emits has to wake it then. Returns `None` if emitters wake the reader: no event came
    /// lately, or the reader is a real-time thread.
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
            // Collects what the process emitted before its end.
            self.stream.settle();
        }
        has_ended && self.stream.held() == 0
    }
}

/// Iterator over the events of a stream, which waits for each.
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

/// Iterator over the events of a stream that are there.
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
