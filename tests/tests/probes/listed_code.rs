//! Names of code that programs make: as their lists have them, by address (`/tmp/perf-PID.map`) or
//! with times (jitdump), beside the programs' own words.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, sleep};
use std::time::Duration;

use tests::command::{self, perf_record};
use tests::rights::missing_right;
use tests::tracer::Tracer;
use tests::{dist, is_whole};

use super::names_by_time::{read, run};

/// Names of what called `point` in each stack, with `?` where there is none.
fn callers(lines: &str) -> Vec<String> {
    let calls = lines.lines().filter_map(|line| {
        let event: serde_json::Value = serde_json::from_str(line).ok()?;
        (event["type"] == "linux_trace_syscall_enter").then_some(event)
    });
    let names = calls.map(|call| {
        call["stack"][1]["symbol"]
            .as_str()
            .unwrap_or("?")
            .to_owned()
    });
    names.collect()
}

/// Runs the program that makes functions, live or into a log, and returns what it says and the
/// names that are shown.
fn generated(folder: &Path, words: &[&str], has_log: bool) -> (Vec<String>, Vec<String>) {
    let program = folder.join("generates");
    let [notes, shown, log] = ["notes", "shown", "log"].map(|name| folder.join(name));
    let mut tool = run(&["--force"]);
    if has_log {
        tool.arg("--log").arg(&log);
    } else {
        tool = run(&[]);
        tool.arg("-o").arg(&shown);
    }
    tool.arg("--").arg(&program).arg(&notes).args(words);
    command::text(&mut tool).unwrap();
    let lines = if has_log {
        read(&log)
    } else {
        fs::read_to_string(&shown).unwrap()
    };
    let said = fs::read_to_string(&notes).unwrap();
    (said.lines().map(str::to_owned).collect(), callers(&lines))
}

/// Script that is busy in two functions for a second.
const HOT: &str =
    "function hotInner(n) { let s = 0; for (let i = 0; i < n; i++) s += i % 7; return s; }
    function hotOuter(n) { return hotInner(n) + 1; }
    const end = Date.now() + 1000; let t = 0;
    while (Date.now() < end) t += hotOuter(20000);
    console.log(process.pid);";

/// Runs the script by node, which lists its code in this way, and samples it. Returns the log, and
/// what node has printed.
fn sampled_node(folder: &Path, listing: &str) -> (PathBuf, String) {
    let (script, log) = (folder.join("a.js"), folder.join("log"));
    fs::write(&script, HOT).unwrap();
    let mut tool = Command::new(dist::tracer_user().unwrap());
    tool.args(["run", "--sample", "499", "--stack", "user"]);
    tool.args(["--stack-for", "none", "--log"]).arg(&log);
    tool.args(["--", "node", listing, "--interpreted-frames-native-stack"]);
    // It writes a log of its own where it is.
    tool.arg(&script).current_dir(folder);
    let printed = command::text(&mut tool).unwrap();
    (log, printed)
}

/// Returns what a program has listed: where, how many bytes, and the name.
fn listed(list: &str) -> Vec<(u64, u64, String)> {
    let list = fs::read_to_string(list).unwrap();
    let lines = list.lines().map(|line| {
        let mut words = line.splitn(3, ' ');
        let mut number = || {
            let digits = words.next().unwrap().trim_start_matches("0x");
            u64::from_str_radix(digits, 16).unwrap()
        };
        (number(), number(), words.next().unwrap().to_owned())
    });
    lines.collect()
}

/// Tells whether a line has the address and the name: perf takes the one that has the address.
fn is_listed(listed: &[(u64, u64, String)], ip: u64, name: &str) -> bool {
    listed
        .iter()
        .any(|(start, bytes, listed)| (*start..=start + bytes).contains(&ip) && listed == name)
}

fn compile_generates(folder: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/generates.c");
    let program = folder.join("generates");
    let mut compiler = Command::new("cc");
    compiler.args(["-O0", "-fno-omit-frame-pointer", "-o"]);
    command::text(compiler.arg(&program).arg(&source)).unwrap();
}

