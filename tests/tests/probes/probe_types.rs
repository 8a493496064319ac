//! Arguments and results of functions by their types: as the program itself says them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tests::dist;
use tests::rights::missing_right;

/// Probes of the functions that the program calls, with their types. A result is asked for where
/// the program prints it.
const PROBES: &[(&str, &str)] = &[
    ("--probe", "texts(str, str)"),
    ("--retprobe", "texts(int)"),
    ("--probe", "small(s8, u8, s16, u16, bool, char)"),
    ("--probe", "large(int, uint, long, ulong, ptr)"),
    ("--retprobe", "large(str)"),
    ("--probe", "floating(double, int, float, str)"),
    ("--probe", "unreadable(str)"),
];

const ROUNDS: usize = 50;

/// Runs the program with what `more` says, into a log: what it says itself.
fn said(program: &Path, log: &Path, more: &[&str]) -> String {
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--no-user", "--events", "exec", "--force"])
        .args(more);
    for (option, typed) in PROBES {
        run.arg(option)
            .arg(format!("{}:{typed}", program.display()));
    }
    let output = run
        .arg("--log")
        .arg(log)
        .arg("--")
        .arg(program)
        .arg(ROUNDS.to_string())
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    assert!(complaint.contains(" 0 lost"), "{complaint}");
    String::from_utf8(output.stdout).unwrap()
}

fn read(log: &Path, more: &[&str]) -> String {
    let mut read = Command::new(dist::tracer_user().unwrap());
    let output = read.arg("read").args(more).arg(log).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// The calls and results in a log's text, in the program's words.
fn shown(text: &str) -> Vec<String> {
    let words = |line: &str| -> Option<String> {
        if let Some((_, rest)) = line.split_once(" probe:") {
            return Some(rest.split_once(char::is_whitespace)?.1.trim().to_owned());
        }
        let (_, result) = line.split_once(" retprobe:")?.1.split_once(" ret=")?;
        let result = if result == "0x0" { "NULL" } else { result };
        Some(format!("= {result}"))
    };
    text.lines().filter_map(words).collect()
}

#[test]
#[ignore = "loads eBPF"]
fn calls_are_what_the_program_says_that_it_calls() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("typed", folder.path()).unwrap();
    let log = folder.path().join("log");
    for size in ["32", "100", "256"] {
        let said = said(&program, &log, &["--string-size", size]);
        let said: Vec<_> = said.lines().collect();
        let shown = shown(&read(&log, &[]));
        let longest = "x".repeat(size.parse().unwrap());
        let expected: Vec<_> = said
            .iter()
            .map(|line| line.replace(&"x".repeat(32), &longest))
            .collect();
        assert_eq!(shown, expected);
        assert!(
            shown.len() == said.len() && said.len() == 18 * ROUNDS,
            "{}",
            shown.len()
        );
    }
}

/// The program with its debugger's part.
fn described(folder: &Path) -> std::path::PathBuf {
    let program = folder.join("described");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/typed.c");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O1", "-g", "-gz=none", "-D_GNU_SOURCE", "-o"])
        .arg(&program)
        .arg(source);
    assert!(compiler.status().unwrap().success());
    program
}

#[test]
#[ignore = "loads eBPF"]
fn what_a_program_says_of_its_functions_is_known_without_types() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = described(folder.path());
    let log = folder.path().join("log");
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args([
        "run",
        "--no-user",
        "--events",
        "exec",
        "--string-size",
        "32",
    ]);
    for function in ["texts", "small", "large", "floating", "unreadable"] {
        run.arg("--probe")
            .arg(format!("{}:{function}", program.display()));
    }
    let output = run
        .arg("--log")
        .arg(&log)
        .arg("--")
        .arg(&program)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = read(&log, &[]);
    let mut shown = shown(&text);
    assert_eq!(shown[0], r#"texts(first="/etc/x", second="r")"#);
    for call in &mut shown {
        for name in [
            "first", "second", "third", "fourth", "fifth", "s8", "u8", "s16", "u16",
        ] {
            *call = call.replace(&format!("{name}="), "");
        }
        for name in ["truth=", "letter=", "nowhere="] {
            *call = call.replace(name, "");
        }
    }
    let said = String::from_utf8(output.stdout).unwrap();
    let said: Vec<_> = said.lines().filter(|line| !line.starts_with('=')).collect();
    assert_eq!(shown, said);
}

