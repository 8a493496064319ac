//! Titles that the processes of a running trace give themselves.

use std::time::{Duration, Instant};

use foldhash::HashMap;
use tracer_analysis::State;

use crate::model::Shot;
use tracer_answers::queries::current_command;

/// Time that a title is shown before it is read again.
const PERIOD: Duration = Duration::from_secs(1);

/// Limit of processes whose titles are read for one shot: each takes some microseconds.
const AT_ONCE: usize = 100;

/// Titles of processes, as last read.
#[derive(Debug, Default)]
pub struct Titles {
    known: HashMap<i32, (Instant, String)>,
}

impl Titles {
    /// Puts the titles into a shot. Processes that have ended, that have no title or that may not
    /// be looked at retain the command line they were started with.
    pub fn fill(&mut self, shot: &mut Shot, now: Instant) {
        let rows = shot.threads.iter();
        let there = rows.filter(|row| {
            let state = row.current.map(|current| current.state);
            state.is_some_and(|state| state != State::Dead)
        });
        let there: foldhash::HashSet<i32> = there.map(|row| row.thread.pid).collect();
        self.known.retain(|pid, _| there.contains(pid));
        let is_old = |(at, _): &(Instant, String)| now.duration_since(*at) >= PERIOD;
        let due = there
            .iter()
            .filter(|pid| self.known.get(pid).is_none_or(is_old));
        let due: Vec<i32> = due.take(AT_ONCE).copied().collect();
        for pid in due {
            self.known.insert(pid, (now, current_command(pid)));
        }
        let title = |pid: i32, command: &mut String| {
            if let Some((_, title)) = self.known.get(&pid)
                && !title.is_empty()
            {
                command.clone_from(title);
            }
        };
        for row in &mut shot.threads {
            title(row.thread.pid, &mut row.command);
        }
        if let Some(opened) = &mut shot.opened {
            title(opened.thread.pid, &mut opened.command);
        }
    }
}