#[test]
#[ignore = "loads eBPF"]
fn generated_code_that_is_written_down_with_times_has_its_name_at_each_time() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    compile_generates(folder.path());
    let dumps = folder.path().to_str().unwrap();
    // Code that takes the place of other code, and is moved, with and without a rest in between.
    let rounds = [(true, "0"), (true, "2000"), (false, "0"), (false, "200000")];
    // Beside what is shown at once nothing is waited for.
    for (has_log, pause_us) in rounds.into_iter().take(3 + usize::from(is_whole())) {
        let words = ["20", "3", pause_us, dumps];
        let (said, found) = generated(folder.path(), &words, has_log);
        assert_eq!(said.len(), found.len());
        let is_wrong = |(said, found): &(&String, &String)| *found != "?" && said != found;
        let wrong = said.iter().zip(&found).find(is_wrong);
        assert_eq!(wrong, None, "{has_log} {pause_us}");
        // What is shown while the program runs is shown before it was read, or after.
        if has_log {
            assert_eq!(said, found, "{pause_us}");
        }
    }
}

#[test]
#[ignore = "loads eBPF"]
fn generated_code_has_the_lines_that_its_program_tells_of() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    compile_generates(folder.path());
    let at = |name: &str| folder.path().join(name);
    for has_log in [true, false] {
        let mut tool = run(&[]);
        if has_log {
            tool.arg("--log").arg(at("log"));
        } else {
            tool.arg("--inlined").arg("-o").arg(at("shown"));
        }
        tool.arg("--").arg(at("generates")).arg(at("notes"));
        // Each is called where it was made, and where it was moved to.
        tool.args(["20", "3", "0"]).arg(folder.path());
        command::text(&mut tool).unwrap();
        let lines = if has_log {
            let mut read = Command::new(dist::tracer_user().unwrap());
            read.args(["read", "--inlined", "--format", "json"]);
            command::text(read.arg(at("log"))).unwrap()
        } else {
            fs::read_to_string(at("shown")).unwrap()
        };
        let said = fs::read_to_string(at("notes")).unwrap();
        let calls = lines.lines().filter_map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).ok()?;
            (event["type"] == "linux_trace_syscall_enter").then_some(event)
        });
        let calls: Vec<_> = calls.collect();
        assert_eq!(calls.len(), said.lines().count());
        let mut told = 0;
        for (call, said) in calls.iter().zip(said.lines()) {
            let caller = &call["stack"][1];
            let nth: u64 = said.trim_start_matches("made_").parse().unwrap();
            if caller["symbol"].is_null() && !has_log {
                continue;
            }
            // The call is in the second line of each.
            assert_eq!(caller["symbol"], said, "{has_log} {call}");
            assert_eq!(caller["file"], "made.x", "{has_log} {call}");
            assert_eq!(caller["line"], 10 * nth + 2, "{has_log} {call}");
            told += 1;
        }
        assert!(told == 40 || !has_log, "{told}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn code_that_was_made_before_the_trace_has_its_name() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    compile_generates(folder.path());
    for more in [None, folder.path().to_str()] {
        let mut program = Command::new(folder.path().join("generates"));
        program
            .arg(folder.path().join("notes"))
            .args(["1", "1", "-"]);
        program.args(more).stdin(Stdio::piped());
        let mut program = program.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut output = BufReader::new(program.stdout.take().unwrap());
        output.read_line(&mut said).unwrap();
        // Times of files are those of the last tick.
        sleep(Duration::from_millis(100));
        let pid = i32::try_from(program.id()).unwrap();
        let options = ["--syscalls", "getppid", "--stack", "user"];
        let mut tracer = Tracer::attach(pid, &options).unwrap();
        let mut to = program.stdin.take().unwrap();
        let (done, is_done) = mpsc::channel::<()>();
        let asks = thread::spawn(move || {
            while is_done.recv_timeout(Duration::from_millis(20)) == Err(RecvTimeoutError::Timeout)
            {
                to.write_all(b"\n").unwrap();
            }
        });
        let call = tracer.wait_for(|event| event.event_type == "syscall_enter");
        drop(done);
        asks.join().unwrap();
        assert!(program.wait().unwrap().success());
        let callers = callers(&call.unwrap().line);
        assert_eq!(callers, ["made_0"], "{more:?}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn functions_of_node_have_the_names_that_it_writes_down_with_times() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = sampled_node(folder.path(), "--perf-prof");
    let text = read(&log);
    let hot = text.matches("hotInner ").count();
    assert!(hot > 50, "{hot}: {text}");
    for name in text.split("\"symbol\":\"JS:").skip(1) {
        let name = name.split('"').next().unwrap();
        // The function, its file, its line and column.
        let place = name.rsplit(' ').next().unwrap();
        assert!(
            place.split(':').count() >= 3 || !name.contains("hot"),
            "{name}"
        );
    }
}

#[test]
#[ignore = "loads eBPF"]
fn generated_code_has_the_names_that_its_program_has_listed_then() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    compile_generates(folder.path());
    for has_log in [true, false] {
        // A program that ends first.
        let (said, found) = generated(folder.path(), &["50", "50", "0"], has_log);
        assert_eq!((said.len(), &said), (50, &found), "{has_log}");
        // Code that takes the place of other code.
        let pauses = ["0", "200000"];
        // Beside what is shown at once nothing is waited for.
        let has_both = has_log || is_whole();
        for pause_us in pauses.into_iter().take(1 + usize::from(has_both)) {
            let words = ["20", "3", pause_us];
            let (said, found) = generated(folder.path(), &words, has_log);
            assert_eq!(said.len(), found.len());
            let pairs = said.iter().zip(&found);
            let is_wrong = |(said, found): &(&String, &String)| *found != "?" && said != found;
            assert_eq!(pairs.clone().find(is_wrong), None, "{has_log} {pause_us}");
            let named = pairs.filter(|(said, found)| said == found).count();
            let is_named = pause_us == "0" || named >= 20;
            assert!(is_named, "{has_log} {named}: {found:?}");
        }
    }
}

#[test]
#[ignore = "loads eBPF"]
fn an_interpreter_that_tells_nothing_has_the_functions_that_it_consists_of() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let shown = folder.path().join("shown");
    let mut tool = run(&["--unwind", "dwarf"]);
    tool.arg("-o")
        .arg(&shown)
        .args(["--", "/usr/bin/perl", "-e"]);
    let script = "sub inner { getppid() } sub outer { inner() } outer() for 1..3";
    command::text(tool.arg(script)).unwrap();
    let mut nm = Command::new("nm");
    let exported = command::text(nm.args(["-D", "--defined-only", "/usr/bin/perl"])).unwrap();
    let exported: Vec<&str> = exported
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    let lines = fs::read_to_string(&shown).unwrap();
    let mut calls = 0;
    for line in lines.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        if event["type"] != "linux_trace_syscall_enter" {
            continue;
        }
        let frames = event["stack"].as_array().unwrap();
        let own = frames.iter().filter(|frame| {
            let module = frame["module"].as_str().unwrap_or_default();
            module.starts_with("/usr/bin/perl")
        });
        let names: Vec<_> = own.map(|frame| frame["symbol"].as_str().unwrap()).collect();
        // The call, what goes from one to the next, and the program.
        assert_eq!(
            (names[0], *names.last().unwrap()),
            ("Perl_pp_getppid", "_start")
        );
        assert!(names.len() > 3, "{names:?}");
        let are_own = names
            .iter()
            .all(|name| exported.contains(name) || *name == "_start");
        assert!(are_own, "{names:?}");
        calls += 1;
    }
    assert_eq!(calls, 3);
}

