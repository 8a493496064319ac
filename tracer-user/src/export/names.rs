//! Names of threads, written in a format when they are new or have changed.

use std::collections::HashMap;

use tracer_engine::event::EventHeader;

/// Threads that are remembered. Beyond that all are forgotten and written anew: what a log can have
/// of them, the memory of a conversion cannot.
const MOST_THREADS: usize = 65_536;

/// A thread of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Thread {
    /// Its process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
}

impl Thread {
    /// The thread of an event.
    pub fn of(header: &EventHeader) -> Self {
        Self {
            pid: header.pid,
            tid: header.tid,
        }
    }
}

/// What a format has to say of a thread before an event of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing.
    None,
    /// It is new.
    New,
    /// It has another name.
    Renamed,
}

/// The names that were written.
#[derive(Debug, Default)]
pub struct Names {
    written: HashMap<Thread, Vec<u8>>,
}

impl Names {
    /// What has to be written of `thread`, which is named `comm` now (`None`: not known).
    pub fn news(&mut self, thread: Thread, comm: Option<&[u8]>) -> News {
        if let Some(written) = self.written.get_mut(&thread) {
            return match comm {
                Some(comm) if comm != written => {
                    written.clear();
                    written.extend_from_slice(comm);
                    News::Renamed
                }
                _ => News::None,
            };
        }
        if self.written.len() >= MOST_THREADS {
            self.written.clear();
        }
        self.written
            .insert(thread, comm.unwrap_or_default().to_vec());
        News::New
    }

    /// Forgets a thread: its tid is another's from now on. Whether it was known.
    pub fn forget(&mut self, thread: Thread) -> bool {
        self.written.remove(&thread).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_written_when_it_is_new_or_has_changed() {
        let mut names = Names::default();
        let thread = Thread { pid: 1, tid: 2 };
        assert_eq!(names.news(thread, None), News::New);
        assert_eq!(names.news(thread, None), News::None);
        assert_eq!(names.news(thread, Some(b"sh")), News::Renamed);
        assert_eq!(names.news(thread, Some(b"sh")), News::None);
        assert_eq!(names.news(thread, None), News::None);
        assert_eq!(names.news(thread, Some(b"ls")), News::Renamed);
    }

    #[test]
    fn endless_threads_do_not_take_endless_memory() {
        let mut names = Names::default();
        for tid in 0..200_000 {
            assert_eq!(names.news(Thread { pid: 1, tid }, None), News::New);
        }
        assert!(names.written.len() <= MOST_THREADS);
    }
}
