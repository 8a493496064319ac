//! The agent as a source of a stream.

use std::ffi::c_int;
use std::io::{self, Write as _};
use std::mem::size_of;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::connection::{TIMEOUT, Until, connect};
use super::protocol::{Answer, Ask, VERSION, received_cause};
use crate::wire::{read_message, write_message};
use tracer_area::descriptor::Guarded;
use tracer_area::{RingMode, own_pid};
use tracer_engine::EventTypes;
use tracer_engine::event::{MonotonicNs, Truncation};
use tracer_engine::sizes::MAX_KERNEL_DATA;
use tracer_engine::source::{Batch, Control, Loss, LossCause, Pending, Source, Unread};

/// Most bytes that one collection takes; what is more comes with the next.
const MOST_COLLECTED_BYTES: usize = 16 << 20;

/// Most bytes that are taken before the agent says that it has brought everything up to some time.
/// It keeps 16 MiB for a stream; what has more to bring is none.
const MOST_UNSETTLED_BYTES: usize = 64 << 20;

/// The kernel's events that a stream wants.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The process to trace.
    pub pid: i32,
    /// Whether its children are traced too.
    pub inherit: bool,
    /// Bytes of events that the agent keeps until they are collected.
    pub capacity: usize,
    /// Behaviour of the agent when they do not suffice.
    pub mode: RingMode,
}

/// Why the kernel's events are not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// `ENOTSUP`.
    #[error(
        "no agent gives kernel events to this program; start it by: sudo tracer-user run -- PROGRAM"
    )]
    NoAgent,
    /// The agent's refusal.
    #[error("the agent gives no kernel events: {why}")]
    Refused {
        /// The standard's error number.
        error: i32,
        /// Why, and what to do.
        why: String,
    },
    /// `EPERM`: another user's process listens where the agent should.
    #[error(
        "what listens where the agent should is a process of user {user}, and only root's or this \
         user's own is believed; start the program by: sudo tracer-user run -- PROGRAM"
    )]
    Untrusted {
        /// User of that process.
        user: u32,
    },
    /// `EPERM`: the agent does not answer as it should.
    #[error("the agent that should give kernel events does not answer")]
    Silent(#[source] io::Error),
}

impl AgentError {
    /// Returns the error number that the C functions return for it.
    #[must_use]
    pub fn error_number(&self) -> c_int {
        match self {
            Self::NoAgent => libc::ENOTSUP,
            Self::Refused { error, .. } => *error,
            Self::Untrusted { .. } | Self::Silent(_) => libc::EPERM,
        }
    }
}

/// The kernel's events for one stream, from an agent.
#[derive(Debug)]
pub struct AgentSource {
    agent: Guarded<UnixStream>,
    watermark: MonotonicNs,
    /// Bytes taken since the watermark was last stated.
    unsettled: usize,
    /// Whether the agent is gone.
    is_over: bool,
}

impl AgentSource {
    /// Asks the agent of this program for the kernel's events.
    ///
    /// # Errors
    ///
    /// See [`AgentError`].
    pub fn connect(request: &Request) -> Result<Self, AgentError> {
        let mut source = Self::over(connect()?).map_err(AgentError::Silent)?;
        let hello = Ask::Hello {
            version: VERSION,
            pid: if request.pid == own_pid() {
                0
            } else {
                request.pid
            },
            inherit: request.inherit,
            capacity: request.capacity as u64,
            keeps_oldest: request.mode == RingMode::KeepOldest,
        };
        match source.ask(&hello).map_err(AgentError::Silent)? {
            Answer::Done => Ok(source),
            Answer::Refused { error, why } => Err(AgentError::Refused { error, why }),
            Answer::Events { .. } => Err(AgentError::Silent(io::ErrorKind::InvalidData.into())),
        }
    }

    /// Continues a connection by which another process has asked for them.
    ///
    /// # Errors
    ///
    /// It is no open descriptor.
    pub(crate) fn taken_over(connection: OwnedFd) -> io::Result<Self> {
        Self::over(connection.into())
    }

    fn over(agent: UnixStream) -> io::Result<Self> {
        Ok(Self {
            agent: Guarded::new(agent)?,
            watermark: MonotonicNs(0),
            unsettled: 0,
            is_over: false,
        })
    }