#[test]
#[ignore = "loads eBPF"]
fn functions_of_node_have_the_names_of_its_list_in_a_log_too() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (log, pid) = sampled_node(folder.path(), "--perf-basic-prof");
    let listed = listed(&format!("/tmp/perf-{}.map", pid.trim()));
    let (mut named, mut hot) = (0, 0);
    for line in read(&log).lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let frames = event["stack"].as_array().cloned().unwrap_or_default();
        for frame in frames {
            let name = frame["symbol"].as_str().unwrap_or_default();
            if !name.starts_with("JS:") {
                continue;
            }
            let ip = frame["ip"].as_u64().unwrap();
            assert!(is_listed(&listed, ip, name), "{frame}");
            named += 1;
            hot += usize::from(name.contains("hot"));
        }
    }
    assert!(named > 100 && hot > 50, "{named} {hot}");
}

/// Program that is busy in two functions that are compiled, and one that is not, for so many
/// milliseconds, or until it reads something.
const HOT_JAVA: &str = "
    public class Hot {
        static long inner(int n) { long s = 0; for (int i = 0; i < n; i++) s += i % 7; return s; }
        static long outer(int n) { return inner(n) + 1; }
        static long interpreted(int n) { long s = 0; for (int i = 0; i < n; i++) s += outer(500); return s; }
        public static void main(String[] words) throws Exception {
            for (int i = 0; i < 20000; i++) outer(200);
            Thread.sleep(500);
            System.out.println(\"ready\");
            long end = System.currentTimeMillis() + Long.parseLong(words[0]);
            long t = 0;
            while (System.currentTimeMillis() < end && System.in.available() == 0) t += interpreted(300);
            System.out.println(t);
        }
    }";

/// Returns the command that runs the program in Java, as docs/tutorial.md says.
fn java(folder: &Path, busy_ms: u32) -> Command {
    fs::write(folder.join("Hot.java"), HOT_JAVA).unwrap();
    let mut compiler = Command::new("javac");
    command::text(compiler.arg("Hot.java").current_dir(folder)).unwrap();
    let mut java = Command::new("java");
    java.args(["-XX:+PreserveFramePointer", "-XX:-UseOnStackReplacement"]);
    java.args([
        "-XX:CompileCommand=quiet",
        "-XX:CompileCommand=dontinline,Hot.*",
    ]);
    java.arg("-XX:CompileCommand=exclude,Hot.interpreted")
        .arg("-cp")
        .arg(folder);
    java.args(["-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit"]);
    java.arg("Hot").arg(busy_ms.to_string());
    java
}

/// Returns the frames of samples in code of no file: address, and name where there is one.
fn frames_without_files(lines: &str) -> Vec<(u64, Option<String>)> {
    let events = lines
        .lines()
        .map(|line| -> serde_json::Value { serde_json::from_str(line).unwrap() });
    let samples = events.filter(|event| event["type"] == "linux_trace_sample");
    let frames = samples.flat_map(|event| event["stack"].as_array().cloned().unwrap_or_default());
    let own = frames.filter(|frame| frame["module"] == "[anon]");
    own.map(|frame| {
        let name = frame["symbol"].as_str().map(str::to_owned);
        (frame["ip"].as_u64().unwrap(), name)
    })
    .collect()
}

/// Compares the frames with those that perf has named; returns how many have each name.
fn compare_with_perf(
    frames: &[(u64, Option<String>)],
    theirs: &HashMap<u64, String>,
) -> BTreeMap<String, usize> {
    let mut named = BTreeMap::new();
    for (ip, name) in frames {
        let Some(of_perf) = theirs.get(ip) else {
            continue;
        };
        let name = name.as_deref().unwrap_or("[unknown]");
        assert_eq!(name, of_perf, "{ip:#x}");
        *named.entry(name.to_owned()).or_insert(0) += 1;
    }
    named
}

#[test]
#[ignore = "loads eBPF"]
fn functions_of_java_have_the_names_that_perf_gives_them() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut program = java(folder.path(), 60_000);
    program.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = program.spawn().unwrap();
    let mut said = String::new();
    let mut output = BufReader::new(program.stdout.take().unwrap());
    output.read_line(&mut said).unwrap();
    assert_eq!(said, "ready\n");
    let pid = program.id().to_string();
    let record = |by: &mut Command| command::text(by);
    let outcome = (|| {
        let mut jcmd = Command::new("jcmd");
        record(jcmd.args([&pid, "Compiler.perfmap"]))?;
        // One after the other: each samples by the same clock.
        let mut perf = perf_record();
        perf.env("HOME", folder.path())
            .args(["-g", "-e", "cpu-clock", "-F", "999"]);
        perf.args(["-p", &pid, "-o"]).arg(at("data"));
        record(perf.args(["--", "sleep", "1"]))?;
        for to in ["-o", "--log"] {
            let mut tool = Command::new(dist::tracer_user().unwrap());
            tool.args([
                "attach",
                "--format",
                "json",
                "--duration",
                "2s",
                "--sample",
                "499",
            ]);
            tool.args(["--stack", "user", "--stack-for", "none"]);
            record(tool.arg(to).arg(at(to)).args(["-p", &pid]))?;
        }
        let mut perf = Command::new("perf");
        perf.env("HOME", folder.path())
            .args(["script", "-F", "ip,sym,dso", "-i"]);
        record(perf.arg(at("data")))
    })();
    program.stdin.take().unwrap().write_all(b"\n").unwrap();
    program.wait().unwrap();
    let script = outcome.unwrap();
    let map = format!(" (/tmp/perf-{pid}.map)");
    let of_map = script
        .lines()
        .filter_map(|line| line.trim().strip_suffix(&map));
    let theirs: HashMap<u64, String> = of_map
        .map(|line| {
            let (ip, name) = line.split_once(' ').unwrap();
            (u64::from_str_radix(ip, 16).unwrap(), name.to_owned())
        })
        .collect();
    for (to, lines) in [
        ("-o", fs::read_to_string(at("-o")).unwrap()),
        ("--log", read(&at("--log"))),
    ] {
        let named = compare_with_perf(&frames_without_files(&lines), &theirs);
        // A function that is not compiled is run by the interpreter, which is its name then.
        for name in ["long Hot.inner(int)", "long Hot.outer(int)", "Interpreter"] {
            let count = named.get(name).copied().unwrap_or(0);
            assert!(count > 10, "{to} {name}: {named:?}");
        }
    }
}

