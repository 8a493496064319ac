//! Changes of a pool that a thread has in hand, so that it finds out which of them it has left for
//! good.
//!
//! A signal handler may run at any moment. Usually it returns, after it has perhaps emitted. But it
//! may also jump out of the change that it has interrupted (`siglongjmp()`), which then never ends.
//! Only the stack shows that: where a frame lies now, no older frame can still be.

use std::cell::Cell;
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::compiler_fence;

use tracer_common::area::EnteringEntry;

/// Changes of one thread that are known at once. Where handlers interrupt each other more deeply
/// than that, the changes of the innermost are not known.
const AT_ONCE: usize = 8;

/// Bytes of stack that the frames of a change take at least, from the lowest address on.
const FRAME: usize = 64;

/// All that a thread has begun to change. A handler may use it between any two of its instructions.
#[derive(Default)]
pub(super) struct InHand {
    changes: [Change; AT_ONCE],
}

/// One change of a pool.
pub(super) struct Change {
    /// The lowest address of its frames; 0 where there is no change.
    frame: Cell<usize>,
    slot: Cell<usize>,
    /// The entry that the change has taken or tries to take; null where there is none.
    entry: Cell<*const EnteringEntry>,
    /// Where the chunk begins that the change takes from the thread; null where there is none.
    old: Cell<*mut u8>,
    /// Where the chunk begins that the change gives to the thread; null where there is none.
    new: Cell<*mut u8>,
}

/// A change that a thread has left for good.
pub(super) struct Left {
    pub(super) slot: usize,
    /// Null where another change has the entry, or may have it.
    pub(super) entry: *const EnteringEntry,
    pub(super) chunks: [*mut u8; 2],
}

impl Default for Change {
    fn default() -> Self {
        Self {
            frame: Cell::new(0),
            slot: Cell::new(0),
            entry: Cell::new(null()),
            old: Cell::new(null_mut()),
            new: Cell::new(null_mut()),
        }
    }
}

impl Change {
    /// Notes the entry, before the thread tries to take it.
    pub(super) fn set_entry(&self, entry: &EnteringEntry) {
        self.entry.set(entry);
        compiler_fence(SeqCst);
    }

    /// Notes the chunk, before it is taken from the thread.
    pub(super) fn set_old(&self, base: *mut u8) {
        self.old.set(base);
        compiler_fence(SeqCst);
    }

    /// Notes the chunk, before it is the thread's.
    pub(super) fn set_new(&self, base: NonNull<u8>) {
        self.new.set(base.as_ptr());
        compiler_fence(SeqCst);
    }

    /// Marks the change as done: it has no entry any more.
    pub(super) fn end(&self) {
        compiler_fence(SeqCst);
        self.entry.set(null());
        self.old.set(null_mut());
        self.new.set(null_mut());
        compiler_fence(SeqCst);
        self.frame.set(0);
        compiler_fence(SeqCst);
    }
}

impl InHand {
    /// Returns the chunks of all changes, with their slots: those that are taken from the thread,
    /// and those that are given to it.
    pub(super) fn chunks(
        &self,
    ) -> impl Iterator<Item = (usize, Option<NonNull<u8>>, Option<NonNull<u8>>)> {
        self.changes.iter().map(|change| {
            let [old, new] = [&change.old, &change.new].map(|base| NonNull::new(base.get()));
            (change.slot.get(), old, new)
        })
    }

    /// Forgets all changes: those of the parent, in a forked child.
    pub(super) fn forget(&self) {
        self.changes.iter().for_each(Change::end);
    }

    /// Notes that a change begins, whose frames are at `frame` and above. `None` where too many
    /// changes are known already.
    pub(super) fn begin(&self, frame: usize, slot: usize) -> Option<&Change> {
        let change = self.changes.iter().find(|change| change.frame.get() == 0)?;
        change.frame.set(frame);
        change.slot.set(slot);
        compiler_fence(SeqCst);
        Some(change)
    }

    /// Takes out a change that was left for good, if there is one. Its frames lie where those of
    /// the change that begins now (at `frame`) are.
    pub(super) fn take_left(&self, frame: usize) -> Option<Left> {
        let is_there = |change: &&Change| change.frame.get().wrapping_sub(frame) < FRAME;
        let change = self.changes.iter().find(is_there)?;
        let (slot, entry) = (change.slot.get(), change.entry.get());
        let chunks = [change.old.get(), change.new.get()];
        change.end();
        let is_others = self.changes.iter().any(|other| other.entry.get() == entry);
        Some(Left {
            slot,
            entry: if is_others { null() } else { entry },
            chunks,
        })
    }

    /// Tells whether a change has this chunk.
    pub(super) fn has(&self, base: NonNull<u8>) -> bool {
        let base = base.as_ptr();
        let has = |change: &Change| change.old.get() == base || change.new.get() == base;
        self.changes.iter().any(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> EnteringEntry {
        // SAFETY: all of it is atomics, for which zeros are valid.
        unsafe { std::mem::zeroed() }
    }

    #[test]
    fn what_has_its_frames_where_others_are_now_was_left() {
        let (in_hand, entries) = (InHand::default(), [entry(), entry()]);
        in_hand.begin(0x1000, 3).unwrap().set_entry(&entries[0]);
        assert!(in_hand.take_left(0x800).is_none(), "a handler is deeper");
        in_hand.begin(0x800, 4).unwrap().set_entry(&entries[1]);
        assert!(
            in_hand.take_left(0x9000).is_none(),
            "another stack may be anywhere"
        );
        let left = in_hand.take_left(0x1000 - FRAME / 2).unwrap();
        assert_eq!(left.slot, 3);
        assert!(std::ptr::eq(left.entry, &raw const entries[0]));
        assert!(in_hand.take_left(0x1000).is_none(), "once");
        assert_eq!(in_hand.take_left(0x800).unwrap().slot, 4);
    }

    #[test]
    fn the_entry_of_another_change_is_left_to_that() {
        let (in_hand, entry) = (InHand::default(), entry());
        in_hand.begin(0x1000, 0).unwrap().set_entry(&entry);
        // A handler's change tries the same entry first.
        in_hand.begin(0x800, 0).unwrap().set_entry(&entry);
        assert!(in_hand.take_left(0x800).unwrap().entry.is_null());
        assert!(!in_hand.take_left(0x1000).unwrap().entry.is_null());
    }

    #[test]
    fn a_change_knows_its_chunks_until_it_ends() {
        let in_hand = InHand::default();
        let mut word = 0_u8;
        let base = NonNull::from(&mut word);
        let change = in_hand.begin(0x1000, 0).unwrap();
        assert!(!in_hand.has(base));
        change.set_new(base);
        assert!(in_hand.has(base));
        change.end();
        assert!(!in_hand.has(base));
        in_hand.begin(0x1000, 0).unwrap();
        assert!(!in_hand.has(base), "another change");
    }

    #[test]
    fn what_is_too_much_is_not_known() {
        let in_hand = InHand::default();
        let begun = |depth: usize| in_hand.begin(0x10000 - depth * 0x100, 0).is_some();
        assert_eq!((0..=AT_ONCE).filter(|depth| begun(*depth)).count(), AT_ONCE);
    }
}
