//! Searches in processes that a service traces: its client looks for what the service, which opens
//! no file of a process, cannot find.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use std::{io, thread};

/// First time between looks at a process in which nothing is found.
const FIRST_WAIT: Duration = Duration::from_millis(2);

/// News of a process that a service traces. Times are nanoseconds on `CLOCK_MONOTONIC`.
pub(super) enum News {
    /// It comes to be traced.
    Begins(i32),
    /// It runs another program since that time.
    Becomes { pid: i32, time: u64 },
    /// It has made a child, which is traced too, at that time.
    Makes { parent: i32, child: i32, time: u64 },
    /// It has ended.
    Ends(i32),
    /// Another service is there, which was told nothing yet.
    Anew,
}

/// Search in the processes that a service traces, in a thread of the service's client. It ends when
/// all of its copies are dropped.
#[derive(Clone, Debug)]
pub struct ProcessSearch(Sender<News>);

impl ProcessSearch {
    /// Begins a search in a thread of this name.
    ///
    /// # Errors
    ///
    /// No thread is available.
    pub(super) fn begin(
        name: &str,
        go_on: impl FnOnce(&Receiver<News>) + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, news) = channel();
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(move || go_on(&news))?;
        Ok(Self(sender))
    }

    /// Looks into a process, which is traced by now.
    pub fn begins(&self, pid: i32) {
        self.say(News::Begins(pid));
    }

    /// Notes that a process runs another program since that time.
    pub fn becomes(&self, pid: i32, time: u64) {
        self.say(News::Becomes { pid, time });
    }

    /// Notes that a process has made a child, which is traced too, at that time.
    pub fn makes(&self, parent: i32, child: i32, time: u64) {
        self.say(News::Makes {
            parent,
            child,
            time,
        });
    }

    /// Notes that a process has ended.
    pub fn ends(&self, pid: i32) {
        self.say(News::Ends(pid));
    }

    /// Looks into all processes anew: another service is there.
    pub fn begin_anew(&self) {
        self.say(News::Anew);
    }

    fn say(&self, news: News) {
        // The thread ends with the last sender.
        let _ = self.0.send(news);
    }
}

/// Processes that are looked at again and again, at first often.
pub(super) struct Candidates {
    all: HashMap<i32, Candidate>,
    /// Longest time between looks at one in which nothing is found.
    longest: Duration,
}

/// Process that is looked at.
struct Candidate {
    /// Time of the next look.
    next: Instant,
    wait: Duration,
}

impl Candidates {
    /// Returns none so far, which are looked at that seldom at last.
    pub fn with_longest_wait(longest: Duration) -> Self {
        Self {
            all: HashMap::new(),
            longest,
        }
    }

    /// Has a process looked at at once, and then often.
    pub fn ask_soon(&mut self, pid: i32) {
        self.ask_and_wait(pid, FIRST_WAIT);
    }

    /// Has a process looked at at once, and then after that time.
    pub fn ask_and_wait(&mut self, pid: i32, wait: Duration) {
        let candidate = Candidate {
            next: Instant::now(),
            wait,
        };
        self.all.insert(pid, candidate);
    }

    /// Has a process looked at again after that time.
    pub fn ask_after(&mut self, pid: i32, wait: Duration) {
        if let Some(candidate) = self.all.get_mut(&pid) {
            candidate.next = Instant::now() + wait;
        }
    }

    /// Has a process looked at again in which nothing was found.
    pub fn ask_later(&mut self, pid: i32) {
        if let Some(candidate) = self.all.get_mut(&pid) {
            candidate.next = Instant::now() + candidate.wait;
            candidate.wait = (candidate.wait * 2).min(self.longest);
        }
    }

    /// Has a process looked at no more.
    pub fn remove(&mut self, pid: i32) {
        self.all.remove(&pid);
    }

    /// Tells whether a process is one of these.
    pub fn has(&self, pid: i32) -> bool {
        self.all.contains_key(&pid)
    }

    /// Returns how long it is until one is to be looked at.
    pub fn wait(&self) -> Option<Duration> {
        let now = Instant::now();
        let nexts = self.all.values().map(|one| one.next);
        nexts.map(|next| next.saturating_duration_since(now)).min()
    }

    /// Returns those whose time has come.
    pub fn due(&self) -> Vec<i32> {
        let now = Instant::now();
        let due = self.all.iter().filter(|(_, one)| one.next <= now);
        due.map(|(pid, _)| *pid).collect()
    }

    /// Waits for news, or until a process is to be looked at (`Some(None)`); `None` where there
    /// will be no more news.
    pub fn wait_for(&self, news: &Receiver<News>) -> Option<Option<News>> {
        // Without any it waits for a day, which is as good as for ever.
        let wait = self.wait().unwrap_or(Duration::from_secs(86_400));
        match news.recv_timeout(wait) {
            Ok(one) => Some(Some(one)),
            Err(RecvTimeoutError::Timeout) => Some(None),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }
}
