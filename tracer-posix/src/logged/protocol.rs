//! Protocol between controller and recorder: one request, one reply, each a message of its own.

use serde::{Deserialize, Serialize};

use tracer_common::event_type::EVENT_SET_WORDS;

use crate::wire::SentEvent;
use tracer_engine::source::BegunAnew;
use tracer_engine::{CallTerms, Filtering, Origin};

/// More than the longest message: an event with the most data.
pub(super) const MESSAGE_BYTES: usize = tracer_engine::sizes::MAX_USER_DATA + 4096;

/// A request of the controller.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    Start(Call),
    Stop(Call),
    Clear(Call),
    SetFilter {
        set: [u64; EVENT_SET_WORDS],
        how: How,
        call: Call,
    },
    Flush(Call),
    /// Collects, and reports in shared memory how things are.
    Status,
    ShowNext,
    /// A name, and the identifier that it has in the target, where that is known.
    DefineEventType(Vec<u8>, Option<u32>),
    /// The name of a type.
    EventTypeName(u32),
    /// The first type from an id on.
    EventTypeFrom(u32),
    Shutdown(Call),
}

/// A reply of the recorder.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// Said first: the stream is made. The recorder's process.
    Ready(i32),
    /// Said first, by the program: it cannot have the rights that its controller has.
    Unfit,
    Done,
    /// An error number.
    Failed(i32),
    Event(Option<SentEvent>),
    EventType(Option<u32>),
    Name(Option<Vec<u8>>),
}

impl Reply {
    /// Returns the type that it names, if it answers that question.
    pub fn event_type(&self) -> Option<Option<u32>> {
        if let Self::EventType(id) = self {
            Some(*id)
        } else {
            None
        }
    }

    /// Returns the name, if it answers that question.
    pub fn name(self) -> Option<Option<Vec<u8>>> {
        if let Self::Name(name) = self {
            Some(name)
        } else {
            None
        }
    }
}

/// Status of a stream with a log, as `posix_trace_get_status()` reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LoggedStatus {
    /// Whether the stream records (`POSIX_TRACE_RUNNING`).
    pub is_running: bool,
    /// Whether its space is used up (`POSIX_TRACE_FULL`).
    pub is_full: bool,
    /// Whether it lost events since this was last asked (`POSIX_TRACE_OVERRUN`).
    pub is_overrun: bool,
    /// Whether a flush is going on (`POSIX_TRACE_FLUSHING`). What was lost is reported when it is
    /// over.
    pub is_flushing: bool,
    /// The error number of the first error of a flush since this was last asked; 0 for none.
    pub flush_error: i32,
    /// Whether the log's space is used up.
    pub is_log_full: bool,
    /// Whether the log lost events since this was last asked.
    pub is_log_overrun: bool,
}

/// A call that waits for emissions under way: who makes it, and on which terms.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Call {
    caller: Caller,
    /// [`BegunAnew`]: process and moment.
    begun_anew: Option<(i32, u64)>,
    is_urgent: bool,
}

impl Call {
    /// Makes that of `caller`, on these terms.
    pub fn new(caller: Origin, terms: CallTerms) -> Self {
        Self {
            caller: caller.into(),
            begun_anew: terms.begun_anew.map(|begun| (begun.pid, begun.ticks)),
            is_urgent: terms.is_urgent,
        }
    }

    pub fn caller(self) -> Origin {
        self.caller.into()
    }

    pub fn terms(self) -> CallTerms {
        let begun_anew = self.begun_anew;
        CallTerms {
            begun_anew: begun_anew.map(|(pid, ticks)| BegunAnew { pid, ticks }),
            is_urgent: self.is_urgent,
        }
    }
}

/// [`Origin`] as sent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Caller {
    pid: i32,
    tid: i32,
    thread_id: u64,
    program_address: u64,
}

impl From<Origin> for Caller {
    fn from(origin: Origin) -> Self {
        let Origin {
            pid,
            tid,
            thread_id,
            program_address,
        } = origin;
        Self {
            pid,
            tid,
            thread_id,
            program_address,
        }
    }
}

impl From<Caller> for Origin {
    fn from(caller: Caller) -> Self {
        let Caller {
            pid,
            tid,
            thread_id,
            program_address,
        } = caller;
        Self {
            pid,
            tid,
            thread_id,
            program_address,
        }
    }
}

/// [`Filtering`] as sent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum How {
    Set,
    Add,
    Sub,
}

impl From<Filtering> for How {
    fn from(how: Filtering) -> Self {
        match how {
            Filtering::Set => Self::Set,
            Filtering::Add => Self::Add,
            Filtering::Sub => Self::Sub,
        }
    }
}

impl From<How> for Filtering {
    fn from(how: How) -> Self {
        match how {
            How::Set => Self::Set,
            How::Add => Self::Add,
            How::Sub => Self::Sub,
        }
    }
}
