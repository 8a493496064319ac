//! Finding an agent again after one has ended, without waiting for it.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::connection::{Until, connect};
use super::proof::{Proof, start_time};
use super::protocol::{Answer, Ask, PLAIN_VERSION, VERSION};
use super::source::{Request, send};
use crate::wire::read_message;
use tracer_area::descriptor::Guarded;
use tracer_area::{RingMode, own_pid};
use tracer_engine::source::Control;

/// Time between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Longest time that one step takes. It reads an answer that has begun to arrive, or sends
/// messages.
const STEP: Duration = Duration::from_millis(20);

/// Longest time that an agent may take to answer: it loads its programs first.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// Everything that a stream has asked of an agent, to ask another one for it.
#[derive(Debug)]
pub struct Wish {
    request: Request,
    /// The processes, and when each began.
    processes: Vec<(i32, Option<u64>)>,
    control: Option<Control>,
}

impl Wish {
    /// Makes a wish from a stream's first request.
    pub fn new(request: Request) -> Self {
        Self {
            processes: vec![(request.pid, start_time(request.pid))],
            request,
            control: None,
        }
    }

    /// Adds a process, if it is not there already.
    pub fn add(&mut self, pid: i32) {
        let process = (pid, start_time(pid));
        if !self.processes.contains(&process) {
            self.processes.push(process);
        }
    }

    /// Returns the message that begins a conversation.
    pub fn hello(&self) -> Ask {
        self.hello_for(self.request.pid)
    }

    /// Returns the message that comes before the hello, if there is one.
    pub fn record(&self) -> Option<Ask> {
        let detail = self.request.detail.clone()?;
        Some(Ask::Record { detail })
    }

    fn hello_for(&self, pid: i32) -> Ask {
        let request = &self.request;
        Ask::Hello {
            version: match request.detail {
                Some(_) => VERSION,
                None => PLAIN_VERSION,
            },
            pid: if pid == own_pid() { 0 } else { pid },
            inherit: request.inherit,
            capacity: request.capacity as u64,
            keeps_oldest: request.mode == RingMode::KeepOldest,
        }
    }

    /// Sets the state that the stream asks for. Returns it as a message.
    pub fn set_control(&mut self, control: &Control) -> Ask {
        self.control = Some(control.clone());
        in_words(control)
    }

    /// Returns the state that the stream asked for last, if it did, as a message.
    pub fn control(&self) -> Option<Ask> {
        self.control.as_ref().map(in_words)
    }

    /// Passes all messages to `tell`, each with its proof: the descriptors of one process are open
    /// at a time. Skips a process that has ended, even if another one has its pid by now. Returns
    /// the number of messages; `None` if no process is left, or `tell` has failed.
    fn say_all(&self, mut tell: impl FnMut(&Ask, Option<&Proof>) -> Option<()>) -> Option<usize> {
        let mut said = 0;
        for (pid, began) in &self.processes {
            let proof = Proof::open(*pid);
            // Compared after the descriptors were opened: so they are of this process.
            if began.is_some() && start_time(*pid) != *began {
                continue;
            }
            let ask = if said == 0 {
                if let Some(record) = self.record() {
                    tell(&record, None)?;
                    said += 1;
                }
                self.hello_for(*pid)
            } else {
                Ask::Add { pid: *pid }
            };
            tell(&ask, proof.as_ref())?;
            said += 1;
        }
        if let Some(control) = self.control().filter(|_| said > 0) {
            tell(&control, None)?;
            said += 1;
        }
        (said > 0).then_some(said)
    }
}

fn in_words(control: &Control) -> Ask {
    Ask::Control {
        running: control.running,
        filter: *control.filter.words(),
    }
}

/// The search for an agent: a step at a time.
#[derive(Debug)]
pub struct Return {
    next: Instant,
    asked: Option<Asked>,
}

/// An agent that was asked, and has not answered all yet.
#[derive(Debug)]
struct Asked {
    agent: Guarded<UnixStream>,
    answers: usize,
    /// Number of answers, from the first on, that may not be refusals: those to the hello, and to
    /// the message before it.
    to_be_granted: usize,
    until: Instant,
}

impl Return {
    /// Begins to search. The first step makes the first attempt.
    pub fn begin() -> Self {
        Self {
            next: Instant::now(),
            asked: None,
        }
    }

    /// Goes one step further, which takes some milliseconds at most. Returns the agent that has
    /// granted all that was asked of it.
    pub fn step(&mut self, wish: &Wish) -> Option<Guarded<UnixStream>> {
        self.step_with(wish, || connect(STEP).ok())
    }

