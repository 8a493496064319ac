//! Rules of CPUs: those that are waited for, those that are not allowed, and the one that is not
//! enough.

use tracer_analysis::PathPart;

use super::super::facts::{Crew, Leaf, TraceFacts, Work};
use super::super::finding::{RuleFinding, Sure};
use super::support::{crew_name, place, share, thousandths};

/// Share of a thread that is hot, in thousandths of the time.
const HOT: u64 = 800;

/// Share of the other threads beside it, at most.
const COOL: u64 = 300;

/// Threads that had a CPU and are named.
const MOST_NAMED: usize = 3;

fn about(rule: &'static str, crew: &Crew, ns: u64) -> RuleFinding {
    RuleFinding {
        rule,
        who: crew_name(crew),
        what: String::new(),
        place: None,
        spot: None,
        line: None,
        object: None,
        by: None,
        ns,
        share: 0,
        count: 0,
        longest: None,
        sure: Sure::Measured,
        sampled: None,
        count_between: None,
        next: "stat --sort runnable".to_owned(),
        is_on_cpu: false,
        comm: crew.comm.clone(),
    }
}

/// Finds threads that wait for a CPU, and who has it.
pub fn starved(facts: &TraceFacts) -> Vec<RuleFinding> {
    let is_queued =
        |leaf: &Leaf| matches!(leaf.part, PathPart::Runnable(wait, _) if !wait.is_throttled());
    let waited = |crew: &Crew| crew.total.runnable.saturating_sub(crew.total.throttled);
    let crews = facts.crews.all().iter().filter(|crew| waited(crew) > 0);
    let shares = crews.map(|crew| (share(facts, crew, waited(crew), is_queued), crew));
    let mut shares: Vec<_> = shares.collect();
    shares.sort_by(|(one, a), (other, b)| (other, &a.comm).cmp(&(one, &b.comm)));
    let Some((most, crew)) = shares.first() else {
        return Vec::new();
    };
    let mut found = about("cpu", crew, waited(crew));
    let on_path = facts.path.as_ref();
    let on_path = on_path.map_or(0, |path| thousandths(path.own_ns(is_queued), path.ns));
    found.share = on_path.max(*most);
    found.count = crew.total.waits.count();
    found.longest = Some(crew.total.waits.longest());
    let is_of = |thread| {
        let of = facts.crews.find(thread);
        of.is_some_and(|of| of.comm == crew.comm)
    };
    let behind = facts.queues.behind(is_of);
    let known = behind.iter().filter(|(task, _)| task.thread.tid != 0);
    // Of a wait in which several had the CPU, only the last one is known.
    let (alone, last) = known
        .clone()
        .fold((0, 0), |(alone, last): (u64, u64), (_, had)| {
            (
                alone.saturating_add(had.alone),
                last.saturating_add(had.last),
            )
        });
    let named = known.take(MOST_NAMED).map(|(by, _)| facts.task(by));
    let named: Vec<String> = named.collect();
    found.by = named.first().cloned();
    let how = if alone >= last {
        "mostly"
    } else {
        "the last of them mostly"
    };
    found.what = if named.is_empty() {
        "waited for a CPU".to_owned()
    } else {
        format!(
            "waited for a CPU that others had, {how} {}",
            named.join(", ")
        )
    };
    let others = shares.iter().skip(1);
    let others = others.filter(|(share, _)| *share * 2 > *most).count();
    if others > 0 {
        found.what = format!(
            "{} (and so did threads of {others} other names)",
            found.what
        );
    }
    vec![found]
}

/// Finds threads that may not run: their control group, or they themselves, have used up their
/// time.
pub fn throttled(facts: &TraceFacts) -> Vec<RuleFinding> {
    let crews = facts.crews.all().iter();
    let found = crews.filter_map(|crew| {
        let ns = crew.total.throttled;
        if ns == 0 {
            return None;
        }
        let mut found = about("throttling", crew, ns);
        found.share = share(
            facts,
            crew,
            ns,
            |leaf| matches!(leaf.part, PathPart::Runnable(wait, _) if wait.is_throttled()),
        );
        let by = crew.total.throttled_by_longest();
        let by_group: u64 = by.iter().map(|(_, ns)| *ns).sum();
        let groups = &facts.statistics.paths.functions().groups;
        found.object = by
            .first()
            .and_then(|(group, _)| groups.name(*group))
            .map(|name| (**name).to_owned());
        found.what = if by_group * 2 >= ns {
            let name = found.object.as_deref().unwrap_or("(not known)");
            found.by = Some(format!("control group {name}"));
            format!("may not run: its control group {name} has used up its time (cpu.max)")
        } else {
            "may not run: it has used up its budget (SCHED_DEADLINE)".to_owned()
        };
        "stat".clone_into(&mut found.next);
        Some(found)
    });
    found.collect()
}

/// Finds the one thread that computes while the others of its process wait.
pub fn hot(facts: &TraceFacts) -> Vec<RuleFinding> {
    let threads = &facts.statistics.threads;
    let wall = facts.seen();
    let mut by_heat: Vec<_> = threads.iter().collect();
    by_heat.sort_by_key(|(thread, _, total)| (std::cmp::Reverse(total.running), *thread));
    let Some((hottest, _, total)) = by_heat.first() else {
        return Vec::new();
    };
    // The threads that are there all the time: a thread among few would be no news.
    let lasts = |of: &tracer_analysis::ThreadTotal| of.all().saturating_mul(2) >= wall;
    let mut others = by_heat
        .iter()
        .skip(1)
        .filter(|(thread, _, total)| thread.pid == hottest.pid && lasts(total));
    let Some((_, _, next)) = others.next() else {
        return Vec::new();
    };
    let share_of = |ns| thousandths(ns, wall);
    let wants = total.running.saturating_add(total.runnable);
    if share_of(wants) < HOT || share_of(next.running) > COOL {
        return Vec::new();
    }
    let Some(crew) = facts.crews.find(*hottest) else {
        return Vec::new();
    };
    let others = 1 + others.count();
    let mut found = about("hot-thread", crew, total.running);
    found.who = crate::queries::words::thread(*hottest, &crew.comm);
    found.share = share_of(total.running) * 9 / 10;
    found.is_on_cpu = true;
    let work = facts.places.of_work(|thread, _| thread == *hottest);
    found.place = place(work, total.running);
    found.spot = work.map(|work| work.spot);
    found.what = format!(
        "wanted a CPU nearly all the time, and can use only one, while the other threads of its process ({others}) \
         hardly ran"
    );
    found.next = "stat --flame on-cpu -o flame.svg".to_owned();
    vec![found]
}

