//! Stacks of programs without frame pointers: what a program says of where it is, and what perf
//! says of the same points, and of programs of the distribution.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::command::{self, perf_record};
use tests::dist::{self, Linkage};
use tests::rights::missing_right;

use crate::stacks::noted_chains;

/// Points of the program at which stacks are compared.
const POINTS: usize = 500;

fn tool() -> Command {
    Command::new(dist::tracer_user().unwrap())
}

/// The program that says where it is, without frame pointers.
fn program(folder: &Path, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/stacks.c");
    let program = folder.join("stacks");
    let options = [&["-DWITHOUT_FRAME_POINTERS"], options].concat();
    dist::compile_file("cc", &source, &program, &options, Linkage::Shared).unwrap();
    program
}

/// The events of this type in JSON lines.
fn events(lines: &str, event_type: &str) -> Vec<Value> {
    let all = lines
        .lines()
        .map(|line| -> Value { serde_json::from_str(line).unwrap() });
    all.filter(|event| event["type"] == event_type).collect()
}

/// Runs a command under perf and returns what perf says of the stacks of a system call in it.
fn perf(data: &Path, call: u32, fields: &str, command: impl Fn() -> Command) -> String {
    let command = command();
    let mut record = perf_record();
    record
        .args(["-N", "--call-graph", "dwarf,32768"])
        .args(["-m", "16M", "-e", "raw_syscalls:sys_enter", "--filter"])
        .arg(format!("id == {call}"))
        .arg("-o")
        .arg(data)
        .arg("--")
        .arg(command.get_program())
        .args(command.get_args());
    command::text(&mut record).unwrap();
    let mut script = Command::new("perf");
    script.args(["script", "--no-inline", "-F", fields, "-i"]);
    command::text(script.arg(data)).unwrap()
}

/// The functions of an event's stack from the one called `first` to `main`.
fn functions(event: &Value, first: &str) -> Vec<String> {
    let frames = event["stack"].as_array().expect("a stack").iter();
    let names = frames.map(|frame| frame["symbol"].as_str().unwrap_or("?"));
    let mut own: Vec<String> = Vec::new();
    for name in names.skip_while(|name| *name != first) {
        own.push(name.to_owned());
        if name == "main" {
            break;
        }
    }
    own
}

#[test]
#[ignore = "loads eBPF"]
fn functions_without_frame_pointers_are_where_the_program_and_perf_say() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), &[]);
    let [notes, log, data] = ["notes", "log", "data"].map(|name| folder.path().join(name));
    let recorded = |how: &[&str]| {
        let mut ours = tool();
        ours.args(["run", "--ring-size", "64M", "--events", "exec", "--force"])
            .args(["--syscalls", "getppid", "--stack", "user,kernel"])
            .args(how)
            .arg("--log")
            .arg(&log)
            .arg("--")
            .arg(&program)
            .arg(POINTS.to_string())
            .arg(&notes);
        command::text(&mut ours).unwrap();
        let lines = command::text(tool().args(["read", "--format", "json"]).arg(&log)).unwrap();
        events(&lines, "linux_trace_syscall_enter")
    };
    let by_frame_pointers = recorded(&[]);
    let entries = recorded(&["--unwind", "dwarf"]);
    let said = noted_chains(&notes).unwrap();
    assert_eq!((said.len(), entries.len()), (POINTS, POINTS));
    let same = |events: &[Value]| {
        let pairs = events.iter().zip(&said);
        pairs
            .filter(|(event, said)| functions(event, "point") == **said)
            .count()
    };
    for (entry, said) in entries.iter().zip(&said) {
        assert_eq!(functions(entry, "point"), *said);
        assert_eq!(entry["stack_ends"], "beginning", "{entry}");
        let frames = entry["stack"].as_array().unwrap();
        assert_eq!(frames.last().unwrap()["symbol"], "_start");
    }
    // It has none: what is compared is not what would be found anyway.
    assert!(same(&by_frame_pointers) < POINTS / 10);

    let script = perf(&data, 110, "ip,sym", || {
        let mut command = Command::new(&program);
        command.arg(POINTS.to_string()).arg("/dev/null");
        command
    });
    let theirs: Vec<Vec<&str>> = script
        .split("\n\n")
        .map(|sample| {
            let names = sample
                .lines()
                .filter_map(|line| line.split_whitespace().nth(1));
            let own = names.skip_while(|name| *name != "point");
            let mut is_over = false;
            own.take_while(|name| !std::mem::replace(&mut is_over, *name == "main"))
                .collect()
        })
        .filter(|names: &Vec<&str>| !names.is_empty())
        .collect();
    // A full ring of perf's would not be a fault of the tracer's.
    assert_eq!(theirs.len(), POINTS);
    let agreed = theirs.iter().zip(&said).filter(|(one, other)| one == other);
    let agreed = agreed.count();
    assert!(agreed >= POINTS * 99 / 100, "{agreed}");
}

