//! Findings: what explains a part of the time; and blind spots, what could not be seen.

use super::facts::TraceFacts;
use super::rules::support::WHOLE;
use super::rules::{Judged, Needs};
use crate::queries::words::share;

use super::facts::SpotId;

/// How a finding is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sure {
    /// Each part of its time was seen to begin and to end.
    Measured,
    /// Its time is that of samples.
    Sampled,
    /// Its time was seen, and what it means follows from signs.
    Inferred(&'static str),
}

impl Sure {
    /// Returns the word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Sampled => "sampled",
            Self::Inferred(_) => "inferred",
        }
    }

    /// Returns the signs from which it follows.
    #[must_use]
    pub fn signs(self) -> Option<&'static str> {
        match self {
            Self::Inferred(signs) => Some(signs),
            Self::Measured | Self::Sampled => None,
        }
    }
}

/// Explanation of a part of the time. Its texts are harmless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFinding {
    /// Name of the rule that has found it.
    pub rule: &'static str,
    /// Threads that it is about: `nginx 4711`, `worker (8 threads)`.
    pub who: String,
    /// The whole of it as a sentence, without `who`.
    pub what: String,
    /// Function: `at append`.
    pub place: Option<String>,
    /// The spot in it where most of the time was.
    pub spot: Option<SpotId>,
    /// File of the source, and line in it, where the program's file says so: `append.c:12`. It is
    /// looked up for the findings that are told.
    pub line: Option<String>,
    /// File, address, or name that it is about.
    pub object: Option<String>,
    /// Thread or group to blame, where that is another one.
    pub by: Option<String>,
    /// How long together, in nanoseconds.
    pub ns: u64,
    /// Share of the time that it explains, in thousandths.
    pub share: u64,
    /// How often.
    pub count: u64,
    /// The longest of them, in nanoseconds, where there are single ones.
    pub longest: Option<u64>,
    /// How it is known.
    pub sure: Sure,
    /// The part of the time from which it is estimated, in thousandths; `None` where all of it was
    /// recorded.
    pub sampled: Option<u64>,
    /// Words of the command that looks closer, without those that say at what: `stat --syscalls
    /// fsync`.
    pub next: String,
    /// Whether it is about time on CPUs.
    pub is_on_cpu: bool,
    /// The name of the threads, as it was recorded.
    pub comm: Vec<u8>,
}

/// Most sentences.
const MOST: usize = 5;

/// Returns what could not be seen, in words.
#[must_use]
pub fn unseen(facts: &TraceFacts, judged: &Judged) -> Vec<String> {
    let statistics = &facts.statistics;
    let mut all = Vec::new();
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
    if facts.places.samples() == 0 {
        all.push("functions that ran (no samples: --sample 99)".to_owned());
    }
    all.truncate(MOST);
    all
}
