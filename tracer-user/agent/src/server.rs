//! The conversations with programs that want the kernel's events in their streams.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::unix::UCred;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::error::Elapsed;
use tokio::time::{sleep, timeout};
use tracer_area::monotonic_now;
use tracer_common::kernel::{ContextPlace, PythonProcess};
use tracer_engine::EventSet;
use tracer_posix::agent::protocol::{Answer, Ask, Detail, PLAIN_VERSION, VERSION};
use tracer_posix::wire::framed;

use super::Hub;
use super::closing::ClosingConnection;
use super::hub::{SubscriptionId, Terms};
use super::mounts::PeerRights;
use super::receive::{AgentQuestion, receive};
use super::rights::{self, ExpectedCall, NotProven, Proven, prove};
use super::service::{Found, RoomHold, RoomKey, ServiceHandle, check_detail};
use super::share::{Most, Pool, PoolPart};
use super::socket::AgentSocket;
use super::viewer::{Noted, Viewer, may_trace_all};

/// Most bytes that are held for one stream, whatever it asks for.
const MOST_CAPACITY: u64 = 16 << 20;

/// Connections that there may be at the agent of one trace: each has a descriptor.
const MOST_CONNECTIONS: Most = Most {
    a_user: 48,
    all_but_root: 96,
    all: 128,
};

/// Connections that there may be at the service.
const MOST_CONNECTIONS_AT_SERVICE: Most = Most {
    a_user: 48,
    all_but_root: 288,
    all: 384,
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
    pub fn serve(self, hub: Hub, asked: RoundRequest) -> AgentSocket {
        tokio::spawn(welcome(self.listener, hub, Host::Trace(asked)));
        self.socket
    }
}

/// Callback that asks for a round, which brings the kernel's events up to now. It does not wait.
#[derive(Clone)]
pub struct RoundRequest(Arc<dyn Fn() -> bool + Send + Sync>);

impl RoundRequest {
    /// Makes it of a function that returns whether the round will come: after the end of a trace
    /// none does.
    pub fn new(ask: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// Asks for a round. Returns whether it will come.
    #[must_use]
    pub fn ask(&self) -> bool {
        (self.0)()
    }
}

/// Agent that a conversation is held for.
#[derive(Clone)]
pub enum Host {
    /// The agent of one trace: it gives the events of the processes that this traces.
    Trace(RoundRequest),
    /// The service: it traces what is asked for, as far as the client proves its right.
    Service(ServiceHandle),
}

impl Host {
    /// Has everything up to now brought. Returns whether it will come.
    fn ask_for_newest(&self) -> bool {
        match self {
            Self::Trace(asked) => asked.ask(),
            Self::Service(service) => service.orders.ask_for_newest(),
        }
    }

