//! Common parts of rules.

use std::collections::{BTreeMap, BTreeSet};

use tracer_analysis::{EndedBy, Inside, Thread, WaitKey, WaitTotal, Waker};

use super::super::facts::{Crew, FoundPlace, Leaf, TraceFacts, WaitClass, WaitDetail};
use super::super::finding::{RuleFinding, Sure};
use crate::queries::words::{inside, task, thread};
use tracer_text::escape::push_for_people;

/// Shares are in thousandths.
pub const WHOLE: u64 = 1000;

/// Returns a part of a whole in thousandths, at most all of it.
#[must_use]
pub fn thousandths(part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    let share = u128::from(part) * u128::from(WHOLE) / u128::from(whole);
    u64::try_from(share).unwrap_or(WHOLE).min(WHOLE)
}

/// Renders any bytes for people.
#[must_use]
pub fn harmless(untrusted: &[u8]) -> String {
    let mut out = Vec::new();
    push_for_people(&mut out, untrusted);
    String::from_utf8_lossy(&out).into_owned()
}

/// Names the threads of a crew: `nginx 4711`, `worker (8 threads)`.
#[must_use]
pub fn crew_name(crew: &Crew) -> String {
    match (crew.processes, crew.threads) {
        (_, 1) => thread(crew.first, &crew.comm),
        (1, threads) => format!("{} ({threads} threads of {})", named(crew), crew.first.pid),
        (processes, threads) if processes == threads => {
            format!("{} ({processes} processes)", named(crew))
        }
        (processes, threads) => {
            format!(
                "{} ({threads} threads of {processes} processes)",
                named(crew)
            )
        }
    }
}

/// Names these threads of a crew, in the same way; all of them where there are none.
#[must_use]
pub fn names_of(crew: &Crew, threads: &[Thread]) -> String {
    let processes: BTreeSet<i32> = threads.iter().map(|thread| thread.pid).collect();
    let some = Crew {
        comm: crew.comm.clone(),
        first: threads.iter().min().copied().unwrap_or_default(),
        threads: threads.len(),
        processes: processes.len(),
        ..Crew::default()
    };
    crew_name(if threads.is_empty() { crew } else { &some })
}

fn named(crew: &Crew) -> String {
    match harmless(&crew.comm) {
        name if name.is_empty() => "(no name)".to_owned(),
        name => name,
    }
}

/// Returns the share of the time that `ns` of a crew explains. Where the critical path of the first
/// thread is known, what lies on it counts, and what lies beside it half.
#[must_use]
pub fn share(facts: &TraceFacts, crew: &Crew, ns: u64, is_part: impl Fn(&Leaf) -> bool) -> u64 {
    let unknown = if facts.is_lossy() {
        0
    } else {
        crew.total.unknown
    };
    let life = crew.total.all().saturating_sub(unknown);
    let life = life.max(facts.seen());
    let of_threads = thousandths(ns, life);
    match &facts.path {
        None => of_threads,
        Some(path) => {
            let on_path = path.outer_ns(|leaf| leaf.comm == crew.comm && is_part(leaf));
            thousandths(on_path, path.ns).max(of_threads / 2)
        }
    }
}

/// Returns the share of the time that `ns` of a crew explains, where what lies beside the critical
/// path explains nothing.
#[must_use]
pub fn share_on_path(
    facts: &TraceFacts,
    crew: &Crew,
    ns: u64,
    is_part: impl Fn(&Leaf) -> bool,
) -> u64 {
    match &facts.path {
        None => share(facts, crew, ns, is_part),
        Some(path) => {
            let on_path = path.outer_ns(|leaf| leaf.comm == crew.comm && is_part(leaf));
            thousandths(on_path, path.ns)
        }
    }
}

/// Waits of a crew.
#[derive(Clone, Debug, Default)]
pub struct CrewWaits {
    /// Their sums.
    pub total: WaitTotal,
    /// Threads that waited.
    pub threads: BTreeSet<Thread>,
    /// Wakers that ended them, and how long those waits were.
    pub by: BTreeMap<EndedBy, u64>,
    /// Objects, and how long they were waited for.
    pub objects: BTreeMap<String, u64>,
    /// Where the threads were, and for how long.
    pub inside: BTreeMap<Inside, u64>,
    /// How long the waits were whose kind is that of the same call at another time, in nanoseconds.
    pub inferred_ns: u64,
}

/// Signs of a wait in a call that was not recorded.
const LIKE_OTHERS: &str = "waits in the same call where calls were recorded";

impl CrewWaits {
    fn add(&mut self, key: &WaitKey, detail: &WaitDetail, total: &WaitTotal) {
        self.total.add_all(total);
        self.threads.insert(key.thread);
        *self.by.entry(key.by).or_default() += total.ns;
        if let Some(object) = &detail.object {
            *self.objects.entry((**object).to_owned()).or_default() += total.ns;
        }
        *self.inside.entry(key.reason.inside).or_default() += total.ns;
        if detail.is_inferred {
            self.inferred_ns = self.inferred_ns.saturating_add(total.ns);
        }
    }

    /// Names the call in which they waited longest: `fsync()`.
    #[must_use]
    pub fn call(&self) -> Option<String> {
        let (longest, _) = most(&self.inside)?;
        match longest {
            Inside::Call(_) => inside(*longest).map(|name| format!("{name}()")),
            other => inside(*other),
        }
    }

    /// Names the call in which they waited longest, as options take it.
    #[must_use]
    pub fn call_option(&self) -> Option<String> {
        let (longest, _) = most(&self.inside)?;
        match longest {
            Inside::Call(_) => inside(*longest),
            _ => None,
        }
    }

