//! The agent as a source of a stream.

use std::env;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use super::protocol::{Answer, Ask, VERSION, received_cause};
use super::{ADDRESS_VARIABLE, SYSTEM_ADDRESS};
use crate::area::{RingMode, own_pid};
use crate::descriptor::Guarded;
use crate::event::MonotonicNs;
use crate::source::{Batch, Control, Loss, Source};
use crate::wire::{read_message, write_message};

/// How long the agent is waited for. It answers within a fraction of a millisecond; what has not by
/// then never will.
const PATIENCE: Duration = Duration::from_secs(5);

/// The kernel's events that a stream wants.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The process to trace.
    pub pid: i32,
    /// Whether its children are traced too.
    pub inherit: bool,
    /// Bytes of events that the agent keeps until they are collected.
    pub capacity: usize,
    /// What it does when they do not suffice.
    pub mode: RingMode,
}

/// Why the kernel's events cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// `ENOTSUP`.
    #[error(
        "no agent gives kernel events to this program; start it by: sudo tracer-user run -- PROGRAM"
    )]
    NoAgent,
    /// What the agent says.
    #[error("the agent gives no kernel events: {why}")]
    Refused {
        /// The standard's error number.
        error: i32,
        /// Why, and what to do.
        why: String,
    },
    /// `EPERM`: the agent does not answer as it should.
    #[error("the agent that should give kernel events does not answer")]
    Silent(#[source] io::Error),
}

/// The kernel's events for one stream, from an agent.
#[derive(Debug)]
pub struct AgentSource {
    agent: Guarded<UnixStream>,
    watermark: MonotonicNs,
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
        let agent = connect()?;
        let timeouts = agent
            .set_read_timeout(Some(PATIENCE))
            .and_then(|()| agent.set_write_timeout(Some(PATIENCE)));
        timeouts.map_err(AgentError::Silent)?;
        let mut source = Self {
            agent: Guarded::new(agent).map_err(AgentError::Silent)?,
            watermark: MonotonicNs(0),
            is_over: false,
        };
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

    fn ask(&mut self, ask: &Ask) -> io::Result<Answer> {
        let mut agent = self.agent.get()?;
        write_message(&mut agent, ask)?;
        read_message(&mut agent)
    }

    /// One reply's worth of events; whether there are more.
    fn collect_some(&mut self, batch: &mut Batch<'_>) -> io::Result<bool> {
        let Answer::Events {
            events,
            lost,
            watermark,
            has_more,
        } = self.ask(&Ask::Collect)?
        else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        for event in events {
            let header = event.header();
            // The kernel's types have one number everywhere; an agent has no others to give.
            if !header.event_type.is_user() {
                batch.push(header, &event.data);
            }
        }
        for (cause, count, since) in lost {
            batch.lose(Loss {
                cause: received_cause(cause),
                count,
                since: MonotonicNs(since),
            });
        }
        if !has_more {
            self.watermark = self.watermark.max(MonotonicNs(watermark));
        }
        Ok(has_more)
    }
}

impl Source for AgentSource {
    fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
        while !self.is_over {
            match self.collect_some(batch) {
                Ok(true) => {}
                Ok(false) => return self.watermark,
                Err(_gone) => self.is_over = true,
            }
        }
        MonotonicNs(u64::MAX)
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
        self.agent.number()
    }
}

fn connect() -> Result<UnixStream, AgentError> {
    let named = env::var_os(ADDRESS_VARIABLE);
    let address = match named.as_deref().map(OsStrExt::as_bytes) {
        Some([b'@', name @ ..]) => SocketAddr::from_abstract_name(name),
        Some(path) => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path)),
        None => SocketAddr::from_pathname(SYSTEM_ADDRESS),
    };
    let address = address.map_err(|_impossible| AgentError::NoAgent)?;
    UnixStream::connect_addr(&address).map_err(|_nobody| AgentError::NoAgent)
}
