//! Rules: each finds one kind of reason, in facts alone. `docs/explain.md` has a row for each.

mod calls;
mod circles;
mod cpu;
mod devices;
mod processes;
mod scheduling;
pub mod support;
mod waits;

use super::facts::TraceFacts;
use super::finding::RuleFinding;
use super::overview::{Overview, Use};
use crate::queries::words::duration;

/// Events without which a rule sees nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Switches and wake-ups.
    Switches,
    /// System calls.
    Calls,
    /// Page faults.
    Faults,
    /// Interrupts.
    Interrupts,
    /// The making and the end of processes.
    Processes,
}

/// Rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name, as answers have it.
    pub name: &'static str,
    /// Its subject, in words.
    pub about: &'static str,
    /// Events that it needs.
    pub needs: Needs,
    /// Finds it, in any order.
    find: fn(&TraceFacts) -> Vec<RuleFinding>,
}

const fn rule(
    name: &'static str,
    about: &'static str,
    needs: Needs,
    find: fn(&TraceFacts) -> Vec<RuleFinding>,
) -> Rule {
    Rule {
        name,
        about,
        needs,
        find,
    }
}

use Needs::{Calls, Faults, Interrupts, Processes, Switches};

/// The rules. Of two findings that explain as much, the one of the earlier rule comes first.
pub const RULES: &[Rule] = &[
    rule("hung", "a wait without end", Switches, waits::hung),
    rule("stopped", "being stopped", Switches, processes::stopped),
    rule("throttling", "throttling", Switches, cpu::throttled),
    rule(
        "inversion",
        "inverted priorities",
        Calls,
        scheduling::inverted,
    ),
    rule("lock", "locks", Calls, waits::locks),
    rule("dns", "name servers", Calls, devices::names),
    rule("connect", "connections", Calls, devices::connections),
    rule("disk", "disks", Switches, devices::disk),
    rule("faults", "page faults", Faults, page_faults),
    rule(
        "processes",
        "short processes",
        Processes,
        processes::many_short,
    ),
    rule("polling", "polling", Calls, calls::polling),
    rule("failing", "failing calls", Calls, calls::failing),
    rule("small-io", "small reads and writes", Calls, calls::small),
    rule("herd", "herds of threads", Switches, scheduling::herds),
    rule("cpu", "a lack of CPUs", Switches, cpu::starved),
    rule(
        "interrupts",
        "interrupts",
        Interrupts,
        scheduling::interrupts,
    ),
    rule("child", "commands", Calls, waits::children),
    rule("hot-thread", "a single hot thread", Switches, cpu::hot),
    rule("sleep", "sleeps", Calls, devices::sleeps),
];

fn page_faults(facts: &TraceFacts) -> Vec<RuleFinding> {
    let mut found = devices::major_faults(facts);
    found.extend(cpu::minor_faults(facts));
    found
}

/// Least share of the time that is worth a finding, in thousandths.
const LEAST_SHARE: u64 = 100;

/// Least time that is worth a finding, in nanoseconds.
const LEAST_NS: u64 = 20_000_000;

/// Most findings that are told.
pub const MOST_FINDINGS: usize = 3;

