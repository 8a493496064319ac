//! The three kinds of stream that an identifier may name, and the functions that take each.
//!
//! | | active | active with log | pre-recorded |
//! |---|---|---|---|
//! | start, stop, clear, filter, define a type | yes | yes | `EINVAL` |
//! | flush | `EINVAL` | yes | `EINVAL` |
//! | status, attributes, event types, next event | yes | yes | yes |
//! | try to get the next event | yes | yes | `EINVAL` |
//! | rewind, close | `EINVAL` | `EINVAL` | yes |

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tracer_common::event_type::EventTypeId;

use tracer_area::Bell;
use tracer_area::descriptor::Guarded;
use tracer_engine::event::{Event, RealtimeNs};
use tracer_engine::{Attributes, EventSet, Filtering, Origin};
use tracer_log::{LogBytes, LogReader};
use tracer_posix::logged::Activity;
use tracer_posix::stream::{LogCallError, LoggedStatus, LoggedStream, RecorderGone, Stream};

use super::codes::Invalid;

/// A stream of one of the three kinds.
pub(super) enum Kind {
    Active(Box<Stream>),
    Logged(Box<LoggedStream>),
    Recorded(Box<LogReader<LogFile>>),
}

/// A log's file, in a program that may close its descriptor. What the program opens
/// under the same descriptor is never read.
#[derive(Debug)]
pub(super) struct LogFile(Guarded<File>);

impl LogFile {
    pub fn new(file: File) -> io::Result<Self> {
        Guarded::new(file).map(Self)
    }
}

impl LogBytes for LogFile {
    fn length(&self) -> io::Result<u64> {
        self.0.get()?.length()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        LogBytes::read_at(self.0.get()?, buffer, offset)
    }
}

/// How hard to look for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// Take an event only if one is held already, without a system call.
    AtHand,
    /// Collect all events up to now.
    Collect,
}

/// The next event to read, or the reason why there is none.
pub(super) enum Next<'a> {
    Event(Event<'a>, RealtimeNs),
    /// No event; there may be one later.
    NotYet,
    /// There may be an event, but there is no memory to read it.
    NoMemory,
    /// The log ends here.
    AtEnd,
}

impl From<RecorderGone> for Invalid {
    fn from(_: RecorderGone) -> Self {
        Self
    }
}

/// 0, or an error number.
type Returned = Result<i32, Invalid>;

/// Converts the result of a call that wrote to a log into the value that the call returns.
fn returned(result: Result<(), LogCallError>) -> Returned {
    match result {
        Ok(()) => Ok(0),
        Err(LogCallError::Gone(RecorderGone)) => Err(Invalid),
        Err(error) => Ok(error.error_number()),
    }
}

/// For streams that are active.
impl Kind {
    pub(super) fn start(&mut self, caller: Origin) -> Result<(), Invalid> {
        match self {
            Self::Active(stream) => stream.start_for(caller),
            Self::Logged(stream) => stream.start_for(caller)?,
            Self::Recorded(_) => return Err(Invalid),
        }
        Ok(())
    }

    pub(super) fn stop(&mut self, caller: Origin) -> Result<(), Invalid> {
        match self {
            Self::Active(stream) => stream.stop_for(caller),
            Self::Logged(stream) => stream.stop_for(caller)?,
            Self::Recorded(_) => return Err(Invalid),
        }
        Ok(())
    }

    pub(super) fn clear(&mut self) -> Returned {
        match self {
            Self::Active(stream) => {
                stream.clear();
                Ok(0)
            }
            Self::Logged(stream) => returned(stream.clear()),
            Self::Recorded(_) => Err(Invalid),
        }
    }

    pub(super) fn flush(&mut self, caller: Origin) -> Returned {
        match self {
            Self::Logged(stream) => returned(stream.flush_for(caller)),
            Self::Active(_) | Self::Recorded(_) => Err(Invalid),
        }
    }

    /// Ends the stream. Returns the error number of its last flush, or 0.
    pub(super) fn shut_down(self, caller: Origin) -> Returned {
        match self {
            // The stream is dropped as this returns, and frees what it has in the target's area.
            Self::Active(_) => Ok(0),
            Self::Logged(stream) => returned(stream.shut_down_for(caller)),
            Self::Recorded(_) => Err(Invalid),
        }
    }

    pub(super) fn filter(&self) -> Option<EventSet> {
        match self {
            Self::Active(stream) => Some(*stream.filter()),
            Self::Logged(stream) => Some(stream.filter()),
            Self::Recorded(_) => None,
        }
    }

    pub(super) fn set_filter(
        &mut self,
        set: &EventSet,
        how: Filtering,
        caller: Origin,
    ) -> Result<(), Invalid> {
        match self {
            Self::Active(stream) => stream.set_filter_for(set, how, caller),
            Self::Logged(stream) => stream.set_filter_for(set, how, caller)?,
            Self::Recorded(_) => return Err(Invalid),
        }
        Ok(())
    }

    pub(super) fn define_event_type(&mut self, name: &[u8]) -> Result<EventTypeId, Invalid> {
        match self {
            Self::Active(stream) => Ok(stream
                .define_event_type(name)
                .map_err(|_too_long| Invalid)?),
            Self::Logged(stream) => Ok(stream.define_event_type(name)?),
            Self::Recorded(_) => Err(Invalid),
        }
    }

    /// Returns the status that the recorder shares, of a stream with a log.
    pub(super) fn activity(&self) -> Option<Arc<Activity>> {
        match self {
            Self::Logged(stream) => Some(Arc::clone(stream.activity())),
            Self::Active(_) | Self::Recorded(_) => None,
        }
    }

