//! Seam between events and their consumers.
//!
//! Two producers have events: a running trace, and the walk through a log. Whatever is made of
//! events takes them as a [`Consumer`]: lines, answers, exports, the live view, the page.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use tracer_engine::event::MonotonicNs;
use tracer_engine::{EventTypes, Ledger};

use crate::event_view::EventView;
use crate::gap::Gap;
use crate::summary::{Summary, WriteLosses};

/// Takes events, in order of their times.
pub trait Consumer {
    /// Prepares for the first event, which may be far away: a report writes its header.
    fn begin(&mut self) {}

    /// Learns event types: these are all that are known.
    fn learn_types(&mut self, _types: &EventTypes) {}

    /// Notes that events are missing before the next one.
    fn gap(&mut self, _gap: &Gap) {}

    /// Notes how many events were lost so far. Comes now and then, not with each event, and before
    /// a gap. There may be more of them without a gap: not each loss leaves one.
    ///
    /// # Errors
    ///
    /// Its output cannot be written.
    fn count_losses(&mut self, _losses: &TraceLosses) -> anyhow::Result<()> {
        Ok(())
    }

    /// Takes the next event.
    ///
    /// # Errors
    ///
    /// Its output cannot be written.
    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()>;

    /// Notes that no event has come up to `now`.
    fn idle(&mut self, _now: MonotonicNs) {}

    /// Writes or shows what it holds back. A running trace calls it, whether events come or not.
    fn flush(&mut self, _reason: FlushReason) {}

    /// Tells whether it takes no more events: then the trace ends, or the walk through the log.
    fn is_done(&self) -> bool {
        false
    }

    /// Completes what it writes: there are no more events. Returns what it could not write, which
    /// the summary then says; `None` where it writes no log.
    fn complete(&mut self) -> Option<WriteLosses> {
        None
    }

    /// Takes the end: there are no more events.
    ///
    /// # Errors
    ///
    /// Its output cannot be written, or there is no answer to the question.
    fn finish(self: Box<Self>, _summary: &Summary) -> anyhow::Result<()> {
        Ok(())
    }
}

impl<C: Consumer + ?Sized> Consumer for &mut C {
    fn begin(&mut self) {
        (**self).begin();
    }

    fn learn_types(&mut self, types: &EventTypes) {
        (**self).learn_types(types);
    }

    fn gap(&mut self, gap: &Gap) {
        (**self).gap(gap);
    }

    fn count_losses(&mut self, losses: &TraceLosses) -> anyhow::Result<()> {
        (**self).count_losses(losses)
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        (**self).event(view)
    }

    fn idle(&mut self, now: MonotonicNs) {
        (**self).idle(now);
    }

    fn flush(&mut self, reason: FlushReason) {
        (**self).flush(reason);
    }

    fn is_done(&self) -> bool {
        (**self).is_done()
    }

    fn complete(&mut self) -> Option<WriteLosses> {
        (**self).complete()
    }
}

impl Consumer for Box<dyn Consumer> {
    fn begin(&mut self) {
        (**self).begin();
    }

    fn learn_types(&mut self, types: &EventTypes) {
        (**self).learn_types(types);
    }

    fn gap(&mut self, gap: &Gap) {
        (**self).gap(gap);
    }

    fn count_losses(&mut self, losses: &TraceLosses) -> anyhow::Result<()> {
        (**self).count_losses(losses)
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        (**self).event(view)
    }

    fn idle(&mut self, now: MonotonicNs) {
        (**self).idle(now);
    }

    fn flush(&mut self, reason: FlushReason) {
        (**self).flush(reason);
    }

    fn is_done(&self) -> bool {
        (**self).is_done()
    }

    fn complete(&mut self) -> Option<WriteLosses> {
        (**self).complete()
    }

    fn finish(self: Box<Self>, summary: &Summary) -> anyhow::Result<()> {
        (*self).finish(summary)
    }
}

/// Reason to write or show what is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushReason {
    /// Time has passed: about a second.
    Regular,
    /// A user asks for it.
    Asked,
}

/// Events lost so far.
#[derive(Clone, Debug, Default)]
pub struct TraceLosses {
    /// Losses of the trace, by cause.
    pub by_cause: Ledger,
    /// Losses for causes that only a later version knows, and of the log itself.
    pub others: u64,
}

impl TraceLosses {
    /// Returns all of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_cause.lost_in_all().saturating_add(self.others)
    }
}

/// Output that waits to be written, shared by the consumer that appends and by the code that writes
/// it.
#[derive(Clone, Debug, Default)]
pub struct Lines(Rc<RefCell<Vec<u8>>>);

impl Lines {
    /// Returns the bytes that wait, for more to be appended, or for some to be taken away.
    ///
    /// # Panics
    ///
    /// They are borrowed already: no borrow outlives the call that it is made for.
    #[must_use]
    pub fn bytes(&self) -> RefMut<'_, Vec<u8>> {
        self.0.borrow_mut()
    }
}
