//! The service: an agent for every program of the system, whichever user's it is.
//!
//! - `orders`: what conversations order;
//! - `rooms`: recordings apart from each other, by their detail; `detail`: what of it is given;
//! - `kernel`: the recordings of the kernel's events, for as long as there are subscriptions;
//!   `recording`: one of them;
//! - `listening`: the socket, its own or the one that a service manager passes;
//! - `manager`: messages to a service manager;
//! - `policy`: the users that it serves;
//! - `refusals`: what was refused, on the standard error.
//!
//! One thread does everything, so that conversations and recordings need not wait for each other:
//! each does what it can and goes on.

mod detail;
mod kernel;
mod listening;
mod manager;
mod orders;
mod policy;
mod recording;
mod refusals;
mod rooms;

use std::io;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};
use tracer_area::monotonic_now;
use tracer_engine::event::MonotonicNs;
use tracer_kernel::{FreedMemory, give_back_what_is_free};

use super::Hub;
use super::hub::MOST_AT_SERVICE;
use super::mounts::{AttachWatches, OtherMounts, PeerRights, unload_owners};
use super::server::{Host, welcome};
use orders::Orders;
use policy::Allow;
use refusals::Refusals;
use rooms::Rooms;

pub use detail::{are_addresses_public, check as check_detail};
pub use kernel::ON_DEMAND;
pub use listening::{ListenError, Listening, listen};
pub use manager::say_ready;
pub use orders::{Found, Order};
pub use policy::{Policy, PolicyError};
pub use rooms::{RoomHold, RoomKey, RoomName};

/// Time after which memory is given back that beginning a subscription has taken.
const TIDY_AFTER: Duration = Duration::from_secs(1);

/// Interval between two rounds where nothing asks for one.
const TICK: Duration = Duration::from_millis(50);

/// Interval between two rounds where one was asked for, and has not brought everything up to then:
/// a record may get its time a little before it is seen.
const SOON: Duration = Duration::from_millis(1);

/// Parts of the service that its conversations use.
#[derive(Clone)]
pub struct ServiceHandle {
    /// Receiver of orders.
    pub orders: Orders,
    refusals: Refusals,
    policy: Policy,
    /// Comparison of files of other mounts of `/proc`.
    pub mounts: OtherMounts,
    /// Rights with which programs have connected.
    pub peers: PeerRights,
    /// Watches for calls by which programs show a right.
    pub watches: AttachWatches,
}

impl ServiceHandle {
    /// Makes that of a service which has nothing in the kernel, and what receives its orders.
    pub fn without_kernel() -> (Self, UnboundedReceiver<Order>) {
        let (orders, received) = Orders::new();
        let handle = Self {
            orders,
            refusals: Refusals::unsaid(),
            policy: Policy::default(),
            mounts: OtherMounts::uncompared(),
            peers: PeerRights::unknown(),
            watches: AttachWatches::blind(),
        };
        (handle, received)
    }

    /// Notes a refusal, so that the administrator sees it.
    pub fn note(&self, user: u32, pid: i32, why: &str) {
        self.refusals.note(user, pid, why);
    }

    /// Tells whether any user is served.
    pub fn is_open(&self) -> bool {
        self.policy.allow != Allow::Off
    }

    /// Returns the group whose members see every process.
    pub fn group(&self) -> Option<u32> {
        self.policy.group
    }
}

/// Serves until a signal, or until there has been no subscription for `idle`.
///
/// # Errors
///
/// The system has no descriptor or memory for it.
pub fn serve(listening: Listening, policy: Policy, idle: Option<Duration>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (listener, _name) = listening.into_parts();
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let hub = Hub::new(MOST_AT_SERVICE, ON_DEMAND);
        let (orders, received) = Orders::new();
        let (mounts, peers) = (OtherMounts::new(), PeerRights::new());
        let host = Host::Service(ServiceHandle {
            orders,
            refusals: Refusals::default(),
            policy,
            mounts: mounts.clone(),
            peers: peers.clone(),
            watches: AttachWatches::new(),
        });
        tokio::spawn(welcome(listener, hub.clone(), host));
        let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
        let [terminate, interrupt] = signals;
        let mut service = Service {
            rooms: Rooms::new(hub),
            mounts,
            peers,
            orders: received,
            signals: (terminate?, interrupt?),
            idle,
            asked: None,
            tidy: None,
            freed_memory: FreedMemory::default(),
        };
        manager::say_ready();
        service.run().await;
        Ok(())
    })
}

struct Service {
    rooms: Rooms,
    mounts: OtherMounts,
    peers: PeerRights,
    orders: UnboundedReceiver<Order>,
    signals: (Signal, Signal),
    idle: Option<Duration>,
    /// When everything was asked for last.
    asked: Option<MonotonicNs>,
    /// When memory is given back that beginning a subscription has taken.
    tidy: Option<Instant>,
    freed_memory: FreedMemory,
}

impl Service {
    async fn run(&mut self) {
        loop {
            let is_loaded = self.rooms.are_loaded();
            let is_behind = self.asked.is_some_and(|asked| self.rooms.are_behind(asked));
            let tick = Instant::now() + if is_behind { SOON } else { TICK };
            let quiet = self.rooms.quiet_until(self.idle);
            let tidy = self.tidy;
            tokio::select! {
                order = self.orders.recv() => match order {
                    Some(order) => self.obey_all(order),
                    None => return,
                },
                () = self.rooms.readable(), if is_loaded => {}
                () = sleep_until(tick), if is_loaded => {}
                () = at(tidy) => {
                    self.tidy = None;
                    give_back_what_is_free();
                }
                () = at(quiet) => if self.end_quiet() { return },
                _ = self.signals.0.recv() => return,
                _ = self.signals.1.recv() => return,
            }
            self.rooms.round();
            self.freed_memory.tick();
        }
    }

    /// Does what is to be done where there has been no subscription. Returns whether the service is
    /// to end.
    fn end_quiet(&mut self) -> bool {
        let is_end = self.rooms.end_quiet();
        if !self.rooms.are_loaded() {
            self.mounts.unload();
            self.peers.unload();
            unload_owners();
        }
        is_end
    }

    /// Obeys an order and those that have come meanwhile: one round serves all.
    fn obey_all(&mut self, first: Order) {
        self.obey(first);
        while let Ok(order) = self.orders.try_recv() {
            self.obey(order);
        }
        self.rooms.note_which_are_empty();
    }

    fn obey(&mut self, order: Order) {
        // The receiver of a reply may be gone: its conversation has ended.
        match order {
            Order::Newest => self.asked = Some(monotonic_now()),
            Order::Open {
                detail,
                user,
                reply,
            } => drop(reply.send(self.rooms.open(detail, user))),
            Order::Trace { room, pid, reply } => {
                self.tidy = Some(Instant::now() + TIDY_AFTER);
                let traced = match self.rooms.get(room) {
                    Some(room) => room.kernel.trace(pid),
                    None => Err("it has waited for too long; try again".to_owned()),
                };
                let _ = reply.send(traced);
            }
            Order::Note {
                room,
                pid,
                found,
                reply,
            } => {
                let noted = match self.rooms.get(room) {
                    Some(room) => room.kernel.note_found(pid, found),
                    None => Err("the recording is gone".to_owned()),
                };
                let _ = reply.send(noted);
            }
            Order::Adjust { room, reply } => {
                if let Some(room) = self.rooms.get(room) {
                    room.kernel.adjust();
                }
                let _ = reply.send(());
            }
            Order::Release { room, pids } => {
                if let Some(room) = self.rooms.get(room) {
                    room.kernel.release(&pids);
                }
            }
        }
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
