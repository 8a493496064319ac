//! The agent as a source of a stream.

use std::ffi::c_int;
use std::io::{self, Write as _};
use std::mem::size_of;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::connection::{TIMEOUT, Until, connect};
use super::proof::Proof;
use super::protocol::{Answer, Ask, Detail, PROOF_DESCRIPTORS, received_cause};
use super::returning::{Return, Wish};
use crate::wire::{framed, read_message, write_message};
use tracer_area::descriptor::Guarded;
use tracer_area::{RingMode, monotonic_now, own_pid};
use tracer_common::kernel::{ContextPlace, PythonProcess};
use tracer_engine::event::{MonotonicNs, Truncation};
use tracer_engine::sizes::MAX_KERNEL_DATA;
use tracer_engine::source::{Batch, Control, Loss, LossCause, Pending, Source, Unread};
use tracer_engine::{Attributes, EventTypes, Inheritance};

/// Most bytes that one collection takes, unless fewer are wanted; the next one takes more.
const MOST_COLLECTED_BYTES: usize = 16 << 20;

/// Most bytes that an agent may send before it states a watermark. An agent holds 16 MiB for a
/// stream: a process that sends this much is none.
const MOST_UNSETTLED_BYTES: usize = 64 << 20;

/// The kernel's events that a stream wants.
#[derive(Clone, Debug)]
pub struct Request {
    /// The process to trace.
    pub pid: i32,
    /// Whether its children are traced too.
    pub inherit: bool,
    /// Bytes of events that the agent keeps until they are collected.
    pub capacity: usize,
    /// Behaviour of the agent when they do not suffice.
    pub mode: RingMode,
    /// Detail in which they are recorded; `None` for the usual one, which programs have.
    pub detail: Option<Box<Detail>>,
}

impl Request {
    /// Returns what a stream with these attributes wants, which traces process `pid`.
    #[must_use]
    pub fn for_stream(pid: i32, attributes: &Attributes) -> Self {
        Self {
            pid,
            inherit: attributes.inheritance() == Inheritance::Inherited,
            capacity: attributes.stream_min_size(),
            mode: RingMode::for_policy(attributes.stream_full_policy()),
            detail: None,
        }
    }
}

/// Why the kernel's events are not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// `ENOTSUP`.
    #[error(
        "no agent gives kernel events to this program; start it by: sudo tracer-user run -- PROGRAM, \
         or have the service: sudo systemctl enable --now tracer-user.socket"
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

    /// Returns what the error means when the agent was asked for what is new: an older agent does
    /// not know the message, and hangs up.
    fn of_an_older_agent(self) -> Self {
        let hangs_up = [
            io::ErrorKind::UnexpectedEof,
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::BrokenPipe,
        ];
        let is_older = matches!(&self, Self::Silent(error) if hangs_up.contains(&error.kind()));
        if !is_older {
            return self;
        }
        Self::Refused {
            error: libc::ENOTSUP,
            why:
                "it is of an older version, which does not know this request; install one version \
                  of everything and restart it: sudo systemctl restart tracer-user.service"
                    .to_owned(),
        }
    }
}

/// The kernel's events for one stream, from an agent.
///
/// When the agent ends or does not answer, the source looks for another one. It reports the events
/// until then as one loss, since their number is unknown.
#[derive(Debug)]
pub struct AgentSource {
    link: Link,
    wish: Wish,
    watermark: MonotonicNs,
    /// After an agent was found again, events from before this time are dropped: the source has
    /// stated it as its watermark.
    since: MonotonicNs,
    /// Bytes taken since the watermark was last stated.
    unsettled: usize,
    /// Bytes after which a collection ends.
    most_collected: usize,
}

/// State of the connection to the agent.
#[derive(Debug)]
enum Link {
    Up(Guarded<UnixStream>),
    Down(Return),
}

impl AgentSource {
    /// Asks the agent of this program for the kernel's events.
    ///
    /// # Errors
    ///
    /// See [`AgentError`].
    pub fn connect(request: &Request) -> Result<Self, AgentError> {
        let agent = connect(TIMEOUT)?;
        let mut source =
            Self::over(agent, Wish::new(request.clone())).map_err(AgentError::Silent)?;
        if let Some(record) = source.wish.record() {
            granted(source.ask(&record)).map_err(|error| error.of_an_older_agent())?;
        }
        let hello = source.wish.hello();
        source.ask_of(&hello, request.pid)?;
        Ok(source)
    }

