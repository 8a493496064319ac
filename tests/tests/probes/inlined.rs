//! Functions that the compiler has inlined, and lines, in stacks: beside `addr2line -i` of
//! binutils.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::command;
use tests::dist::{self, Linkage};
use tests::rights::missing_right;

/// The program, at fixed addresses, with its debugger's part.
fn program(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/inlined.c");
    let program = folder.join("inlined");
    let options = [
        "-g",
        "-gz=none",
        "-no-pie",
        "-Wl,--build-id=sha1",
        "-fno-omit-frame-pointer",
        "-fno-shrink-wrap",
        "-fno-optimize-sibling-calls",
    ];
    dist::compile_file("cc", &source, &program, &options, Linkage::Shared).unwrap();
    program
}

fn objcopy(options: &[&str], from: &Path, to: &Path) {
    command::text(Command::new("objcopy").args(options).arg(from).arg(to)).unwrap();
}

/// The stacks of its calls of `getppid`: addresses with their functions, as far as they are its.
fn stacks(lines: &str) -> Vec<Vec<(u64, Vec<String>)>> {
    let events = lines
        .lines()
        .map(|line| -> Value { serde_json::from_str(line).unwrap() });
    let entries = events.filter(|event| event["type"] == "linux_trace_syscall_enter");
    let stacks = entries.map(|event| {
        let mut frames: Vec<(u64, Vec<String>)> = Vec::new();
        let mut inlined = Vec::new();
        for frame in event["stack"].as_array().unwrap() {
            let name = frame["symbol"].as_str().unwrap_or("?").to_owned();
            let is_last = name == "main";
            let file = frame["file"].as_str().unwrap_or("?");
            let file = file.rsplit('/').next().unwrap();
            inlined.push(format!("{name} {file}:{}", frame["line"]));
            if frame["inlined"] != true {
                assert!(frame["offset"].is_u64(), "{frame}");
                frames.push((frame["ip"].as_u64().unwrap(), std::mem::take(&mut inlined)));
            }
            if is_last {
                break;
            }
        }
        frames
    });
    stacks.collect()
}

/// Returns the functions that binutils finds at an address, with their lines.
fn addr2line(program: &Path, address: u64) -> Vec<String> {
    let mut theirs = Command::new("addr2line");
    theirs.args(["-f", "-i", "-e"]).arg(program);
    let text = command::text(theirs.arg(format!("{address:#x}"))).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2).map(|pair| {
        let place = pair[1].rsplit('/').next().unwrap();
        format!("{} {}", pair[0], place.split(' ').next().unwrap())
    });
    pairs.collect()
}

fn same_as_theirs(ours: &[Vec<(u64, Vec<String>)>], program: &Path) {
    // Three calls where the argument is odd, of which two are in a function within others.
    assert_eq!(ours.len(), 9, "{ours:?}");
    for stack in ours {
        for (address, functions) in stack {
            // Where it goes on is behind the call, be it one of the system.
            assert_eq!(*functions, addr2line(program, address - 1), "{address:#x}");
        }
    }
    let names: Vec<&str> = ours
        .iter()
        .max_by_key(|stack| stack.len())
        .unwrap()
        .iter()
        .flat_map(|(_, functions)| functions.iter())
        .map(|one| one.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "asks", "twice", "alone", "between", "chosen", "outer", "main"
        ]
    );
}

/// Path at which a debugger looks for the debugger's part of a file. The file there is removed when
/// this is dropped.
struct ForDebuggers(PathBuf);

impl ForDebuggers {
    fn install(program: &Path, whole: &Path) -> Self {
        let notes = command::text(Command::new("readelf").arg("-n").arg(program)).unwrap();
        let id = notes.split("Build ID: ").nth(1).unwrap();
        let (first, rest) = id.trim().split_at(2);
        let folder = Path::new("/usr/lib/debug/.build-id").join(first);
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{}.debug", rest.split_whitespace().next().unwrap()));
        objcopy(
            &["--only-keep-debug", "--compress-debug-sections=zlib"],
            whole,
            &file,
        );
        Self(file)
    }
}

impl Drop for ForDebuggers {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn traced(options: &[&str], program: &Path) -> String {
    let mut ours = Command::new(dist::tracer_user().unwrap());
    ours.args(["run", "--events", "exec", "--syscalls", "getppid"])
        .args(["--stack", "user", "--output", "-"])
        .args(options)
        .arg("--")
        .arg(program)
        .arg("6");
    command::text(&mut ours).unwrap()
}

#[test]
#[ignore = "loads eBPF"]
fn functions_in_others_are_those_that_binutils_names() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let whole = program(folder.path());
    let made = |name: &str, options: &[&str]| {
        let to = folder.path().join(name);
        objcopy(options, &whole, &to);
        to
    };
    let variants = [
        whole.clone(),
        made("zlib", &["--compress-debug-sections=zlib"]),
        made("zstd", &["--compress-debug-sections=zstd"]),
    ];
    for program in &variants {
        let lines = traced(&["--format", "json", "--inlined"], program);
        same_as_theirs(&stacks(&lines), program);
    }
    // Without its debugger's part, from where distributions put that.
    let stripped = made("stripped", &["--strip-debug"]);
    let without = traced(&["--format", "json", "--inlined"], &stripped);
    assert!(!without.contains("\"inlined\":true"), "{without}");
    let _file = ForDebuggers::install(&stripped, &whole);
    let lines = traced(&["--format", "json", "--inlined"], &stripped);
    // The symbols are there all the same, and theirs looks elsewhere.
    same_as_theirs(&stacks(&lines), &whole);
    // Who does not ask is not shown them.
    let lines = traced(&["--format", "json"], &whole);
    assert!(!lines.contains("\"inlined\":true"), "{lines}");
    assert!(!lines.contains("\"line\":"), "{lines}");
}

#[test]
#[ignore = "loads eBPF"]
fn functions_in_others_are_shown_of_logs_and_in_flame_graphs() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let log = folder.path().join("log");
    let mut ours = Command::new(dist::tracer_user().unwrap());
    ours.args(["run", "--events", "exec", "--stack", "user"])
        .args(["--stack-for", "none", "--sample", "997", "--log"])
        .arg(&log)
        .arg("--")
        .arg(&program)
        .arg("3000000");
    command::text(&mut ours).unwrap();
    let tool = || Command::new(dist::tracer_user().unwrap());
    let text = command::text(
        tool()
            .args(["read", "--events", "sample", "--inlined"])
            .arg(&log),
    )
    .unwrap();
    assert!(
        text.contains("        asks (inlined) (inlined) at inlined.c:"),
        "{text}"
    );
    let flames = command::text(
        tool()
            .args(["stat", "--flame", "on-cpu", "--inlined"])
            .arg(&log),
    )
    .unwrap();
    assert!(
        flames.contains("main;outer;chosen_[i];between_[i];alone;twice_[i];asks_[i] "),
        "{flames}"
    );
    let plain = command::text(tool().args(["stat", "--flame", "on-cpu"]).arg(&log)).unwrap();
    assert!(plain.contains("main;outer;alone ") && !plain.contains("_[i]"));
}
