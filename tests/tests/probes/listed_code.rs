//! Names of code that programs make: as their lists have them, by address (`/tmp/perf-PID.map`) or
//! with times (jitdump), beside the programs' own words.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, sleep};
use std::time::Duration;

use tests::command::{self, perf_record};
use tests::rights::missing_right;
use tests::tracer::Tracer;
use tests::{dist, is_whole};

use super::names_by_time::{read, run};
use super::python_stacks::{interpreters, minor};

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

/// Options by which node has a frame for each function.
const NODE: [&str; 2] = ["--interpreted-frames-native-stack", "--no-turbo-inlining"];

/// Runs the script by node, which lists its code in this way, and samples it. Returns the log, and
/// what node has printed.
fn sampled_node(folder: &Path, listing: &str) -> (PathBuf, String) {
    let (script, log) = (folder.join("a.js"), folder.join("log"));
    fs::write(&script, HOT).unwrap();
    let mut tool = Command::new(dist::tracer_user().unwrap());
    tool.args(["run", "--sample", "499", "--stack", "user"]);
    tool.args(["--stack-for", "none", "--log"]).arg(&log);
    tool.args(["--", "node", listing]).args(NODE);
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

/// Returns the most frequent path.
fn most_frequent(paths: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let mut counts = HashMap::new();
    for path in paths {
        *counts.entry(path).or_insert(0) += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.unwrap().0
}

#[test]
#[ignore = "loads eBPF"]
fn functions_that_node_writes_down_call_each_other_as_perf_says() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = sampled_node(folder.path(), "--perf-prof");
    let lines = read(&log);
    let stacks = lines.lines().filter_map(|line| {
        let event: serde_json::Value = serde_json::from_str(line).ok()?;
        event["stack"].as_array().cloned()
    });
    let ours = most_frequent(stacks.map(|frames| {
        let own = frames.iter().filter(|frame| frame["module"] == "[anon]");
        let names = own.map(|frame| frame["symbol"].as_str().unwrap_or("?").to_owned());
        names.collect()
    }));
    // Of code that is in node's file, perf has that or what node writes down.
    // Another run, for which perf makes a file of each function.
    let perf = |words: &[&str]| {
        let mut perf = Command::new("perf");
        perf.env("HOME", folder.path()).current_dir(folder.path());
        command::text(perf.args(words)).unwrap()
    };
    let mut record = perf_record();
    record.current_dir(folder.path()).env("HOME", folder.path());
    record.args([
        "-k",
        "mono",
        "-g",
        "-e",
        "cpu-clock",
        "-F",
        "499",
        "-o",
        "data",
    ]);
    record.args(["--", "node", "--perf-prof"]).args(NODE);
    command::text(record.arg(folder.path().join("a.js"))).unwrap();
    perf(&["inject", "-j", "-i", "data", "-o", "injected"]);
    let script = perf(&["script", "-F", "ip,sym,dso", "-i", "injected"]);
    let theirs = most_frequent(script.split("\n\n").map(|sample| {
        let own = sample.lines().filter_map(|line| {
            let (frame, file) = line.trim().rsplit_once(" (")?;
            let (_, name) = frame.split_once(' ')?;
            let is_own = file.contains("/jitted-") && !name.starts_with("Builtin:");
            is_own.then(|| name.to_owned())
        });
        own.collect()
    }));
    assert_eq!(ours, theirs);
    assert!(
        ours[0].contains("hotInner ") && ours[1].contains("hotOuter "),
        "{ours:?}"
    );
}

/// Script in Python that notes which function of it calls, and calls: some are made as it runs, by
/// the name of one before.
const PYTHON: &str = "
import os, sys
notes = open(sys.argv[1], 'w')
def call():
    code = sys._getframe(1).f_code
    notes.write('py::%s:%s\\n' % (code.co_qualname, code.co_filename))
    return os.getppid
def one(): call()()
def other(): call()()
class Animal:
    def speak(self): call()()
for nth in range(20):
    one(); other(); Animal().speak()
    made = {'call': call}
    exec(compile('def made_%d(): call()()' % (nth % 3), 'made %d' % nth, 'exec'), made)
    made['made_%d' % (nth % 3)]()
";

#[test]
#[ignore = "loads eBPF"]
fn functions_of_python_have_the_names_that_it_writes_down_with_times() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("a.py"), PYTHON).unwrap();
    let all = interpreters().into_iter();
    // Those before have only the list without times.
    let all = all.filter(|interpreter| minor(interpreter).is_some_and(|minor| minor >= 13));
    let mut tried = 0;
    for interpreter in all {
        for has_log in [true, false] {
            let mut tool = run(&["--unwind", "dwarf"]);
            tool.args(if has_log {
                &["--force", "--log"][..]
            } else {
                &["-o"]
            });
            tool.arg(at("made")).arg("--").arg(&interpreter);
            tool.args(["-X", "perf_jit"])
                .arg(at("a.py"))
                .arg(at("notes"));
            command::text(&mut tool).unwrap();
            let lines = if has_log {
                read(&at("made"))
            } else {
                fs::read_to_string(at("made")).unwrap()
            };
            let calls = lines.lines().filter_map(|line| {
                let event: serde_json::Value = serde_json::from_str(line).ok()?;
                (event["type"] == "linux_trace_syscall_enter").then_some(event)
            });
            let calls: Vec<_> = calls.collect();
            let found = calls.iter().map(|call| {
                let frames = call["stack"].as_array().unwrap();
                let mut names = frames.iter().filter_map(|frame| frame["symbol"].as_str());
                names.find(|name| name.starts_with("py::")).unwrap_or("?")
            });
            let said = fs::read_to_string(at("notes")).unwrap();
            // A script that runs the interpreter may have made calls before.
            let pairs: Vec<_> = said.lines().rev().zip(found.rev()).collect();
            assert_eq!(pairs.len(), 80);
            for (said, found) in &pairs {
                assert!(
                    found == said || (*found == "?" && !has_log),
                    "{said} {found}"
                );
            }
            // It is in no folder of its own.
            let _ = fs::remove_file(format!("/tmp/jit-{}.dump", calls[79]["pid"]));
            tried += 1;
        }
    }
    assert!(tried > 0, "CPython 3.13 or later is needed: TRACER_PYTHONS");
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