    /// Returns the object that was waited for longest, and how many others there are.
    #[must_use]
    pub fn object(&self) -> Option<String> {
        let (object, _) = most(&self.objects)?;
        Some(match self.objects.len() {
            1 => object.clone(),
            many => format!("{object} and {} more", many - 1),
        })
    }

    /// Returns the name of the threads that ended most of their time.
    #[must_use]
    pub fn waker_name(&self) -> Option<String> {
        let threads = self.by.iter().filter_map(|(by, ns)| match by {
            EndedBy::Waker(Waker::Thread(of)) => Some((of, *ns)),
            _ => None,
        });
        let (longest, _) = threads.max_by(|(one, a), (other, b)| a.cmp(b).then(other.cmp(one)))?;
        Some(task(longest))
    }

    /// Returns the thread that ended most of their time: its name, and where that was one thread,
    /// its ids.
    #[must_use]
    pub fn waker(&self) -> Option<String> {
        let name = self.waker_name()?;
        match self.total.waker {
            Some(of) if self.by.len() == 1 => Some(format!("{name} {}", ids(of))),
            _ => Some(name),
        }
    }
}

fn ids(of: Thread) -> String {
    thread(of, b"")
}

/// Returns the entry with the largest value; of several, the first.
pub fn most<K: Ord, V: Ord + Copy>(all: &BTreeMap<K, V>) -> Option<(&K, V)> {
    let all = all.iter().map(|(key, value)| (key, *value));
    all.max_by(|(one, a), (other, b)| a.cmp(b).then(other.cmp(one)))
}

/// Returns the waits that are meant, by crew, the longest first.
#[must_use]
pub fn by_crew(
    facts: &TraceFacts,
    is_meant: impl Fn(&WaitKey, &WaitDetail) -> bool,
) -> Vec<(&Crew, CrewWaits)> {
    let mut crews: BTreeMap<&[u8], (&Crew, CrewWaits)> = BTreeMap::new();
    for (key, total) in &facts.waits {
        let detail = facts.detail(key);
        let Some(crew) = facts.crews.find(key.thread) else {
            continue;
        };
        if is_meant(key, &detail) {
            let (_, waits) = crews
                .entry(&crew.comm)
                .or_insert_with(|| (crew, CrewWaits::default()));
            waits.add(key, &detail, total);
        }
    }
    let mut crews: Vec<_> = crews.into_values().collect();
    crews.sort_by(|(one, a), (other, b)| (b.total.ns, &one.comm).cmp(&(a.total.ns, &other.comm)));
    crews
}

/// Returns the finding about waits of a crew, without words of its own.
#[must_use]
pub fn of_waits(
    facts: &TraceFacts,
    rule: &'static str,
    crew: &Crew,
    waits: &CrewWaits,
) -> RuleFinding {
    // The place is that of the call that is named.
    let longest = most(&waits.inside).map(|(inside, _)| *inside);
    let is_meant = |thread: Thread, reason: tracer_analysis::Reason| {
        waits.threads.contains(&thread) && Some(reason.inside) == longest
    };
    let at = facts.places.of_waits(is_meant);
    RuleFinding {
        rule,
        who: names_of(crew, &waits.threads.iter().copied().collect::<Vec<_>>()),
        what: String::new(),
        place: place(at, waits.total.ns),
        spot: at.map(|at| at.spot),
        line: None,
        object: waits.object(),
        by: None,
        ns: waits.total.ns,
        share: 0,
        count: waits.total.count,
        longest: Some(waits.total.longest),
        sure: if waits.inferred_ns.saturating_mul(2) > waits.total.ns {
            Sure::Inferred(LIKE_OTHERS)
        } else {
            Sure::Measured
        },
        sampled: None,
        count_between: None,
        next: "why --whole --brief".to_owned(),
        is_on_cpu: false,
        comm: crew.comm.clone(),
    }
}

/// Describes a function, and how much of `ns` was in it: `at append`, `mostly within append`.
#[must_use]
pub fn place(found: Option<FoundPlace<'_>>, ns: u64) -> Option<String> {
    let FoundPlace {
        place, ns: part, ..
    } = found?;
    let word = if place.is_innermost { "in" } else { "within" };
    Some(if part.saturating_mul(2) < ns {
        format!("at times {word} {}", place.name)
    } else {
        format!("{word} {}", place.name)
    })
}

/// Renders a line of the source: the file without its folders, and the number.
#[must_use]
pub fn source_line((file, line): &(std::sync::Arc<str>, u32)) -> String {
    /// Characters of a file's name.
    const MOST: usize = 100;
    let name = file.rsplit('/').next().unwrap_or(file);
    let name: String = harmless(name.as_bytes()).chars().take(MOST).collect();
    format!("{name}:{line}")
}

/// Tells whether a part of the path is a wait of these kinds.
pub fn is_wait_of(facts: &TraceFacts, leaf: &Leaf, classes: &[WaitClass]) -> bool {
    reason_of(leaf).is_some_and(|reason| classes.contains(&facts.details.get(reason).class))
}

/// Returns what a part of the path waits in.
#[must_use]
pub fn reason_of(leaf: &Leaf) -> Option<tracer_analysis::Reason> {
    use tracer_analysis::PathPart;
    match leaf.part {
        PathPart::Blocked(reason, _) | PathPart::StillBlocked(reason, _) => Some(reason),
        _ => None,
    }
}
