//! All processes, with their parents and tracers.

use std::collections::BTreeMap;
use std::fs;

use super::asking::ask;

/// Relatives of a process.
#[derive(Clone, Debug)]
pub struct Relatives {
    parent: i32,
    tracer: i32,
    /// Its ids, from this pid namespace to its own.
    inner_pids: Vec<i32>,
    has_ended: bool,
    /// Its first thread has ended before others.
    is_headless: bool,
    /// A thread that lives, under which the kernel tells of the process.
    reader: i32,
}

/// All processes that `/proc` shows.
#[derive(Clone, Debug, Default)]
pub struct ProcessTable(BTreeMap<i32, Relatives>);

impl ProcessTable {
    /// Reads the table, until `is_late`.
    pub fn read(is_late: impl Fn() -> bool) -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten();
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let known = pids.take_while(|_: &i32| !is_late()).filter_map(|pid| {
            let path = format!("/proc/{pid}/status");
            let status = ask(pid, move || fs::read(path));
            let status = status.ok()?.ok()?;
            let mut relatives = Relatives::parse(&String::from_utf8_lossy(&status))?;
            relatives.reader = if relatives.is_headless {
                living_thread(pid).unwrap_or(pid)
            } else {
                pid
            };
            Some((pid, relatives))
        });
        Self(known.collect())
    }

    /// Returns all processes, each with a thread that lives: under that the kernel tells of the
    /// process, and not under one that has ended.
    pub fn readers(&self) -> Vec<(i32, i32)> {
        let each = self.0.iter();
        each.map(|(pid, one)| (*pid, one.reader)).collect()
    }

    /// Returns the children of a process that have not ended, and the processes that it traces;
    /// with `is_called` those alone that have this id in the pid namespace of this depth.
    pub fn waited_for(&self, pid: i32, is_called: Option<(usize, i32)>) -> Vec<i32> {
        let each = self.0.iter();
        let found = each.filter(|(_, one)| one.parent == pid || one.tracer == pid);
        let found = found.filter(|(_, one)| {
            is_called.is_none_or(|(depth, id)| one.inner_pids.get(depth) == Some(&id))
        });
        let living = found.filter(|(_, one)| !one.has_ended);
        living.map(|(pid, _)| *pid).collect()
    }
}

impl Relatives {
    fn parse(status: &str) -> Option<Self> {
        let line = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.strip_prefix(':')?.trim())
        };
        let number = |name| line(name).and_then(|value| value.parse().ok());
        let is_zombie = line("State").is_some_and(|state| state.starts_with(['Z', 'X']));
        let threads: u32 = line("Threads")
            .and_then(|count| count.parse().ok())
            .unwrap_or(0);
        let ids = line("NSpid").unwrap_or_default().split_ascii_whitespace();
        Some(Self {
            parent: number("PPid")?,
            tracer: number("TracerPid").unwrap_or(0),
            inner_pids: ids.filter_map(|id| id.parse().ok()).collect(),
            has_ended: is_zombie && threads <= 1,
            is_headless: is_zombie && threads > 1,
            reader: 0,
        })
    }
}

/// Returns a thread of a process that lives.
pub fn living_thread(pid: i32) -> Option<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut tids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    tids.find(|tid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"));
        let state = status.unwrap_or_default();
        let mut lines = state
            .lines()
            .filter_map(|line| line.strip_prefix("State:\t"));
        lines
            .next()
            .is_some_and(|state| !state.starts_with(['Z', 'X']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(lines: &[(i32, &str)]) -> ProcessTable {
        let each = lines.iter();
        ProcessTable(
            each.map(|(pid, status)| (*pid, Relatives::parse(status).unwrap()))
                .collect(),
        )
    }

    #[test]
    fn children_and_traced_processes_are_waited_for_until_they_end() {
        let table = table(&[
            (
                10,
                "State:\tS (sleeping)\nPPid:\t1\nTracerPid:\t0\nNSpid:\t10\t1\n",
            ),
            (
                11,
                "State:\tR (running)\nPPid:\t10\nTracerPid:\t0\nNSpid:\t11\t2\n",
            ),
            (
                12,
                "State:\tZ (zombie)\nPPid:\t10\nTracerPid:\t0\nNSpid:\t12\t3\n",
            ),
            (
                13,
                "State:\tt (tracing stop)\nPPid:\t1\nTracerPid:\t10\nNSpid:\t13\t4\n",
            ),
            (
                14,
                "State:\tZ (zombie)\nPPid:\t10\nThreads:\t2\nNSpid:\t14\t5\n",
            ),
        ]);
        assert_eq!(table.waited_for(10, None), [11, 13, 14]);
        assert_eq!(table.waited_for(10, Some((1, 2))), [11]);
        assert!(table.waited_for(10, Some((0, 2))).is_empty());
        assert!(table.waited_for(11, None).is_empty());
        assert_eq!(table.readers().len(), 5);
    }

    #[test]
    fn this_process_has_its_parent() {
        let own = i32::try_from(std::process::id()).unwrap();
        let table = ProcessTable::read(|| false);
        let parent = table.0[&own].parent;
        assert!(table.waited_for(parent, None).contains(&own));
    }
}
