//! Processes of the same user that a trace knows and does not show: one of them may wake a traced
//! one, and is followed then.
//!
//! The service names a waker where the right to look into it is proven, so it is proven of all that
//! there are, once a second. What they do is shown from when they are followed.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracer_common::event_type::EventTypeId;
use tracer_engine::event::EventHeader;

use crate::Targets;
use crate::proc_fs;

/// Interval between looks.
const EVERY: Duration = Duration::from_secs(1);

/// Processes that are shown, and whether the children are that they make.
#[derive(Clone, Debug, Default)]
pub struct ShownProcesses(Arc<Mutex<HashMap<i32, bool>>>);

impl ShownProcesses {
    /// Shows a process from now on.
    pub fn show(&self, pid: i32, inherit: bool) {
        *self.lock().entry(pid).or_default() |= inherit;
    }

    /// Takes an event. Returns whether it is shown.
    pub fn takes(&self, header: &EventHeader, data: &[u8]) -> bool {
        let mut shown = self.lock();
        let of = shown.get(&header.pid).copied();
        if header.event_type == EventTypeId::FORK
            && let Some(child) = data.first_chunk()
        {
            let child = i32::from_ne_bytes(*child);
            if of == Some(true) {
                shown.insert(child, true);
            } else {
                // It has the pid of one that has ended.
                shown.remove(&child);
            }
        }
        of.is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<i32, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Search for them.
#[derive(Debug)]
pub struct Acquaintances {
    due: Instant,
    /// Those that were found before, and when each began.
    met: HashMap<i32, Option<u64>>,
}

impl Acquaintances {
    /// Begins with none.
    pub fn none() -> Self {
        Self {
            due: Instant::now(),
            met: HashMap::new(),
        }
    }

    /// Returns those that are new since the last look, if it is time for one.
    pub fn look(&mut self) -> Vec<i32> {
        if Instant::now() < self.due {
            return Vec::new();
        }
        self.due = Instant::now() + EVERY;
        // SAFETY: takes nothing and cannot fail.
        let own = unsafe { libc::geteuid() };
        let mut there = Targets::Everything.there_now();
        there.retain(|pid| fs::metadata(format!("/proc/{pid}")).is_ok_and(|it| it.uid() == own));
        self.met.retain(|pid, _| there.contains(pid));
        there.retain(|pid| {
            let stat = proc_fs::Stat::read(*pid).ok().flatten();
            let began = stat.map(|stat| stat.start_ticks);
            self.met.insert(*pid, began) != Some(began)
        });
        there
    }

    /// Forgets all of them, which are new to another service.
    pub fn forget(&mut self) {
        self.met.clear();
    }
}

#[cfg(test)]
mod tests {
    use tracer_engine::event::{MonotonicNs, Truncation};

    use super::*;

    #[test]
    fn those_that_are_shown_and_their_children_are_told_of_and_no_others() {
        let shown = ShownProcesses::default();
        shown.show(10, true);
        shown.show(20, false);
        let takes = |event_type, pid, child: i32| {
            let header = EventHeader {
                time: MonotonicNs(1),
                event_type,
                pid,
                tid: pid,
                cpu: None,
                thread_id: 0,
                program_address: 0,
                truncation: Truncation::None,
            };
            shown.takes(&header, &child.to_ne_bytes())
        };
        assert!(takes(EventTypeId::FORK, 10, 11) && takes(EventTypeId::EXIT, 11, 0));
        assert!(takes(EventTypeId::FORK, 20, 21) && !takes(EventTypeId::EXIT, 21, 0));
        assert!(!takes(EventTypeId::FORK, 30, 11) && !takes(EventTypeId::EXIT, 11, 0));
    }

    #[test]
    fn each_process_of_this_user_is_met_once() {
        let mut all = Acquaintances::none();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = child.id().cast_signed();
        let found = all.look();
        assert!(found.contains(&pid) && !found.contains(&std::process::id().cast_signed()));
        all.due = Instant::now();
        assert!(!all.look().contains(&pid));
        all.forget();
        all.due = Instant::now();
        assert!(all.look().contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