    /// Collects from an agent that says `untrusted`, whatever it is asked, and hangs up.
    #[doc(hidden)]
    pub fn collect_from_untrusted(untrusted: &[u8]) {
        /// Bytes that a socket takes without a reader.
        const MOST: usize = 64 << 10;
        let untrusted = untrusted.get(..MOST).unwrap_or(untrusted);
        let Ok((ours, mut theirs)) = UnixStream::pair() else {
            return;
        };
        let hung_up = theirs
            .write_all(untrusted)
            .and_then(|()| theirs.shutdown(Shutdown::Write));
        let (Ok(()), Ok(mut source)) = (hung_up, Self::over(ours)) else {
            return;
        };
        let mut types = EventTypes::default();
        let (mut events, mut data, mut losses) = (Vec::new(), Vec::new(), Vec::new());
        while !source.is_over {
            let mut batch = Batch::new(&mut types, &mut events, &mut data, &mut losses);
            source.collect(&mut batch);
        }
        // Nothing is there that was not said.
        assert!(data.len() + events.len() <= untrusted.len());
    }

    fn ask(&mut self, ask: &Ask) -> io::Result<Answer> {
        self.ask_until(ask, Instant::now() + TIMEOUT)
    }

    fn ask_until(&mut self, ask: &Ask, end: Instant) -> io::Result<Answer> {
        let mut agent = Until::new(self.agent.get()?, end);
        write_message(&mut agent, ask)?;
        read_message(&mut agent)
    }

    /// Collects one reply's worth of events. Returns whether there are more.
    fn collect_some(&mut self, batch: &mut Batch<'_>, end: Instant) -> io::Result<bool> {
        let Answer::Events {
            events,
            lost,
            watermark,
            has_more,
        } = self.ask_until(&Ask::Collect, end)?
        else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        // More is there, and nothing of it is brought: this would never end.
        if has_more && events.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        for event in events {
            self.unsettled += event.data.len() + size_of::<Pending>();
            let mut header = event.header();
            let data = event.data.get(..MAX_KERNEL_DATA).unwrap_or(&event.data);
            if data.len() < event.data.len() {
                header.truncation = Truncation::Record;
            }
            // The kernel's types have one id everywhere; an agent has no others to give.
            if !header.event_type.is_user() {
                batch.push(header, data);
            }
        }
        for (cause, count, since) in lost {
            batch.lose(Loss {
                cause: received_cause(cause),
                count,
                since: MonotonicNs(since),
                is_marked: false,
            });
        }
        if has_more {
            return match self.unsettled {
                0..=MOST_UNSETTLED_BYTES => Ok(true),
                _ => Err(io::ErrorKind::InvalidData.into()),
            };
        }
        self.unsettled = 0;
        self.watermark = self.watermark.max(MonotonicNs(watermark));
        Ok(false)
    }

    /// Gives the agent up. One that has ended has brought everything; of one that does not answer
    /// as it should, it is not known how much is missing, so that it is reported as one loss.
    fn give_up(&mut self, error: &io::Error, batch: &mut Batch<'_>) {
        self.is_over = true;
        let has_ended = matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::ConnectionReset
        );
        if !has_ended {
            batch.lose(Loss {
                cause: LossCause::KernelRingFull,
                count: 1,
                since: self.watermark,
                is_marked: false,
            });
        }
    }
}

impl Source for AgentSource {
    fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
        let end = Instant::now() + TIMEOUT;
        let mut taken = 0;
        while !self.is_over {
            let before = self.unsettled;
            match self.collect_some(batch, end) {
                Ok(true) => {
                    taken += self.unsettled.saturating_sub(before);
                    if taken > MOST_COLLECTED_BYTES {
                        return self.watermark;
                    }
                }
                Ok(false) => return self.watermark,
                Err(error) => self.give_up(&error, batch),
            }
        }
        MonotonicNs(u64::MAX)
    }

    fn count_unread(&mut self, until: MonotonicNs, _: Instant, _: &mut Batch<'_>) -> Unread {
        if self.is_over || self.watermark >= until {
            Unread::Nothing
        } else {
            Unread::Unknown
        }
    }

    fn control(&mut self, control: &Control) {
        let ask = Ask::Control {
            running: control.running,
            filter: *control.filter.words(),
        };
        self.is_over = self.is_over || self.ask(&ask).is_err();
    }
}

impl AsRawFd for AgentSource {
    fn as_raw_fd(&self) -> RawFd {
        self.agent.raw()
    }
}