    /// Returns how many connections there may be.
    pub fn most_connections(&self) -> Most {
        match self {
            Self::Trace(_) => MOST_CONNECTIONS,
            Self::Service(..) => MOST_CONNECTIONS_AT_SERVICE,
        }
    }
}

/// Talks to all programs that connect.
pub async fn welcome(listener: UnixListener, hub: Hub, host: Host) {
    let connections = Pool::new(host.most_connections());
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // One that is too many, or is not known to the kernel, is hung up on.
                if let Some(guest) = Guest::admit(stream, &connections) {
                    tokio::spawn(talk(guest, hub.clone(), host.clone()));
                }
            }
            // No descriptor or memory is free for a while, or the program is gone: the others are
            // served all the same.
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Place among the connections, which is free again when the last of its copies is dropped.
#[derive(Clone, Debug)]
pub struct Slot(#[expect(dead_code, reason = "held until it is dropped")] Arc<PoolPart>);

impl Slot {
    /// Takes a place for this user, if there is one.
    pub fn take(user: u32, connections: &Pool) -> Option<Self> {
        connections.take(user, 1).map(|part| Self(Arc::new(part)))
    }
}

/// Program that is talked to, and counted for that.
pub struct Guest {
    connection: ClosingConnection,
    credentials: UCred,
    slot: Slot,
}

impl Guest {
    /// Admits a program, unless there are too many of its user's.
    pub fn admit(stream: UnixStream, connections: &Pool) -> Option<Self> {
        let mut connection = ClosingConnection::new(stream);
        let credentials = connection.stream().peer_cred().ok()?;
        let slot = Slot::take(credentials.uid(), connections)?;
        connection.take_place(&slot);
        Some(Self {
            slot,
            connection,
            credentials,
        })
    }

    /// Receives its next request.
    async fn request(&self) -> io::Result<AgentQuestion> {
        receive(self.connection.stream(), &self.slot).await
    }

    /// Returns the rights that it had as it connected. Whether it might trace every process is not
    /// asked where it may not now; root is believed where that cannot be known.
    fn noted(&self, peers: &PeerRights) -> Noted {
        let connection = self.connection.stream().as_fd();
        let is_root = self.credentials.uid() == 0;
        Noted {
            might_trace_all: self.credentials.pid().is_some_and(may_trace_all)
                && peers.might_trace_all(connection).unwrap_or(is_root),
            is_of_first_namespace: peers.is_of_first_namespace(connection).unwrap_or(false),
            traces_within: peers.traces_within(connection),
        }
    }

    /// Tells whether it is of a group, as the kernel noted it when it connected.
    fn is_of(&self, group: u32) -> bool {
        let groups = || groups_of_peer(self.connection.stream());
        self.credentials.gid() == group || groups().contains(&group)
    }
}

/// Returns the supplementary groups of the process that connected.
fn groups_of_peer(stream: &UnixStream) -> Vec<libc::gid_t> {
    /// Most groups that a process has (`NGROUPS_MAX`).
    const MOST: usize = 65_536;
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let bytes = size_of_val(&*groups);
        let Ok(mut length) = libc::socklen_t::try_from(bytes) else {
            return Vec::new();
        };
        // SAFETY: both are valid for a write, and the length is that of the first.
        let failed = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if failed == 0 {
            groups.truncate(length as usize / size_of::<libc::gid_t>());
            return groups;
        }
        let is_short = io::Error::last_os_error().raw_os_error() == Some(libc::ERANGE);
        if !is_short || groups.len() >= MOST {
            return Vec::new();
        }
        groups.resize(MOST, 0);
    }
}

/// Talks to a program until that ends.
pub async fn talk(mut guest: Guest, hub: Hub, host: Host) {
    let is_of_group = match &host {
        Host::Service(service) => service.group().is_some_and(|group| guest.is_of(group)),
        Host::Trace(_) => false,
    };
    let noted = match &host {
        // One that is turned off has nothing in the kernel.
        Host::Service(service) if !service.is_open() => Noted::default(),
        Host::Service(service) => guest.noted(&service.peers),
        Host::Trace(_) => Noted {
            might_trace_all: guest.credentials.uid() == 0,
            ..Noted::default()
        },
    };
    let mut conversation = Conversation {
        hub,
        host,
        noted,
        asker: guest.credentials,
        is_of_group,
        room: None,
        hold: None,
        expected: None,
        subscription: None,
        under_way: None,
    };
    // Who says what cannot be parsed, or nothing, or is gone, is not talked to any more.
    let mut asked = timeout(HELLO_WITHIN, guest.request()).await;
    while let Ok(Ok(request)) = asked {
        let is_further = match request.ask {
            Ask::Add { .. } | Ask::Contexts { .. } | Ask::Interpreter { .. } => true,
            Ask::Prove => conversation.subscription.is_some(),
            _ => false,
        };
        let answer = conversation.answer(request).await;
        let Ok(bytes) = framed(&answer) else { return };
        // A program that was refused does not need the connection, unless it has something already.
        let is_refused = matches!(answer, Answer::Refused { .. }) && !is_further;
        conversation.note(&answer);
        // It has gone into the bytes, which may take as long as the client likes.
        drop(answer);
        if let Some(memory) = &mut conversation.under_way {
            memory.shrink_to(bytes.len() as u64);
        }
        let stream = guest.connection.stream_mut();
        if stream.write_all(&bytes).await.is_err() || is_refused {
            return;
        }
        drop(bytes);
        conversation.under_way = None;
        asked = conversation.next_request(&guest).await;
    }
}

struct Conversation {
    hub: Hub,
    host: Host,
    asker: UCred,
    /// Rights that it had as it connected.
    noted: Noted,
    /// Whether it is of the group that sees every process.
    is_of_group: bool,
    /// The recording that the hub is of.
    room: RoomKey,
    /// Hold on that, where it is not the usual one.
    hold: Option<RoomHold>,
    /// Process to which it shows its right by a call.
    expected: Option<ExpectedCall>,
    subscription: Option<SubscriptionId>,
    /// Memory of the events that the client has not been sent yet.
    under_way: Option<PoolPart>,
}

impl Conversation {
    /// Receives the next request. Until it has a subscription, a client has two seconds for it; and
    /// later as long as it likes, but a watch for its call does not last longer.
    async fn next_request(&mut self, guest: &Guest) -> Result<io::Result<AgentQuestion>, Elapsed> {
        let mut request = pin!(guest.request());
        if self.subscription.is_none() || self.expected.is_some() {
            let in_time = timeout(HELLO_WITHIN, &mut request).await;
            if in_time.is_ok() || self.subscription.is_none() {
                return in_time;
            }
            self.expected = None;
        }
        Ok(request.await)
    }

