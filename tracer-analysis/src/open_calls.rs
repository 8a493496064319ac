//! System calls that have begun and not ended, each with what is remembered of its beginning.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::ExecData;
use tracer_engine::event::Event;

use crate::calls::CallKey;

/// Threads whose calls are known at a time. Beyond it, all calls are forgotten: the ends of those
/// threads may have been lost.
pub const MOST_THREADS: usize = 65_536;

/// System call number at the end of a call that has put other registers back.
const NO_NUMBER: i32 = -1;

/// The calls of all threads that have begun and not ended, one a thread.
#[derive(Clone, Debug)]
pub struct OpenCalls<T> {
    by_thread: HashMap<i32, (CallKey, T), RandomState>,
}

/// Call that a thread was in when it returned from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BegunCall<T> {
    /// System call that had begun.
    pub key: CallKey,
    /// Facts that are remembered of it.
    pub facts: T,
    /// Whether it is the one that the thread returned from. Otherwise its end was lost.
    pub is_ended: bool,
}

impl<T> Default for OpenCalls<T> {
    fn default() -> Self {
        Self {
            by_thread: HashMap::default(),
        }
    }
}

impl<T> OpenCalls<T> {
    /// Adds the call that a thread begins. Returns the facts about the one that it was in before,
    /// of which the end was lost.
    pub fn enter(&mut self, tid: i32, key: CallKey, facts: T) -> Option<T> {
        if self.by_thread.len() >= MOST_THREADS && !self.by_thread.contains_key(&tid) {
            self.by_thread.clear();
        }
        let before = self.by_thread.insert(tid, (key, facts));
        before.map(|(_, facts)| facts)
    }

    /// Takes the call of a thread that returns from `key` with this value.
    pub fn leave(&mut self, tid: i32, key: CallKey, returned: i64) -> Option<BegunCall<T>> {
        let (begun, facts) = self.by_thread.remove(&tid)?;
        // The kernel shows a successful execveat as an execve when it returns.
        let is_exec = begun.is_exec() && key.is_exec() && returned == 0;
        let is_nameless = begun.restores_registers() && key.nr == NO_NUMBER;
        Some(BegunCall {
            key: begun,
            facts,
            is_ended: begun == key || is_exec || is_nameless,
        })
    }

    /// Follows a thread by an event that is no part of a call. Returns the facts about a call that
    /// does not return, as its thread has ended. At an exec by another thread than the first that
    /// one has ended, and the other goes on under its tid.
    pub fn follow(&mut self, event: &Event<'_>) -> Option<T> {
        let tid = event.header.tid;
        match event.header.event_type {
            EventTypeId::EXEC => {
                let old = ExecData::old_tid_of(event.data).filter(|old| *old != tid)?;
                let moved = self.by_thread.remove(&old);
                let ended = self.remove(tid);
                if let Some(moved) = moved {
                    self.by_thread.insert(tid, moved);
                }
                ended
            }
            EventTypeId::EXIT | EventTypeId::THREAD_EXIT => self.remove(tid),
            _ => None,
        }
    }

    /// Returns the call that a thread is in.
    #[must_use]
    pub fn current(&self, tid: i32) -> Option<(CallKey, &T)> {
        self.by_thread.get(&tid).map(|(key, facts)| (*key, facts))
    }

    /// Returns the facts about the call that a thread is in.
    pub fn current_mut(&mut self, tid: i32) -> Option<&mut T> {
        self.by_thread.get_mut(&tid).map(|(_, facts)| facts)
    }

    /// Returns the number of calls.
    #[must_use]
    pub fn count(&self) -> usize {
        self.by_thread.len()
    }

    /// Takes out the call of some other thread than this one.
    pub fn take_other(&mut self, tid: i32) -> Option<T> {
        let other = self.by_thread.keys().copied().find(|other| *other != tid)?;
        self.remove(other)
    }

    /// Takes out all calls, in any order.
    pub fn take_all(&mut self) -> impl Iterator<Item = T> {
        self.by_thread.drain().map(|(_, (_, facts))| facts)
    }