/// Compares the frames with those that perf has named; returns how many have each name. One that
/// the program had not listed `then` may have none.
fn compare_with_perf(
    frames: &[(u64, Option<String>)],
    theirs: &HashMap<u64, String>,
    then: &[(u64, u64, String)],
) -> BTreeMap<String, usize> {
    let mut named = BTreeMap::new();
    for (ip, name) in frames {
        let Some(of_perf) = theirs.get(ip) else {
            continue;
        };
        let is_here = |(start, bytes, _): &(u64, u64, String)| (*start..start + bytes).contains(ip);
        if name.is_none() && !then.iter().any(is_here) {
            continue;
        }
        let name = name.as_deref().unwrap_or("[unknown]");
        assert_eq!(name, of_perf, "{ip:#x}");
        *named.entry(name.to_owned()).or_insert(0) += 1;
    }
    named
}

/// Starts a program that says when it is ready.
fn ready(mut program: Command) -> Child {
    program.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = program.spawn().unwrap();
    let mut said = String::new();
    let mut output = BufReader::new(program.stdout.take().unwrap());
    output.read_line(&mut said).unwrap();
    assert_eq!(said, "ready\n");
    program
}

/// Samples a program, which ends by a line then, by perf and by the tool, live and into a log, and
/// compares the names of its code address by address: these functions are among them.
fn compare_beside_perf(folder: &Path, mut program: Child, functions: [&str; 3]) {
    let at = |name: &str| folder.join(name);
    let pid = program.id().to_string();
    let record = |by: &mut Command| command::text(by);
    let list = format!("/tmp/perf-{pid}.map");
    let outcome = (|| {
        fs::copy(&list, at("then"))?;
        // One after the other: each samples by the same clock.
        let mut perf = perf_record();
        perf.env("HOME", folder)
            .args(["-g", "-e", "cpu-clock", "-F", "999"]);
        perf.args(["-p", &pid, "-o"]).arg(at("data"));
        record(perf.args(["--", "sleep", "1"]))?;
        for to in ["-o", "--log"] {
            let mut tool = Command::new(dist::tracer_user().unwrap());
            tool.args(["attach", "--format", "json", "--duration", "2s"]);
            tool.args(["--sample", "499", "--stack", "user"]);
            tool.args(["--stack-for", "none", to]);
            record(tool.arg(at(to)).args(["-p", &pid]))?;
        }
        anyhow::Ok(())
    })();
    program.stdin.take().unwrap().write_all(b"\n").unwrap();
    program.wait().unwrap();
    outcome.unwrap();
    // It has written all of its list by now.
    let mut perf = Command::new("perf");
    perf.env("HOME", folder)
        .args(["script", "-F", "ip,sym,dso", "-i"]);
    let script = record(perf.arg(at("data"))).unwrap();
    let dso = format!(" ({list})");
    let of_list = script
        .lines()
        .filter_map(|line| line.trim().strip_suffix(&dso));
    let theirs: HashMap<u64, String> = of_list
        .map(|line| {
            let (ip, name) = line.split_once(' ').unwrap();
            (u64::from_str_radix(ip, 16).unwrap(), name.to_owned())
        })
        .collect();
    let then = listed(at("then").to_str().unwrap());
    for (to, lines) in [
        ("-o", fs::read_to_string(at("-o")).unwrap()),
        ("--log", read(&at("--log"))),
    ] {
        let named = compare_with_perf(&frames_without_files(&lines), &theirs, &then);
        for function in functions {
            let of_it = named.iter().filter(|(name, _)| name.starts_with(function));
            let count: usize = of_it.map(|(_, count)| count).sum();
            assert!(count > 10, "{to} {function}: {named:?}");
        }
    }
}

