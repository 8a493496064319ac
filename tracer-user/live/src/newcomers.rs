//! Processes that begin later, where no program in the kernel chooses them: they are looked for.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::access::KernelAccess;
use super::proc_fs;
use super::targets::Targets;
use super::tracer::Tracer;
use tracer_area::monotonic_now;

/// Interval between looks.
const EVERY: Duration = Duration::from_secs(1);

/// Search for processes that are chosen by a property.
pub struct Newcomers {
    targets: Targets,
    due: Instant,
    /// Those that were asked for once, and when each began: this user may not trace some.
    asked: HashMap<i32, Option<u64>>,
}

impl Newcomers {
    /// Begins, with those that were asked for already.
    pub fn after(targets: Targets, asked: &[i32]) -> Self {
        let asked = asked.iter().map(|pid| (*pid, began(*pid)));
        Self {
            targets,
            due: Instant::now() + EVERY,
            asked: asked.collect(),
        }
    }

    /// Traces those that are new since the last look, if it is time for one.
    pub fn look(&mut self, kernel: &mut KernelAccess, tracer: &mut Tracer) {
        if Instant::now() < self.due {
            return;
        }
        self.due = Instant::now() + EVERY;
        let live = tracer.live();
        let there = self.targets.there_now();
        self.asked.retain(|pid, _| there.contains(pid));
        let mut new = there;
        new.retain(|pid| {
            let began = began(*pid);
            self.asked.insert(*pid, began) != Some(began) && !live.contains(pid)
        });
        if new.is_empty() {
            return;
        }
        let inherit = kernel.inherits();
        let traced = kernel.trace_found(&new, inherit).unwrap_or_else(|error| {
            // The service is gone. Once it is back these are new again.
            tracing::debug!("newcomers are not traced: {error:#}");
            self.asked.clear();
            Vec::new()
        });
        for pid in &traced {
            tracer.add_found(*pid, monotonic_now());
        }
        kernel.look_at_newcomers(&traced);
    }
}

/// Returns when a process began, which tells it from another one with its pid.
fn began(pid: i32) -> Option<u64> {
    let stat = proc_fs::Stat::read(pid).ok().flatten();
    stat.map(|stat| stat.start_ticks)
}
