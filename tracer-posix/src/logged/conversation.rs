//! The controller's end of the conversation with its recorder.
//!
//! Each request has one reply, in order. Two requests do not wait for theirs: that for the status,
//! and that for the next event. If the reply to one of these does not come at once, it stays
//! outstanding: the next call takes it, or a later one that waits for a reply of its own. So no
//! event is lost or shown twice, whatever is asked meanwhile.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::wire::SentEvent;
use tracer_area::descriptor::Guarded;

use super::lending::Lending;
use super::protocol;
use super::protocol::{MESSAGE_BYTES, Reply, Request};

/// How long a call waits for a reply that should come at once: in all, such a call takes less than
/// a millisecond. The recorder is an ordinary process, and any thread that has the CPU may keep it
/// from answering.
const AT_ONCE: Duration = Duration::from_micros(500);

/// The recorder is gone: it was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the process that records is gone; its log may be incomplete")]
pub struct RecorderGone;

/// The controller's end of a conversation.
#[derive(Debug)]
pub(super) struct Conversation {
    socket: Guarded<OwnedFd>,
    lending: Lending,
    message: Vec<u8>,
    /// Replies heard so far.
    heard: u64,
    /// Requests that are not answered yet, the oldest first; each at most once.
    outstanding: VecDeque<Quick>,
    /// The next event, if the reply came too late for the call that asked.
    event: Option<SentEvent>,
}

/// A request whose reply is not waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quick {
    Event,
    Status,
}

impl Conversation {
    pub fn new(socket: Guarded<OwnedFd>, lending: Lending) -> Self {
        Self {
            socket,
            lending,
            message: vec![0; MESSAGE_BYTES],
            heard: 0,
            outstanding: VecDeque::with_capacity(2),
            event: None,
        }
    }

    /// Sends a request, and waits for its reply.
    pub fn ask(&mut self, request: &Request) -> Result<Reply, RecorderGone> {
        self.send(request)?;
        while !self.outstanding.is_empty() {
            self.hear_outstanding()?;
        }
        self.hear()
    }

    /// Returns the oldest event that was not shown yet; `None` if there is none, or if the recorder
    /// has not answered yet.
    pub fn next_event(&mut self) -> Result<Option<SentEvent>, RecorderGone> {
        self.hear_what_came()?;
        if self.event.is_none() {
            self.ask_at_once(Quick::Event, &Request::ShowNext)?;
        }
        Ok(self.event.take())
    }

    /// Makes the recorder report the status in shared memory. It may do so after this returns.
    pub fn refresh_status(&mut self) -> Result<(), RecorderGone> {
        self.hear_what_came()?;
        self.ask_at_once(Quick::Status, &Request::Status)
    }

    /// Forgets the event that was asked for: the stream was cleared.
    pub fn forget_event(&mut self) {
        self.event = None;
    }

    /// Sends a request, unless it is outstanding already, and takes the replies that come at once.
    fn ask_at_once(&mut self, what: Quick, request: &Request) -> Result<(), RecorderGone> {
        if self.outstanding.contains(&what) {
            // The first call that asked has waited for it.
            return Ok(());
        }
        self.send(request)?;
        self.outstanding.push_back(what);
        let end = Instant::now() + AT_ONCE;
        while self.outstanding.contains(&what) {
            self.lend(Some(end))?;
            let left = end.saturating_duration_since(Instant::now());
            if !protocol::is_readable(self.open()?, left) {
                break;
            }
            self.hear_outstanding()?;
        }
        Ok(())
    }

    /// Takes the replies that are there by now.
    fn hear_what_came(&mut self) -> Result<(), RecorderGone> {
        while !self.outstanding.is_empty() && protocol::is_readable(self.open()?, Duration::ZERO) {
            self.hear_outstanding()?;
        }
        Ok(())
    }

    /// Takes the reply to the oldest outstanding request.
    fn hear_outstanding(&mut self) -> Result<(), RecorderGone> {
        let reply = self.hear()?;
        match (self.outstanding.pop_front(), reply) {
            (Some(Quick::Event), Reply::Event(event)) => self.event = event,
            (Some(Quick::Status), Reply::Done) => {}
            _ => return Err(RecorderGone),
        }
        Ok(())
    }

    fn send(&self, request: &Request) -> Result<(), RecorderGone> {
        let bytes = postcard::to_stdvec(request).map_err(|_never| RecorderGone)?;
        protocol::send(self.open()?, &bytes).map_err(|_closed| RecorderGone)
    }

