//! Rules of how threads get in each other's way: inverted priorities, herds, interrupts.

use tracer_analysis::{Interrupt, PathPart};

use super::super::facts::TraceFacts;
use super::super::finding::{RuleFinding, Sure};
use super::support::{crew_name, harmless, share, thousandths};
use crate::queries::words::{inside, task, thread};
use tracer_event::fields::until_null;
use tracer_event::value_names::softirq;

/// Herds before they are many.
const MANY: u64 = 64;

/// Finds threads that wait for one that has no CPU, since a third one has it.
pub fn inverted(facts: &TraceFacts) -> Vec<RuleFinding> {
    let all = facts.queues.inverted().into_iter();
    let all = all.filter(|(key, _)| facts.details.get(key.reason).class.is_lock());
    let found = all.filter_map(|(key, inverted)| {
        let (waits, holder, instead) = (key.thread, key.holder, key.instead);
        let locks = facts
            .waits
            .iter()
            .filter(|(key, _)| key.thread == waits && facts.detail(key).class.is_lock());
        let in_locks: u64 = locks.map(|(_, total)| total.ns).sum();
        // Any holder of a lock may lose its CPU now and then.
        if in_locks == 0 || inverted.ns * 2 < in_locks || instead.thread == holder {
            return None;
        }
        let crew = facts.crews.find(waits)?;
        let by = thread(holder, facts.name(holder));
        let instead = task(&instead);
        Some(RuleFinding {
            rule: "inversion",
            who: thread(waits, &crew.comm),
            what: format!(
                "waited for a lock of {by}, which could run and had no CPU: {instead} had it"
            ),
            place: None,
            spot: None,
            line: None,
            object: None,
            by: Some(instead),
            ns: inverted.ns,
            share: thousandths(inverted.ns, facts.seen()),
            count: inverted.count,
            longest: None,
            sure: Sure::Inferred("who let go of the lock had waited for a CPU in that time"),
            sampled: None,
            count_between: None,
            next: "why --whole --brief".to_owned(),
            is_on_cpu: false,
            comm: crew.comm.clone(),
        })
    });
    found.take(1).collect()
}

/// Finds threads that are woken all together, of which one has something to do.
pub fn herds(facts: &TraceFacts) -> Vec<RuleFinding> {
    let all = facts.queues.herds().into_iter();
    let found = all.filter_map(|(reason, herd)| {
        let crew = facts.crews.find(herd.thread)?;
        if herd.count < MANY || herd.in_vain * 2 < herd.woken {
            return None;
        }
        let call = inside(reason.inside)?;
        let ns = crew.total.running.saturating_add(crew.total.runnable);
        let busy = share(facts, crew, ns, |leaf| {
            leaf.part.has_cpu() || matches!(leaf.part, PathPart::Runnable(..))
        });
        let each = herd.woken.checked_div(herd.count).unwrap_or(0);
        Some(RuleFinding {
            rule: "herd",
            who: crew_name(crew),
            what: format!(
                "was woken all together in {call}(), {each} threads at a time, and most of them \
                 found nothing to do"
            ),
            place: None,
            spot: None,
            line: None,
            object: facts
                .details
                .get(reason)
                .object
                .map(|object| object.to_string()),
            by: None,
            ns: ns / 1000 * thousandths(herd.in_vain, herd.woken),
            share: busy * thousandths(herd.in_vain, herd.woken) / 1000,
            count: herd.count,
            longest: None,
            sure: Sure::Inferred("they went back to the same wait at once"),
            sampled: None,
            count_between: None,
            next: "stat --sort waits".to_owned(),
            is_on_cpu: true,
            comm: crew.comm.clone(),
        })
    });
    found.take(1).collect()
}

/// Finds interrupts that have much of a CPU's time.
pub fn interrupts(facts: &TraceFacts) -> Vec<RuleFinding> {
    let totals = facts.statistics.interrupts.totals().sorted();
    let longest = totals
        .into_iter()
        .max_by_key(|(key, total)| (total.took, std::cmp::Reverse(*key)));
    let Some((key, total)) = longest else {
        return Vec::new();
    };
    let name = match key.interrupt {
        Interrupt::Device(irq, name) => {
            format!("interrupt {irq} ({})", harmless(until_null(&name)))
        }
        Interrupt::Soft(row) => match softirq(row) {
            Some(name) => format!("soft interrupt {name}"),
            None => format!("soft interrupt {row}"),
        },
    };
    let cpu = key
        .cpu
        .map_or_else(|| "a CPU".to_owned(), |cpu| format!("CPU {cpu}"));
    vec![RuleFinding {
        rule: "interrupts",
        who: name,
        what: format!("took much of the time of {cpu}"),
        place: None,
        spot: None,
        line: None,
        object: None,
        by: None,
        ns: total.took,
        share: thousandths(total.took, facts.seen()),
        count: total.count,
        longest: total.longest(),
        sure: Sure::Measured,
        sampled: None,
        count_between: None,
        next: "stat --add-events irq,softirq".to_owned(),
        is_on_cpu: false,
        comm: Vec::new(),
    }]
}