#[test]
#[ignore = "loads eBPF"]
fn values_have_their_types_in_json_and_in_filters() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("typed", folder.path()).unwrap();
    let log = folder.path().join("log");
    said(&program, &log, &["--string-size", "32"]);
    let filter =
        r#"type == "probe:texts" && arg0 == "/etc/x" || type == "probe:small" && arg4 == true"#;
    let text = read(&log, &["--format", "json", "--filter", filter]);
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|event: &Value| event["data"].get("arg0").is_some())
        .collect();
    assert_eq!(events.len(), 2 * ROUNDS);
    assert_eq!(events[0]["data"], json!({"arg0": "/etc/x", "arg1": "r"}));
    let small =
        json!({"arg0": -5, "arg1": 250, "arg2": -300, "arg3": 65000, "arg4": true, "arg5": 65});
    assert_eq!(events[1]["data"], small);
}

#[test]
#[ignore = "loads eBPF"]
fn a_library_is_probed_as_bpftrace_sees_it() {
    if missing_right().is_some() {
        return;
    }
    let script =
        "uprobe:libc:getenv /pid == cpid/ { printf(\"getenv(\\\"%s\\\")\\n\", str(arg0)); }";
    let theirs = Command::new("bpftrace")
        .args(["-e", script, "-c", "/usr/bin/sort /dev/null"])
        .output();
    let theirs = String::from_utf8(theirs.unwrap().stdout).unwrap();
    let theirs: Vec<_> = theirs
        .lines()
        .filter(|line| line.starts_with("getenv"))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--no-user", "--events", "exec"]);
    run.args(["--probe", "libc.so.6:getenv(str)", "--log"])
        .arg(&log);
    let run = run.args(["--", "/usr/bin/sort", "/dev/null"]).output();
    assert!(run.unwrap().status.success());
    let ours = shown(&read(&log, &[]));
    assert_eq!(ours.len(), theirs.len(), "{ours:?} {theirs:?}");
    // Of a text that is not in memory yet, they have nothing and we the address.
    let is_read = |ours: &str, theirs: &str| ours.contains('"') && theirs != "getenv(\"\")";
    let both = ours.iter().zip(theirs);
    let both: Vec<_> = both
        .filter(|(ours, theirs)| is_read(ours, theirs))
        .collect();
    assert!(both.len() > 10, "{ours:?}");
    for (ours, theirs) in both {
        assert_eq!(ours, theirs);
    }
}

/// Program with a static probe that has texts, which says what it gives it.
const GREETS: &str = r#"
    #include <stdio.h>
    #include <sys/sdt.h>
    int main(void) {
        for (int i = 0; i < 20; i++) {
            char text[32];
            snprintf(text, sizeof text, "round %d", i);
            const char *other = i % 2 ? "odd" : NULL;
            DTRACE_PROBE3(greets, hello, text, -i, other);
            printf("greets:hello(\"%s\", %d, %s)\n", text, -i, other ? "\"odd\"" : "NULL");
        }
        return 0;
    }"#;

#[test]
#[ignore = "loads eBPF"]
fn texts_of_static_probes_are_those_that_the_program_gives_them() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("greets.c"), GREETS).unwrap();
    let mut compiler = Command::new("cc");
    compiler.arg("-O1").arg("-o").arg(at("greets"));
    assert!(compiler.arg(at("greets.c")).status().unwrap().success());
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--no-user", "--events", "exec", "--log"]);
    run.arg(at("log")).arg("--usdt");
    let run = run
        .arg("greets:hello(str, int, str)")
        .arg("--")
        .arg(at("greets"));
    let said = tests::command::text(run).unwrap();
    let text = read(&at("log"), &[]);
    let lines = text.lines();
    let shown: Vec<_> = lines
        .filter_map(|line| {
            line.split_once(" usdt:greets:hello ")
                .map(|(_, rest)| rest.trim())
        })
        .collect();
    assert_eq!(shown, said.lines().collect::<Vec<_>>());
    assert_eq!(shown.len(), 20);
}
