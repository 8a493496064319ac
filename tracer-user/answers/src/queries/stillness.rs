//! Stillness: no thread has run, and what they all wait for.

use std::collections::BTreeMap;

use tracer_analysis::{Finding, Reason, State, ThreadStates};

use super::words::{duration, reason};

/// Reasons that are named; of those beyond, how many threads have them.
const MOST_NAMED: usize = 8;

/// Evidence of whether anything has moved, and what does not.
#[derive(Clone, Debug, Default)]
pub struct Stillness {
    /// Whether a thread has run, could have, or may have.
    has_moved: bool,
    blocked: BTreeMap<Reason, usize>,
    stopped: usize,
    /// The process of all of them; `None`: there are several.
    process: Option<i32>,
}

impl Stillness {
    /// Learns from a finding about a thread.
    pub fn look_at(&mut self, found: &Finding) {
        if let Finding::Interval(interval) = found {
            self.was(interval.state);
        }
    }

    /// Takes the state of all threads when the trace ends.
    pub fn end(&mut self, states: &ThreadStates) {
        states.each_now(|thread, state| self.is(thread.pid, state));
    }

    fn was(&mut self, state: State) {
        self.has_moved |= !matches!(state, State::Blocked(_) | State::Stopped);
    }

    fn is(&mut self, pid: i32, state: State) {
        self.was(state);
        self.process = match (self.all(), self.process) {
            (0, _) => Some(pid),
            (_, before) => before.filter(|before| *before == pid),
        };
        match state {
            State::Blocked(reason) => *self.blocked.entry(reason.anywhere()).or_default() += 1,
            State::Stopped => self.stopped += 1,
            _ => {}
        }
    }

    fn all(&self) -> usize {
        self.blocked.values().sum::<usize>() + self.stopped
    }

    /// Describes the stillness, where nothing has moved for this many nanoseconds.
    pub fn in_words(&self, ns: u64) -> Option<String> {
        /// About a second.
        const A_SECOND: std::ops::Range<u64> = 950_000_000..1_050_000_000;
        let all = self.all();
        if self.has_moved || all == 0 {
            return None;
        }
        let whose = if self.process.is_some() { "its" } else { "the" };
        let who = match all {
            1 => format!("{whose} only thread did not run"),
            _ => format!("None of {whose} {all} threads ran"),
        };
        let who = if all == 1 { capitalized(&who) } else { who };
        let when = if A_SECOND.contains(&ns) {
            "in this second".to_owned()
        } else {
            format!("in these {}", duration(ns))
        };
        let mut blocked: Vec<_> = self.blocked.iter().collect();
        blocked.sort_by_key(|(reason, count)| (std::cmp::Reverse(**count), **reason));
        let mut parts: Vec<String> = blocked
            .iter()
            .take(MOST_NAMED)
            .map(|(why, count)| format!("{} ({count})", reason(**why)))
            .collect();
        let rest = blocked.iter().skip(MOST_NAMED).map(|(_, count)| **count);
        let rest: usize = rest.sum();
        if rest > 0 {
            parts.push(format!("elsewhere ({rest})"));
        }
        let (wait, are) = if all == 1 {
            ("it waits", "it is")
        } else {
            ("they wait", "they are")
        };
        let what = match (parts.is_empty(), self.stopped) {
            (true, _) => format!("{are} stopped"),
            (false, 0) => format!("{wait} {}", parts.join(", ")),
            (false, stopped) => format!("{wait} {}, or are stopped ({stopped})", parts.join(", ")),
        };
        Some(format!("{who} {when}; {what}."))
    }
}

fn capitalized(words: &str) -> String {
    let mut characters = words.chars();
    let first = characters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(characters).collect()
}

#[cfg(test)]
mod tests {
    use tracer_analysis::Inside;

    use super::*;

    fn blocked(inside: Inside) -> State {
        State::Blocked(Reason {
            inside,
            ..Reason::default()
        })
    }

    #[test]
    fn that_nothing_moves_is_said_with_what_all_wait_for() {
        let mut still = Stillness::default();
        assert_eq!(still.in_words(1), None);
        for _ in 0..3 {
            still.is(1, blocked(Inside::Fault));
        }
        let words = "None of its 3 threads ran in this second; they wait in page fault (3).";
        assert_eq!(still.in_words(1_000_000_001).unwrap(), words);
        still.is(2, State::Stopped);
        let words = "None of the 4 threads ran in these 2.000 s; they wait in page fault (3), or \
                     are stopped (1).";
        assert_eq!(still.in_words(2_000_000_000).unwrap(), words);
        still.was(State::Running);
        assert_eq!(still.in_words(1), None);
    }

    #[test]
    fn of_one_thread_it_is_said_too() {
        let mut still = Stillness::default();
        still.is(1, State::Stopped);
        let words = "Its only thread did not run in this second; it is stopped.";
        assert_eq!(still.in_words(1_000_000_000).unwrap(), words);
    }
}