    /// Asks for the events of another process too. While there is no agent, the source notes the
    /// process for the next one that it asks.
    ///
    /// # Errors
    ///
    /// See [`AgentError`].
    pub fn add(&mut self, pid: i32) -> Result<(), AgentError> {
        if let Link::Up(_) = self.link {
            self.ask_of(&Ask::Add { pid }, pid)?;
        }
        self.wish.add(pid);
        Ok(())
    }

    /// Tells the agent where a process that was asked for has the contexts of its threads; `None`
    /// if it has none any more.
    ///
    /// # Errors
    ///
    /// See [`AgentError`]. While there is no agent, this fails.
    pub fn place_contexts(
        &mut self,
        pid: i32,
        place: Option<ContextPlace>,
    ) -> Result<(), AgentError> {
        let place = place.map(|place| [place.module, place.offset, place.generation]);
        self.ask_of(&Ask::Contexts { pid, place }, pid)
    }

    /// Tells the agent which interpreter of Python a process has that was asked for; `None` if it
    /// has none any more.
    ///
    /// # Errors
    ///
    /// See [`AgentError`]. While there is no agent, this fails.
    pub fn place_interpreter(
        &mut self,
        pid: i32,
        process: Option<PythonProcess>,
    ) -> Result<(), AgentError> {
        let process = process.map(|process| Box::new(process.words()));
        self.ask_of(&Ask::Interpreter { pid, process }, pid)
    }

    /// Continues a connection over which another process has asked for events.
    ///
    /// # Errors
    ///
    /// `connection` is no open descriptor.
    pub(crate) fn taken_over(connection: OwnedFd, request: Request) -> io::Result<Self> {
        Self::over(connection.into(), Wish::new(request))
    }

    fn over(agent: UnixStream, wish: Wish) -> io::Result<Self> {
        Ok(Self {
            link: Link::Up(Guarded::new(agent)?),
            wish,
            watermark: MonotonicNs(0),
            since: MonotonicNs(0),
            unsettled: 0,
            most_collected: MOST_COLLECTED_BYTES,
        })
    }

    /// Makes each collection end after about so many bytes, for a caller that decides something
    /// after each.
    pub fn collect_at_most(&mut self, bytes: usize) {
        self.most_collected = bytes;
    }

