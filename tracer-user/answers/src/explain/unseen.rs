//! Blind spots of an explanation.

use super::facts::TraceFacts;
use super::rules::support::WHOLE;
use super::rules::{Judged, Needs};
use crate::queries::words::share;

/// Most sentences.
const MOST: usize = 5;

/// Returns what could not be seen, in words.
#[must_use]
pub fn unseen(facts: &TraceFacts, judged: &Judged) -> Vec<String> {
    let statistics = &facts.statistics;
    let condition = statistics.summary.condition();
    let mut all: Vec<String> = condition.lines().map(str::to_owned).collect();
    if statistics.lost > 0 {
        all.push(format!(
            "{} events were lost: times around them are unknown; a larger --ring-size loses fewer",
            statistics.lost
        ));
    }
    if statistics.summary.not_reported() > 0 {
        all.push(format!(
            "events that the kernel did not report: {}; times around them are unknown",
            statistics.summary.not_reported()
        ));
    }
    if let Some(part) = facts.windows.share_of_all() {
        all.push(format!(
            "system calls in {} of the time: all of them would cost the program too much (\
             --call-cost 100 records them); what is said of them is an estimate",
            share(WHOLE - part, WHOLE)
        ));
    }
    let blind = |needs: Needs| judged.blind.iter().any(|rule| rule.needs == needs);
    if !statistics.has_switches {
        all.push("switches and wake-ups were not recorded: what threads did is unknown".to_owned());
    } else if !statistics.has_wakeups {
        all.push("who ended waits: no wake-ups (none came, or they were not recorded)".to_owned());
    }
    if blind(Needs::Calls) && statistics.has_switches && !facts.calls.has_calls() {
        all.push(
            "locks, names that are looked up, small reads: no system calls (none were made, or \
             --syscalls all was not given)"
                .to_owned(),
        );
    }
    if blind(Needs::Faults) {
        all.push("page faults (none, or not recorded: --add-events fault)".to_owned());
    }
    if blind(Needs::Interrupts) {
        all.push("interrupts (--all or --add-events irq,softirq records them)".to_owned());
    }
    if facts.places.samples(|_, _| true) == 0 {
        all.push("functions that ran (no samples: --sample 99)".to_owned());
    }
    all.truncate(MOST);
    all
}
