//! Stacks, compared with the program's own words and with those of perf at the same points.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;
use tests::command::{self, perf_record};
use tests::dist;
use tests::rights::missing_right;

/// Points of the program at which stacks are compared.
const POINTS: usize = 10_000;

/// A function of the kernel through which every system call goes.
const KERNEL_ENTRY: &str = if cfg!(target_arch = "aarch64") {
    "do_el0_svc"
} else {
    "do_syscall_64"
};

/// Reads the notes of the program `stacks`: the functions that each of its points was in, the
/// innermost first.
///
/// # Errors
///
/// The file cannot be read.
pub(crate) fn noted_chains(notes: &Path) -> anyhow::Result<Vec<Vec<String>>> {
    let text = fs::read_to_string(notes).with_context(|| format!("{}", notes.display()))?;
    let chains = text
        .lines()
        .map(|line| line.split(' ').map(str::to_owned).collect());
    Ok(chains.collect())
}

/// The functions of the program, from `point` to `main`.
fn functions<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut own: Vec<String> = Vec::new();
    for name in names.skip_while(|name| *name != "point") {
        own.push(name.to_owned());
        if name == "main" {
            break;
        }
    }
    own
}

/// Reads the functions of the stack of each event of a `getppid` call in JSON lines.
fn parse_json(lines: &str) -> Vec<Vec<String>> {
    let events = lines.lines().map(|line| {
        let value: Value = serde_json::from_str(line).unwrap();
        value
    });
    let entries = events.filter(|event| event["type"] == "linux_trace_syscall_enter");
    let stacks = entries.map(|event| {
        let stack = event["stack"].as_array().expect("a stack").clone();
        let names = stack.iter().filter_map(|frame| frame["symbol"].as_str());
        functions(names)
    });
    stacks.collect()
}

/// Reads the functions of each sample that `perf script -F ip,sym` prints.
fn parse_perf(text: &str) -> Vec<Vec<String>> {
    let samples = text.split("\n\n").map(|sample| {
        let names = sample
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1));
        functions(names)
    });
    samples.filter(|sample| !sample.is_empty()).collect()
}

fn same(one: &[Vec<String>], other: &[Vec<String>]) -> usize {
    let pairs = one.iter().zip(other);
    pairs.filter(|(one, other)| one == other).count()
}

#[test]
#[ignore = "loads eBPF"]
fn stacks_are_where_the_program_says_it_was_and_where_perf_saw_it() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("stacks", folder.path()).unwrap();
    let [notes, log, data] = ["notes", "log", "data"].map(|name| folder.path().join(name));
    let mut ours = Command::new(dist::tracer_user().unwrap());
    ours.args(["run", "--ring-size", "64M", "--events", "exec"])
        .args(["--syscalls", "getppid", "--stack", "user,kernel"])
        .args(["--stack-for", "syscall-enter", "--log"])
        .arg(&log)
        .arg("--")
        .arg(&program)
        .arg(POINTS.to_string())
        .arg(&notes);
    command::text(&mut ours).unwrap();
    // perf records another run of the program, which has the same points.
    let mut theirs = perf_record();
    theirs
        .args(["-N", "-g", "-m", "4M", "-e"])
        .args(["raw_syscalls:sys_enter", "--filter"])
        .arg(format!("id == {}", libc::SYS_getppid))
        .arg("-o")
        .arg(&data)
        .arg("--")
        .arg(&program)
        .arg(POINTS.to_string())
        .arg("/dev/null");
    command::text(&mut theirs).unwrap();

    let said = noted_chains(&notes).unwrap();
    assert_eq!(said.len(), POINTS);
    let ours = parse_json(&read(&log, &["--format", "json"]));
    assert_eq!(ours.len(), POINTS);
    assert_eq!(
        same(&ours, &said),
        POINTS,
        "{:?}",
        first_difference(&ours, &said)
    );
    let script = command::text(
        Command::new("perf")
            .args(["script", "--comm", "stacks", "-F", "ip,sym", "-i"])
            .arg(&data),
    )
    .unwrap();
    let theirs = parse_perf(&script);
    // A full ring of perf's would not be a fault of the tracer's.
    assert_eq!(theirs.len(), POINTS);
    let agreed = same(&ours, &theirs);
    assert!(
        agreed >= POINTS * 99 / 100,
        "{agreed}: {:?}",
        first_difference(&ours, &theirs)
    );

    // Kernel stacks leave out the functions that record.
    let first = read(&log, &["--format", "json", "--limit", "2"]);
    let entry = first.lines().find(|line| line.contains("syscall_enter"));
    let entry: Value = serde_json::from_str(entry.unwrap()).unwrap();
    let frames = entry["stack"].as_array().unwrap();
    let of_kernel: Vec<&str> = frames
        .iter()
        .filter(|frame| frame["module"] == "[kernel]")
        .filter_map(|frame| frame["symbol"].as_str())
        .collect();
    assert!(of_kernel.contains(&KERNEL_ENTRY), "{of_kernel:?}");
    assert!(
        !of_kernel.iter().any(|name| name.contains("bpf")),
        "{of_kernel:?}"
    );

    // The log has the names, even without the program.
    fs::remove_file(&program).unwrap();
    assert_eq!(
        same(&parse_json(&read(&log, &["--format", "json"])), &said),
        POINTS
    );
    let text = read(&log, &["--syscalls", "getppid", "--limit", "4"]);
    let indented: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("        "))
        .collect();
    assert!(
        indented
            .iter()
            .any(|line| line.contains("point+0x") && line.ends_with("(stacks)")),
        "{text}"
    );
}

