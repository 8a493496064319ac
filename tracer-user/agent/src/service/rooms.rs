//! Recordings apart from each other: one of the usual detail, and one for each other detail that
//! clients want. Those that want the same share it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;
use tracer_engine::event::MonotonicNs;
use tracer_posix::agent::protocol::Detail;

use super::kernel::Recordings;
use crate::Hub;
use crate::share::{Most, Shares};

/// Recordings of other than the usual detail that there may be.
const MOST_ROOMS: Most = Most {
    a_user: 3,
    all_but_root: 9,
    all: 12,
};

/// Time after the last subscription for which programs stay in the kernel: a program that ends and
/// is started again finds them there.
const LINGER: Duration = Duration::from_secs(3);

/// Loadings of programs for one user in [`LOADED_WITHIN`]: each takes a moment, in which others
/// wait.
const MOST_LOADED: usize = 12;

/// Time in which these are counted.
const LOADED_WITHIN: Duration = Duration::from_secs(30);

/// Name of a recording; `None` for the usual one.
pub type RoomKey = Option<RoomName>;

/// Name of a recording of other than the usual detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomName {
    /// The detail.
    pub detail: Detail,
    /// The user who alone has it: what clients say of their processes is believed there, or whether
    /// calls are recorded is theirs to say.
    user: Option<u32>,
}

impl RoomName {
    /// Returns the name of the recording that has this detail for this user.
    pub fn new(detail: Detail, user: u32) -> Self {
        let is_users_own = detail.contexts || detail.python_frames > 0 || detail.releases_calls;
        Self {
            detail,
            user: is_users_own.then_some(user),
        }
    }
}

/// Hold on a recording, which stays as long as a conversation has one.
#[derive(Clone, Debug, Default)]
pub struct RoomHold(Arc<()>);

/// Recording, and its subscriptions.
pub struct Room {
    key: RoomKey,
    /// User of the client that had it opened.
    user: u32,
    pub hub: Hub,
    pub kernel: Recordings,
    /// Its own hold; each conversation that goes on with it has another.
    hold: RoomHold,
    /// Since when there has been no subscription, or a conversation was seen that is to have one.
    since: Option<Instant>,
}

impl Room {
    fn new(key: RoomKey, user: u32, hub: Hub) -> Self {
        Self {
            key,
            user,
            kernel: Recordings::new(hub.clone(), key.map(|name| name.detail)),
            hub,
            hold: RoomHold::default(),
            since: Some(Instant::now()),
        }
    }

    /// Tells whether there is no subscription, and no conversation that is to have one.
    fn is_unused(&self) -> bool {
        self.hub.is_empty() && Arc::strong_count(&self.hold.0) == 1
    }

    fn note_whether_empty(&mut self) {
        self.since = match (self.hub.is_empty(), self.is_unused()) {
            (true, true) => self.since.or_else(|| Some(Instant::now())),
            (true, false) => Some(Instant::now()),
            (false, _) => None,
        };
    }
}

/// All recordings, the usual one first.
pub struct Rooms {
    all: Vec<Room>,
    shares: Shares,
    /// Users whose clients had programs loaded, and when.
    loaded: VecDeque<(Instant, u32)>,
}

impl Rooms {
    /// Begins with the usual one, whose subscriptions are those of `hub`.
    pub fn new(hub: Hub) -> Self {
        Self {
            all: vec![Room::new(None, 0, hub)],
            shares: Shares::new(MOST_ROOMS),
            loaded: VecDeque::new(),
        }
    }

    /// Returns the recording of this name, if it is there.
    pub fn get(&mut self, key: RoomKey) -> Option<&mut Room> {
        self.all.iter_mut().find(|room| room.key == key)
    }

    /// Returns the recording of this detail, with its hub, which is made for `user` where there is
    /// none. It stays as long as the hold on it.
    ///
    /// # Errors
    ///
    /// There are too many, in words.
    pub fn open(&mut self, detail: Detail, user: u32) -> Result<(RoomName, Hub, RoomHold), String> {
        let name = RoomName::new(detail, user);
        if let Some(room) = self.get(Some(name)) {
            room.since = room.since.map(|_| Instant::now());
            return Ok((name, room.hub.clone(), room.hold.clone()));
        }
        self.may_load(user)?;
        if !self.shares.take(user, 1) {
            self.close_empty_of(user);
            if !self.shares.take(user, 1) {
                return Err(format!(
                    "this user ({}), or all users but root together ({}), have as many recordings \
                     of different detail (stacks, descriptors, longer texts) as they may; end \
                     others, or try again later",
                    MOST_ROOMS.a_user, MOST_ROOMS.all_but_root
                ));
            }
        }
        let [usual, ..] = self.all.as_slice() else {
            return Err("the service ends".to_owned());
        };
        let room = Room::new(Some(name), user, usual.hub.beside(detail.contexts));
        let (hub, hold) = (room.hub.clone(), room.hold.clone());
        self.all.push(room);
        Ok((name, hub, hold))
    }

    fn may_load(&mut self, user: u32) -> Result<(), String> {
        let now = Instant::now();
        self.loaded
            .retain(|(at, _)| now.duration_since(*at) < LOADED_WITHIN);
        let of_user = self.loaded.iter().filter(|(_, one)| *one == user).count();
        if user != 0 && of_user >= MOST_LOADED {
            return Err(format!(
                "this user has had programs loaded {MOST_LOADED} times in {} s; try again in a \
                 moment",
                LOADED_WITHIN.as_secs()
            ));
        }
        self.loaded.push_back((now, user));
        Ok(())
    }

