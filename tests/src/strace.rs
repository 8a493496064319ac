//! System calls as `strace` sees them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::event::Event;

/// Processes that a command and its descendants made, and programs they started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Successful fork, vfork, clone and clone3 calls. The command must have no threads.
    pub forks: u64,
    /// Successful exec calls, the command's own start counted.
    pub execs: u64,
}

/// Runs `command` (program and arguments) under strace, and counts its forks and execs.
///
/// # Errors
///
/// strace or the command failed.
pub fn count(command: &[&str]) -> anyhow::Result<Counts> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log");
    let status = Command::new("strace")
        .args(["-f", "-qq", "-o"])
        .arg(&log)
        .args(["-e", "trace=execve,execveat,fork,vfork,clone,clone3"])
        .args(["-e", "signal=none", "--"])
        .args(command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("cannot run strace")?;
    ensure!(status.success(), "{command:?} failed under strace");
    Ok(count_in(&fs::read_to_string(log)?))
}

/// Returns how often a program that ends by itself makes each system call.
///
/// # Errors
///
/// strace or the program failed.
pub fn calls(program: &Path) -> anyhow::Result<BTreeMap<String, u64>> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log");
    let status = Command::new("strace")
        .args(["-qq", "-e", "signal=none", "-o"])
        .args([&log, program])
        .stdin(Stdio::null())
        .status()
        .context("cannot run strace")?;
    ensure!(status.success(), "{} failed", program.display());
    let mut calls = BTreeMap::new();
    for line in fs::read_to_string(log)?.lines() {
        if let Some((name, _)) = line.split_once('(') {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    Ok(calls)
}

/// Calls and, of them, those that failed, by name: the table of `strace -c`.
///
/// # Errors
///
/// strace or the command failed.
pub fn table(command: &[String]) -> anyhow::Result<BTreeMap<String, (u64, u64)>> {
    let folder = tempfile::tempdir()?;
    let table = folder.path().join("table");
    let status = Command::new("strace")
        .args(["-f", "-qq", "-c", "-U", "name,calls,errors", "-o"])
        .arg(&table)
        .arg("--")
        .args(command)
        .status()
        .context("cannot run strace")?;
    ensure!(status.success(), "{command:?} failed under strace");
    let table = fs::read_to_string(table)?;
    let mut counts = BTreeMap::new();
    // A heading, a line, the rows, a line, the total.
    for row in table
        .lines()
        .skip(2)
        .take_while(|row| !row.starts_with("---"))
    {
        let mut words = row.split_whitespace();
        let name = words.next().context("no name")?;
        let calls = words.next().context("no calls")?.parse()?;
        let errors = words.next().map_or(Ok(0), str::parse)?;
        counts.insert(name.to_owned(), (calls, errors));
    }
    Ok(counts)
}

fn count_in(log: &str) -> Counts {
    let mut counts = Counts::default();
    for line in log.lines() {
        // "123 execve(…) = 0", or its two halves "… <unfinished ...>", "<... execve resumed>) = 0".
        let call = line.split_once(' ').map_or("", |(_, call)| call).trim();
        let result = call.rsplit_once(" = ").map(|(_, result)| result);
        let Some(result) = result.and_then(|result| result.parse::<i64>().ok()) else {
            continue;
        };
        let call = call.strip_prefix("<... ").unwrap_or(call);
        if call.starts_with("execve") {
            counts.execs += u64::from(result == 0);
        } else {
            counts.forks += u64::from(result > 0);
        }
    }
    counts
}

/// Returns how often each system call occurs in these events, by its name.
pub fn counts<'a>(events: impl IntoIterator<Item = &'a Event>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for event in events {
        let name = event.word("name").unwrap_or_default().to_owned();
        *counts.entry(name).or_default() += 1;
    }
    counts
}

/// Checks the calls of a program of two processes that was traced from its exec on: each was made,
/// and failed, as often as [`table`] says.
///
/// # Panics
///
/// They differ.
pub fn assert_as_counted(events: &[Event], mut expected: BTreeMap<String, (u64, u64)>) {
    let mut entered = counts(events.iter().filter(|one| one.is_system("syscall_enter")));
    // The trace begins with the end of the exec that starts the program; strace does not count
    // the calls that never return.
    assert_eq!(expected.remove("execve"), Some((1, 0)));
    assert_eq!(entered.remove("exit_group"), Some(2));
    let calls = |(name, (calls, _)): (&String, &(u64, u64))| (name.clone(), *calls);
    assert_eq!(entered, expected.iter().map(calls).collect());

    let is_failure = |event: &&Event| {
        event.is_system("syscall_exit") && event.integer("ret").is_some_and(|ret| ret < 0)
    };
    let failed = counts(events.iter().filter(is_failure));
    let failures = expected.iter().filter(|(_, (_, errors))| *errors > 0);
    let errors = |(name, (_, errors)): (&String, &(u64, u64))| (name.clone(), *errors);
    assert_eq!(failed, failures.map(errors).collect());
}

#[cfg(test)]
mod tests {
    use super::{Counts, count_in};

    #[test]
    fn failed_calls_and_first_halves_are_not_counted() {
        let log = "10 execve(\"/bin/sh\", [\"sh\"], 0x7ffd /* 9 vars */) = 0\n\
                   10 vfork( <unfinished ...>\n\
                   11 execve(\"/nowhere/ls\", [\"ls\"], 0x1) = -1 ENOENT (No such file)\n\
                   11 execve(\"/bin/ls\", [\"ls\"], 0x1 <unfinished ...>\n\
                   10 <... vfork resumed>) = 11\n\
                   11 <... execve resumed>) = 0\n\
                   10 clone(child_stack=NULL, flags=SIGCHLD) = 12\n";
        let counts = Counts { forks: 2, execs: 2 };
        assert_eq!(count_in(log), counts);
    }
}
