//! Overview: what a program did with its time.

use tracer_analysis::{PathPart, Reason};

use super::facts::{Leaf, PathFacts, TraceFacts, WaitClass};

/// Use of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It ran.
    Ran,
    /// Others ran, for which it waited.
    OthersRan,
    /// It waited for a CPU.
    ForCpu,
    /// It was throttled.
    Throttled,
    /// It waited for a disk.
    ForDisk,
    /// It slept.
    Asleep,
    /// It waited for something else.
    ForOthers,
    /// It was stopped.
    Stopped,
    /// It is not known.
    Unknown,
}

/// All of them, with their words and their keys in JSON, in the order in which they are told.
pub const USES: [(Use, &str, &str); 9] = [
    (Use::Ran, "ran", "running_ns"),
    (
        Use::OthersRan,
        "waited for others that ran",
        "others_running_ns",
    ),
    (Use::ForCpu, "waited for a CPU", "runnable_ns"),
    (Use::Throttled, "was throttled", "throttled_ns"),
    (Use::ForDisk, "waited for a disk", "disk_ns"),
    (Use::Asleep, "slept", "asleep_ns"),
    (Use::ForOthers, "waited for others", "blocked_ns"),
    (Use::Stopped, "was stopped", "stopped_ns"),
    (Use::Unknown, "unknown", "unknown_ns"),
];

/// Uses of the time.
#[derive(Debug, Default)]
pub struct Overview {
    /// How long, by [`USES`], in nanoseconds.
    pub ns: [u64; USES.len()],
}

impl Overview {
    /// Adds up what was done with the time.
    #[must_use]
    pub fn new(facts: &TraceFacts) -> Self {
        match &facts.path {
            Some(path) => Self::of_path(facts, path),
            None => Self::of_threads(facts),
        }
    }

    fn of_path(facts: &TraceFacts, path: &PathFacts) -> Self {
        let mut overview = Self::default();
        for leaf in &path.parts {
            overview.add(use_of(facts, leaf), leaf.own_ns);
        }
        overview
    }

    fn of_threads(facts: &TraceFacts) -> Self {
        let mut overview = Self::default();
        for crew in facts.crews.all() {
            let total = &crew.total;
            overview.add(Use::Ran, total.running);
            overview.add(Use::Throttled, total.throttled);
            overview.add(Use::ForCpu, total.runnable.saturating_sub(total.throttled));
            overview.add(Use::Stopped, total.stopped);
            overview.add(Use::Unknown, total.unknown);
        }
        overview.leave_out(Use::Unknown, facts.unrecorded_ns);
        for (key, total) in &facts.waits {
            overview.add(use_of_wait(facts, key.reason), total.ns);
        }
        overview
    }

    fn add(&mut self, part: Use, ns: u64) {
        if let Some(sum) = self.sum(part) {
            *sum = sum.saturating_add(ns);
        }
    }

    fn leave_out(&mut self, part: Use, ns: u64) {
        if let Some(sum) = self.sum(part) {
            *sum = sum.saturating_sub(ns);
        }
    }

    fn sum(&mut self, part: Use) -> Option<&mut u64> {
        let position = USES.iter().position(|(of, ..)| *of == part);
        self.ns.get_mut(position?)
    }

    /// Returns how long that was.
    #[must_use]
    pub fn get(&self, part: Use) -> u64 {
        let position = USES.iter().position(|(of, ..)| *of == part);
        let ns = position.and_then(|position| self.ns.get(position));
        ns.copied().unwrap_or(0)
    }

    /// Returns all of the time.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.ns.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }
}

fn use_of(facts: &TraceFacts, leaf: &Leaf) -> Use {
    match leaf.part {
        PathPart::Running | PathPart::Faulting | PathPart::Gap | PathPart::Interrupted(_) => {
            match leaf.depth {
                0 => Use::Ran,
                _ => Use::OthersRan,
            }
        }
        PathPart::Runnable(wait, _) if wait.is_throttled() => Use::Throttled,
        PathPart::Runnable(..) | PathPart::Underway => Use::ForCpu,
        PathPart::Blocked(reason, _) | PathPart::StillBlocked(reason, _) => {
            use_of_wait(facts, reason)
        }
        PathPart::Stopped(_) | PathPart::StillStopped(_) => Use::Stopped,
        PathPart::Unmade(_) | PathPart::Unpolled(_) | PathPart::Busy(_) => Use::ForOthers,
        PathPart::Unknown(_) => Use::Unknown,
    }
}

fn use_of_wait(facts: &TraceFacts, reason: Reason) -> Use {
    if reason.is_io {
        return Use::ForDisk;
    }
    match facts.details.get(reason).class {
        WaitClass::Sync => Use::ForDisk,
        WaitClass::Sleep => Use::Asleep,
        _ => Use::ForOthers,
    }
}