#[test]
#[ignore = "loads eBPF"]
fn what_is_no_frame_ends_a_stack_and_does_no_harm() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("frames", folder.path()).unwrap();
    let [notes, log] = ["notes", "log"].map(|name| folder.path().join(name));
    command::text(
        Command::new(dist::tracer_user().unwrap())
            .args(["run", "--events", "exec", "--syscalls", "getppid"])
            .args(["--stack", "user", "--stack-for", "syscall-enter", "--log"])
            .arg(&log)
            .arg("--")
            .arg(&program)
            .arg(&notes),
    )
    .unwrap();

    let said = fs::read_to_string(&notes).unwrap();
    let said: Vec<Vec<&str>> = said
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let lines = read(&log, &["--format", "json", "--syscalls", "getppid"]);
    let events = lines.lines().map(|line| {
        let value: Value = serde_json::from_str(line).unwrap();
        value
    });
    let entries = events.filter(|event| event["type"] == "linux_trace_syscall_enter");
    let found: Vec<Vec<String>> = entries
        .map(|event| {
            let stack = event["stack"].as_array().expect("a stack");
            // The first one is the call itself.
            let callers = stack.iter().skip(1);
            let addresses = callers.map(|frame| format!("{:#x}", frame["ip"].as_u64().unwrap()));
            addresses.collect()
        })
        .collect();
    assert!(said.len() > 20, "{}", said.len());
    assert_eq!(found, said);
}

fn read(log: &Path, options: &[&str]) -> String {
    let mut command = Command::new(dist::tracer_user().unwrap());
    command::text(command.arg("read").args(options).arg(log)).unwrap()
}

fn first_difference<'a>(
    one: &'a [Vec<String>],
    other: &'a [Vec<String>],
) -> Option<(&'a Vec<String>, &'a Vec<String>)> {
    one.iter().zip(other).find(|(one, other)| one != other)
}

#[test]
#[ignore = "loads eBPF"]
fn without_being_asked_for_no_stack_is_recorded() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    command::text(
        Command::new(dist::tracer_user().unwrap())
            .args(["run", "--syscalls", "all", "--log"])
            .arg(&log)
            .args(["--", "true"]),
    )
    .unwrap();
    let mut counts: HashMap<String, usize> = HashMap::new();
    for line in read(&log, &["--format", "json"]).lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert!(event.get("stack").is_none(), "{event}");
        let name = event["type"].as_str().unwrap_or_default().to_owned();
        *counts.entry(name).or_default() += 1;
    }
    assert!(
        counts.keys().all(|name| !name.contains("stack")),
        "{counts:?}"
    );
}
