//! Names of threads that come to be traced without an event that has their name: a thread is moved
//! into a chosen control group, or made there. Its program may be gone before this process can ask
//! for its name.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracer_common::kernel::{COMM_BYTES, NAME_RECORD, Record, RenameData};
use zerocopy::FromBytes;

/// Most names that are retained. The name of a thread that has no event of its own is never asked
/// for, and stays until others need the space.
const MOST: usize = 4096;

/// Process and a thread of it, with its name.
type Named = (i32, i32, [u8; COMM_BYTES]);

/// Names of threads that have become traced lately. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct FirstNames(Arc<Mutex<VecDeque<Named>>>);

impl FirstNames {
    /// Takes the record where it is one of a name. Returns the thread that has come to be traced.
    pub(super) fn take(&self, untrusted: &[u8]) -> Option<i32> {
        let record = Record::<RenameData>::read_from_bytes(untrusted).ok()?;
        if record.header.event_type != NAME_RECORD {
            return None;
        }
        let mut names = self.names();
        if names.len() >= MOST {
            names.pop_front();
        }
        names.push_back((
            record.header.pid.cast_signed(),
            record.header.tid.cast_signed(),
            record.data.comm,
        ));
        Some(record.header.tid.cast_signed())
    }

    /// Returns the name that the thread had when it came to be traced, and forgets it.
    #[must_use]
    pub fn remove(&self, pid: i32, tid: i32) -> Option<[u8; COMM_BYTES]> {
        let mut names = self.names();
        // Where two threads had these ids one after the other, the name of the first one is asked
        // for first.
        let at = names
            .iter()
            .position(|name| (name.0, name.1) == (pid, tid))?;
        names.remove(at).map(|(_, _, comm)| comm)
    }

    fn names(&self) -> MutexGuard<'_, VecDeque<Named>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::EventTypeId;
    use zerocopy::IntoBytes;

    use super::*;

    const RENAME: u16 = EventTypeId::RENAME.0.to_le_bytes()[0] as u16;

    /// Builds a record of this type and this name.
    fn record(event_type: u16, tid: u32, comm: &[u8; 4]) -> Vec<u8> {
        let mut record =
            Record::<RenameData>::read_from_bytes(&[0; size_of::<Record<RenameData>>()]).unwrap();
        record.header.event_type = event_type;
        (record.header.pid, record.header.tid) = (7, tid);
        record.data.comm[..4].copy_from_slice(comm);
        [record.header.as_bytes(), record.data.as_bytes()].concat()
    }

    #[test]
    fn a_name_is_that_of_its_thread_and_given_once() {
        let names = FirstNames::default();
        assert_eq!(names.take(&record(NAME_RECORD, 7, b"main")), Some(7));
        assert_eq!(names.take(&record(NAME_RECORD, 8, b"work")), Some(8));
        assert_eq!(names.take(&record(RENAME, 9, b"else")), None);
        assert_eq!(names.take(b"short"), None);

        assert_eq!(names.remove(7, 8).unwrap()[..4], *b"work");
        assert_eq!(
            (names.remove(7, 8), names.remove(6, 7), names.remove(7, 9)),
            (None, None, None)
        );
        assert!(names.remove(7, 7).is_some());
    }

    #[test]
    fn names_that_are_not_asked_for_give_way() {
        let names = FirstNames::default();
        for tid in 1..=5000 {
            names.take(&record(NAME_RECORD, tid, b"gone"));
        }
        assert_eq!(names.names().len(), MOST);
        assert!(names.remove(7, 1).is_none() && names.remove(7, 5000).is_some());
    }
}
