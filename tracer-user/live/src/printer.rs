//! Way of an event from the stream to its consumer, in stages: the sieve, its stack, the count of
//! its type, the consumer.

use std::time::Duration;

use tracer_common::event_type::EventTypeId;
use tracer_engine::event::{Event, MonotonicNs};
use tracer_engine::source::LossCause;
use tracer_engine::{ClockPair, EventTypes, Ledger};

use super::type_rows::TypeRows;
use tracer_binary::stacks::{self, Owned, PendingStacks, SymbolNames};
use tracer_binary::thread_context::ThreadContext;
use tracer_event::consumer::{Consumer, FlushReason, Lines, TraceLosses};
use tracer_event::event_view::{EventView, NamespaceIds};
use tracer_event::gap::{Gap, Missing, switches_by};
use tracer_event::predicate::{Show, Sieve};
use tracer_event::probe::is_probe;
use tracer_event::selection::Selection;
use tracer_event::summary::{HeldUp, Summary};
use tracer_event::thread_contexts::ThreadContexts;
use tracer_kernel::{LostByCpu, say_mappings_anew};
use tracer_text::say;

/// Types with which the sources are asked for all of theirs: a question takes as long as there are
/// sources.
const MOST_ASKED: u32 = 1000;

/// Stages that the chosen events go through, to their consumer.
pub struct Printer {
    /// `None` once it has taken the end.
    consumer: Option<Box<dyn Consumer>>,
    /// Whether the consumer records the trace: then it gets also what the stream says of itself,
    /// whatever is chosen, and what names the addresses of stacks.
    is_recorded: bool,
    /// New types with which the sources are still asked for all of theirs.
    asks_left: u32,
    rows: TypeRows,
    left: Option<u64>,
    /// Output of the consumer.
    lines: Lines,
    /// The first error of the consumer, which takes no event after it.
    failure: Option<anyhow::Error>,
    lost_by_cpu: Option<LostByCpu>,
    /// Cost of the system calls, at the end, where it was bounded.
    pub held_up: Option<HeldUp>,
    /// Time in which switches were recorded, and all time, in nanoseconds, once that is known and
    /// is not the same.
    pub switches_recorded: Option<(u64, u64)>,
    missing: Missing,
    /// Events lost by now, for any cause.
    lost: u64,
    /// Events of the stream that newer ones have replaced before they were read.
    overwritten: u64,
    /// Sieve that decides by their data which events pass.
    sieve: Option<Sieve>,
    /// Stacks whose events have not passed yet.
    stacks: PendingStacks,
    names: SymbolNames,
    /// Traces and spans that threads work for.
    contexts: ThreadContexts,
    /// Both clocks when the trace began. A clock that is set meanwhile does not disorder it.
    clocks: ClockPair,
    /// The moment up to which all is known.
    last: MonotonicNs,
}

impl Printer {
    /// Gives the events that `selection` chooses to `consumer`, whose output goes to `lines`, but
    /// at most `limit` events. They are dated by `clocks`.
    pub fn new(
        (consumer, lines): (Box<dyn Consumer>, Lines),
        selection: &Selection,
        limit: Option<u64>,
        clocks: ClockPair,
    ) -> Self {
        Self {
            consumer: Some(consumer),
            is_recorded: false,
            asks_left: 0,
            rows: TypeRows::new(selection),
            left: limit,
            lines,
            failure: None,
            lost_by_cpu: None,
            held_up: None,
            switches_recorded: None,
            missing: Missing::default(),
            lost: 0,
            overwritten: 0,
            sieve: None,
            stacks: PendingStacks::default(),
            names: SymbolNames::live(),
            contexts: ThreadContexts::default(),
            clocks,
            last: clocks.monotonic,
        }
    }

    /// Shows only events that pass this sieve.
    pub fn pass(&mut self, sieve: Option<Sieve>) {
        self.sieve = sieve;
    }

    /// Shows functions too that the compiler has put into others.
    pub fn show_inlined(&self) {
        self.names.show_inlined(say);
    }