#[test]
#[ignore = "loads eBPF"]
fn functions_of_java_that_ends_first_have_the_names_of_its_list() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut tool = Command::new(dist::tracer_user().unwrap());
    tool.args(["run", "--sample", "499", "--stack", "user"]);
    tool.args(["--stack-for", "none", "--force", "--log"])
        .arg(&log)
        .arg("--");
    let java = java(folder.path(), 1000);
    tool.arg(java.get_program()).args(java.get_args());
    command::text(&mut tool).unwrap();
    let lines = read(&log);
    let first: serde_json::Value = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .find(|event: &serde_json::Value| event["type"] == "linux_trace_sample")
        .unwrap();
    let listed = listed(&format!("/tmp/perf-{}.map", first["pid"]));
    let mut named = BTreeMap::new();
    for (ip, name) in frames_without_files(&lines) {
        let Some(name) = name else {
            continue;
        };
        assert!(is_listed(&listed, ip, &name), "{ip:#x} {name}");
        *named.entry(name).or_insert(0) += 1;
    }
    for name in ["long Hot.inner(int)", "long Hot.outer(int)", "Interpreter"] {
        let count = named.get(name).copied().unwrap_or(0);
        assert!(count > 10, "{name}: {named:?}");
    }
}

/// A script in Ruby, and one in PHP, each with functions in lines of their own.
const RUBY: &str = "def inner\n  Process.ppid\nend\n3.times { inner }\n";
const PHP: &str = "<?php\nfunction inner() { return 1; }\nfunction outer() {\n  return inner();\n}\nfor ($i = 0; $i < 3; $i++)\n  outer();\n";

