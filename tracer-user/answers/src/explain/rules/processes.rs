//! Rules of processes: many short ones, and those that are stopped.

use std::collections::{BTreeMap, BTreeSet};

use tracer_analysis::{PathPart, Thread};

use super::super::facts::{Short, TraceFacts};
use super::super::finding::{RuleFinding, Sure};
use super::support::{crew_name, harmless, share, thousandths};

/// Short processes before they are many.
const MANY: u64 = 20;

/// Processes of a name, the short ones that they have made, and how many of each name.
type Makers<'a> = (BTreeSet<i32>, Short, BTreeMap<&'a [u8], u64>);

/// Finds programs that make many short processes.
pub fn many_short(facts: &TraceFacts) -> Vec<RuleFinding> {
    let mut by_parent: BTreeMap<Vec<u8>, Makers<'_>> = BTreeMap::new();
    for (name, parent, short) in facts.made.short() {
        let leader = Thread {
            pid: parent,
            tid: parent,
        };
        // Processes of which a short one made another are those of its name.
        let comm = facts.name(leader).to_vec();
        let (makers, sum, names) = by_parent.entry(comm).or_default();
        makers.insert(parent);
        sum.count = sum.count.saturating_add(short.count);
        sum.ns = sum.ns.saturating_add(short.ns);
        *names.entry(name).or_default() += short.count;
    }
    let found = by_parent.into_values().filter_map(|(makers, sum, names)| {
        if sum.count < MANY {
            return None;
        }
        let leader = makers.first().map(|pid| Thread {
            pid: *pid,
            tid: *pid,
        })?;
        // Those that live at the same time take no more of it.
        let time = facts.made.time_of_short(&makers);
        let crew = facts.crews.find(leader)?;
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        let listed = names.iter().take(3);
        let listed: Vec<String> = listed
            .map(|(name, count)| format!("{} ({count})", harmless(name)))
            .collect();
        let mean = sum.ns.checked_div(sum.count).unwrap_or(0);
        Some(RuleFinding {
            rule: "processes",
            who: crew_name(crew),
            what: format!(
                "made many short processes, each of which lived for {} in the mean: {}",
                crate::queries::words::duration(mean),
                listed.join(", ")
            ),
            place: None,
            spot: None,
            line: None,
            object: None,
            by: None,
            ns: sum.ns,
            // It is known of all the time.
            share: thousandths(time, facts.wall()),
            count: sum.count,
            longest: None,
            sure: Sure::Measured,
            sampled: None,
            count_between: None,
            next: "stat --by comm".to_owned(),
            is_on_cpu: true,
            comm: crew.comm.clone(),
        })
    });
    found.collect()
}

/// Finds threads that were stopped, by a signal or a debugger.
pub fn stopped(facts: &TraceFacts) -> Vec<RuleFinding> {
    let crews = facts.crews.all().iter();
    let found = crews.filter_map(|crew| {
        let ns = crew.total.stopped;
        if ns == 0 {
            return None;
        }
        Some(RuleFinding {
            rule: "stopped",
            who: crew_name(crew),
            what:
                "was stopped: by a signal (SIGSTOP, SIGTSTP), by a debugger or strace that traces \
                   it, or since its control group was frozen"
                    .to_owned(),
            place: None,
            spot: None,
            line: None,
            object: None,
            by: None,
            ns,
            share: share(facts, crew, ns, |leaf| {
                matches!(leaf.part, PathPart::Stopped(_) | PathPart::StillStopped(_))
            }),
            count: crew.total.stops,
            longest: None,
            sure: Sure::Measured,
            sampled: None,
            count_between: None,
            next: "stat --sort stopped".to_owned(),
            is_on_cpu: false,
            comm: crew.comm.clone(),
        })
    });
    found.collect()
}