/// The addresses in programs of each of the calls `call` in JSON lines, where each stack is whole.
fn addresses(lines: &str) -> Vec<Vec<u64>> {
    let entries = events(lines, "linux_trace_syscall_enter");
    let stacks = entries.iter().map(|entry| {
        let frames = entry["stack"].as_array().unwrap();
        // The dynamic linker does not say that it begins.
        let module = frames.last().unwrap()["module"]
            .as_str()
            .unwrap_or_default();
        let is_linker = module.contains("/ld-linux") && entry["stack_ends"] == "code";
        assert!(is_linker || entry["stack_ends"] == "beginning", "{entry}");
        let frames = frames.iter();
        frames.map(|frame| frame["ip"].as_u64().unwrap()).collect()
    });
    stacks.collect()
}

/// Programs of the distribution, and a system call of each by its name and code.
const OF_DISTRIBUTION: [(&[&str], &str, u32); 3] = [
    (&["sort", "-n", "/etc/services"], "write", 1),
    (
        &[
            "/usr/bin/python3",
            "-c",
            "import json; print(json.dumps([1]))",
        ],
        "newfstatat",
        262,
    ),
    (&["bash", "-c", "cd /; pwd; type ls"], "write", 1),
];

#[test]
#[ignore = "loads eBPF"]
fn functions_of_the_distribution_are_where_perf_saw_them() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (command, call, code) in OF_DISTRIBUTION {
        let (log, data) = (folder.path().join("log"), folder.path().join("data"));
        let mut ours = tool();
        ours.args(["run", "--ring-size", "64M", "--events", "exec", "--force"])
            .args([
                "--syscalls",
                call,
                "--stack",
                "user",
                "--unwind",
                "dwarf,32K",
            ])
            .arg("--log")
            .arg(&log)
            .arg("--")
            .args(command);
        command::text(&mut ours).unwrap();
        let lines = command::text(tool().args(["read", "--format", "json"]).arg(&log)).unwrap();
        let ours = addresses(&lines);
        let script = perf(&data, code, "ip", || {
            let mut theirs = Command::new(command[0]);
            theirs.args(&command[1..]);
            theirs
        });
        let theirs: Vec<Vec<u64>> = script
            .split("\n\n")
            .map(|sample| {
                let words = sample.split_whitespace();
                let addresses = words.map(|word| u64::from_str_radix(word, 16).unwrap());
                addresses.filter(|address| *address < 1 << 63).collect()
            })
            .filter(|sample: &Vec<u64>| !sample.is_empty())
            .collect();
        assert!(!ours.is_empty());
        assert_eq!(ours.len(), theirs.len(), "{command:?}");
        // Of a caller they have the call, and we where it goes on; in theirs files begin at 0.
        const PAGE: u64 = 4096;
        let is_same = |(one, other): &(&Vec<u64>, &Vec<u64>)| {
            let mut pairs = one.iter().zip(other.iter());
            one.len() == other.len() && pairs.all(|(one, other)| (one - other % PAGE) % PAGE <= 1)
        };
        let agreed = ours.iter().zip(&theirs).filter(is_same).count();
        let difference = ours.iter().zip(&theirs).find(|pair| !is_same(pair));
        assert!(
            agreed * 100 >= ours.len() * 99,
            "{command:?}: {agreed} of {}: {difference:x?}",
            ours.len()
        );
    }
}

