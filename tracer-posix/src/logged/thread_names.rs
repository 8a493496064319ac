//! Names of the threads of recorded events. The recorder asks the kernel for them when it flushes
//! the events.

use std::fs;
use std::time::{Duration, Instant};

use foldhash::HashMap;

use tracer_engine::event::EventHeader;

/// How long a name is used without asking again: a thread may rename itself.
const LASTS: Duration = Duration::from_secs(1);

/// Most threads whose names are held. Beyond that, all are forgotten.
const MOST_THREADS: usize = 16_384;

/// The names of threads. A thread that ended before the kernel was asked has the name of its
/// process.
#[derive(Debug, Default)]
pub(super) struct ThreadNames {
    names: HashMap<(i32, i32), Name>,
    /// The thread that was looked up last, and the begin of that flush; `last_name` is its name.
    /// Consecutive events mostly are of one thread.
    last: Option<(i32, i32, Instant)>,
    last_name: Vec<u8>,
}

#[derive(Debug)]
struct Name {
    bytes: Vec<u8>,
    asked: Instant,
}

impl ThreadNames {
    /// Returns the name of an event's thread; empty where there is none, or it is not known. `now`
    /// is when the flush began.
    pub fn read(&mut self, header: &EventHeader, now: Instant) -> &[u8] {
        let (pid, tid) = (header.pid, header.tid);
        if pid == 0 {
            return b"";
        }
        if self.last != Some((pid, tid, now)) {
            self.last = Some((pid, tid, now));
            let mut name = std::mem::take(&mut self.last_name);
            name.clear();
            name.extend_from_slice(self.look_up(pid, tid, now));
            self.last_name = name;
        }
        &self.last_name
    }

    fn look_up(&mut self, pid: i32, tid: i32, now: Instant) -> &[u8] {
        self.ask(pid, tid, now);
        if self.is_unknown(pid, tid) {
            self.ask(pid, pid, now);
        }
        let thread = self.names.get(&(pid, tid));
        let known = thread.filter(|name| !name.bytes.is_empty());
        let name = known.or_else(|| self.names.get(&(pid, pid)));
        name.map_or(b"", |name| name.bytes.as_slice())
    }

    fn is_unknown(&self, pid: i32, tid: i32) -> bool {
        let name = self.names.get(&(pid, tid));
        name.is_none_or(|name| name.bytes.is_empty())
    }

    /// Asks the kernel for a name, unless that was done a short time ago. A thread that has ended
    /// keeps its last name.
    pub fn ask(&mut self, pid: i32, tid: i32, now: Instant) {
        let known = self.names.get(&(pid, tid));
        if known.is_some_and(|name| now.duration_since(name.asked) < LASTS) {
            return;
        }
        if self.names.len() >= MOST_THREADS && known.is_none() {
            self.names.clear();
        }
        let bytes = fs::read(format!("/proc/{pid}/task/{tid}/comm"));
        let name = self.names.entry((pid, tid)).or_insert_with(|| Name {
            bytes: Vec::new(),
            asked: now,
        });
        name.asked = now;
        if let Ok(mut bytes) = bytes {
            // The kernel appends a newline.
            bytes.truncate(bytes.len().saturating_sub(1));
            name.bytes = bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracer_engine::event::{MonotonicNs, Truncation};

    fn header(pid: i32, tid: i32) -> EventHeader {
        EventHeader {
            time: MonotonicNs(0),
            event_type: crate::EventTypeId(257),
            pid,
            tid,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        }
    }

    fn own_name() -> Vec<u8> {
        let mut name = fs::read("/proc/self/comm").unwrap();
        name.pop();
        name
    }

    #[test]
    fn a_thread_that_is_no_more_has_its_processs_name() {
        let pid = std::process::id().cast_signed();
        let mut names = ThreadNames::default();

        assert_eq!(
            names.read(&header(pid, i32::MAX), Instant::now()),
            own_name()
        );
    }

    #[test]
    fn a_name_outlives_its_thread_and_follows_what_it_is_changed_to() {
        let (mut names, now) = (ThreadNames::default(), Instant::now());
        let pid = std::process::id().cast_signed();
        let (sender, tid) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("pool".to_owned());
        let thread = thread
            .spawn(move || {
                // SAFETY: takes nothing.
                sender.send(unsafe { libc::gettid() }).unwrap();
                let _ = ends.recv();
            })
            .unwrap();
        let tid = tid.recv().unwrap();
        assert_eq!(names.read(&header(pid, tid), now), b"pool");
        fs::write(format!("/proc/self/task/{tid}/comm"), "renamed").unwrap();
        assert_eq!(names.read(&header(pid, tid), now), b"pool");
        assert_eq!(names.read(&header(pid, tid), now + LASTS), b"renamed");
        drop(end);
        thread.join().unwrap();
        assert_eq!(names.read(&header(pid, tid), now + 2 * LASTS), b"renamed");
    }

    #[test]
    fn no_thread_has_no_name() {
        let mut names = ThreadNames::default();

        assert_eq!(names.read(&header(0, 0), Instant::now()), b"");
        assert_eq!(names.read(&header(i32::MAX, i32::MAX), Instant::now()), b"");
    }
}