    async fn answer(&mut self, AgentQuestion { ask, files }: AgentQuestion) -> Answer {
        let answer = self.answer_with(ask, files.as_slice()).await;
        files.close().await;
        answer
    }

    async fn answer_with(&mut self, ask: Ask, files: &[OwnedFd]) -> Answer {
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
                if !(PLAIN_VERSION..=VERSION).contains(&version) {
                    return refused(
                        libc::ENOTSUP,
                        "the library and tracer-user are of different versions; install one",
                    );
                }
                match self.permitted(pid, files).await {
                    Ok(permitted) => {
                        let wish = Terms {
                            viewer: permitted.viewer,
                            pid: permitted.pid,
                            inherit,
                            capacity: capacity.min(MOST_CAPACITY),
                            keeps_oldest,
                        };
                        self.subscription = self.hub.subscribe(wish);
                        match self.subscription {
                            None => too_many(self.hub.most_subscriptions()),
                            Some(id) => self.begin(id, permitted).await,
                        }
                    }
                    Err(refusal) => refusal,
                }
            }
            (Ask::Control { running, filter }, Some(id)) => {
                self.hub.control(id, running, EventSet::from_words(filter));
                if let Host::Service(service) = &self.host {
                    service.orders.adjust(self.room).await;
                }
                Answer::Done
            }
            (Ask::Collect, Some(id)) => {
                self.catch_up().await;
                let answer;
                (answer, self.under_way) = self.hub.collect(id);
                answer
            }
            (Ask::Add { pid }, Some(id)) => match self.permitted(pid, files).await {
                Ok(permitted) => self.add(id, permitted).await,
                Err(refusal) => refusal,
            },
            (Ask::Contexts { pid, place }, Some(id)) => {
                let place = place.map(|[module, offset, generation]| ContextPlace {
                    module,
                    offset,
                    generation,
                });
                self.note_found(id, (pid, files), Found::Contexts(place))
                    .await
            }
            (Ask::Interpreter { pid, process }, Some(id)) => {
                let process = process.map(|words| PythonProcess::from_words(*words));
                self.note_found(id, (pid, files), Found::Interpreter(process))
                    .await
            }
            (Ask::Record { detail }, None) if self.room.is_none() => self.open(*detail).await,
            (Ask::Prove, _) if self.expected.is_none() => self.expect_call(files),
            (Ask::Prove, _) => refused(libc::EINVAL, "one right is proven at a time"),
            (Ask::Hello { .. } | Ask::Record { .. }, _)
            | (
                Ask::Control { .. }
                | Ask::Collect
                | Ask::Add { .. }
                | Ask::Contexts { .. }
                | Ask::Interpreter { .. },
                None,
            ) => refused(
                libc::EINVAL,
                "a conversation begins with one hello, or with a detail and then the hello",
            ),
        }
    }

    /// Goes on with the recording of a detail.
    async fn open(&mut self, detail: Detail) -> Answer {
        let Host::Service(service) = &self.host else {
            return refused(
                libc::ENOTSUP,
                "this tracer-user records for itself, in its own detail; give it the options",
            );
        };
        let asker = &self.asker;
        let sees_every_process = self.is_of_group
            || asker
                .pid()
                .is_some_and(|asking| self.viewer(asking).is_unmasked());
        if let Err(why) = check_detail(&detail, sees_every_process) {
            return refused(why.error_number(), &why.to_string());
        }
        match service.orders.open(detail, asker.uid()).await {
            Ok((room, hub, hold)) => {
                (self.hub, self.room, self.hold) = (hub, Some(room), Some(hold));
                Answer::Done
            }
            Err(why) => refused(libc::EAGAIN, &why),
        }
    }

    /// Watches for the call by which the asker proves its right, where it needs a proof. The watch
    /// slows the whole machine down: so there is none for what would be refused all the same.
    fn expect_call(&mut self, files: &[OwnedFd]) -> Answer {
        let Host::Service(service) = &self.host else {
            return Answer::Done;
        };
        if !service.is_open() {
            return turned_off();
        }
        if self.is_of_group {
            return Answer::Done;
        }
        let expected = rights::name(files).and_then(|named| {
            let asking = self.asker.pid().ok_or(NotProven::NoDescriptors)?;
            if !self.viewer(asking).may_see_now(named.pid) {
                return Err(NotProven::NoDescriptors);
            }
            ExpectedCall::begin(named, &service.watches)
        });
        match expected {
            Ok(expected) => {
                self.expected = Some(expected);
                Answer::Done
            }
            Err(why) => unproven(why),
        }
    }

    /// Waits until everything up to now has been taken from the kernel.
    async fn catch_up(&self) {
        let now = monotonic_now();
        // Where no round will come the trace has ended: what was taken is all there is.
        if self.host.ask_for_newest() {
            self.hub.wait_for(now).await;
        }
    }

    /// Returns the asker, which is the process of this pid, with the rights that it has.
    fn viewer(&self, asking: i32) -> Viewer {
        let user = (self.asker.uid(), self.asker.gid());
        Viewer::new(asking, user, self.noted)
    }

    /// Returns the process that the asker may trace.
    async fn permitted(&mut self, pid: i32, files: &[OwnedFd]) -> Result<Permitted, Answer> {
        self.permitted_with(pid, files, self.is_of_group).await
    }

    /// Returns the process whose memory the asker may read: to one of the group every process shows
    /// its events, and not all of its memory.
    async fn readable(&mut self, pid: i32, files: &[OwnedFd]) -> Result<Permitted, Answer> {
        self.permitted_with(pid, files, false).await
    }

    async fn permitted_with(
        &mut self,
        pid: i32,
        files: &[OwnedFd],
        is_by_group: bool,
    ) -> Result<Permitted, Answer> {
        let unknown = || refused(libc::EPERM, "the kernel does not know which process asks");
        let asker = &self.asker;
        let asking = asker.pid().ok_or_else(unknown)?;
        let expected = self.expected.take();
        match &self.host {
            Host::Trace(_) => {
                // A process that has just been made may ask before it is known here.
                self.catch_up().await;
                let pid = if pid == 0 { asking } else { pid };
                self.permitted_of_trace(asking, self.viewer(asking), pid)
            }
            Host::Service(service) if !service.is_open() => Err(turned_off()),
            Host::Service(_) if is_by_group => {
                permitted_by_group(Viewer::of_whole_machine(asker.uid(), asker.gid()), files)
            }
            Host::Service(service) => {
                let proven = match expected {
                    Some(expected) if files.len() == 1 => expected.prove(files),
                    _ => prove(files, &service.mounts),
                };
                permitted_by_proof(self.viewer(asking), proven)
            }
        }
    }

    /// Returns a process of the trace: of the traced family every one is known, and no proof is
    /// needed.
    fn permitted_of_trace(
        &self,
        asking: i32,
        viewer: Viewer,
        pid: i32,
    ) -> Result<Permitted, Answer> {
        if !Path::new(&format!("/proc/{pid}")).exists() {
            return Err(refused(libc::ESRCH, "there is no such process"));
        }
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
        Ok(Permitted {
            viewer,
            pid,
            proof: None,
        })
    }

    /// Begins with a process that is subscribed to by now.
    async fn begin(&self, id: SubscriptionId, permitted: Permitted) -> Answer {
        if let Host::Service(service) = &self.host
            && let Err(why) = service.orders.trace(self.room, permitted.pid).await
        {
            return refused(libc::ENOTSUP, &why);
        }
        let now = monotonic_now();
        // What is traced by now is the process that was proven to be the asker's to trace, and not
        // another one that has its pid.
        if permitted.proof.as_ref().is_some_and(|proof| !proof.lives()) {
            return refused(libc::ESRCH, "the process has ended");
        }
        // It may have become another program meanwhile, and said so before this subscription was
        // there.
        if !permitted.viewer.may_see_now(permitted.pid) {
            return unseen();
        }
        self.hub.confirm(id, permitted.pid, now);
        Answer::Done
    }

    async fn add(&self, id: SubscriptionId, permitted: Permitted) -> Answer {
        let pid = permitted.pid;
        let is_new = match self.hub.add_to(id, pid) {
            Ok(added) => added,
            Err(refusal) => return refused(libc::EAGAIN, &refusal),
        };
        let answer = self.begin(id, permitted).await;
        if is_new && matches!(answer, Answer::Refused { .. }) {
            self.hub.remove_from(id, pid);
            self.release(vec![pid]);
        }
        answer
    }

    /// Notes what the client has found in a process that the subscription has.
    async fn note_found(
        &mut self,
        id: SubscriptionId,
        (pid, files): (i32, &[OwnedFd]),
        found: Found,
    ) -> Answer {
        // What it says decides which memory of the process is read.
        let permitted = match self.readable(pid, files).await {
            Ok(permitted) => permitted,
            Err(refusal) => return refusal,
        };
        let is_recorded = self.room.is_some_and(|room| found.is_of(&room.detail));
        let (Host::Service(service), true) = (&self.host, is_recorded) else {
            return refused(libc::EINVAL, "this was not asked for in the detail");
        };
        let pid = permitted.pid;
        if !self.hub.has(id, pid) {
            return refused(libc::ESRCH, "the process was not asked for, or has ended");
        }
        if let Err(why) = service.orders.note_found(self.room, pid, found).await {
            return refused(libc::EAGAIN, &why);
        }
        // It was not noted of another process that has the pid by now.
        if permitted.proof.as_ref().is_some_and(|proof| !proof.lives()) {
            let nothing = found.nothing();
            let _ = service.orders.note_found(self.room, pid, nothing).await;
            return refused(libc::ESRCH, "the process has ended");
        }
        Answer::Done
    }

    /// Has processes traced no longer that no subscription has any more.
    fn release(&self, pids: Vec<i32>) {
        if let Host::Service(service) = &self.host {
            service.orders.release(self.room, pids);
        }
    }

    /// Notes a refusal of the service, so that its administrator sees it.
    fn note(&self, answer: &Answer) {
        if let (Host::Service(service), Answer::Refused { why, .. }) = (&self.host, answer) {
            service.note(self.asker.uid(), self.asker.pid().unwrap_or(0), why);
        }
    }
}