#[test]
#[ignore = "loads eBPF"]
fn functions_of_java_have_the_names_that_perf_gives_them() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = ready(java(folder.path(), 60_000));
    let mut jcmd = Command::new("jcmd");
    command::text(jcmd.args([&program.id().to_string(), "Compiler.perfmap"])).unwrap();
    // A function that is not compiled is run by the interpreter, which is its name then.
    let functions = ["long Hot.inner(int)", "long Hot.outer(int)", "Interpreter"];
    compare_beside_perf(folder.path(), program, functions);
}

/// Script that is busy in functions that are compiled, one of them by the compiler that works at
/// once, until it reads something. What it has listed is written once that fills a buffer: until
/// then it makes functions.
const HOT_LISTED: &str = "
    const fs = require('fs');
    function hotInner(n) { let s = 0; for (let i = 0; i < n; i++) s += i % 7; return s; }
    function hotOuter(n) { return hotInner(n) + 1; }
    function baseline() { let t = 0; for (let i = 0; i < 50; i++) t += hotOuter(20000); return t; }
    %NeverOptimizeFunction(baseline);
    let t = 0;
    for (let i = 0; i < 50; i++) t += baseline();
    const size = () => fs.statSync(`/tmp/perf-${process.pid}.map`).size;
    const before = size();
    for (let i = 0; size() === before; i++) new Function(`return ${i}`)();
    console.log('ready');
    const input = fs.openSync('/dev/stdin', fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
    const isOver = () => { try { return fs.readSync(input, Buffer.alloc(1)) >= 0; } catch { return false; } };
    while (!isOver()) t += baseline();";

#[test]
#[ignore = "loads eBPF"]
fn functions_of_node_have_the_names_that_perf_gives_them() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("a.js");
    fs::write(&script, HOT_LISTED).unwrap();
    let mut node = Command::new("node");
    node.arg("--perf-basic-prof").args(NODE);
    node.arg("--allow-natives-syntax");
    // What compiles better, what compiles at once, and what is interpreted.
    let functions = ["JS:*hotInner ", "JS:^baseline ", "JS:~"];
    // It writes a log of its own where it is.
    node.arg(&script).current_dir(folder.path());
    compare_beside_perf(folder.path(), ready(node), functions);
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