    /// Reports at the end on which CPUs the kernel's rings were full.
    pub fn report_cpus(&mut self, lost: LostByCpu) {
        self.lost_by_cpu = Some(lost);
    }

    /// Gives the consumer all that a recording needs: beside the chosen events what the stream says
    /// of itself, and what names the addresses of stacks.
    pub fn record(&mut self) {
        self.is_recorded = true;
    }

    /// Makes the trace ask its sources for all their types with each of the first new ones: the
    /// consumer joins a beginning and its end.
    pub fn join_pairs(&mut self) {
        self.asks_left = MOST_ASKED;
    }

    /// Tells whether the sources are to be asked for all their types, now that one is new.
    pub fn asks_for_types(&mut self) -> bool {
        let asks = self.asks_left > 0;
        self.asks_left = self.asks_left.saturating_sub(1);
        asks
    }

    /// Returns the consumer, where it has not failed.
    fn consumer(&mut self) -> Option<&mut (dyn Consumer + 'static)> {
        self.consumer
            .as_deref_mut()
            .filter(|_| self.failure.is_none())
    }

    /// Reports the events missing by now, `lost` being the number lost for each cause. Called at
    /// each round: what was lost, was lost before `now`.
    pub fn note_losses(&mut self, lost: &Ledger, now: impl Fn() -> MonotonicNs) {
        let missing = Missing::sum_up(|cause| lost.lost(cause));
        let gap = missing.is_more_than(&self.missing).then(|| {
            let now = now();
            Gap {
                next: now,
                until: Some(now),
                is_kernels: missing.others == self.missing.others,
                is_unrecorded: false,
                tid: None,
            }
        });
        if let Some(gap) = &gap {
            self.at_sieve(|sieve, show| sieve.lose(gap.next, show));
            self.stacks.lose();
            self.contexts.forget();
        }
        self.count_losses(lost);
        if let (Some(gap), Some(consumer)) = (&gap, &mut self.consumer) {
            consumer.gap(gap);
        }
        self.missing = missing;
        self.note_overwritten(lost.lost(LossCause::StreamOverwritten));
    }

    /// Tells the consumer how many events were lost, where there are more by now.
    fn count_losses(&mut self, lost: &Ledger) {
        let before = std::mem::replace(&mut self.lost, lost.lost_in_all());
        if self.lost > before
            && let Some(consumer) = &mut self.consumer
        {
            let losses = TraceLosses {
                by_cause: lost.clone(),
                others: 0,
            };
            let counted = consumer.count_losses(&losses);
            self.failure = self.failure.take().or(counted.err());
        }
    }

    /// Notes how many events newer ones have replaced: mappings may be among them, so that what is
    /// mapped is unknown since the last event, and is to be said anew.
    fn note_overwritten(&mut self, overwritten: u64) {
        if overwritten > self.overwritten {
            self.overwritten = overwritten;
            self.names.lose_mappings(self.last.0);
            say_mappings_anew();
        }
    }

    /// Has the consumer write or show what it holds back.
    pub fn flush(&mut self, reason: FlushReason) {
        if let Some(consumer) = self.consumer() {
            consumer.flush(reason);
        }
    }

    /// Shows events of this type too, whatever was chosen.
    pub fn show(&mut self, id: EventTypeId) {
        self.rows.show(id);
    }

    /// Tells whether as many events were shown as were asked for, or the consumer takes no more.
    pub fn is_done(&self) -> bool {
        self.left == Some(0)
            || self.failure.is_some()
            || self
                .consumer
                .as_ref()
                .is_some_and(|consumer| consumer.is_done())
    }

    /// Tells whether events of a type are shown, or say more of others that are.
    pub fn shows(&self, id: EventTypeId) -> bool {
        (self.rows.shows(id) || id == EventTypeId::THREAD_CONTEXT) && !self.is_done()
    }

    /// Tells whether the name of a type is still to be [learnt](Self::learn_name).
    pub fn lacks_name(&self, id: EventTypeId) -> bool {
        self.rows.lacks_name(id)
    }

    /// Learns the name of a type from the stream.
    pub fn learn_name(&mut self, id: EventTypeId, types: &EventTypes) {
        self.learn_types(types);
        self.rows.learn_name(id, types);
    }

