//! Processes to attach to.

use std::fs;
use std::os::unix::fs::MetadataExt;

use tracer_area::Area;

use super::control_group::ControlGroup;
use super::proc_fs;
use tracer_kernel::ProcessChoice;
use tracer_text::NamePattern;

/// Processes to attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Processes by their pids. The trace ends when all of them and theirs have.
    Pids(Vec<i32>),
    /// Processes with a name like this, now and later.
    Named(NamePattern),
    /// Processes in this control group, now and later.
    InGroup(ControlGroup),
    /// Every process, now and later.
    Everything,
}

impl Targets {
    /// Returns the way in which the kernel's programs choose future processes.
    #[must_use]
    pub fn choice(&self) -> ProcessChoice {
        match self {
            Self::Pids(_) => ProcessChoice::Given,
            Self::Named(pattern) => ProcessChoice::Named(*pattern),
            Self::InGroup(group) => ProcessChoice::InGroup(group.id),
            Self::Everything => ProcessChoice::Everything,
        }
    }

    /// Returns the processes that are there now, but for this one.
    #[must_use]
    pub fn there_now(&self) -> Vec<i32> {
        let mut pids = match self {
            Self::Pids(pids) => pids.clone(),
            Self::Named(pattern) => {
                let mut pids = all_processes();
                pids.retain(|pid| {
                    proc_fs::comm(*pid, *pid).is_some_and(|comm| pattern.matches(comm.bytes()))
                });
                pids
            }
            Self::InGroup(group) => group.processes(),
            Self::Everything => all_processes(),
        };
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        pids.retain(|pid| *pid != own);
        pids
    }

    /// Returns the targets in words.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::Pids(pids) => format!("{} processes", pids.len()),
            Self::Named(pattern) => format!("processes called {pattern}"),
            Self::InGroup(group) => format!("processes in {}", group.path.display()),
            Self::Everything => "every process".to_owned(),
        }
    }
}

impl Targets {
    /// Returns advice on where to see which processes could be meant.
    #[must_use]
    pub fn how_to_find(&self) -> &'static str {
        match self {
            Self::Pids(_) | Self::Everything => "`ps -e` lists all processes",
            Self::Named(_) => "`ps -eo pid,comm` lists the names of all",
            Self::InGroup(_) => "`systemd-cgls` lists the groups and what is in them",
        }
    }
}

/// Returns the processes of this user, but for this one, that emit user events or may do so: those
/// that have a trace area.
#[must_use]
pub fn own_processes_with_areas() -> Vec<i32> {
    // SAFETY: takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    let mut pids = Targets::Everything.there_now();
    pids.retain(|pid| {
        let owner = fs::metadata(format!("/proc/{pid}")).map(|found| found.uid());
        owner.is_ok_and(|owner| owner == user) && matches!(Area::find(*pid), Ok(Some(_)))
    });
    pids
}

/// Returns every process that `/proc` shows.
pub fn all_processes() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_never_among_them() {
        let own = i32::try_from(std::process::id()).unwrap();
        let there = Targets::Everything.there_now();

        assert!(there.contains(&1) && !there.contains(&own));
    }
}
