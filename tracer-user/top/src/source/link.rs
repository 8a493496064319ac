//! Link between the reader of events and the screen: shots go one way, wishes the other.
//!
//! Neither waits for the other: a key is answered however many events come, and events are read
//! however long a screen takes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracer_analysis::Thread;

use super::titles::Titles;
use crate::model::{Model, Shot, Window};

/// Time between two shots.
const PERIOD: Duration = Duration::from_millis(250);

/// Divisor of the share of time that making shots takes at most.
const SHARE: u32 = 20;

/// Request of the screen to the reader of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShotRequest {
    /// Window of time that is summed up.
    pub window: Window,
    /// Opened thread.
    pub opened: Option<Thread>,
    /// State of playing, of a log.
    pub play: Play,
}

/// State of playing a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Play {
    /// Whether it is paused.
    pub is_paused: bool,
    /// Speed relative to the original, as a power of two.
    pub speed: i32,
    /// Distance that it was moved by hand, in nanoseconds.
    pub moved: i64,
    /// Number of times it was begun anew.
    pub starts: u32,
    /// Number of times it was sent to the end.
    pub ends: u32,
}

/// Shots and wishes in transit.
#[derive(Debug)]
pub struct Link {
    shot: Mutex<Arc<Shot>>,
    shots: AtomicU64,
    wish: Mutex<ShotRequest>,
    wishes: AtomicU64,
    wished: Condvar,
    is_over: AtomicBool,
}

impl Link {
    /// Creates a link without any shot yet.
    #[must_use]
    pub fn new(wish: ShotRequest) -> Self {
        Self {
            shot: Mutex::default(),
            shots: AtomicU64::new(0),
            wish: Mutex::new(wish),
            wishes: AtomicU64::new(1),
            wished: Condvar::new(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Returns the number of shots so far, and the newest.
    pub fn newest(&self) -> (u64, Arc<Shot>) {
        let shot = Arc::clone(&locked(&self.shot));
        (self.shots.load(Ordering::Acquire), shot)
    }

    /// Returns the number of shots so far.
    pub fn shots(&self) -> u64 {
        self.shots.load(Ordering::Acquire)
    }

    fn publish(&self, shot: Shot) {
        *locked(&self.shot) = Arc::new(shot);
        self.shots.fetch_add(1, Ordering::Release);
    }

    /// Publishes the current wish of the screen.
    pub fn wish(&self, wish: &ShotRequest) {
        let mut known = locked(&self.wish);
        if *known != *wish {
            *known = wish.clone();
            self.wishes.fetch_add(1, Ordering::Release);
            self.wished.notify_all();
        }
    }

    /// Returns the number of wishes so far, and the newest.
    pub fn wished(&self) -> (u64, ShotRequest) {
        let wish = locked(&self.wish).clone();
        (self.wishes.load(Ordering::Acquire), wish)
    }

    /// Returns the number of wishes so far.
    pub fn wishes(&self) -> u64 {
        self.wishes.load(Ordering::Acquire)
    }

    /// Waits for at most `longest`, or until there is another wish than those `known`.
    pub fn wait(&self, known: u64, longest: Duration) {
        let guard = locked(&self.wish);
        if self.wishes() == known && !self.is_over() {
            let _ = self.wished.wait_timeout(guard, longest);
        }
    }

    /// Ends the link: no screen looks any more.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        let _guard = locked(&self.wish);
        self.wished.notify_all();
    }

    /// Tells whether no screen looks any more.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}

/// Locks a mutex, also after a thread has panicked: the data is still whole, as it is replaced at
/// once.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Publishes shots of a model now and then.
#[derive(Debug)]
pub struct Publisher {
    link: Arc<Link>,
    /// Time at which the next shot is due.
    due: Instant,
    /// Number of the wish that the last shot has granted.
    granted: u64,
    /// Titles of the processes, of a running trace.
    titles: Option<Titles>,
}

impl Publisher {
    /// Creates a publisher to this link.
    pub fn new(link: Arc<Link>) -> Self {
        Self {
            link,
            due: Instant::now(),
            granted: 0,
            titles: None,
        }
    }

    /// Adds the titles that processes give themselves: those of the trace exist now.
    #[must_use]
    pub fn with_titles(self) -> Self {
        Self {
            titles: Some(Titles::default()),
            ..self
        }
    }

    /// Publishes a shot if it is due or there is a new wish.
    pub fn publish_if_due(&mut self, model: &mut Model) {
        let now = Instant::now();
        if now >= self.due || self.link.wishes() != self.granted {
            self.publish(model, now);
        }
    }

    /// Publishes a shot.
    pub fn publish(&mut self, model: &mut Model, now: Instant) {
        let (wishes, wish) = self.link.wished();
        self.granted = wishes;
        model.open(wish.opened);
        let mut shot = model.shot(wish.window);
        if let Some(titles) = &mut self.titles {
            titles.fill(&mut shot, now);
        }
        self.link.publish(shot);
        let took = now.elapsed();
        self.due = now + PERIOD.max(took * SHARE);
    }
}