    /// Collects from an agent that sends `untrusted`, whatever it is asked, and hangs up.
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
        let request = Request {
            pid: own_pid(),
            inherit: true,
            capacity: MOST,
            mode: RingMode::KeepOldest,
            detail: None,
        };
        let (Ok(()), Ok(mut source)) = (hung_up, Self::over(ours, Wish::new(request))) else {
            return;
        };
        let mut types = EventTypes::default();
        let (mut events, mut data, mut losses) = (Vec::new(), Vec::new(), Vec::new());
        while matches!(source.link, Link::Up(_)) {
            let mut batch = Batch::new(&mut types, &mut events, &mut data, &mut losses);
            source.collect(&mut batch);
        }
        // No more was collected than was sent.
        assert!(data.len() + events.len() <= untrusted.len());
    }

    /// Asks something of a process, with the proof that this one may trace it.
    fn ask_of(&mut self, ask: &Ask, pid: i32) -> Result<(), AgentError> {
        let mut proof = Proof::open(pid);
        if let Some(refused) = proof.take_if(|proof| proof.is_refused()) {
            self.prove_by_call(refused)?;
            proof = Proof::open(pid);
        }
        granted(self.ask_with(ask, proof))
    }

    /// Proves the right to trace a process whose memory the kernel has not opened.
    fn prove_by_call(&mut self, refused: Proof) -> Result<(), AgentError> {
        let mut agent = Until::new(
            self.agent().map_err(AgentError::Silent)?,
            Instant::now() + TIMEOUT,
        );
        let answer = send(&mut agent, &Ask::Prove, Some(&refused));
        // Signals come again, and forks go on.
        let call = refused.into_call().map_err(AgentError::Silent)?;
        let answer = answer.and_then(|()| read_message(&mut agent));
        granted(answer).map_err(|error| error.of_an_older_agent())?;
        call.make();
        Ok(())
    }

    fn ask(&mut self, ask: &Ask) -> io::Result<Answer> {
        self.ask_with(ask, None)
    }

    fn ask_with(&mut self, ask: &Ask, proof: Option<Proof>) -> io::Result<Answer> {
        let mut agent = Until::new(self.agent()?, Instant::now() + TIMEOUT);
        send(&mut agent, ask, proof.as_ref())?;
        drop(proof);
        read_message(&mut agent)
    }

    fn ask_until(&mut self, ask: &Ask, end: Instant) -> io::Result<Answer> {
        let mut agent = Until::new(self.agent()?, end);
        write_message(&mut agent, ask)?;
        read_message(&mut agent)
    }

    fn agent(&self) -> io::Result<&UnixStream> {
        match &self.link {
            Link::Up(agent) => agent.get(),
            Link::Down(_) => Err(io::ErrorKind::NotConnected.into()),
        }
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
        // The agent has more, and sends nothing of it: this would never end.
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
            if !header.event_type.is_user() && header.time >= self.since {
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

    /// Gives the agent up. The number of events that are missing until there is one again is
    /// unknown: they count as one loss.
    fn give_up(&mut self, batch: &mut Batch<'_>) {
        batch.lose(Loss {
            cause: LossCause::KernelRingFull,
            count: 1,
            since: self.watermark,
            is_marked: false,
        });
        self.unsettled = 0;
        self.link = Link::Down(Return::begin());
    }

    /// Takes one step of the search for an agent, without waiting for it. Returns the watermark.
    fn look_for_another(&mut self) -> MonotonicNs {
        // Taken before an agent is asked: its events are later. An agent that was asked at an
        // earlier look may bring older ones, which `since` drops.
        let now = monotonic_now();
        if let Link::Down(back) = &mut self.link
            && let Some(agent) = back.step(&self.wish)
        {
            self.link = Link::Up(agent);
            // The stream may have asked for another state since this agent was asked.
            if let Some(control) = self.wish.control() {
                self.tell(&control);
            }
        } else {
            self.watermark = self.watermark.max(now);
            self.since = self.watermark;
        }
        self.watermark
    }

    fn tell(&mut self, control: &Ask) {
        if self.ask(control).is_err() {
            self.hang_up();
        }
    }

    /// Ends the connection. The next collection notices it.
    fn hang_up(&self) {
        if let Ok(agent) = self.agent() {
            // This fails only if the other side has closed it already.
            let _ = agent.shutdown(Shutdown::Both);
        }
    }
}

/// Sends a message, with the proof that goes with it.
pub(super) fn send(to: &mut Until<'_>, ask: &Ask, proof: Option<&Proof>) -> io::Result<()> {
    let message = framed(ask)?;
    match proof {
        Some(proof) => {
            let mut files = [-1; PROOF_DESCRIPTORS];
            to.send_with(&message, proof.descriptors(&mut files))
        }
        None => to.write_all(&message),
    }
}

/// Returns an error unless the answer grants what was asked.
fn granted(answer: io::Result<Answer>) -> Result<(), AgentError> {
    match answer.map_err(AgentError::Silent)? {
        Answer::Done => Ok(()),
        Answer::Refused { error, why } => Err(AgentError::Refused { error, why }),
        Answer::Events { .. } => Err(AgentError::Silent(io::ErrorKind::InvalidData.into())),
    }
}

impl Source for AgentSource {
    fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
        let end = Instant::now() + TIMEOUT;
        let mut taken = 0;
        loop {
            match self.link {
                Link::Down(_) => return self.look_for_another(),
                Link::Up(_) => {}
            }
            let before = self.unsettled;
            match self.collect_some(batch, end) {
                Ok(true) => {
                    taken += self.unsettled.saturating_sub(before);
                    if taken > self.most_collected {
                        return self.watermark;
                    }
                }
                Ok(false) => return self.watermark,
                Err(_) => self.give_up(batch),
            }
        }
    }

    fn count_unread(&mut self, until: MonotonicNs, _: Instant, _: &mut Batch<'_>) -> Unread {
        match self.link {
            Link::Up(_) if self.watermark < until => Unread::Unknown,
            // Without an agent, the loss was counted when it went.
            Link::Up(_) | Link::Down(_) => Unread::Nothing,
        }
    }

    fn control(&mut self, control: &Control) {
        let control = self.wish.set_control(control);
        if matches!(self.link, Link::Up(_)) {
            self.tell(&control);
        }
    }
}

impl AsRawFd for AgentSource {
    fn as_raw_fd(&self) -> RawFd {
        match &self.link {
            Link::Up(agent) => agent.raw(),
            Link::Down(_) => -1,
        }
    }
}