#[test]
#[ignore = "loads eBPF"]
fn what_was_not_copied_is_not_guessed() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), &["-DLARGE_FRAMES"]);
    let mut ours = tool();
    ours.args([
        "run",
        "--events",
        "exec",
        "--syscalls",
        "getppid",
        "--output",
        "-",
    ])
    .args([
        "--stack", "user", "--format", "json", "--unwind", "dwarf,2K", "--",
    ])
    .arg(&program)
    .args(["50", "/dev/null"]);
    let entries = events(
        &command::text(&mut ours).unwrap(),
        "linux_trace_syscall_enter",
    );
    assert_eq!(entries.len(), 50);
    let ends = |name: &str| {
        entries
            .iter()
            .filter(|entry| entry["stack_ends"] == name)
            .count()
    };
    // Four of its functions have more than that.
    assert!(ends("memory") > 5, "{}", ends("memory"));
    for entry in &entries {
        let depth = entry["stack"].as_array().unwrap().len();
        let own = functions(entry, "point");
        let is_whole = entry["stack_ends"] == "beginning";
        assert!(is_whole || (own.len() == depth && depth >= 3), "{entry}");
    }
    // As many as were asked for.
    let mut ours = tool();
    ours.args([
        "run",
        "--events",
        "exec",
        "--syscalls",
        "getppid",
        "--output",
        "-",
    ])
    .args(["--stack", "user,2", "--unwind", "dwarf", "--"])
    .arg(&program)
    .args(["1", "/dev/null"]);
    let text = command::text(&mut ours).unwrap();
    assert!(
        text.contains("        ... more than were asked for\n"),
        "{text}"
    );
}

#[test]
#[ignore = "loads eBPF"]
fn probes_samples_and_blocked_threads_have_functions_too() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), &[]);
    // Where a function begins it has no frame yet.
    let mut ours = tool();
    ours.args([
        "run", "--events", "exec", "--output", "-", "--format", "json", "--probe",
    ])
    .arg(format!("{}:point", program.display()))
    .args(["--stack", "user", "--unwind", "dwarf", "--"])
    .arg(&program)
    .args(["20", "/dev/null"]);
    let lines = command::text(&mut ours).unwrap();
    let probed: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|event: &Value| event["stack"].is_array())
        .collect();
    assert_eq!(probed.len(), 20, "{lines}");
    for event in &probed {
        let own = functions(event, "point");
        assert_eq!(own.last().unwrap(), "main", "{event}");
        assert_eq!(event["stack_ends"], "beginning", "{event}");
    }

    let script = "import time\nwhile time.process_time() < 0.4: pass\n\
                  time.sleep(0.3)\n";
    let flames = |kind: &str, how: &[&str]| {
        let folded = folder.path().join("folded");
        let mut ours = tool();
        ours.args([
            "stat",
            "--flame",
            kind,
            "--force",
            "--ring-size",
            "16M",
            "--output",
        ])
        .arg(&folded)
        .args(how)
        .args(["--", "/usr/bin/python3", "-c", script]);
        command::text(&mut ours).unwrap();
        fs::read_to_string(folded).unwrap()
    };
    let time_in = |text: &str, functions: &[&str]| -> u64 {
        let paths = text.lines().map(|line| line.rsplit_once(' ').unwrap());
        let with_all = paths.filter(|(path, _)| {
            let mut frames = path.split(';');
            functions
                .iter()
                .all(|function| frames.any(|frame| frame == *function))
        });
        with_all.map(|(_, ns)| ns.parse::<u64>().unwrap()).sum()
    };
    let main = ["Py_BytesMain", "Py_RunMain", "_PyEval_EvalFrameDefault"];
    let sampled = flames("on-cpu", &["--unwind", "dwarf"]);
    assert!(time_in(&sampled, &main) > 250_000_000, "{sampled}");
    let asleep = flames("off-cpu", &["--unwind", "dwarf"]);
    let of_sleep = [&main[..], &["clock_nanosleep"]].concat();
    assert!(time_in(&asleep, &of_sleep) > 290_000_000, "{asleep}");
    // By frame pointers none of that is found.
    assert_eq!(time_in(&flames("off-cpu", &[]), &of_sleep), 0);
}

