//! Reader of the programs in the kernel, for the consumer of a trace.

use std::path::Path;

use anyhow::Context as _;
use tracer_area::monotonic_now;
use tracer_common::kernel::ThreadStateData;
use tracer_engine::event::EventHeader;
use tracer_event::counts::{CountSource, CountsRead, PointNames};
use tracer_kernel::CountReader;

/// The programs' maps, and the names of the points that they count.
pub struct KernelCounts(pub CountReader, pub PointNames);

impl CountSource for KernelCounts {
    fn names(&self) -> PointNames {
        self.1.clone()
    }

    fn read(&mut self) -> anyhow::Result<CountsRead> {
        let read = || {
            // What a thread did before and after is in no sum yet: nothing is counted twice.
            let before = self.0.threads()?;
            let sums = self.0.sums()?;
            let mut threads = self.0.threads()?;
            let before: std::collections::HashMap<_, _> = before.into_iter().collect();
            threads.retain(|(tid, now)| {
                let known = before.get(tid);
                known.is_some_and(|known| (known.since_ns, known.does) == (now.since_ns, now.does))
                    && !has_ended(now.pid, *tid)
            });
            let threads = threads.into_iter();
            let threads = threads.map(|(tid, thread)| (tid.cast_signed(), thread));
            anyhow::Ok(CountsRead {
                at: monotonic_now(),
                sums,
                threads: threads.collect(),
                not_counted: self.0.not_counted(),
            })
        };
        read().context("cannot read what was counted")
    }

    fn note(&mut self, header: &EventHeader, state: &ThreadStateData) {
        self.0.note((header.pid, header.tid), header.time.0, state);
    }
}

/// Tells whether a thread has ended, as far as `/proc` says. Of a process that is no longer traced
/// by its end, the programs do not see the last switch away.
fn has_ended(pid: u32, tid: u32) -> bool {
    let is_there = |path: &str| Path::new(path).exists();
    !is_there(&format!("/proc/{pid}/task/{tid}")) && is_there("/proc/self/task")
}