    fn step_with(
        &mut self,
        wish: &Wish,
        connect: impl FnOnce() -> Option<UnixStream>,
    ) -> Option<Guarded<UnixStream>> {
        if self.asked.is_none() && Instant::now() >= self.next {
            self.next = Instant::now() + PAUSE;
            self.asked = connect().and_then(|agent| ask(wish, agent));
        }
        let asked = self.asked.as_mut()?;
        match asked.hear() {
            Ok(false) => None,
            Ok(true) => self.asked.take().map(|asked| asked.agent),
            Err(_) => {
                self.asked = None;
                None
            }
        }
    }
}

/// Sends an agent all messages of a wish.
fn ask(wish: &Wish, agent: UnixStream) -> Option<Asked> {
    let mut to = Until::new(&agent, Instant::now() + STEP);
    let answers = wish.say_all(|ask, proof| send(&mut to, ask, proof).ok())?;
    Some(Asked {
        agent: Guarded::new(agent).ok()?,
        answers,
        to_be_granted: 1 + usize::from(wish.record().is_some()),
        until: Instant::now() + ANSWERS_WITHIN,
    })
}

impl Asked {
    /// Reads the answers that have come so far. Returns whether these are all.
    fn hear(&mut self) -> io::Result<bool> {
        let agent = self.agent.get()?;
        while self.answers > 0 && is_readable(agent) {
            match read_message(&mut Until::new(agent, Instant::now() + STEP))? {
                Answer::Done => self.to_be_granted = self.to_be_granted.saturating_sub(1),
                // A process that was added later may have ended meanwhile.
                Answer::Refused { .. } if self.to_be_granted == 0 => {}
                Answer::Refused { .. } | Answer::Events { .. } => {
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
            }
            self.answers -= 1;
        }
        if self.answers > 0 && Instant::now() >= self.until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(self.answers == 0)
    }
}

fn is_readable(agent: &UnixStream) -> bool {
    let mut polled = libc::pollfd {
        fd: agent.as_fd().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one valid entry.
    unsafe { libc::poll(&raw mut polled, 1, 0) > 0 }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Write as _;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;
    use crate::wire::framed;

    #[test]
    fn the_first_question_waits_for_the_agent_that_comes() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("socket");
        // A service manager has this socket, also while there is no agent.
        let listener = UnixListener::bind(&at).unwrap();
        let wish = Wish::new(Request {
            pid: own_pid(),
            inherit: true,
            capacity: 4096,
            mode: RingMode::KeepOldest,
            detail: None,
        });
        let attempts = Cell::new(0);
        let mut back = Return::begin();
        let mut step = || {
            back.step_with(&wish, || {
                attempts.set(attempts.get() + 1);
                UnixStream::connect(&at).ok()
            })
        };
        assert!(step().is_none());
        assert_eq!(attempts.get(), 1);
        // This takes longer than the pause between two attempts.
        let begun = Instant::now();
        while begun.elapsed() < PAUSE + STEP {
            assert!(step().is_none());
            std::thread::sleep(STEP);
        }
        let (mut agent, _) = listener.accept().unwrap();
        agent.write_all(&framed(&Answer::Done).unwrap()).unwrap();
        while step().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(attempts.get(), 1);
    }

    #[test]
    fn an_agent_is_asked_for_those_that_are_left() {
        let mut first = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = first.id().cast_signed();
        let mut wish = Wish::new(Request {
            pid,
            inherit: true,
            capacity: 4096,
            mode: RingMode::KeepOldest,
            detail: None,
        });
        wish.add(own_pid());
        wish.add(own_pid());
        let asked = |wish: &Wish| {
            let mut said = Vec::new();
            let count = wish.say_all(|ask, _| {
                said.push(format!("{ask:?}"));
                Some(())
            });
            assert_eq!(count.unwrap_or(0), said.len());
            said
        };
        let both: Vec<String> = asked(&wish);
        first.kill().unwrap();
        first.wait().unwrap();
        let left: Vec<String> = asked(&wish);
        assert!(
            both[0].starts_with(&format!("Hello {{ version: 2, pid: {pid},")),
            "{both:?}"
        );
        assert_eq!(both[1..], [format!("Add {{ pid: {} }}", own_pid())]);
        assert!(
            left.len() == 1 && left[0].starts_with("Hello { version: 2, pid: 0,"),
            "{left:?}"
        );
    }
}