#[test]
#[ignore = "loads eBPF"]
fn functions_of_ruby_and_php_are_those_that_their_static_probes_name() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let called = |probe: &str, words: &[&str], script: &str| -> Vec<String> {
        fs::write(at("script"), script).unwrap();
        let mut tool = Command::new(dist::tracer_user().unwrap());
        tool.args([
            "run", "--events", "probe", "--format", "json", "--usdt", probe, "-o",
        ]);
        tool.arg(at("shown")).args(["--ring-size", "64M", "--"]);
        tool.args(words).arg(at("script"));
        // Otherwise PHP has its probes and passes none.
        command::text(tool.env("USE_ZEND_DTRACE", "1")).unwrap();
        let shown = fs::read_to_string(at("shown")).unwrap();
        let events = shown
            .lines()
            .map(|line| -> serde_json::Value { serde_json::from_str(line).unwrap() });
        let script = at("script");
        let file = script.to_str().unwrap();
        let words = |event: serde_json::Value| {
            let field = |name: &str| event["data"][name].clone();
            let all = ["arg0", "arg1", "arg2", "arg3"].map(field);
            let all = all.map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned));
            all.contains(&file.to_owned())
                .then(|| all.join(" ").replace(file, "script"))
        };
        events.filter_map(words).collect()
    };
    let of_ruby = called(
        "ruby:cmethod__entry(str, str, str, int)",
        &["ruby", "--disable-gems"],
        RUBY,
    );
    let of_ruby: Vec<_> = of_ruby
        .iter()
        .filter(|call| call.contains("ppid"))
        .collect();
    assert_eq!(of_ruby, vec!["Process ppid script 2"; 3]);
    let of_php = called("php:function__entry(str, str, int, str)", &["php"], PHP);
    // Each with the line of the first thing that it does.
    let each = ["outer script 4 ", "inner script 2 "];
    assert_eq!(of_php, [&["main script 6 "][..], &each.repeat(3)].concat());
}