#[test]
#[ignore = "loads eBPF"]
fn faults_signals_wakers_and_tracepoints_have_functions_too() {
    if missing_right().is_some() {
        return;
    }
    const COUNT: usize = 50;
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), &["-DMANY"]);
    let [notes, log] = ["notes", "log"].map(|name| folder.path().join(name));
    let mut ours = tool();
    ours.args(["run", "--events", "fault-user,signal-generate,wakeup"])
        .args(["--tracepoint", "signal:signal_generate"])
        .args(["--stack", "user", "--unwind", "dwarf", "--stack-for"])
        .arg("fault-user,signal-generate,wakeup,tracepoint")
        .args(["--ring-size", "64M", "--log"])
        .arg(&log)
        .arg("--")
        .arg(&program)
        .arg(COUNT.to_string())
        .arg(&notes);
    command::text(&mut ours).unwrap();
    let lines = command::text(tool().args(["read", "--format", "json"]).arg(&log)).unwrap();
    let said = noted_chains(&notes).unwrap();
    assert_eq!(said.len(), COUNT);
    let of_points = |event_type: &str| -> Vec<Vec<String>> {
        let all = events(&lines, event_type);
        let with_stacks = all.iter().filter(|event| event["stack"].is_array());
        // The first call of a function in a library is a fault as well.
        let is_in_library = |event: &Value| {
            event_type == "linux_trace_fault_user" && event["stack"][0]["symbol"] != "point"
        };
        let own = with_stacks
            .filter(|event| !is_in_library(event))
            .map(|event| functions(event, "point"));
        own.filter(|own| !own.is_empty()).collect()
    };
    for event_type in [
        "linux_trace_fault_user",
        "linux_trace_signal_generate",
        "tracepoint:signal:signal_generate",
    ] {
        assert_eq!(of_points(event_type), said, "{event_type}");
    }
    // A thread that is late does not wait, and is not woken.
    let wakers = of_points("linux_trace_wakeup");
    assert!(wakers.len() * 10 >= COUNT * 9, "{}", wakers.len());
    let unknown = wakers.iter().find(|own| !said.contains(own));
    assert_eq!(unknown, None);
}

