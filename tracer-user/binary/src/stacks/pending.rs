//! Stacks whose events have not come yet.

use std::collections::HashMap;
use std::mem::offset_of;

use tracer_common::event_type::{EventTypeId, read_grown};
use tracer_common::kernel::WakeupData;
use tracer_engine::event::{Event, EventHeader, MonotonicNs};

use super::{NEXT_USER_EVENT, RecordedStack, Stack, SymbolNames};

/// Stacks that wait at a time. Beyond that, all are forgotten: their events were not wanted.
const MOST: usize = 16_384;

/// Placeholder for a time: the stack belongs to the wake-up of a thread, whenever that is recorded.
const WHEN_WOKEN: u64 = u64::MAX;

/// Time in nanoseconds between the stack of a user event and the event, at most: the thread may
/// have lost its CPU in between, for a second on a busy machine. The next call of the thread at
/// this address has a stack of its own, unless that was lost ([`PendingStacks::lose`]).
pub const LONGEST_BEFORE: u64 = 2_000_000_000;

/// Stacks whose events have not come yet.
#[derive(Debug, Default)]
pub struct PendingStacks {
    /// Stacks by the time and thread of their events.
    by_time: HashMap<(u64, i32), Owned>,
    /// Stacks of user events, by the address of the trace point and the thread, with their own
    /// time.
    by_address: HashMap<(u64, i32), (u64, Owned)>,
}

/// Data of a stack, and the thread that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The process.
    pub pid: i32,
    /// The thread, which is not that of the event where it is a waker's.
    pub tid: i32,
    /// Time at which it was recorded.
    pub at: MonotonicNs,
    /// The data of the stack's event.
    pub data: Vec<u8>,
}

impl Owned {
    /// Copies the stack of an event.
    #[must_use]
    pub fn from_event(event: &Event<'_>) -> Self {
        Self {
            pid: event.header.pid,
            tid: event.header.tid,
            at: event.header.time,
            data: event.data.to_vec(),
        }
    }

    /// Returns the stack, to be shown with these names.
    #[must_use]
    pub fn named<'a>(&'a self, names: &'a SymbolNames) -> Stack<'a> {
        Stack {
            pid: self.pid,
            tid: self.tid,
            at: self.at,
            data: &self.data,
            names,
        }
    }
}

impl PendingStacks {
    /// Tells whether no stack waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_time.is_empty() && self.by_address.is_empty()
    }

    /// Takes a stack that belongs to an event, until that comes; false where it is an event of its
    /// own.
    pub fn put(&mut self, event: &Event<'_>) -> bool {
        match RecordedStack::parse(event.data) {
            Some(taken) if taken.head.event_type != 0 => {
                let header = &event.header;
                if taken.head.event_type == NEXT_USER_EVENT.0 {
                    self.put_by_address(event, &taken);
                    return true;
                }
                if self.by_time.len() >= MOST {
                    self.by_time.clear();
                }
                let key = match taken.head.woken_tid {
                    0 => (header.time.0, header.tid),
                    woken => (WHEN_WOKEN, woken.cast_signed()),
                };
                self.by_time.insert(key, Owned::from_event(event));
                true
            }
            _ => false,
        }
    }

    /// Forgets the stacks of user events, since stacks were lost: those that wait may be older than
    /// the call that is recorded next.
    pub fn lose(&mut self) {
        self.by_address.clear();
    }

    fn put_by_address(&mut self, event: &Event<'_>, taken: &RecordedStack<'_>) {
        if self.by_address.len() >= MOST {
            self.by_address.clear();
        }
        if let Some(address) = taken.user().next() {
            let key = (address, event.header.tid);
            let timed = (event.header.time.0, Owned::from_event(event));
            self.by_address.insert(key, timed);
        }
    }

    /// Returns the stack of this user event, and sets the event's type in it.
    fn take_by_address(&mut self, header: &EventHeader) -> Option<Owned> {
        let key = (header.program_address, header.tid);
        let (time, mut owned) = self.by_address.remove(&key)?;
        let since = header.time.0.checked_sub(time)?;
        let type_of = owned.data.first_chunk_mut()?;
        *type_of = header.event_type.0.to_ne_bytes();
        (since <= LONGEST_BEFORE).then_some(owned)
    }

    /// Returns the stack of this event.
    pub fn take(&mut self, event: &Event<'_>) -> Option<Owned> {
        let header = &event.header;
        if header.event_type.is_user()
            && !self.by_address.is_empty()
            && let Some(stack) = self.take_by_address(header)
        {
            return Some(stack);
        }
        if self.by_time.is_empty() {
            return None;
        }
        if header.event_type == EventTypeId::WAKEUP {
            let stack = self.by_time.remove(&(WHEN_WOKEN, header.tid))?;
            // The stack of another waker, whose wake-up was not seen, is dropped.
            return (waker_tid(event.data) == Some(stack.tid)).then_some(stack);
        }
        let key = (header.time.0, header.tid);
        let taken = RecordedStack::parse(&self.by_time.get(&key)?.data)?;
        if taken.head.event_type != header.event_type.0 {
            return None;
        }
        self.by_time.remove(&key)
    }
}

/// Returns the thread that asked for a wake-up; `None` where there is none, or it is unknown.
fn waker_tid(untrusted: &[u8]) -> Option<i32> {
    let least = offset_of!(WakeupData, waker_context);
    let data: WakeupData = read_grown(untrusted, least)?;
    (data.waker_tid != 0).then_some(data.waker_tid.cast_signed())
}