/// Findings, and what the rules that found nothing have seen.
#[derive(Debug)]
pub struct Judged {
    /// Explanations of most of the time, the most first: three at most.
    pub findings: Vec<RuleFinding>,
    /// How many there are in all.
    pub in_all: usize,
    /// Rules that found nothing worth telling, with the share that they found, in thousandths.
    pub not: Vec<(&'static Rule, u64)>,
    /// Rules that could not see anything, by what they need.
    pub blind: Vec<&'static Rule>,
}

/// Applies all rules.
#[must_use]
pub fn judge(facts: &TraceFacts) -> Judged {
    let overview = Overview::new(facts);
    let queued = support::thousandths(overview.get(Use::ForCpu), overview.all());
    let order = |name: &str| RULES.iter().position(|rule| rule.name == name);
    let mut all: Vec<RuleFinding> = Vec::new();
    let (mut not, mut blind) = (Vec::new(), Vec::new());
    for rule in RULES {
        let found = (rule.find)(facts);
        let most = found.iter().map(|found| found.share).max().unwrap_or(0);
        let worth = found.into_iter().filter(|found| is_worth(found, queued));
        let before = all.len();
        all.extend(worth);
        if all.len() > before {
            continue;
        }
        // Of calls that were not chosen, nothing is known.
        let lacks_calls = rule.needs == Needs::Calls && !facts.has_all_calls();
        if facts.has(rule.needs) && !lacks_calls {
            not.push((rule, most));
        } else {
            blind.push(rule);
        }
    }
    drop_general(&mut all);
    all.sort_by(|one, other| {
        let key = |found: &RuleFinding| {
            let order = order(found.rule);
            (std::cmp::Reverse(found.share), order, found.who.clone())
        };
        key(one).cmp(&key(other))
    });
    let in_all = all.len();
    all.truncate(MOST_FINDINGS);
    Judged {
        findings: all,
        in_all,
        not,
        blind,
    }
}

/// Tells whether a finding explains enough of the time: of that in which the program did not wait
/// for a CPU, of which `queued` thousandths are taken away. On a busy machine everything takes
/// longer.
fn is_worth(found: &RuleFinding, queued: u64) -> bool {
    let rest = support::WHOLE.saturating_sub(queued);
    found.share * support::WHOLE >= LEAST_SHARE * rest && found.ns >= LEAST_NS
}

/// Describes the longest waits of threads of one name.
#[must_use]
pub fn longest_waits(facts: &TraceFacts) -> Option<String> {
    let crews = support::by_crew(facts, |_, _| true);
    let (crew, waits) = crews.first()?;
    let found = support::of_waits(facts, "", crew, waits);
    let parts = [waits.call(), found.place, found.object];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    Some(format!(
        "{} {}, {} times: {}",
        found.who,
        duration(found.ns),
        found.count,
        parts.join("; ")
    ))
}

/// Drops findings that a more special one explains.
fn drop_general(all: &mut Vec<RuleFinding>) {
    let is_special = |found: &RuleFinding, rules: &[&str]| rules.contains(&found.rule);
    let has = |rules: &[&str], comm: &[u8]| {
        let mut special = all.iter();
        special.any(|found| is_special(found, rules) && found.comm == comm)
    };
    // Who waits for a command that waits for another one, waits for that.
    let has_inner = |outer: &RuleFinding| {
        let mut inner = all.iter();
        inner.any(|inner| {
            let by = outer.by.as_deref().unwrap_or_default();
            let is_by = by.split(' ').next() == inner.who.split(' ').next();
            inner.rule == outer.rule && is_by && inner.share * 5 >= outer.share * 4
        })
    };
    let is_inverted = |cpu: &RuleFinding| {
        let mut inversions = all.iter().filter(|found| found.rule == "inversion");
        inversions.any(|inversion| inversion.by == cpu.by)
    };
    // Others wait for what a hot thread has.
    let is_holder = |hot: &RuleFinding| {
        let mut locks = all.iter().filter(|found| found.rule == "lock");
        locks.any(|lock| {
            let by = lock.by.as_deref().unwrap_or_default();
            by.split(' ').next() == hot.who.split(' ').next()
        })
    };
    let on_cpu = ["polling", "failing", "small-io", "faults", "processes"];
    let drops = all.iter().map(|found| match found.rule {
        "hot-thread" => has(&on_cpu, &found.comm) || is_holder(found),
        "child" => has(&["processes"], &found.comm) || has_inner(found),
        "lock" => has(&["inversion", "herd"], &found.comm),
        "cpu" => has(&["herd"], &found.comm) || is_inverted(found),
        _ => false,
    });
    let drops: Vec<bool> = drops.collect();
    let mut drops = drops.into_iter();
    all.retain(|_| !drops.next().unwrap_or(false));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_a_row_in_the_page_in_their_order() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/explain.md");
        let page = std::fs::read_to_string(page).unwrap();
        let (_, rules) = page.split_once("## Rules").unwrap();
        let (rules, _) = rules.split_once("\n## ").unwrap();
        let rows = rules.lines().filter_map(|line| line.strip_prefix("| `"));
        let rows: Vec<&str> = rows
            .filter_map(|row| Some(row.split_once('`')?.0))
            .collect();
        let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(rows, names);
    }
}
