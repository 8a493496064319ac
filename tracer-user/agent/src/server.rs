//! The conversations with programs that want the kernel's events in their streams.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::UCred;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use tracer_area::monotonic_now;
use tracer_engine::EventSet;
use tracer_posix::agent::protocol::{Answer, Ask, VERSION};
use tracer_posix::wire::framed;

use super::hub::{SubscriptionId, Wish};
use super::receive::{Request, receive};
use super::share::{Most, Shares};
use super::socket::AgentSocket;
use super::viewer::Viewer;
use super::{Asked, Hub};

/// Most bytes that are held for one stream, whatever it asks for.
const MOST_CAPACITY: u64 = 16 << 20;

/// Connections that there may be: each has a descriptor.
const MOST_CONNECTIONS: Most = Most {
    a_user: 48,
    all_but_root: 96,
    all: 128,
};

/// Longest time a program may take for its request.
const HELLO_WITHIN: Duration = Duration::from_secs(2);

/// Wait where no descriptor is free.
const PAUSE: Duration = Duration::from_millis(20);

/// The agent, before its first conversation.
pub struct Agent {
    listener: UnixListener,
    socket: AgentSocket,
}

/// Makes the socket where programs can ask, under a name that no other user can take.
///
/// # Errors
///
/// No socket is available.
pub fn listen() -> io::Result<Agent> {
    let (listener, socket) = AgentSocket::listen()?;
    listener.set_nonblocking(true)?;
    Ok(Agent {
        listener: UnixListener::from_std(listener)?,
        socket,
    })
}

impl Agent {
    /// Returns the address that programs find in their environment.
    #[must_use]
    pub fn address(&self) -> &Path {
        self.socket.path()
    }

    /// Talks to all programs that connect, as long as this program runs. A program that needs the
    /// newest events is reported by `asked`. Hold the returned socket as long as programs may come.
    pub fn serve(self, hub: Hub, asked: Asked) -> AgentSocket {
        let connections = Arc::new(Mutex::new(Shares::new(MOST_CONNECTIONS)));
        let listener = self.listener;
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        // Who is one too many, or is not known to the kernel, is hung up on.
                        if let Some(guest) = Guest::admit(stream, &connections) {
                            tokio::spawn(talk(guest, hub.clone(), asked.clone()));
                        }
                    }
                    // No descriptor or memory is free for a while, or who came is gone: the others
                    // are served all the same.
                    Err(_) => sleep(PAUSE).await,
                }
            }
        });
        self.socket
    }
}

/// Program that is talked to, and counted for that.
struct Guest {
    stream: UnixStream,
    credentials: UCred,
    connections: Arc<Mutex<Shares>>,
}

impl Guest {
    fn admit(stream: UnixStream, connections: &Arc<Mutex<Shares>>) -> Option<Self> {
        let credentials = stream.peer_cred().ok()?;
        let mut shares = connections.lock().unwrap_or_else(PoisonError::into_inner);
        shares.take(credentials.uid(), 1).then(|| Self {
            stream,
            credentials,
            connections: Arc::clone(connections),
        })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let shares = self.connections.lock();
        let mut shares = shares.unwrap_or_else(PoisonError::into_inner);
        shares.give_back(self.credentials.uid(), 1);
    }
}

async fn talk(mut guest: Guest, hub: Hub, asked: Asked) {
    let mut conversation = Conversation {
        hub,
        newest: asked,
        asker: guest.credentials,
        subscription: None,
    };
    // Who says what cannot be parsed, or nothing, or is gone, is not talked to any more.
    let mut asked = timeout(HELLO_WITHIN, receive(&guest.stream)).await;
    while let Ok(Ok(request)) = asked {
        // Of the traced family every process is known: no proof is needed.
        let Request { ask, files } = request;
        drop(files);
        let answer = conversation.answer(ask).await;
        let Ok(bytes) = framed(&answer) else { return };
        // A program that was refused does not need the connection.
        let is_refused = matches!(answer, Answer::Refused { .. });
        if guest.stream.write_all(&bytes).await.is_err() || is_refused {
            return;
        }
        asked = Ok(receive(&guest.stream).await);
    }
}