    /// Tells the consumer the types of the stream.
    pub fn learn_types(&mut self, types: &EventTypes) {
        if let Some(consumer) = &mut self.consumer {
            consumer.learn_types(types);
        }
    }

    /// Adds the lines before the first event, unless that was done.
    pub fn begin(&mut self) {
        if let Some(consumer) = self.consumer() {
            consumer.begin();
        }
    }

    /// Learns from an event that is not wanted.
    pub fn pass_by(&mut self, event: &Event<'_>) {
        self.at_sieve(|sieve, show| sieve.pass_by(event, show));
    }

    /// Adds the events that pass the sieve though no event has come to it.
    fn at_sieve(&mut self, ask: impl FnOnce(&mut Sieve, Show<'_>)) {
        let Some(mut sieve) = self.sieve.take() else {
            return;
        };
        ask(&mut sieve, &mut |line| {
            self.put(&line.event, line.comm, (line.inside, line.context));
        });
        self.sieve = Some(sieve);
    }

    /// Gives the consumer an event that passes the sieve; `types` knows the name of its type. Its
    /// thread has this name, and these ids in its own pid namespace.
    pub fn print(
        &mut self,
        event: &Event<'_>,
        comm: Option<&[u8]>,
        inside: Option<NamespaceIds>,
        types: &EventTypes,
    ) {
        self.note_filter(event);
        let is_context = self.contexts.learn(event);
        if is_context && !self.rows.shows(EventTypeId::THREAD_CONTEXT) {
            return;
        }
        let is_probe = || types.name(event.header.event_type).is_some_and(is_probe);
        let context = self.contexts.context(event, is_probe);
        if stacks::is_part(event.header.event_type) && self.take_part(event, comm, inside) {
            return;
        }
        let is_of_stream = event.header.event_type <= EventTypeId::FLUSH_STOP;
        let is_spared = self.is_recorded && is_of_stream;
        let sieve = self.sieve.take_if(|_| !is_spared);
        let Some(mut sieve) = sieve else {
            self.put(event, comm, (inside, context));
            return;
        };
        if let Some(row) = self.rows.row(event.header.event_type).cloned() {
            let line = EventView {
                event: *event,
                entry: row.entry,
                name: row.name(),
                comm,
                date: self.clocks.date_of(event.header.time),
                inside,
                stack: None,
                context,
            };
            sieve.offer(&line, true, &mut |line| {
                self.put(&line.event, line.comm, (line.inside, line.context));
            });
        }
        self.sieve = Some(sieve);
    }

    /// Tells the consumer where switches are recorded no more, and where they are again.
    fn note_filter(&mut self, event: &Event<'_>) {
        let Some((before, now)) = switches_by(event).filter(|(before, now)| before != now) else {
            return;
        };
        tracing::debug!(before, now, "switches are recorded, or not");
        self.stacks.lose();
        let at = event.header.time;
        let gap = Gap {
            next: at,
            until: now.then_some(at),
            is_kernels: true,
            is_unrecorded: true,
            tid: None,
        };
        if let Some(consumer) = self.consumer() {
            consumer.gap(&gap);
        }
    }

    /// Takes a part of a stack: a stack waits for its event; a mapping is learnt, and given to a
    /// consumer that records. False for a stack that is an event of its own.
    fn take_part(
        &mut self,
        event: &Event<'_>,
        comm: Option<&[u8]>,
        inside: Option<NamespaceIds>,
    ) -> bool {
        if event.header.event_type == EventTypeId::STACK {
            return self.stacks.put(event);
        }
        self.names.learn(event);
        if self.is_recorded {
            self.put(event, comm, (inside, None));
        }
        true
    }

    fn put(
        &mut self,
        event: &Event<'_>,
        comm: Option<&[u8]>,
        (inside, context): (Option<NamespaceIds>, Option<ThreadContext>),
    ) {
        let id = event.header.event_type;
        let own = (id == EventTypeId::STACK).then(|| Owned::from_event(event));
        let stack = own.or_else(|| self.stacks.take(event));
        let Some(row) = self.rows.row_mut(id).filter(|_| self.left != Some(0)) else {
            return;
        };
        row.count += 1;
        self.last = event.header.time;
        // What names stacks is none of the events that are asked for.
        if let Some(left) = &mut self.left
            && !stacks::names_stacks(id)
        {
            *left = left.saturating_sub(1);
        }
        let line = EventView {
            event: *event,
            entry: row.entry,
            name: row.name(),
            comm,
            date: self.clocks.date_of(event.header.time),
            inside,
            stack: stack.as_ref().map(|stack| stack.named(&self.names)),
            context,
        };
        if let (None, Some(consumer)) = (&self.failure, &mut self.consumer) {
            self.failure = consumer.event(&line).err();
        }
    }

    /// Notes that no event has come up to this moment: adds the line of a call that is not done.
    pub fn wait(&mut self, now: MonotonicNs) {
        self.last = self.last.max(now);
        if let Some(consumer) = self.consumer() {
            consumer.idle(now);
        }
    }

    /// Returns the lines so far, to be taken away.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Gives the consumer the end, and reports what people are to know.
    pub fn end(&mut self, lost: impl Fn(LossCause) -> u64, elapsed: Duration) -> Summary {
        self.begin();
        self.at_sieve(Sieve::end);
        if let Some(note) = self.sieve.as_ref().and_then(Sieve::note) {
            say(&note);
        }
        let events = self.rows.counts();
        let lost = LossCause::ALL.map(|cause| (cause, lost(cause))).to_vec();
        let mut summary = Summary::new(events, lost, elapsed);
        let written = self.consumer.as_mut().map(|consumer| consumer.complete());
        summary.written = written.flatten();
        summary.last = self.last;
        summary.ended = Some(self.last);
        summary.held_up = self.held_up;
        summary.unrecorded.switches = self.switches_recorded;
        if let Some(lost) = &self.lost_by_cpu {
            summary.ring_full_on = lost.counts();
        }
        let finished = self
            .consumer
            .take()
            .map(|consumer| consumer.finish(&summary));
        self.failure = self.failure.take().or(finished.and_then(Result::err));
        summary
    }

    /// Returns the failure of the consumer: its output could not be written, or, after the end, it
    /// has no answer to the question.
    pub fn take_failure(&mut self) -> Option<anyhow::Error> {
        self.failure.take()
    }
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::FIRST_USER_EVENT;
    use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};