    fn close_empty_of(&mut self, user: u32) {
        self.close(|room| room.user == user && room.is_unused());
    }

    fn close(&mut self, is_over: impl Fn(&Room) -> bool) {
        let shares = &mut self.shares;
        self.all.retain(|room| {
            let closes = room.key.is_some() && is_over(room);
            if closes {
                shares.give_back(room.user, 1);
            }
            !closes
        });
    }

    /// Tells whether programs are in the kernel.
    pub fn are_loaded(&self) -> bool {
        self.all.iter().any(|room| room.kernel.is_loaded())
    }

    /// Tells whether something of up to this time has not been brought yet.
    pub fn are_behind(&self, asked: MonotonicNs) -> bool {
        let loaded = self.all.iter().filter(|room| room.kernel.is_loaded());
        loaded.into_iter().any(|room| asked > room.hub.watermark())
    }

    /// Waits until a ring has something.
    pub async fn readable(&self) {
        let waits = self.all.iter().filter(|room| room.kernel.is_loaded());
        let mut waits: Vec<_> = waits.map(|room| Box::pin(room.kernel.readable())).collect();
        poll_fn(|context| {
            let mut waits = waits.iter_mut();
            match waits.any(|wait| wait.as_mut().poll(context).is_ready()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Brings all subscriptions what was recorded since the last time.
    pub fn round(&mut self) {
        for room in &mut self.all {
            room.kernel.round();
        }
    }

    /// Notes which have no subscription now.
    pub fn note_which_are_empty(&mut self) {
        self.all.iter_mut().for_each(Room::note_whether_empty);
    }

    /// Returns when something is to be done if no subscription comes before; `idle` is after what
    /// time the service ends.
    pub fn quiet_until(&self, idle: Option<Duration>) -> Option<Instant> {
        let is_alone = self.all.len() == 1;
        let each = self.all.iter().filter_map(|room| {
            let since = room.since?;
            if room.kernel.is_loaded() || room.key.is_some() {
                return Some(since + LINGER);
            }
            let idle = idle.filter(|_| is_alone)?;
            Some(since + idle.max(LINGER))
        });
        each.min()
    }

    /// Does what is to be done where there has been no subscription. Returns whether the service
    /// is to end.
    pub fn end_quiet(&mut self) -> bool {
        self.note_which_are_empty();
        let now = Instant::now();
        let is_due = |since: &Instant| now >= *since + LINGER;
        let was_alone = self.all.len() == 1 && !self.are_loaded();
        for room in &mut self.all {
            if room.since.as_ref().is_some_and(is_due) && room.kernel.is_loaded() {
                room.kernel.unload();
            }
        }
        self.close(|room| room.since.as_ref().is_some_and(is_due));
        was_alone && self.all.iter().all(|room| room.since.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::MOST_AT_SERVICE;

    fn detail(string_bytes: u32) -> Detail {
        Detail {
            string_bytes,
            ..Detail::default()
        }
    }

    #[test]
    fn clients_of_one_detail_share_a_recording_and_a_user_has_so_many() {
        let mut rooms = Rooms::new(Hub::new(MOST_AT_SERVICE, 0));
        for bytes in 1..=3 {
            rooms.open(detail(bytes), 7).unwrap();
            rooms.open(detail(bytes), 8).unwrap();
        }
        assert_eq!(rooms.all.len(), 4);
        // Those that have no subscription give way, and are loaded so often at most.
        let mut opened = 3;
        let refusal = loop {
            opened += 1;
            match rooms.open(detail(opened), 7) {
                Ok(_) => assert!(rooms.all.len() <= 4),
                Err(refusal) => break refusal,
            }
        };
        assert_eq!(opened as usize, MOST_LOADED + 1);
        assert!(refusal.contains("try again in a moment"), "{refusal}");
        assert!(rooms.open(detail(opened), 9).is_ok());
    }

    #[test]
    fn a_recording_stays_until_who_asked_for_it_has_said_hello() {
        let mut rooms = Rooms::new(Hub::new(MOST_AT_SERVICE, 0));
        let (name, _, first) = rooms.open(detail(1), 7).unwrap();
        let (_, _, other) = rooms.open(detail(1), 8).unwrap();
        drop(first);
        // The one whose recording it is has as many others as there may be.
        let held: Vec<_> = (2..=3).map(|bytes| rooms.open(detail(bytes), 7)).collect();
        assert!(rooms.open(detail(4), 7).is_err());
        assert!(rooms.get(Some(name)).is_some());
        drop(other);
        assert!(rooms.open(detail(4), 7).is_ok() && rooms.get(Some(name)).is_none());
        assert!(held.iter().all(Result::is_ok));
    }

    #[test]
    fn what_clients_say_of_their_processes_counts_in_recordings_of_their_own_user() {
        let mut rooms = Rooms::new(Hub::new(MOST_AT_SERVICE, 0));
        let with_contexts = Detail {
            contexts: true,
            ..detail(1)
        };
        let with_python = Detail {
            python_frames: 1,
            ..detail(1)
        };
        let details = [
            (detail(1), true),
            (with_contexts, false),
            (with_python, false),
        ];
        for (detail, is_shared) in details {
            let [first, again, other] =
                [7, 7, 8].map(|user| rooms.open(detail, user).map(|(name, ..)| name));
            assert_eq!(first, again);
            assert_eq!(first == other, is_shared);
        }
    }
}