/// Holds a conversation in which the other side says `untrusted` and hangs up.
#[doc(hidden)]
pub fn converse(untrusted: &[u8]) {
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
        return;
    };
    runtime.block_on(async {
        let (Ok((ours, mut theirs)), hub) = (UnixStream::pair(), Hub::default()) else {
            return;
        };
        hub.add_process(std::process::id().cast_signed());
        // The hub gets no more events.
        let asked = Asked::new(|| false);
        let connections = Arc::new(Mutex::new(Shares::new(MOST_CONNECTIONS)));
        let Some(guest) = Guest::admit(ours, &connections) else {
            return;
        };
        let saying = async {
            // The write fails once the agent has hung up.
            let _ = theirs.write_all(untrusted).await;
            let _ = theirs.shutdown().await;
            let mut answers = Vec::new();
            let _ = theirs.read_to_end(&mut answers).await;
        };
        tokio::join!(talk(guest, hub, asked), saying);
    });
}

struct Conversation {
    hub: Hub,
    newest: Asked,
    asker: UCred,
    subscription: Option<SubscriptionId>,
}

impl Conversation {
    async fn answer(&mut self, ask: Ask) -> Answer {
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
                match self.permitted(pid) {
                    Ok((viewer, pid)) => {
                        let wish = Wish {
                            viewer,
                            pid,
                            inherit,
                            capacity: capacity.min(MOST_CAPACITY),
                            keeps_oldest,
                        };
                        self.subscription = self.hub.subscribe(wish);
                        match self.subscription {
                            None => too_many(),
                            // It may have become another program meanwhile, and said so before this
                            // subscription was there.
                            Some(_) if !viewer.may_see_now(pid) => unseen(),
                            Some(_) => Answer::Done,
                        }
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
            (Ask::Add { pid }, Some(id)) => {
                self.catch_up().await;
                match self.permitted(pid) {
                    Ok((viewer, pid)) if self.hub.add_to(id, pid) && viewer.may_see_now(pid) => {
                        Answer::Done
                    }
                    Ok(_) => unseen(),
                    Err(refusal) => refusal,
                }
            }
            (Ask::Hello { .. }, Some(_))
            | (Ask::Control { .. } | Ask::Collect | Ask::Add { .. }, None) => {
                refused(libc::EINVAL, "a conversation begins with one hello")
            }
        }
    }

    /// Waits until everything up to now has been taken from the kernel.
    async fn catch_up(&self) {
        let now = monotonic_now();
        // Where no round will come the trace has ended: what was taken is all there is.
        if self.newest.ask() {
            self.hub.wait_for(now).await;
        }
    }

    /// Returns the asker, and the process that they may trace, by its pid here.
    fn permitted(&self, pid: i32) -> Result<(Viewer, i32), Answer> {
        let unknown = || refused(libc::EPERM, "who asks is not known to the kernel");
        let asker = &self.asker;
        let asking = asker.pid().ok_or_else(unknown)?;
        let pid = if pid == 0 { asking } else { pid };
        if !Path::new(&format!("/proc/{pid}")).exists() {
            return Err(refused(libc::ESRCH, "there is no such process"));
        }
        let viewer = Viewer::new(asking, asker.uid(), asker.gid());
        if !viewer.may_see_now(pid) {
            return Err(unseen());
        }
        if !self.hub.has_process(asking) || !self.hub.has_process(pid) {
            return Err(refused(
                libc::EPERM,
                "only what this tracer-user traces itself is given; start the program under it, \
                 without --no-inherit",
            ));
        }
        Ok((viewer, pid))
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        if let Some(id) = self.subscription {
            self.hub.unsubscribe(id);
        }
    }
}

fn unseen() -> Answer {
    refused(
        libc::EPERM,
        "the process is another user's, or has rights that this one has not",
    )
}

fn too_many() -> Answer {
    refused(
        libc::EAGAIN,
        "it serves as many streams as this user, or all together, may have",
    )
}

fn refused(error: i32, why: &str) -> Answer {
    Answer::Refused {
        error,
        why: why.to_owned(),
    }
}
