//! Spans for Rust programs, without `tracing`.

use std::marker::PhantomData;

use tracer_area::{self as area, NameTooLong};
use tracer_common::event_type::TRACE_EVENT_NAME_MAX;

use crate::emit::UserEvent;

/// A kind of span: a time with a beginning and an end, on one thread.
///
/// A span of the kind `x` lies between two events, of the types `x begin` and `x end`. In C,
/// `posix_trace_begin_np()` and `posix_trace_end_np()` mark such a span. `tracer-user why` says why
/// it took as long as it did. Spans may be nested.
///
/// ```
/// use tracer_posix::{Attributes, Stream, UserSpan};
///
/// let request = UserSpan::open("request")?;
/// # let mut stream = Stream::create_for_self(&Attributes::default())?;
/// # stream.start();
/// {
///     let _span = request.enter();
///     // The span covers what is done here.
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
    /// Returns the kind of span with this name; equal names give equal kinds. A kind takes two user
    /// event types.
    ///
    /// When all `{TRACE_USER_EVENT_MAX}` types are used up, the events of a new kind are
    /// [unnamed](UserEvent::UNNAMED), and readers do not see spans in them.
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

    /// Begins a span, which ends when the guard that this returns is dropped.
    #[inline(always)]
    #[must_use = "the span ends when this is dropped"]
    pub fn enter(self) -> SpanGuard {
        self.enter_with(b"")
    }

    /// Begins a span with this data, which ends when the guard that this returns is dropped.
    #[inline(always)]
    #[must_use = "the span ends when this is dropped"]
    pub fn enter_with(self, data: &[u8]) -> SpanGuard {
        self.begin.emit(data);
        SpanGuard {
            end: self.end,
            on_its_thread: PhantomData,
        }
    }

    /// Calls `act` within a span.
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

/// A span that has begun. Dropping the guard ends the span, on the thread that began it.
#[derive(Debug)]
#[must_use = "the span ends when this is dropped"]
pub struct SpanGuard {
    end: UserEvent,
    /// Keeps the guard on its thread: a span belongs to one thread.
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

/// Returns `NAME WORD`; where that is too long, the word first, and as much of the name as fits.
/// The C functions do the same.
fn border_name(name: &str, word: &str) -> Vec<u8> {
    if name.len() + 1 + word.len() <= TRACE_EVENT_NAME_MAX {
        return format!("{name} {word}").into_bytes();
    }
    let mut whole = format!("{word} {name}").into_bytes();
    whole.truncate(TRACE_EVENT_NAME_MAX);
    whole
}