/// Process that a client may trace.
struct Permitted {
    viewer: Viewer,
    pid: i32,
    proof: Option<Proven>,
}

/// Returns the process that a client names who may trace every process but the service.
fn permitted_by_group(viewer: Viewer, files: &[OwnedFd]) -> Result<Permitted, Answer> {
    let named = rights::name(files);
    let named = named.map_err(unproven)?;
    if named.pid == std::process::id().cast_signed() {
        return Err(of_service());
    }
    Ok(Permitted {
        viewer,
        pid: named.pid,
        proof: Some(named),
    })
}

/// Returns the process of which the client has proven that it may trace it.
fn permitted_by_proof(
    viewer: Viewer,
    proven: Result<Proven, NotProven>,
) -> Result<Permitted, Answer> {
    let proven = proven.map_err(unproven)?;
    let pid = proven.pid;
    if pid == std::process::id().cast_signed() {
        return Err(of_service());
    }
    if !viewer.may_see_now(pid) {
        return Err(refused(
            libc::EPERM,
            "the service gives only processes that are wholly the user's own: the same real, \
             effective and saved user and group, no capabilities, memory that may be dumped, and \
             the service's user namespace, or one that the user has made in it, even where ptrace \
             allows more; to programs that have CAP_SYS_PTRACE as they connect, all",
        ));
    }
    Ok(Permitted {
        viewer,
        pid,
        proof: Some(proven),
    })
}

impl Drop for Conversation {
    fn drop(&mut self) {
        if let Some(id) = self.subscription {
            let processes = self.hub.unsubscribe(id);
            self.release(processes);
        }
    }
}

fn unproven(why: NotProven) -> Answer {
    refused(why.error_number(), &why.to_string())
}

fn turned_off() -> Answer {
    refused(
        libc::EPERM,
        "the administrator has turned the service off (allow, in /etc/tracer-user.toml)",
    )
}

fn of_service() -> Answer {
    refused(libc::EPERM, "the service does not trace itself")
}

fn unseen() -> Answer {
    refused(
        libc::EPERM,
        "the process is another user's, or has rights that this one has not",
    )
}

fn too_many(most: Most) -> Answer {
    let why = format!(
        "it serves as many streams as this user ({}), or all users but root together ({}), may have; \
         end others, or try again later",
        most.a_user, most.all_but_root
    );
    refused(libc::EAGAIN, &why)
}

fn refused(error: i32, why: &str) -> Answer {
    Answer::Refused {
        error,
        why: why.to_owned(),
    }
}
