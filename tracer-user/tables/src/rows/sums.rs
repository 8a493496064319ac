//! Rows of `threads` and `waits`: sums over the log.

use tracer_analysis::{LockKey, LockRelation, LockTotal, RelationTotal, Thread};
use tracer_answers::stat::{Statistics, Sums};
use tracer_engine::EventTypes;
use tracer_engine::event::MonotonicNs;
use tracer_event::consumer::Consumer as _;
use tracer_event::event_view::EventView;
use tracer_event::fields::until_null;
use tracer_event::gap::Gap;
use tracer_event::summary::Summary;

use super::Rows;
use crate::batch::RowBatch;
use crate::maker::RowChoice;

/// Function that makes rows of sums.
type Push = fn(&Statistics, &RowChoice, &mut RowBatch);

/// Maker of rows that are there at the end.
pub struct SumRows {
    sums: Option<Sums>,
    choice: RowChoice,
    push: Push,
}

impl SumRows {
    /// Begins, with the rows that are wanted and the function that makes them.
    pub fn new(choice: RowChoice, push: Push) -> Self {
        Self {
            sums: Some(Sums::new(Vec::new()).within(choice.scope.clone())),
            choice,
            push,
        }
    }
}

impl Rows for SumRows {
    fn learn_types(&mut self, types: &EventTypes) {
        if let Some(sums) = &mut self.sums {
            sums.learn_types(types);
        }
    }

    fn gap(&mut self, gap: &Gap, _: &mut RowBatch) {
        if let Some(sums) = &mut self.sums {
            sums.gap(gap);
        }
    }

    fn event(&mut self, view: &EventView<'_>, _: &mut RowBatch) {
        if let Some(sums) = &mut self.sums {
            // Sums do not fail.
            let _ = sums.event(view);
        }
    }

    fn idle(&mut self, now: MonotonicNs) {
        if let Some(sums) = &mut self.sums {
            sums.idle(now);
        }
    }

    fn end(&mut self, summary: &Summary, out: &mut RowBatch) {
        if let Some(sums) = self.sums.take() {
            (self.push)(&Statistics::finish(sums, summary), &self.choice, out);
        }
    }
}

/// Pushes a row for each thread.
pub fn push_threads(statistics: &Statistics, choice: &RowChoice, out: &mut RowBatch) {
    for (thread, comm, total) in &statistics.threads {
        if !choice.has_thread(*thread) {
            continue;
        }
        out.i32(thread.pid);
        out.i32(thread.tid);
        out.name(comm.as_slice());
        let command = statistics.paths.commands().get(thread.pid);
        out.text(|text| {
            text.extend_from_slice(command.as_bytes());
            !command.is_empty()
        });
        for ns in [
            total.running,
            total.runnable,
            total.blocked,
            total.stopped,
            total.unknown,
            total.throttled,
            total.preempted,
            total.migrations,
        ] {
            out.u64(ns);
        }
        out.end_row();
    }
}

/// Pushes a row for each lock, thread that waited for it, and thread that had it.
pub fn push_waits(statistics: &Statistics, choice: &RowChoice, out: &mut RowBatch) {
    for (key, total) in statistics.locks.sorted() {
        for ((waiter, relation), of_it) in total.sorted_pairs() {
            if !choice.has_thread(waiter) {
                continue;
            }
            push_wait(
                statistics,
                (Some(key), total),
                Some((waiter, relation)),
                &of_it,
                out,
            );
        }
        if total.other_pairs.waits > 0 {
            push_wait(
                statistics,
                (Some(key), total),
                None,
                &total.other_pairs,
                out,
            );
        }
    }
    if let Some(others) = statistics.locks.others() {
        let of_them = RelationTotal {
            waits: others.waits,
            ns: others.ns,
            longest: others.longest,
            confirmed: 0,
        };
        push_wait(statistics, (None, others), None, &of_them, out);
    }
}

fn push_wait(
    statistics: &Statistics,
    (key, total): (Option<LockKey>, &LockTotal),
    pair: Option<(Thread, LockRelation)>,
    of_it: &RelationTotal,
    out: &mut RowBatch,
) {
    let names = statistics.paths.names();
    let push_thread = |thread: Option<Thread>, out: &mut RowBatch| {
        out.i32(thread.map(|thread| thread.pid));
        out.i32(thread.map(|thread| thread.tid));
        out.name(thread.map(|thread| names.get(thread)));
    };
    out.u64(key.map(|key| key.address));
    out.i32(key.map(|key| key.pid));
    out.u32(key.map(|key| key.program));
    out.name(total.kind.name().as_bytes());
    let place = statistics.paths.functions().place(total.function);
    out.name(place.map(|place| place.name.as_bytes()));
    push_thread(pair.map(|(waiter, _)| waiter), out);
    let (holder, waker) = match pair.map(|(_, relation)| relation) {
        Some(LockRelation::HeldBy(holder, _)) => (Some(holder), None),
        Some(LockRelation::WokenBy(waker)) => (None, Some(waker)),
        Some(LockRelation::Unknown) | None => (None, None),
    };
    push_thread(holder, out);
    out.name(waker.as_ref().map(|waker| until_null(&waker.comm)));
    out.u64(of_it.waits);
    out.u64(of_it.ns);
    out.u64(of_it.longest);
    out.u64(of_it.confirmed);
    out.end_row();
}