fn of_crew_processes<'a>(facts: &'a TraceFacts, crew: &Crew) -> impl Iterator<Item = i32> + 'a {
    let comm = crew.comm.clone();
    let threads = facts.statistics.threads.iter();
    let of_crew = threads.filter(move |(_, name, _)| *name == comm);
    of_crew.map(|(thread, ..)| thread.pid)
}

/// Returns how much of a time at least was meant by so many of its samples, of `all`: in
/// thousandths, as the lower bound by Wilson of one side, 95 % sure.
fn least_part(meant: u64, all: u64) -> u64 {
    /// The quantile of that probability, in thousandths; its square is 2.706.
    const QUANTILE: u64 = 1645;
    let Some(spread) = (1_000_000 * meant * (all - meant)).checked_div(all) else {
        return 0;
    };
    let middle = 1000 * (1000 * meant + 1353);
    let below = QUANTILE * (spread + 676_500).isqrt();
    middle.saturating_sub(below) / (1000 * all + 2706)
}

/// Finds page faults that take a large part of the time that a program runs.
pub fn minor_faults(facts: &TraceFacts) -> Vec<RuleFinding> {
    /// With fewer samples, the least counts that they are sure of; with still fewer, nothing.
    const MANY_SAMPLES: u64 = 20;
    const LEAST_SAMPLES: u64 = 5;
    /// A page fault takes about this long, in nanoseconds: the page is cleared or copied.
    const USUAL_NS: u64 = 1000;
    let counts = facts.statistics.faults.totals().sorted();
    let crews = facts.crews.all().iter();
    let found = crews.filter_map(|crew| {
        let is_of = |thread| {
            facts
                .crews
                .find(thread)
                .is_some_and(|of| of.comm == crew.comm)
        };
        let of_crew = counts.iter().filter(|(thread, _)| is_of(*thread));
        let (mut count, mut copies) = (0_u64, 0_u64);
        for (_, total) in of_crew {
            count = count.saturating_add(total.all());
            copies = copies.saturating_add(total.protection.min(total.writes));
        }
        let is_fault = |thread, work| is_of(thread) && work == Work::Fault;
        let all = facts.places.samples(|thread, _| is_of(thread));
        let sampled = if facts.places.samples(|_, _| true) >= MANY_SAMPLES {
            facts.places.ns_of_work(is_fault)
        } else if all >= LEAST_SAMPLES {
            let least = least_part(facts.places.samples(is_fault), all);
            crew.total.running / 1000 * least
        } else {
            0
        };
        let estimate = count.saturating_mul(USUAL_NS);
        let ns = sampled.max(estimate).min(crew.total.running);
        if ns == 0 {
            return None;
        }
        let mut found = about("faults", crew, ns);
        found.share = share(facts, crew, ns, |_| false);
        // Beside the path it would count half: what runs is on the path as far as it runs there.
        let ran = share(facts, crew, crew.total.running, |leaf| leaf.part.has_cpu());
        found.share = found
            .share
            .max(ran * thousandths(ns, crew.total.running) / 1000);
        found.count = count;
        found.is_on_cpu = true;
        found.sure = if sampled >= estimate {
            Sure::Sampled
        } else {
            Sure::Inferred("each page fault takes about a microsecond")
        };
        let work = facts
            .places
            .of_work(|thread, work| is_of(thread) && work == Work::Fault);
        found.place = place(work, ns);
        found.spot = work.map(|work| work.spot);
        let is_forked = of_crew_processes(facts, crew).any(|pid| facts.made.is_sharing(pid));
        let why = match (copies * 4 > count, is_forked) {
            (true, true) => "most or many of them copy pages that are shared since a fork",
            (true, false) => {
                "most or many of them are writes to pages that are of a file, were read before, or \
                 are shared since a fork that was not recorded"
            }
            (false, _) => "memory or pages of files that are touched for the first time",
        };
        found.what = format!("ran in the kernel for page faults: {why}");
        found.next = "stat --add-events fault".to_owned();
        Some(found)
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_say_the_least_that_they_are_sure_of() {
        // By the formula in floating-point numbers.
        let least = |meant: f64, all: f64| {
            let z = 1.645_f64;
            let spread = (meant * (all - meant) / all + z * z / 4.0).sqrt();
            (meant + z * z / 2.0 - z * spread) / (all + z * z)
        };
        assert_eq!(least_part(0, 0), 0);
        for all in 1..20_u32 {
            for meant in 0..=all {
                let said = least_part(meant.into(), all.into());
                let expected = 1000.0 * least(meant.into(), all.into());
                let differ = (f64::from(u32::try_from(said).unwrap()) - expected).abs();
                assert!(differ < 2.0, "{meant} of {all}: {said} {expected}");
            }
        }
        assert_eq!((least_part(1, 1), least_part(13, 13)), (270, 827));
    }
}