    use super::*;
    use tracer_output::report::{JsonLines, Report};

    fn event(event_type: EventTypeId) -> Event<'static> {
        let header = EventHeader {
            time: MonotonicNs(1),
            event_type,
            pid: 1,
            tid: 1,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        Event { header, data: b"" }
    }

    fn printer(words: &str, limit: Option<u64>) -> Printer {
        let selection = Selection::from_words([words]).unwrap();
        let lines = Lines::default();
        let report = Box::new(Report::new(JsonLines::default(), lines.clone()));
        Printer::new((report, lines), &selection, limit, ClockPair::default())
    }

    #[test]
    fn after_the_limit_nothing_is_shown() {
        let mut printer = printer("fork", Some(2));
        printer.print(
            &event(EventTypeId::FORK),
            None,
            None,
            &EventTypes::default(),
        );
        assert!(!printer.is_done());
        printer.print(
            &event(EventTypeId::FORK),
            None,
            None,
            &EventTypes::default(),
        );
        assert!(printer.is_done());
        assert!(!printer.shows(EventTypeId::FORK));
    }

    #[test]
    fn every_cause_of_loss_is_summed_up() {
        let mut printer = printer("user", None);
        printer.print(
            &event(EventTypeId(FIRST_USER_EVENT)),
            None,
            None,
            &EventTypes::default(),
        );
        let summary = printer.end(|cause| u64::from(cause == LossCause::Late), Duration::ZERO);

        assert_eq!(summary.events, [(b"?".to_vec(), 1)]);
        assert_eq!(summary.lost.len(), LossCause::ALL.len());
        assert_eq!(summary.lost_in_all(), 1);
    }
}