    /// Returns for how long a reader sleeps before it looks again, while events come; otherwise
    /// `None`.
    pub(super) fn nap(&self) -> Option<Duration> {
        match self {
            Self::Active(stream) => stream.nap(),
            Self::Logged(_) | Self::Recorded(_) => None,
        }
    }

    /// Announces that a reader is about to sleep; it has to look once more before that. Returns the
    /// bell that wakes it; `None` where it has to look again and again.
    pub(super) fn announce_sleep(&mut self) -> Option<&Arc<Bell>> {
        match self {
            Self::Active(stream) => stream.announce_sleep(),
            Self::Logged(_) | Self::Recorded(_) => None,
        }
    }

    /// Returns the bell that wakes the stream's reader, if one has slept before.
    pub(super) fn bell(&self) -> Option<&Arc<Bell>> {
        match self {
            Self::Active(stream) => stream.bell(),
            Self::Logged(_) | Self::Recorded(_) => None,
        }
    }

    /// Tells whether it is active, with a log or without one.
    pub(super) fn is_active(&self) -> bool {
        matches!(self, Self::Active(_) | Self::Logged(_))
    }
}

/// For streams that are pre-recorded.
impl Kind {
    pub(super) fn rewind(&mut self) -> Result<(), Invalid> {
        match self {
            Self::Recorded(log) => {
                log.rewind();
                Ok(())
            }
            Self::Active(_) | Self::Logged(_) => Err(Invalid),
        }
    }
}

/// For all streams.
impl Kind {
    pub(super) fn attributes(&self) -> Result<&Attributes, Invalid> {
        match self {
            Self::Active(stream) => Ok(stream.attributes()),
            Self::Logged(stream) => Ok(stream.attributes()),
            Self::Recorded(log) => Ok(&log.header().attributes),
        }
    }

    /// Returns the most bytes of memory that collecting takes.
    pub(super) fn memory_needed(&self) -> usize {
        match self {
            Self::Active(stream) => stream.memory_needed(),
            // Its recorder collects.
            Self::Logged(_) | Self::Recorded(_) => 0,
        }
    }

    /// Sets whether there is too little memory to collect anything.
    pub(super) fn set_poor(&mut self, is_poor: bool) {
        match self {
            Self::Active(stream) => stream.set_poor(is_poor),
            Self::Logged(_) | Self::Recorded(_) => {}
        }
    }

    pub(super) fn status(&mut self) -> Result<LoggedStatus, Invalid> {
        match self {
            Self::Active(stream) => {
                let status = stream.status();
                Ok(LoggedStatus {
                    is_running: status.is_running,
                    is_full: status.is_full,
                    is_overrun: status.is_overrun,
                    ..LoggedStatus::default()
                })
            }
            Self::Logged(stream) => Ok(stream.status()?),
            Self::Recorded(log) => Ok(recorded_status(log)),
        }
    }

    /// Returns the next event. An active stream without a log removes it; the others retain it.
    pub(super) fn next<'a>(
        &'a mut self,
        copy: &'a mut Vec<u8>,
        effort: Effort,
    ) -> Result<Next<'a>, Invalid> {
        match self {
            // The caller has already looked for what an active stream holds.
            Self::Active(_) | Self::Logged(_) if effort == Effort::AtHand => Ok(Next::NotYet),
            Self::Active(stream) => Ok(stream.try_next().map_or(Next::NotYet, |traced| {
                Next::Event(traced.event, traced.realtime)
            })),
            Self::Logged(stream) => {
                let Some((header, data, time)) = stream.show_next()? else {
                    return Ok(Next::NotYet);
                };
                *copy = data;
                Ok(Next::Event(Event { header, data: copy }, time))
            }
            Self::Recorded(log) => Ok(match log.next_record() {
                Ok(Some(record)) => Next::Event(record.event, record.realtime),
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => Next::NoMemory,
                // A log ends where it cannot be read.
                Ok(None) | Err(_) => Next::AtEnd,
            }),
        }
    }

    pub(super) fn event_type_name(&mut self, id: EventTypeId) -> Result<Vec<u8>, Invalid> {
        let name = match self {
            Self::Active(stream) => stream.event_types().name(id).map(<[u8]>::to_vec),
            Self::Logged(stream) => stream.event_type_name(id)?,
            Self::Recorded(log) => log.event_types().name(id).map(<[u8]>::to_vec),
        };
        name.ok_or(Invalid)
    }

    /// Returns the first type with this identifier or a higher one.
    pub(super) fn event_type_from(
        &mut self,
        id: EventTypeId,
    ) -> Result<Option<EventTypeId>, Invalid> {
        match self {
            Self::Active(stream) => Ok(stream.event_types().next_from(id)),
            Self::Logged(stream) => Ok(stream.event_type_from(id)?),
            Self::Recorded(log) => Ok(log.event_types().next_from(id)),
        }
    }
}

/// Returns the status of a log at its end. A log that was never completed lacks events.
fn recorded_status(log: &LogReader<LogFile>) -> LoggedStatus {
    let Some(status) = log.final_status() else {
        return LoggedStatus {
            is_log_overrun: true,
            ..LoggedStatus::default()
        };
    };
    LoggedStatus {
        is_running: false,
        is_full: status.is_full,
        is_overrun: status.is_overrun,
        is_flushing: false,
        flush_error: status.flush_error,
        is_log_full: status.is_log_full,
        is_log_overrun: status.is_log_overrun || log.damage() != tracer_log::Damage::default(),
    }
}