/// Programs that make a system call in functions whose names are mangled: templates and generic
/// functions, methods, closures.
const OF_CPP: &str = "
#include <string>
#include <unistd.h>
#include <vector>
namespace N {
template <class T> struct B { long go(T of) { return getppid() + of; } };
struct Each {
    long operator()(const std::vector<std::string> &of) const { return B<long>().go(of.size()); }
};
}
long f(int of) { return N::Each()(std::vector<std::string>(of)) + 1; }
long f(const char *of) { return N::B<unsigned char>().go(of[0]) + f(2); }
int main() {
    auto asks = [](const char *of) { return f(of) + 1; };
    return asks(\"a\") < 0;
}
";
const OF_RUST: &str = "
extern \"C\" { fn getppid() -> i32; }
mod shop {
    pub struct Basket<T>(pub T);
    pub trait Add { fn add(&self) -> i32; }
    impl<T> Add for Basket<T> { fn add(&self) -> i32 { asks(&self.0) + 1 } }
    fn asks<T>(_of: &T) -> i32 { unsafe { super::getppid() + 1 } }
}
use shop::Add as _;
fn main() {
    let each = |of: &i64| assert!(shop::Basket((*of, \"a\")).add() >= 0);
    [1, 2].iter().for_each(each);
}
";

/// Returns the functions of a program by their addresses, as `nm` names them.
fn symbols(program: &Path) -> Vec<(u64, String)> {
    let mut nm = Command::new("nm");
    let all = command::text(nm.args(["-n", "--defined-only"]).arg(program)).unwrap();
    let functions = all.lines().filter_map(|line| {
        let mut words = line.splitn(3, ' ');
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let is_function = words.next().is_some_and(|kind| "tTwWi".contains(kind));
        is_function.then_some((address, words.next()?.to_owned()))
    });
    functions.collect()
}

/// Returns a name of Rust without what the compiler numbers crates by: `::h0123456789abcdef` at its
/// end or, of the newer kind, `[0123456789abcdef]` behind each crate.
fn without_crates_numbers(name: &str) -> String {
    let is_number =
        |word: &str| word.len() > 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = match name.rsplit_once("::h") {
        Some((name, last)) if is_number(last) => name,
        _ => name,
    };
    let mut parts = name.split('[');
    let mut without = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(']') {
            Some((number, rest)) if is_number(number) => without.push_str(rest),
            _ => without.extend(["[", part]),
        }
    }
    without
}

#[test]
#[ignore = "loads eBPF"]
fn functions_of_cpp_and_rust_have_the_names_that_binutils_show() {
    if missing_right().is_some() {
        return;
    }
    const LEGACY: &[&str] = &["-Csymbol-mangling-version=legacy", "-Zunstable-options"];
    let folder = tempfile::tempdir().unwrap();
    let rust = |more: &'static [&'static str]| [&["-Crelocation-model=static"], more].concat();
    let programs = [
        (
            "a.cc",
            OF_CPP,
            "g++",
            vec!["-no-pie"],
            "N::B<long>::go(long)",
        ),
        ("b.rs", OF_RUST, "rustc", rust(LEGACY), "shop::asks"),
        (
            "c.rs",
            OF_RUST,
            "rustc",
            rust(&["-Csymbol-mangling-version=v0"]),
            "c::shop::asks::<(i64, &str)>",
        ),
    ];
    for (name, source, compiler, options, asks) in programs {
        let (file, program) = (folder.path().join(name), folder.path().join("program"));
        fs::write(&file, source).unwrap();
        let mut compile = Command::new(compiler);
        compile.args(options).arg("-o").arg(&program).arg(&file);
        command::text(compile.env("RUSTC_BOOTSTRAP", "1")).unwrap();
        let shown = folder.path().join("shown");
        let mut ours = tool();
        ours.args(["run", "--syscalls", "getppid", "--stack", "user"])
            .args(["--unwind", "dwarf", "--events", "exec", "--format", "json"]);
        ours.arg("-o").arg(&shown).arg("--").arg(&program);
        command::text(&mut ours).unwrap();
        let lines = fs::read_to_string(&shown).unwrap();
        let calls = events(&lines, "linux_trace_syscall_enter");
        assert_eq!(calls.len(), 2, "{name}: {lines}");
        let symbols = symbols(&program);
        let mut names = Vec::new();
        for call in &calls {
            let frames = call["stack"].as_array().unwrap().iter();
            let own = frames.filter(|frame| frame["module"] == program.to_str().unwrap());
            names.extend(own.map(|frame| {
                // It is called right before.
                let address = frame["ip"].as_u64().unwrap() - 1;
                let behind = symbols.partition_point(|(start, _)| *start <= address);
                let (_, mangled) = &symbols[behind - 1];
                let theirs = command::text(Command::new("c++filt").arg(mangled)).unwrap();
                let ours = frame["symbol"].as_str().unwrap().to_owned();
                (ours, without_crates_numbers(theirs.trim()))
            }));
        }
        for (ours, theirs) in &names {
            assert_eq!(ours, theirs, "{name}");
        }
        assert!(
            names.iter().any(|(ours, _)| ours.ends_with(asks)),
            "{names:?}"
        );
        assert!(names.len() > 8, "{names:?}");
    }
}
