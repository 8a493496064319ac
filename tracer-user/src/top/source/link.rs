//! What passes between who reads events and who draws: shots one way, wishes the other.
//!
//! Neither waits for the other: a key is answered however many events come, and events are read
//! however long a screen takes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracer_analysis::Thread;

use super::titles::Titles;
use crate::top::model::{Model, Shot, Window};

/// How often there is a new shot.
const PERIOD: Duration = Duration::from_millis(250);

/// Making shots takes at most this part of the time.
const SHARE: u32 = 20;

/// What the screen shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Which time is summed up.
    pub window: Window,
    /// The thread that is opened.
    pub opened: Option<Thread>,
    /// Of a log: how it is played.
    pub play: Play,
}

/// How a log is played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Play {
    /// Whether it is paused.
    pub is_paused: bool,
    /// How fast it goes: so many times as fast as it was, as a power of two.
    pub speed: i32,
    /// How far it has been moved by hand, in nanoseconds.
    pub moved: i64,
    /// How often it was begun anew.
    pub starts: u32,
    /// How often it was sent to the end.
    pub ends: u32,
}

/// What passes between them.
#[derive(Debug)]
pub struct Link {
    shot: Mutex<Arc<Shot>>,
    shots: AtomicU64,
    wish: Mutex<Wish>,
    wishes: AtomicU64,
    wished: Condvar,
    is_over: AtomicBool,
}

impl Link {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(wish: Wish) -> Self {
        Self {
            shot: Mutex::default(),
            shots: AtomicU64::new(0),
            wish: Mutex::new(wish),
            wishes: AtomicU64::new(1),
            wished: Condvar::new(),
            is_over: AtomicBool::new(false),
        }
    }

    /// The newest shot, and how many there were.
    pub fn newest(&self) -> (u64, Arc<Shot>) {
        let shot = Arc::clone(&locked(&self.shot));
        (self.shots.load(Ordering::Acquire), shot)
    }

    /// How many shots there were.
    pub fn shots(&self) -> u64 {
        self.shots.load(Ordering::Acquire)
    }

    fn publish(&self, shot: Shot) {
        *locked(&self.shot) = Arc::new(shot);
        self.shots.fetch_add(1, Ordering::Release);
    }

    /// What the screen shows now.
    pub fn wish(&self, wish: &Wish) {
        let mut known = locked(&self.wish);
        if *known != *wish {
            *known = wish.clone();
            self.wishes.fetch_add(1, Ordering::Release);
            self.wished.notify_all();
        }
    }

    /// What the screen shows, and how many wishes there were.
    pub fn wished(&self) -> (u64, Wish) {
        let wish = locked(&self.wish).clone();
        (self.wishes.load(Ordering::Acquire), wish)
    }

    /// How many wishes there were.
    pub fn wishes(&self) -> u64 {
        self.wishes.load(Ordering::Acquire)
    }

    /// Waits so long, or until there is another wish than those `known`.
    pub fn wait(&self, known: u64, longest: Duration) {
        let guard = locked(&self.wish);
        if self.wishes() == known && !self.is_over() {
            let _ = self.wished.wait_timeout(guard, longest);
        }
    }

    /// Nobody looks any more.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        let _guard = locked(&self.wish);
        self.wished.notify_all();
    }

    /// Whether nobody looks any more.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}

/// What a thread that has panicked leaves behind is still whole: it is replaced at once.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Publishes shots of a model now and then.
#[derive(Debug)]
pub struct Publisher {
    link: Arc<Link>,
    /// When the next shot is due.
    due: Instant,
    /// The wishes that the last shot has granted.
    granted: u64,
    /// The titles of the processes, of a running trace.
    titles: Option<Titles>,
}

impl Publisher {
    /// Publishes there.
    pub fn new(link: Arc<Link>) -> Self {
        Self {
            link,
            due: Instant::now(),
            granted: 0,
            titles: None,
        }
    }

    /// Shows what processes call themselves: those of the trace are there now.
    #[must_use]
    pub fn with_titles(self) -> Self {
        Self {
            titles: Some(Titles::default()),
            ..self
        }
    }

    /// Publishes what is known, if it is time or somebody has wished for something else.
    pub fn publish_if_due(&mut self, model: &mut Model) {
        let now = Instant::now();
        if now >= self.due || self.link.wishes() != self.granted {
            self.publish(model, now);
        }
    }

    /// Publishes what is known.
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
