//! Search for the interpreters of processes that a service traces, in the client of the service.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use tracer_binary::probes::is_there;
use tracer_binary::python::Codes;
use tracer_common::kernel::PythonProcess;

use super::watch::{Tell, Watch};
use super::{Known, NOT_TOLD, PythonStacks, lock};
use crate::search::{Candidates, News, ProcessSearch};

/// Time between the first looks at a process that did not begin a program just now, where it has no
/// interpreter; and the longest time between looks at any process.
const USUAL_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Interpreters that a search has found.
#[derive(Clone, Debug)]
pub struct FoundInterpreters(Known);

impl FoundInterpreters {
    /// Notes that the service has gone: another one knows no interpreter until it is told.
    pub fn doubt(&self) {
        for known in lock(&self.0).interpreters.values_mut() {
            known.told = NOT_TOLD;
        }
    }

    /// Returns what puts Python frames in their place in stacks.
    pub(in super::super) fn stacks(&self) -> PythonStacks {
        PythonStacks {
            codes: Codes::default(),
            known: Known::clone(&self.0),
            _watching: None,
        }
    }
}

/// Begins a search for the interpreters of processes that a service traces, in a thread of its own.
/// It calls `tell` with a process and its interpreter, or with `None` where the process has none
/// any more. `tell` returns whether the service has received this.
///
/// # Errors
///
/// No thread is available.
pub fn search_interpreters(
    tell: impl FnMut(i32, Option<PythonProcess>) -> bool + Send + 'static,
) -> io::Result<(ProcessSearch, FoundInterpreters)> {
    let known = Known::default();
    let found = FoundInterpreters(Known::clone(&known));
    let search = ProcessSearch::begin("python", move |news| {
        let mut search = Search {
            watch: Watch::of_some(known, tell),
            candidates: Candidates::with_longest_wait(LONGEST_WAIT),
            since: HashMap::new(),
            told: HashSet::new(),
        };
        search.go_on(news);
    })?;
    Ok((search, found))
}

struct Search<T> {
    watch: Watch<T>,
    candidates: Candidates,
    /// Times since which the candidates may have had their interpreters.
    since: HashMap<i32, u64>,
    /// Processes of whose interpreters the programs were told.
    told: HashSet<i32>,
}

impl<T: Tell> Search<T> {
    fn go_on(&mut self, news: &Receiver<News>) {
        while let Some(heard) = self.candidates.wait_for(news) {
            match heard {
                Some(one) => self.hear(one),
                None => self.look(),
            }
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Begins(pid) => self.look_soon(pid, 0),
            // The programs have forgotten its interpreter. It may have been told anew meanwhile.
            News::Becomes { pid, time } if self.knows(pid) => {
                self.candidates.ask_soon(pid);
                self.since.insert(pid, time);
            }
            News::Makes {
                parent,
                child,
                time,
            } if self.knows(parent) => {
                self.leave(child);
                if self.watch.inherits(child, parent, time) {
                    self.told.insert(child);
                } else {
                    self.told.remove(&child);
                    self.look_soon(child, time);
                }
            }
            // Here the process is unknown: in a pid namespace of its own, the client knows
            // processes by other pids.
            News::Becomes { .. } | News::Makes { .. } => {}
            News::Ends(pid) => {
                self.watch.has_ended(pid);
                self.told.remove(&pid);
                self.leave(pid);
            }
            News::Anew => {
                for pid in std::mem::take(&mut self.told) {
                    self.look_soon(pid, 0);
                }
            }
        }
    }

    fn knows(&self, pid: i32) -> bool {
        self.candidates.has(pid) || self.told.contains(&pid)
    }

    fn look_soon(&mut self, pid: i32, since: u64) {
        self.candidates.ask_and_wait(pid, USUAL_WAIT);
        self.since.insert(pid, since);
    }

    fn leave(&mut self, pid: i32) {
        self.candidates.remove(pid);
        self.since.remove(&pid);
    }

    fn look(&mut self) {
        for pid in self.candidates.due() {
            let since = self.since.get(&pid).copied().unwrap_or(0);
            let is_found = self.watch.look_at_process(pid, since);
            if is_found {
                self.told.insert(pid);
            } else if self.told.remove(&pid) {
                // It was that of another program.
                self.watch.forget(pid);
            }
            if is_found || !is_there(pid) {
                self.leave(pid);
            } else {
                self.candidates.ask_later(pid);
            }
        }
    }
}
