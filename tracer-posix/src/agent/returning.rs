//! Finding an agent again after one has ended, without waiting for it.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::connection::{Until, connect};
use super::proof::{Proof, ProvingCall, start_time};
use super::protocol::{Answer, Ask, PLAIN_VERSION, VERSION};
use super::source::{Request, send};
use crate::wire::read_message;
use tracer_area::descriptor::Guarded;
use tracer_area::{RingMode, own_pid};
use tracer_engine::source::Control;

/// Time between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Longest time that a part of one step takes: it reads an answer that has begun to arrive, or
/// sends messages, or waits for the answer by which a call is expected.
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

    /// Passes the messages that are left to `tell`, each with its proof: the descriptors of one
    /// process are open at a time. Skips a process that has ended, even if another one has its pid
    /// by now. Ends with a message whose answer is needed before the next one, or when no message
    /// is left. `None` if no process is left, or `tell` has failed.
    fn say_on(
        &self,
        progress: &mut Progress,
        mut tell: impl FnMut(&Ask, Option<&Proof>) -> Option<()>,
    ) -> Option<()> {
        while let Some((pid, began)) = self.processes.get(progress.next) {
            let proof = Proof::open(*pid);
            // Compared after the descriptors were opened: so they are of this process.
            if began.is_some() && start_time(*pid) != *began {
                progress.next += 1;
                continue;
            }
            if progress.said == 0
                && let Some(record) = self.record()
            {
                tell(&record, None)?;
                progress.said += 1;
            }
            let is_proven = std::mem::take(&mut progress.is_proven);
            let is_refused = proof.as_ref().is_some_and(Proof::is_refused);
            if is_refused && !is_proven {
                tell(&Ask::Prove, proof.as_ref())?;
                progress.said += 1;
                progress.call = proof.and_then(|proof| proof.into_call().ok());
                progress.is_proven = true;
                return Some(());
            }
            let ask = match progress.greeting {
                Some(_) => Ask::Add { pid: *pid },
                None => self.hello_for(*pid),
            };
            tell(&ask, proof.as_ref())?;
            progress.said += 1;
            progress.next += 1;
            progress.greeting.get_or_insert(progress.said);
        }
        if let Some(control) = self.control().filter(|_| progress.greeting.is_some()) {
            tell(&control, None)?;
            progress.said += 1;
        }
        progress.is_done = true;
        progress.greeting.map(|_| ())
    }
}

/// Messages of a wish that an agent was told so far.
#[derive(Debug, Default)]
struct Progress {
    said: usize,
    /// Index of the process that comes next.
    next: usize,
    /// Number of messages up to the hello, once that was among them.
    greeting: Option<usize>,
    /// Whether the last message announced a call for the next process.
    is_proven: bool,
    /// The call.
    call: Option<ProvingCall>,
    /// Whether none is left.
    is_done: bool,
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
    progress: Progress,
    /// Number of answers that have come.
    answers: usize,
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
        match asked.hear(wish) {
            Ok(false) => None,
            Ok(true) => self.asked.take().map(|asked| asked.agent),
            Err(_) => {
                self.asked = None;
                None
            }
        }
    }
}

/// Sends an agent the first messages of a wish.
fn ask(wish: &Wish, agent: UnixStream) -> Option<Asked> {
    let mut asked = Asked {
        agent: Guarded::new(agent).ok()?,
        progress: Progress::default(),
        answers: 0,
        until: Instant::now() + ANSWERS_WITHIN,
    };
    asked.say_on(wish)?;
    Some(asked)
}

impl Asked {
    /// Sends messages until an answer is needed, or none is left.
    fn say_on(&mut self, wish: &Wish) -> Option<()> {
        let mut to = Until::new(self.agent.get().ok()?, Instant::now() + STEP);
        let tell = |ask: &Ask, proof: Option<&Proof>| send(&mut to, ask, proof).ok();
        wish.say_on(&mut self.progress, tell)
    }

    /// Reads the answers that have come so far, and goes on with what is left to say. Returns
    /// whether all is said and answered.
    fn hear(&mut self, wish: &Wish) -> io::Result<bool> {
        loop {
            self.hear_what_has_come()?;
            if self.is_to_answer() || self.progress.is_done {
                break;
            }
            if let Some(call) = self.progress.call.take() {
                call.make();
            }
            self.say_on(wish).ok_or(io::ErrorKind::NotConnected)?;
        }
        if self.is_to_answer() && Instant::now() >= self.until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(!self.is_to_answer())
    }

    /// Tells whether answers are still to come.
    fn is_to_answer(&self) -> bool {
        self.answers < self.progress.said
    }

    fn hear_what_has_come(&mut self) -> io::Result<()> {
        let agent = self.agent.get()?;
        // The hello, and what comes before it, has to be granted.
        let needed = self.progress.greeting.unwrap_or(usize::MAX);
        // The agent expects a call for two seconds, and the next step may come later.
        let within = match self.progress.call {
            Some(_) => STEP,
            None => Duration::ZERO,
        };
        while self.is_to_answer() && is_readable(agent, within) {
            match read_message(&mut Until::new(agent, Instant::now() + STEP))? {
                Answer::Done => {}
                // A process that was added later may have ended meanwhile.
                Answer::Refused { .. } if self.answers >= needed => {}
                Answer::Refused { .. } | Answer::Events { .. } => {
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
            }
            self.answers += 1;
        }
        Ok(())
    }
}

fn is_readable(agent: &UnixStream, within: Duration) -> bool {
    let mut polled = libc::pollfd {
        fd: agent.as_fd().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let milliseconds = i32::try_from(within.as_millis()).unwrap_or(0);
    // SAFETY: one valid entry.
    unsafe { libc::poll(&raw mut polled, 1, milliseconds) > 0 }
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
            let mut progress = Progress::default();
            let told = wish.say_on(&mut progress, |ask, _| {
                said.push(format!("{ask:?}"));
                Some(())
            });
            assert_eq!(progress.said, said.len());
            assert!(progress.is_done && told.is_some() != said.is_empty());
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