    /// Lends the recorder the priority of the calling thread until it has answered.
    fn lend(&self, end: Option<Instant>) -> Result<(), RecorderGone> {
        let socket = self.open()?;
        self.lending.until(self.heard, end, || {
            Ok(protocol::is_readable(socket, Duration::ZERO))
        })
    }

    fn hear(&mut self) -> Result<Reply, RecorderGone> {
        self.lend(None)?;
        let socket = self.socket.get().map_err(|_closed| RecorderGone)?;
        let bytes = protocol::receive(socket, &mut self.message).map_err(|_closed| RecorderGone)?;
        self.heard += 1;
        postcard::from_bytes(bytes).map_err(|_nonsense| RecorderGone)
    }

    /// Returns the socket; an error if the program has closed it.
    fn open(&self) -> Result<&OwnedFd, RecorderGone> {
        self.socket.get().map_err(|_closed| RecorderGone)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::sync::Arc;
    use std::thread;

    use super::super::Activity;
    use super::super::protocol::Call;
    use super::*;
    use crate::EventTypeId;
    use tracer_engine::event::{Event, EventHeader, MonotonicNs, Truncation};
    use tracer_engine::{CallTerms, Origin};

    fn pair() -> (Conversation, OwnedFd) {
        let (ours, theirs) = protocol::pair().unwrap();
        let activity = Arc::new(Activity::new().unwrap());
        let lending = Lending::to(0, activity);
        (
            Conversation::new(Guarded::new(ours).unwrap(), lending),
            theirs,
        )
    }

    fn event(byte: u8) -> SentEvent {
        let header = EventHeader {
            time: MonotonicNs(0),
            event_type: EventTypeId(257),
            pid: 1,
            tid: 1,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        SentEvent::new(&Event {
            header,
            data: &[byte],
        })
    }

    /// Answers the next request, which is of this kind.
    fn answer(recorder: &OwnedFd, is_it: impl Fn(&Request) -> bool, reply: &Reply) {
        let mut buffer = [0; 1000];
        let bytes = protocol::receive(recorder, &mut buffer).unwrap();
        let request = postcard::from_bytes(bytes).unwrap();
        assert!(is_it(&request), "{request:?}");
        protocol::send(recorder, &postcard::to_stdvec(reply).unwrap()).unwrap();
    }

    fn next(conversation: &mut Conversation) -> Option<u8> {
        let event = conversation.next_event().unwrap()?;
        event.data.first().copied()
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no such sockets")]
    fn an_event_that_comes_late_is_the_next_one_that_is_seen() {
        let (mut ours, recorder) = pair();
        assert_eq!(next(&mut ours), None);
        // It is not asked for a second time.
        assert_eq!(next(&mut ours), None);
        let is_show = |request: &Request| matches!(request, Request::ShowNext);
        answer(&recorder, is_show, &Reply::Event(Some(event(1))));
        assert!(!protocol::is_readable(&recorder, Duration::ZERO));

        assert_eq!(next(&mut ours), Some(1));
        // One that was not there is asked for anew.
        assert_eq!(next(&mut ours), None);
        answer(&recorder, is_show, &Reply::Event(None));
        assert_eq!(next(&mut ours), None);
        answer(&recorder, is_show, &Reply::Event(Some(event(2))));
        assert_eq!(next(&mut ours), Some(2));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no such sockets")]
    fn replies_go_to_what_was_asked_however_late_they_are() {
        let (mut ours, recorder) = pair();
        assert_eq!(next(&mut ours), None);
        ours.refresh_status().unwrap();
        let recorder = thread::spawn(move || {
            answer(
                &recorder,
                |request| matches!(request, Request::ShowNext),
                &Reply::Event(Some(event(7))),
            );
            answer(
                &recorder,
                |request| matches!(request, Request::Status),
                &Reply::Done,
            );
            answer(
                &recorder,
                |request| matches!(request, Request::Flush(_)),
                &Reply::Failed(28),
            );
            recorder
        });
        let call = Call::new(Origin::NONE, CallTerms::default());
        let flushed = ours.ask(&Request::Flush(call)).unwrap();
        assert!(matches!(flushed, Reply::Failed(28)));
        let recorder = recorder.join().unwrap();

        assert_eq!(next(&mut ours), Some(7));
        // A child of another test may have the descriptor for a moment.
        // SAFETY: takes integers only.
        unsafe { libc::shutdown(recorder.as_raw_fd(), libc::SHUT_RDWR) };
        assert_eq!(ours.refresh_status(), Err(RecorderGone));
    }
}
