//! Names of threads, written in a format when they are new or have changed.

use std::collections::HashMap;

use tracer_engine::event::EventHeader;

/// Limit of remembered threads. Beyond it all are forgotten and written anew: a log can have more
/// of them than the memory of a conversion can hold.
const MOST_THREADS: usize = 65_536;

/// Thread of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogThread {
    /// Id of its process.
    pub pid: i32,
    /// Id of the thread.
    pub tid: i32,
}

impl LogThread {
    /// Returns the thread of an event.
    pub fn from_event(header: &EventHeader) -> Self {
        Self {
            pid: header.pid,
            tid: header.tid,
        }
    }
}

/// Change of a thread that a format has to write before an event of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// No change.
    None,
    /// First sight of the thread.
    New,
    /// Other name than before.
    Renamed,
}

/// Names that were written.
#[derive(Debug, Default)]
pub struct WrittenNames {
    written: HashMap<LogThread, Vec<u8>>,
}

impl WrittenNames {
    /// Returns the change that has to be written of `thread`, which is named `comm` now (`None`:
    /// unknown).
    pub fn news(&mut self, thread: LogThread, comm: Option<&[u8]>) -> News {
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

    /// Forgets a thread, as its tid is another's from now on. Tells whether it was known.
    pub fn forget(&mut self, thread: LogThread) -> bool {
        self.written.remove(&thread).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_written_when_it_is_new_or_has_changed() {
        let mut names = WrittenNames::default();
        let thread = LogThread { pid: 1, tid: 2 };
        assert_eq!(names.news(thread, None), News::New);
        assert_eq!(names.news(thread, None), News::None);
        assert_eq!(names.news(thread, Some(b"sh")), News::Renamed);
        assert_eq!(names.news(thread, Some(b"sh")), News::None);
        assert_eq!(names.news(thread, None), News::None);
        assert_eq!(names.news(thread, Some(b"ls")), News::Renamed);
    }

    #[test]
    fn endless_threads_do_not_take_endless_memory() {
        let mut names = WrittenNames::default();
        for tid in 0..200_000 {
            assert_eq!(names.news(LogThread { pid: 1, tid }, None), News::New);
        }
        assert!(names.written.len() <= MOST_THREADS);
    }
}