#[cfg(test)]
mod tests {
    use tracer_common::kernel::StackData;
    use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
    use zerocopy::{FromZeros as _, IntoBytes as _};

    use super::*;

    fn header(event_type: EventTypeId, time: u64, tid: i32) -> EventHeader {
        EventHeader {
            time: MonotonicNs(time),
            event_type,
            pid: 1,
            tid,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        }
    }

    #[test]
    fn the_stack_of_a_user_event_waits_for_that_of_its_thread_and_trace_point() {
        const USER: EventTypeId = EventTypeId(1030);
        let mut pending = PendingStacks::default();
        let put = |pending: &mut PendingStacks, time, tid, address: u64| {
            let mut data = StackData::new_zeroed();
            (data.event_type, data.user_frames) = (NEXT_USER_EVENT.0, 1);
            let data = [data.as_bytes(), address.as_bytes()].concat();
            let header = header(EventTypeId::STACK, time, tid);
            assert!(pending.put(&Event {
                header,
                data: &data
            }));
        };
        let take = |pending: &mut PendingStacks, event_type, time, tid, address| {
            let header = EventHeader {
                program_address: address,
                ..header(event_type, time, tid)
            };
            let taken = pending.take(&Event { header, data: &[] })?;
            Some(RecordedStack::parse(&taken.data)?.head.event_type)
        };
        put(&mut pending, 10, 7, 0x400);
        // A handler has interrupted it there, and is done first.
        put(&mut pending, 20, 7, 0x500);
        assert_eq!(take(&mut pending, USER, 25, 8, 0x500), None);
        assert_eq!(
            take(&mut pending, EventTypeId::SYSCALL_ENTER, 25, 7, 0x500),
            None
        );
        assert_eq!(take(&mut pending, USER, 25, 7, 0x500), Some(USER.0));
        assert_eq!(take(&mut pending, USER, 30, 7, 0x400), Some(USER.0));
        assert_eq!(take(&mut pending, USER, 31, 7, 0x400), None);
        // The stack of an event that was not recorded, and that of one that was emitted before.
        put(&mut pending, 40, 7, 0x400);
        assert_eq!(
            take(&mut pending, USER, 41 + LONGEST_BEFORE, 7, 0x400),
            None
        );
        put(&mut pending, 40, 7, 0x400);
        assert_eq!(take(&mut pending, USER, 39, 7, 0x400), None);
        assert!(pending.is_empty());
        // A thread that waits for its CPU for a second; and one whose next stack may be lost.
        put(&mut pending, 40, 7, 0x400);
        assert!(take(&mut pending, USER, 1_000_000_040, 7, 0x400).is_some());
        put(&mut pending, 40, 7, 0x400);
        pending.lose();
        assert_eq!(take(&mut pending, USER, 41, 7, 0x400), None);
    }

    #[test]
    fn a_stack_comes_with_its_event_and_with_no_other() {
        let mut pending = PendingStacks::default();
        let mut put = |time, tid, of: EventTypeId, woken_tid| {
            let mut data = StackData::new_zeroed();
            (data.event_type, data.woken_tid) = (of.0, woken_tid);
            let event = Event {
                header: header(EventTypeId::STACK, time, tid),
                data: data.as_bytes(),
            };
            pending.put(&event)
        };
        assert!(put(5, 7, EventTypeId::SYSCALL_ENTER, 0));
        assert!(put(6, 7, EventTypeId::SAMPLE, 0));
        assert!(put(6, 8, EventTypeId::WAKEUP, 7));
        assert!(!put(6, 9, EventTypeId(0), 0));
        let mut take = |event_type, time, tid| {
            let mut waker = WakeupData::new_zeroed();
            waker.waker_tid = 8;
            let event = Event {
                header: header(event_type, time, tid),
                data: waker.as_bytes(),
            };
            pending.take(&event).map(|taken| taken.tid)
        };
        assert_eq!(take(EventTypeId::SYSCALL_EXIT, 5, 7), None);
        assert_eq!(take(EventTypeId::SYSCALL_ENTER, 6, 7), None);
        assert_eq!(take(EventTypeId::SYSCALL_ENTER, 5, 7), Some(7));
        assert_eq!(take(EventTypeId::SYSCALL_ENTER, 5, 7), None);
        assert_eq!(take(EventTypeId::SAMPLE, 6, 7), Some(7));
        // The waker's, which was taken before.
        assert_eq!(take(EventTypeId::WAKEUP, 9, 8), None);
        assert_eq!(take(EventTypeId::WAKEUP, 9, 7), Some(8));
        assert!(pending.is_empty());
        // The stack of another waker belongs to no event.
        let mut data = StackData::new_zeroed();
        (data.event_type, data.woken_tid) = (EventTypeId::WAKEUP.0, 7);
        let of_stack = Event {
            header: header(EventTypeId::STACK, 6, 8),
            data: data.as_bytes(),
        };
        assert!(pending.put(&of_stack));
        let no_waker = WakeupData::new_zeroed();
        let by_timer = Event {
            header: header(EventTypeId::WAKEUP, 9, 7),
            data: no_waker.as_bytes(),
        };
        assert_eq!(pending.take(&by_timer), None);
        assert!(pending.is_empty());
    }
}
