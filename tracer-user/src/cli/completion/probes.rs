//! Points that can be probed in the processes and programs that the command line names.

use std::ffi::OsStr;
use std::path::Path;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};

use super::{candidate, that_begin_with};
use tracer_binary::probes::{
    Binary, Used, argument_counts, find_for_command, find_in_process, here,
};

/// Most processes that are searched. Those of a server are alike.
const MOST_PROCESSES: usize = 4;

/// Finds `PROVIDER:NAME` of the programs and libraries in use.
pub fn static_probes(typed: &str, before: &[String]) -> Vec<CompletionCandidate> {
    let mut found = Vec::new();
    for binary in used(before).iter().filter_map(|used| used.open().ok()) {
        for probe in binary.static_probes().unwrap_or_default() {
            let (all, _) = argument_counts(&probe.arguments);
            let file = binary.path().to_string_lossy().into_owned();
            let help = format!("{all} arguments, in {file}");
            found.push((format!("{}:{}", probe.provider, probe.name), help));
        }
    }
    found.sort_unstable();
    found.dedup_by(|one, other| one.0 == other.0);
    that_begin_with(typed, found)
}

/// Finds `FILE:FUNCTION`: first the files in use, then the functions of the named one.
pub fn functions(typed: &str, before: &[String]) -> Vec<CompletionCandidate> {
    let Some((file, function)) = typed.rsplit_once(':') else {
        return files(typed, before);
    };
    let Some(binary) = named(file, before) else {
        return Vec::new();
    };
    let functions = binary.functions().unwrap_or_default().into_iter();
    let fitting = functions
        .filter(|found| !found.is_indirect && found.name.starts_with(function))
        .map(|found| (found.name, found.size));
    let mut fitting: Vec<_> = fitting.collect();
    fitting.sort_unstable();
    fitting.dedup_by(|one, other| one.0 == other.0);
    let fitting = fitting.into_iter();
    let with_help = fitting
        .map(|(name, size)| candidate(format!("{file}:{name}"), format!("{size} bytes of code")));
    with_help.collect()
}

/// Finds the files in use, by name; when the typed text is a path, other files too.
fn files(typed: &str, before: &[String]) -> Vec<CompletionCandidate> {
    let names = used(before).into_iter().filter_map(|used| {
        let name = used.path.file_name()?.to_str()?.to_owned();
        let path = used.path.to_string_lossy().into_owned();
        Some((format!("{name}:"), path))
    });
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names.dedup_by(|one, other| one.0 == other.0);
    let mut found = that_begin_with(typed, names);
    if typed.contains('/') {
        found.extend(PathCompleter::any().complete(OsStr::new(typed)));
    }
    found
}

/// Opens the named program or library.
fn named(file: &str, before: &[String]) -> Option<Binary> {
    let is_it = |used: &Used| {
        used.path == Path::new(file) || used.path.file_name() == Some(OsStr::new(file))
    };
    match used(before).iter().find(|used| is_it(used)) {
        Some(used) => used.open().ok(),
        None if file.contains('/') => here(file.into()).open().ok(),
        None => None,
    }
}

/// Finds the files of the processes and of the command that are on the line.
fn used(before: &[String]) -> Vec<Used> {
    let mut all = Vec::new();
    let is_pid = |word: &&String| word.parse::<i32>().is_ok_and(|pid| pid > 0);
    let pids = before.iter().filter(is_pid).take(MOST_PROCESSES);
    for pid in pids.filter_map(|word| word.parse().ok()) {
        all.extend(find_in_process(pid, &mut Vec::new()).unwrap_or_default());
    }
    let after_dashes = before.iter().skip_while(|word| *word != "--").nth(1);
    if let Some(command) = after_dashes {
        all.extend(find_for_command(OsStr::new(command)).unwrap_or_default());
    }
    all
}
