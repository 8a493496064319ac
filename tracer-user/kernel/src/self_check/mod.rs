//! Checks whether types from a file are those of the kernel that runs.
//!
//! Types of another kernel have other offsets, and the bytes at these offsets look like data too.
//! So before types from a file are used, a program of some hundred instructions reads, by their
//! offsets, facts that this thread also knows of itself: pids, names, users, memory, open files,
//! sockets, registers.
//!
//! - `known`: facts that this process knows of itself.
//! - `readings`: the members that are read, and the values that they have to have.
//! - `program`: the program that reads them, and its run on one CPU.

mod known;
mod program;
mod readings;

use std::io;

use super::btf::offsets::Global;
use super::btf::reader::Btf;
use known::KnownFacts;
use program::observe;
use readings::{Reading, direct, followed};

/// Reason why types from a file are not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelfCheckError {
    /// Member at whose offset something else is.
    #[error("{name} is not where it says")]
    Differs {
        /// The member, as `struct.member`.
        name: String,
    },
    /// Failure that leaves nothing to compare.
    #[error("{doing}: {why}")]
    Impossible {
        /// Step that failed.
        doing: &'static str,
        /// Reason.
        why: io::Error,
    },
}

impl SelfCheckError {
    fn impossible(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |why| Self::Impossible { doing, why }
    }
}

/// Compares the values at these offsets in the kernel with those that this thread knows. Returns
/// the number of members that were as they have to be.
///
/// # Errors
///
/// A member was not, or nothing can be compared.
pub fn check(btf: &Btf<'_>, globals: &[Global]) -> Result<usize, SelfCheckError> {
    /// Number of attempts: another thread of this process may change the values meanwhile.
    const TRIES: u32 = 3;
    let mut result = check_once(btf, globals);
    for _ in 1..TRIES {
        if !matches!(result, Err(SelfCheckError::Differs { .. })) {
            break;
        }
        result = check_once(btf, globals);
    }
    result
}

fn check_once(btf: &Btf<'_>, globals: &[Global]) -> Result<usize, SelfCheckError> {
    let known = KnownFacts::find().map_err(SelfCheckError::impossible("/proc/thread-self"))?;
    // Pointers are followed only once the members beside them are known to be right.
    let first = compare(direct(btf, globals, &known))?;
    Ok(first + compare(followed(btf, globals, &known))?)
}

fn compare(mut readings: Vec<Reading>) -> Result<usize, SelfCheckError> {
    let observed = observe(&readings).or_else(|error| {
        // The kernel may lack the helpers for control groups: their readings are left out then.
        let all = readings.len();
        readings.retain(|reading| !reading.is_of_group());
        if readings.len() == all {
            return Err(error);
        }
        observe(&readings)
    })?;
    let values = readings.iter().zip(&observed.values);
    let wrong = values
        .filter(|(reading, value)| match value {
            Some(value) => !reading.is_right(value, &observed.around),
            None => true,
        })
        .map(|(reading, _)| reading.name);
    match wrong.map(str::to_owned).next() {
        Some(name) => Err(SelfCheckError::Differs { name }),
        None => Ok(readings.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::offsets;
    use crate::btf::variables::find_from_run_queue;
    use crate::requirements::capabilities;

    /// Returns the kernel's own types, or `None` where this test may not run.
    fn types() -> Option<Vec<u8>> {
        let Err(lacking) = capabilities() else {
            return Some(std::fs::read("/sys/kernel/btf/vmlinux").unwrap());
        };
        let is_required = std::env::var_os("TRACER_REQUIRE_PRIVILEGED").is_some_and(|v| v == "1");
        assert!(!is_required, "{lacking}");
        None
    }

    fn all_globals(btf: &Btf<'_>) -> Vec<Global> {
        let mut globals = offsets::globals(btf).unwrap();
        globals.extend(find_from_run_queue(btf));
        globals
    }

    #[test]
    #[ignore = "loads eBPF: run by cargo xtask test"]
    fn the_kernels_own_types_are_right_and_many_are_compared() {
        let Some(bytes) = types() else { return };
        let btf = Btf::parse(&bytes).unwrap();
        let compared = check(&btf, &all_globals(&btf)).unwrap();
        assert!(compared >= 50, "{compared}");
    }

    #[test]
    #[ignore = "loads eBPF: run by cargo xtask test"]
    fn each_offset_that_is_compared_is_missed_when_it_is_another_one() {
        let Some(bytes) = types() else { return };
        let btf = Btf::parse(&bytes).unwrap();
        let globals = all_globals(&btf);
        let mut seen = Vec::new();
        for at in 0..globals.len() {
            let mut shifted = globals.clone();
            shifted[at].value = shifted[at].value.wrapping_add(16);
            if check_once(&btf, &shifted).is_err() {
                seen.push(globals[at].name);
            }
        }
        // Other members may have the same value at the shifted offset, or are not compared.
        for name in [
            "TASK_PID",
            "TASK_TGID",
            "TASK_COMM",
            "TASK_SIGNAL",
            "TASK_FLAGS",
            "TASK_CPU",
            "TASK_LEADER",
            "TASK_THREAD_PID",
            "TASK_CRED",
            "TASK_MM",
            "TASK_FILES",
            "TASK_STACK",
            "SIGNAL_LIVE",
            "MM_ARG_START",
            "MM_ARG_END",
            "PID_UPIDS",
            "UPID_NAMESPACE",
            "NAMESPACE_INODE",
            "FILES_TABLE",
            "TABLE_SIZE",
            "TABLE_FILES",
            "FILE_DENTRY",
            "FILE_INODE",
            "FILE_MOUNT",
            "FILE_PRIVATE",
            "DENTRY_NAME",
            "DENTRY_PARENT",
            "INODE_NUMBER",
            "INODE_SUPER",
            "SUPER_MAGIC",
            "SOCKET_SOCK",
            "SOCK_FAMILY",
            "SOCK_REMOTE_PORT",
            "REGS_IP",
            "REGS_STACK",
            "REGS_CALL",
            "REGS_ARGUMENT_0",
            "REGS_ARGUMENT_5",
        ] {
            assert!(seen.contains(&name), "{name} is not: {seen:?}");
        }
    }
}