    /// Takes the call of a thread out.
    pub fn remove(&mut self, tid: i32) -> Option<T> {
        self.by_thread.remove(&tid).map(|(_, facts)| facts)
    }

    /// Forgets all calls: events are missing, and the thread that made them may be in another one.
    pub fn clear(&mut self) {
        self.by_thread.clear();
    }
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::EventTypeId;
    use zerocopy::{FromZeros, IntoBytes};

    use super::*;
    use crate::story::header;

    const READ: CallKey = CallKey::new(false, 0);
    const WRITE: CallKey = CallKey::new(false, 1);
    const EXECVE: CallKey = CallKey::new(false, 59);
    const EXECVEAT: CallKey = CallKey::new(false, 322);

    fn facts_of(begun: Option<BegunCall<u8>>) -> Option<(u8, bool)> {
        begun.map(|begun| (begun.facts, begun.is_ended))
    }

    #[test]
    fn a_call_ends_once_and_by_its_own_thread() {
        let mut calls = OpenCalls::default();
        assert_eq!(calls.enter(7, READ, 1), None);
        assert_eq!(calls.enter(8, READ, 2), None);
        assert_eq!(facts_of(calls.leave(7, READ, 0)), Some((1, true)));
        assert_eq!(facts_of(calls.leave(7, READ, 0)), None);
        assert_eq!(calls.enter(8, WRITE, 3), Some(2), "its end was lost");
        assert_eq!(facts_of(calls.leave(8, READ, 0)), Some((3, false)));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn an_execveat_returns_as_an_execve_unless_it_fails() {
        let mut calls = OpenCalls::default();
        calls.enter(7, EXECVEAT, 1);
        assert_eq!(facts_of(calls.leave(7, EXECVE, 0)), Some((1, true)));
        calls.enter(7, EXECVEAT, 2);
        assert_eq!(facts_of(calls.leave(7, EXECVE, -2)), Some((2, false)));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_call_whose_number_is_gone_as_it_ends_is_that_which_had_begun() {
        const URETPROBE: CallKey = CallKey::new(false, 335);
        const NONE: CallKey = CallKey::new(false, NO_NUMBER);
        let mut calls = OpenCalls::default();
        calls.enter(7, URETPROBE, 1);
        assert_eq!(facts_of(calls.leave(7, NONE, -1)), Some((1, true)));
        calls.enter(7, READ, 2);
        assert_eq!(facts_of(calls.leave(7, NONE, 0)), Some((2, false)));
    }

    #[test]
    fn a_thread_that_runs_a_program_goes_on_as_the_first() {
        let mut calls = OpenCalls::default();
        calls.enter(8, EXECVE, 1);
        calls.enter(7, READ, 2);
        let mut data = ExecData::new_zeroed();
        data.old_tid = 8;
        let event = Event {
            header: header(1, EventTypeId::EXEC, 7, 0),
            data: data.as_bytes(),
        };
        assert_eq!(calls.follow(&event), Some(2), "it never returns");
        assert_eq!(facts_of(calls.leave(7, EXECVE, 0)), Some((1, true)));
        assert_eq!(facts_of(calls.leave(8, EXECVE, 0)), None);
    }

    #[test]
    fn a_thread_that_ends_takes_its_call_along() {
        let mut calls = OpenCalls::default();
        calls.enter(7, READ, 1);
        let event = Event {
            header: header(1, EventTypeId::THREAD_EXIT, 7, 0),
            data: &[],
        };
        assert_eq!(calls.follow(&event), Some(1));
        assert_eq!(facts_of(calls.leave(7, READ, 0)), None);
    }

    #[test]
    fn memory_does_not_grow_with_threads_whose_ends_were_lost() {
        let mut calls = OpenCalls::default();
        for tid in 0..i32::try_from(MOST_THREADS).unwrap() + 10 {
            calls.enter(tid, READ, 0_u8);
        }
        assert_eq!(calls.by_thread.len(), 10);
    }
}
