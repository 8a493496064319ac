//! What is attached to.

use std::fs;

use tracer_common::kernel::COMM_BYTES;

use super::control_group::ControlGroup;
use super::proc_fs;
use crate::kernel::ProcessChoice;

/// What is attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Processes by their numbers. The trace ends when all of them and theirs have.
    Pids(Vec<i32>),
    /// Processes of this name, now and later.
    Named(String),
    /// Processes in this control group, now and later.
    InGroup(ControlGroup),
    /// Every process, now and later.
    Everything,
}

impl Targets {
    /// How the kernel's programs choose those that are to come.
    #[must_use]
    pub fn choice(&self) -> ProcessChoice {
        match self {
            Self::Pids(_) => ProcessChoice::Given,
            Self::Named(name) => ProcessChoice::Named(comm_of(name)),
            Self::InGroup(group) => ProcessChoice::InGroup(group.id),
            Self::Everything => ProcessChoice::Everything,
        }
    }

    /// The processes that are there now, but for this one.
    #[must_use]
    pub fn there_now(&self) -> Vec<i32> {
        let mut pids = match self {
            Self::Pids(pids) => pids.clone(),
            Self::Named(name) => {
                let name = comm_of(name);
                let mut pids = all_processes();
                pids.retain(|pid| {
                    proc_fs::comm(*pid, *pid)
                        .is_some_and(|comm| comm_of_bytes(comm.bytes()) == name)
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

    /// The targets in words.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::Pids(pids) => format!("{} processes", pids.len()),
            Self::Named(name) => format!("processes called {name}"),
            Self::InGroup(group) => format!("processes in {}", group.path.display()),
            Self::Everything => "every process".to_owned(),
        }
    }
}

/// A name as the kernel keeps it: 15 bytes of it, and a null.
fn comm_of(name: &str) -> [u8; COMM_BYTES] {
    comm_of_bytes(name.as_bytes())
}

fn comm_of_bytes(name: &[u8]) -> [u8; COMM_BYTES] {
    let mut comm = [0; COMM_BYTES];
    for (to, from) in comm.iter_mut().zip(name.iter().take(COMM_BYTES - 1)) {
        *to = *from;
    }
    comm
}

fn all_processes() -> Vec<i32> {
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
    fn a_long_name_is_what_the_kernel_keeps_of_it() {
        assert_eq!(&comm_of("sh")[..3], b"sh\0");
        assert_eq!(comm_of("a-very-long-command-name"), *b"a-very-long-com\0");
    }

    #[test]
    fn this_process_is_never_among_them() {
        let own = i32::try_from(std::process::id()).unwrap();
        let there = Targets::Everything.there_now();

        assert!(there.contains(&1) && !there.contains(&own));
    }
}
