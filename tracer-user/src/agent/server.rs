//! The conversations with programs that want the kernel's events in their streams.

use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::UCred;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::UnboundedSender;
use tracer_posix::agent::protocol::{Answer, Ask, VERSION};
use tracer_posix::area::monotonic_now;
use tracer_posix::engine::EventSet;
use tracer_posix::wire::{checked_length, framed, parsed};

use super::Hub;
use super::hub::{SubscriptionId, Wish};
use crate::trace::Wake;

/// Most bytes that are kept for one stream, whatever it asks for.
const MOST_CAPACITY: u64 = 16 << 20;

/// Nobody asks in more bytes than this.
const MOST_ASKED_BYTES: usize = 4096;

/// The agent, before anybody talks to it.
pub struct Agent {
    listener: UnixListener,
    address: String,
}

/// Makes the place where programs can ask, under a name that nobody else has.
///
/// # Errors
///
/// No socket can be had.
pub fn listen() -> io::Result<Agent> {
    let mut random = [0; 8];
    // SAFETY: the buffer has so many bytes.
    if unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let random = u64::from_ne_bytes(random);
    let name = format!("tracer-user-{}-{random:016x}", std::process::id());
    let listener = StdListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    listener.set_nonblocking(true)?;
    Ok(Agent {
        listener: UnixListener::from_std(listener)?,
        address: format!("@{name}"),
    })
}

impl Agent {
    /// What programs find in their environment.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Talks to whoever comes. Who needs the newest events tells so by `wakes`.
    pub fn serve(self, hub: Hub, wakes: UnboundedSender<Wake>) {
        tokio::spawn(async move {
            // No descriptor may be free for a while; who waits is served then.
            while let Ok((stream, _)) = self.listener.accept().await {
                tokio::spawn(talk(stream, hub.clone(), wakes.clone()));
            }
        });
    }
}

async fn talk(mut stream: UnixStream, hub: Hub, wakes: UnboundedSender<Wake>) {
    let mut conversation = Conversation {
        hub,
        wakes,
        subscription: None,
    };
    // Who says what cannot be understood, or is gone, is not talked to any more.
    while let Ok(ask) = receive(&mut stream).await {
        let answer = conversation.answer(&stream, ask).await;
        let Ok(bytes) = framed(&answer) else { return };
        if stream.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn receive(stream: &mut UnixStream) -> io::Result<Ask> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    let length = checked_length(length)?;
    if length > MOST_ASKED_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    parsed(&body)
}

struct Conversation {
    hub: Hub,
    wakes: UnboundedSender<Wake>,
    subscription: Option<SubscriptionId>,
}

impl Conversation {
    async fn answer(&mut self, stream: &UnixStream, ask: Ask) -> Answer {
        match (ask, self.subscription) {
            (
                Ask::Hello {
                    version,
                    pid,
                    inherit,
                    capacity,
                    keeps_oldest,
                },
                None,
            ) => {
                if version != VERSION {
                    return refused(
                        libc::ENOTSUP,
                        "the library and tracer-user are of different versions; install one",
                    );
                }
                // A process that has just been made may ask before it is known here.
                self.catch_up().await;
                match self.permitted(stream.peer_cred(), pid) {
                    Ok(pid) => {
                        let wish = Wish {
                            pid,
                            inherit,
                            capacity: capacity.min(MOST_CAPACITY),
                            keeps_oldest,
                        };
                        self.subscription = self.hub.subscribe(wish);
                        self.subscription
                            .map_or_else(too_many, |_subscribed| Answer::Done)
                    }
                    Err(refusal) => refusal,
                }
            }
            (Ask::Control { running, filter }, Some(id)) => {
                self.hub.control(id, running, EventSet::from_words(filter));
                Answer::Done
            }
            (Ask::Collect, Some(id)) => {
                self.catch_up().await;
                self.hub.collect(id)
            }
            (Ask::Hello { .. }, Some(_)) | (Ask::Control { .. } | Ask::Collect, None) => {
                refused(libc::EINVAL, "a conversation begins with one hello")
            }
        }
    }

    /// Waits until everything up to now has been taken from the kernel.
    async fn catch_up(&self) {
        let now = monotonic_now();
        // The trace is at its end when nobody listens: what was taken is all there is.
        if self.wakes.send(Wake::AgentAsked).is_ok() {
            self.hub.wait_for(now).await;
        }
    }

    /// The process that may be traced by who asks, by its number here.
    fn permitted(&self, asker: io::Result<UCred>, pid: i32) -> Result<i32, Answer> {
        let unknown = || refused(libc::EPERM, "who asks is not known to the kernel");
        let asker = asker.map_err(|_unknown| unknown())?;
        let asking = asker.pid().ok_or_else(unknown)?;
        let pid = if pid == 0 { asking } else { pid };
        let owner = fs::metadata(format!("/proc/{pid}"));
        let owner = owner.map_err(|_gone| refused(libc::ESRCH, "there is no such process"))?;
        if asker.uid() != 0 && asker.uid() != owner.uid() {
            return Err(refused(libc::EPERM, "the process is another user's"));
        }
        if !self.hub.has_process(asking) || !self.hub.has_process(pid) {
            return Err(refused(
                libc::EPERM,
                "only what this tracer-user traces itself is given; start the program under it, \
                 without --no-inherit",
            ));
        }
        Ok(pid)
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        if let Some(id) = self.subscription {
            self.hub.unsubscribe(id);
        }
    }
}

fn too_many() -> Answer {
    refused(libc::EAGAIN, "it serves as many streams as it can already")
}

fn refused(error: i32, why: &str) -> Answer {
    Answer::Refused {
        error,
        why: why.to_owned(),
    }
}
