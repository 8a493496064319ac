//! Sieve that lets events pass, or not.

use std::sync::Arc;

use tracer_common::event_type::EventTypeId;
use tracer_engine::event::{Event, MonotonicNs};

use super::expression::{Expression, Verdict};
use super::open_calls::{BoundedCalls, OpenCall};
use super::values::{CallFacts, Facts};
use super::{Predicate, Settled};
use crate::event_view::EventView;

/// Receiver of the events that pass.
pub type Show<'a> = &'a mut dyn FnMut(&EventView<'_>);

/// Sieve that lets events pass, or not: each in turn. A system call's entry that cannot be judged
/// yet waits, and passes right before its exit.
#[derive(Debug)]
pub struct Sieve {
    is_failed: bool,
    expression: Option<Arc<Expression>>,
    spares_others: bool,
    /// Whether entries are judged by what exits know.
    needs_exit: bool,
    /// Whether an exit may be judged otherwise than its entry.
    varies: bool,
    start: MonotonicNs,
    calls: BoundedCalls,
    /// Pairs that began before this moment are none for certain: events between were lost.
    doubtful_before: MonotonicNs,
    mode: Mode,
    /// Entries that could not wait.
    hurried: u64,
}

/// Treatment of entries that have to wait.
#[derive(Debug)]
enum Mode {
    Wait,
    /// Entries are noted, and nothing passes.
    Note(Settled),
    /// Entries pass as was noted.
    Follow(Arc<Settled>),
}

impl Sieve {
    /// Returns the sieve of `predicate`, where there is one. Times are from `start` on.
    #[must_use]
    pub fn new(predicate: &Predicate, start: MonotonicNs) -> Option<Self> {
        let expression = predicate.expression.clone();
        let varies = expression.as_ref().is_some_and(|found| found.varies());
        predicate.is_restricted().then(|| Self {
            is_failed: predicate.is_failed,
            expression,
            spares_others: predicate.spares_others,
            needs_exit: predicate.needs_exit().is_some(),
            varies,
            start,
            calls: BoundedCalls::default(),
            doubtful_before: MonotonicNs(0),
            mode: Mode::Wait,
            hurried: 0,
        })
    }

    /// Lets nothing pass from now on, and notes which entries are chosen.
    #[must_use]
    pub fn noting(self) -> Self {
        Self {
            mode: Mode::Note(Settled::default()),
            ..self
        }
    }

    /// Follows the findings of an earlier pass about which entries are chosen.
    #[must_use]
    pub fn following(self, settled: Arc<Settled>) -> Self {
        Self {
            mode: Mode::Follow(settled),
            ..self
        }
    }

    /// Returns the noted findings.
    #[must_use]
    pub fn settled(self) -> Settled {
        match self.mode {
            Mode::Note(settled) => settled,
            Mode::Wait | Mode::Follow(_) => Settled::default(),
        }
    }

    /// Shows the events that pass now that this one has come. One that is not wanted is only used
    /// to learn what its thread does.
    pub fn offer(&mut self, line: &EventView<'_>, is_wanted: bool, show: Show<'_>) {
        let header = line.event.header;
        let call = CallFacts::parse(header.event_type, header.time, line.event.data);
        if let Mode::Note(settled) = &mut self.mode {
            settled.look_at(header.time);
        }
        match call {
            Some(call) if header.event_type == EventTypeId::SYSCALL_ENTER => {
                self.enter(line, &call, is_wanted, show);
            }
            Some(call) => self.leave(line, &call, is_wanted, show),
            None => {
                self.pass_by(&line.event, show);
                if is_wanted && self.has_other(line) {
                    self.show(line, show);
                }
            }
        }
    }

    /// Learns the state of threads from an event that is not wanted.
    pub fn pass_by(&mut self, event: &Event<'_>, show: Show<'_>) {
        if let Some(call) = self.calls.follow(event) {
            self.give_up(&call, show);
        }
    }

    /// Handles lost events, none of them after `until`: which entry an exit belongs to is not known
    /// where one of both was before that.
    pub fn lose(&mut self, until: MonotonicNs, show: Show<'_>) {
        self.doubtful_before = self.doubtful_before.max(until);
        self.give_all_up(show);
    }

    /// Shows the events that still wait and are chosen as they are: no more events come.
    pub fn end(&mut self, show: Show<'_>) {
        self.give_all_up(show);
    }

    /// Returns a note for people.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        (self.hurried > 0).then(|| {
            format!(
                "{} system calls were judged before they had ended, as if they never did: more were \
                 in progress than there is memory for",
                self.hurried
            )
        })
    }

    fn enter(
        &mut self,
        line: &EventView<'_>,
        call: &CallFacts<'_>,
        is_wanted: bool,
        show: Show<'_>,
    ) {
        let header = line.event.header;
        // The exit of the one before was lost, or there was none.
        if let Some(before) = self.calls.remove(header.tid) {
            self.give_up(&before, show);
        }
        let is_doubtful = header.time < self.doubtful_before;
        let settled = match &self.mode {
            Mode::Follow(settled) if self.needs_exit => {
                Some(settled.is_chosen(header.time, header.tid))
            }
            _ if self.needs_exit && !is_doubtful => None,
            _ => Some(is_wanted && self.chooses(line, Some(*call))),
        };
        match settled {
            Some(true) if is_wanted => {
                self.note_chosen(line);
                self.show(line, show);
            }
            _ => {}
        }
        if is_doubtful {
            return;
        }
        let open = match settled {
            // Its data is not needed any more: the choice is made.
            Some(is_chosen) if !self.needs_exit && !self.varies && is_wanted => {
                OpenCall::known(header.time, call.key(), is_wanted, is_chosen)
            }
            _ => OpenCall::new(line, call.key(), is_wanted, settled),
        };
        self.open(header.tid, open, show);
    }

    fn leave(
        &mut self,
        line: &EventView<'_>,
        call: &CallFacts<'_>,
        is_wanted: bool,
        show: Show<'_>,
    ) {
        let tid = line.event.header.tid;
        let open = self.calls.leave(tid, call.key(), call.returned());
        let Some((open, is_ended)) = open else {
            if is_wanted && self.chooses(line, Some(*call)) {
                self.show(line, show);
            }
            return;
        };
        if !is_ended {
            self.give_up(&open, show);
            if is_wanted && self.chooses(line, Some(*call)) {
                self.show(line, show);
            }
            return;
        }
        let entry = open.line();
        let entered = entry.as_ref().and_then(|entry| {
            let event = &entry.event;
            CallFacts::parse(event.header.event_type, event.header.time, event.data)
        });
        let whole = entered.map_or(*call, |entered| call.with(&entered));
        if let Some(entry) = &entry
            && open.is_chosen.is_none()
            && open.is_wanted
            && self.chooses(entry, Some(whole))
        {
            self.note_chosen(entry);
            self.show(entry, show);
        }
        if !is_wanted {
            return;
        }
        let is_chosen = match (open.is_chosen, &entry) {
            (Some(is_chosen), None) => is_chosen,
            _ => self.chooses(line, Some(whole)),
        };
        if is_chosen {
            self.show(line, show);
        }
    }

    fn open(&mut self, tid: i32, call: OpenCall, show: Show<'_>) {
        while let Some(other) = self.calls.make_room(tid, &call) {
            self.hurried += u64::from(other.is_chosen.is_none());
            self.give_up(&other, show);
        }
        self.calls.enter(tid, call);
    }

    /// Shows an entry that waits, if it is chosen without an exit.
    fn give_up(&mut self, call: &OpenCall, show: Show<'_>) {
        let Some(line) = call.line() else { return };
        if call.is_chosen.is_some() || !call.is_wanted {
            return;
        }
        let header = line.event.header;
        let facts = CallFacts::parse(header.event_type, header.time, line.event.data);
        if self.chooses(&line, facts) {
            self.note_chosen(&line);
            self.show(&line, show);
        }
    }

    fn give_all_up(&mut self, show: Show<'_>) {
        for call in self.calls.take_all() {
            self.give_up(&call, show);
        }
    }

    /// Tells whether an end of a system call is chosen.
    fn chooses(&self, line: &EventView<'_>, call: Option<CallFacts<'_>>) -> bool {
        if self.is_failed && !call.is_some_and(|call| call.has_failed()) {
            return false;
        }
        let Some(expression) = &self.expression else {
            return true;
        };
        expression.judge(&Facts::new(line, self.start, call)) == Verdict::True
    }

    /// Tells whether an event is chosen that belongs to no system call. Marks of lost events are
    /// always shown, as are ends of calls that cannot be read where only calls are judged.
    fn has_other(&self, line: &EventView<'_>) -> bool {
        let id = line.event.header.event_type;
        let is_loss = matches!(
            id,
            EventTypeId::ERROR | EventTypeId::OVERFLOW | EventTypeId::RESUME
        );
        if is_loss || (self.spares_others && !id.is_user()) {
            return true;
        }
        let Some(expression) = &self.expression else {
            return true;
        };
        expression.judge(&Facts::new(line, self.start, None)) == Verdict::True
    }

    fn note_chosen(&mut self, line: &EventView<'_>) {
        if let Mode::Note(settled) = &mut self.mode {
            settled.choose(line.event.header.time, line.event.header.tid);
        }
    }

    fn show(&self, line: &EventView<'_>, show: Show<'_>) {
        if !matches!(self.mode, Mode::Note(_)) {
            show(line);
        }
    }
}

#[cfg(test)]
mod tests;
