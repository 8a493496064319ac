//! Processes, control groups and programs.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};

use super::{candidate, that_begin_with};
use tracer_live::{ControlGroup, comm, executable};

/// `PF_KTHREAD` of the kernel's `<linux/sched.h>`.
const OF_THE_KERNEL: u64 = 0x20_0000;

/// Finds the processes with their programs, the newest first: a user who has just started one looks
/// for it.
pub fn by_pid(typed: &str) -> Vec<CompletionCandidate> {
    let mut pids: Vec<i32> = pids()
        .filter(|pid| pid.to_string().starts_with(typed))
        .collect();
    pids.sort_unstable_by(|one, other| other.cmp(one));
    let found = pids.into_iter().filter_map(|pid| {
        let name = comm(pid, pid).filter(|_| !is_of_the_kernel(pid))?;
        let mut help = String::from_utf8_lossy(name.bytes()).into_owned();
        // Never the command line: who asks for it waits for that process's memory.
        if let Some(program) = executable(pid) {
            help = format!("{help} ({})", program.display());
        }
        Some(candidate(pid.to_string(), help))
    });
    found.collect()
}

/// Tells whether this is one of the kernel's own threads, which users do not attach to.
fn is_of_the_kernel(pid: i32) -> bool {
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before it may have anything in it.
    let after_name = stat.rsplit(|byte| *byte == b')').next().unwrap_or_default();
    let flags = after_name.split(u8::is_ascii_whitespace).nth(7);
    let flags = flags.and_then(|flags| std::str::from_utf8(flags).ok()?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & OF_THE_KERNEL != 0)
}

/// Finds the current names of processes.
pub fn by_name(typed: &str) -> Vec<CompletionCandidate> {
    let names = pids().filter_map(|pid| comm(pid, pid));
    let names = names.filter_map(|name| String::from_utf8(name.bytes().to_vec()).ok());
    let mut names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    let mut counted: Vec<(String, usize)> = Vec::new();
    for name in names {
        match counted.last_mut() {
            Some((last, count)) if *last == name => *count += 1,
            _ => counted.push((name, 1)),
        }
    }
    let with_help = counted.into_iter().map(|(name, count)| {
        let help = if count == 1 {
            "1 process".to_owned()
        } else {
            format!("{count} processes")
        };
        (name, help)
    });
    that_begin_with(typed, with_help)
}

/// Finds the control groups of the machine: systemd's unit names, and paths.
pub fn control_groups(typed: &str) -> Vec<CompletionCandidate> {
    let groups = ControlGroup::names();
    that_begin_with(typed, groups)
}

/// Finds the possible names of a service: units, other groups, and processes.
pub fn services(typed: &str) -> Vec<CompletionCandidate> {
    let mut found = control_groups(typed);
    found.extend(by_name(typed));
    found
}

/// Finds the programs in the folders of `PATH`, or files where there is a slash.
pub fn programs(typed: &str) -> Vec<CompletionCandidate> {
    if typed.contains('/') || typed.is_empty() {
        return PathCompleter::any().complete(OsStr::new(typed));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut names = Vec::new();
    for folder in std::env::split_paths(&folders) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let programs = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_program = name.starts_with(typed)
                && fs::metadata(entry.path())
                    .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
            is_program.then_some(name)
        });
        names.extend(programs);
    }
    names.sort_unstable();
    names.dedup();
    let mut found = that_begin_with(typed, names.into_iter().map(|name| (name, String::new())));
    found.extend(PathCompleter::any().complete(OsStr::new(typed)));
    found
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
