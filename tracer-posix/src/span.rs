//! Spans for Rust programs, without `tracing`.

use std::marker::PhantomData;

use tracer_area::{self as area, NameTooLong};
use tracer_common::event_type::TRACE_EVENT_NAME_MAX;

use crate::emit::UserEvent;

/// A kind of span: a time with a beginning and an end, on one thread.
///
/// A span of the type `x` lies between two events, of the types `x begin` and `x end`, as one that
/// `posix_trace_begin_np()` and `posix_trace_end_np()` mark: `tracer-user why` says why it took as
/// long as it did. Spans lie within each other.
///
/// ```
/// use tracer_posix::{Attributes, Stream, UserSpan};
///
/// let request = UserSpan::open("request")?;
/// # let mut stream = Stream::create_for_self(&Attributes::default())?;
/// # stream.start();
/// {
///     let _span = request.enter();
///     // What is done here is the span.
/// }
/// # stream.stop();
/// # let names: Vec<_> = stream.events().map(|event| event.name.to_string()).collect();
/// # assert_eq!(names[1..3], ["request begin", "request end"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "posix_trace_begin_np")]
#[doc(alias = "posix_trace_end_np")]
pub struct UserSpan {
    begin: UserEvent,
    end: UserEvent,
}

impl UserSpan {
    /// Returns the kind of span of this name; equal names give equal kinds. It takes two user event
    /// types.
    ///
    /// When all `{TRACE_USER_EVENT_MAX}` types are used up, its events are
    /// [unnamed](UserEvent::UNNAMED), and are not known to be a span.
    ///
    /// # Errors
    ///
    /// [`NameTooLong`] (`ENAMETOOLONG`).
    pub fn open(name: &str) -> Result<Self, NameTooLong> {
        if name.len() > TRACE_EVENT_NAME_MAX {
            return Err(NameTooLong { length: name.len() });
        }
        let open = |word| {
            let id = area::define_own_name(&border_name(name, word))?;
            Ok(UserEvent::from_id(id))
        };
        Ok(Self {
            begin: open("begin")?,
            end: open("end")?,
        })
    }

    /// Begins a span, which ends when what this returns is dropped.
    #[inline(always)]
    #[must_use = "the span ends when this is dropped"]
    pub fn enter(self) -> SpanGuard {
        self.enter_with(b"")
    }

    /// Begins a span with this data, which ends when what this returns is dropped.
    #[inline(always)]
    #[must_use = "the span ends when this is dropped"]
    pub fn enter_with(self, data: &[u8]) -> SpanGuard {
        self.begin.emit(data);
        SpanGuard {
            end: self.end,
            on_its_thread: PhantomData,
        }
    }

    /// Does something within a span.
    #[inline(always)]
    pub fn in_scope<R>(self, act: impl FnOnce() -> R) -> R {
        let _span = self.enter();
        act()
    }

    /// Returns the type of its beginnings.
    #[must_use]
    pub const fn begin(self) -> UserEvent {
        self.begin
    }

    /// Returns the type of its ends.
    #[must_use]
    pub const fn end(self) -> UserEvent {
        self.end
    }
}

/// A span that has begun. Dropping it ends it, on the thread that has begun it.
#[derive(Debug)]
#[must_use = "the span ends when this is dropped"]
pub struct SpanGuard {
    end: UserEvent,
    /// A span is its thread's.
    on_its_thread: PhantomData<*const ()>,
}

impl SpanGuard {
    /// Ends the span with this data.
    #[inline(always)]
    pub fn exit_with(self, data: &[u8]) {
        self.end.emit(data);
        std::mem::forget(self);
    }
}

impl Drop for SpanGuard {
    #[inline(always)]
    fn drop(&mut self) {
        self.end.emit(b"");
    }
}

/// `NAME WORD`; where that is too long, the word in front, and as much of the name as fits, as in
/// C.
fn border_name(name: &str, word: &str) -> Vec<u8> {
    if name.len() + 1 + word.len() <= TRACE_EVENT_NAME_MAX {
        return format!("{name} {word}").into_bytes();
    }
    let mut whole = format!("{word} {name}").into_bytes();
    whole.truncate(TRACE_EVENT_NAME_MAX);
    whole
}
