//! Detail without root, through the service: stacks, descriptors, longer texts, and what is
//! withheld; beside what programs say of themselves and what root's trace has.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::attacker::{ATTACKER, VICTIM, as_user, command_as, open_to_all};
use tests::comes_and_goes::{NAMED, Play};
use tests::dist::{self, Linkage};
use tests::event::Event;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::Tracer;
use tests::works_for::{changes, compare, lines_of};
use tests::{call_lines, works_for};

use crate::without_root::{Scene, is_told, lost, wait_for_begin, words};

/// Points of the program at which stacks are compared.
const POINTS: usize = 100;

/// Types that are always recorded and those that are chosen, each of the process alone.
const ALL: &str = "fork,thread_create,thread_exit,exec,exit,rename,switch,signal";

/// The lines of a trace in JSON.
fn lines(shown: &Path) -> Vec<Value> {
    let shown = fs::read_to_string(shown).unwrap();
    let lines = shown.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
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

/// The functions in which the program says that it was, at each point.
fn said(notes: &Path) -> Vec<Vec<String>> {
    let notes = fs::read_to_string(notes).unwrap();
    let chains = notes.lines();
    chains
        .map(|chain| chain.split_whitespace().map(str::to_owned).collect())
        .collect()
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn stacks_without_root_are_where_the_program_says_that_it_is() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/stacks.c");
    let program = scene.stage.path().join("stacks");
    let (notes, shown) = (scene.made("notes"), scene.made("shown"));
    for (flags, options) in [
        (
            &["-DWITHOUT_FRAME_POINTERS"][..],
            &["--unwind", "dwarf"][..],
        ),
        (&["-DWITH_FRAME_POINTERS"], &[]),
    ] {
        dist::compile_file("cc", &source, &program, flags, Linkage::Shared).unwrap();
        open_to_all(scene.stage.path()).unwrap();
        let mut tool = scene.tool();
        tool.args(["run", "--format", "json", "--events", "exec"]);
        tool.args(["--syscalls", "getppid", "--stack", "user,kernel"]);
        tool.args(options).arg("-o").arg(&shown).arg("--");
        tool.arg(&program).arg(POINTS.to_string()).arg(&notes);
        let output = tool.output().unwrap();
        assert!(
            output.status.success(),
            "{:?}: {}",
            lines(&shown).last(),
            words(&output)
        );
        let calls = lines(&shown);
        let calls = calls.iter();
        let calls: Vec<_> = calls
            .filter(|event| event["type"] == "linux_trace_syscall_enter")
            .collect();
        let said = said(&notes);
        assert_eq!((calls.len(), said.len()), (POINTS, POINTS), "{options:?}");
        for (call, said) in calls.iter().zip(&said) {
            assert_eq!(functions(call, "point"), *said, "{options:?}: {call}");
        }
        // What no user may read in /proc/kallsyms is not in stacks either.
        let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
        if paranoid.trim().parse::<i32>().unwrap() > 1 {
            assert!(words(&output).contains("functions of programs alone"));
            let addresses = calls
                .iter()
                .flat_map(|call| call["stack"].as_array().unwrap());
            let mut addresses = addresses.map(|frame| frame["ip"].as_u64().unwrap());
            assert!(addresses.all(|address| address < 1 << 63));
        }
    }
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn code_that_comes_and_goes_has_its_names_without_root() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let play = Play::compile(&scene.made("")).unwrap();
    open_to_all(scene.stage.path()).unwrap();
    let shown = scene.made("shown");
    for (options, pause_us) in [(&[][..], 0), (&[], 3000), (&["--unwind", "dwarf"], 0)] {
        for (libraries, is_copied) in [("with", false), ("without", false), ("with", true)] {
            let mut tool = scene.tool();
            tool.args(["run", "--format", "json", "--syscalls", "getppid"]);
            tool.args(["--stack", "user"]).args(options);
            tool.arg("-o").arg(&shown);
            play.add_to(&mut tool, pause_us, libraries, is_copied);
            let output = tool.output().unwrap();
            assert!(output.status.success(), "{}", words(&output));
            let lines = fs::read_to_string(&shown).unwrap();
            let named = play.compare(&lines).unwrap();
            // A file that others replace at once may be gone before it is read.
            assert!(
                is_copied || named == NAMED,
                "{options:?} {pause_us}: {named}"
            );
        }
    }
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn the_stack_of_another_who_sends_a_signal_is_not_given() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let mut target = scene.target();
    let pid = target.pid();
    let events = ["--events", "signal,thread-state"];
    let options = [&events[..], &["--stack", "user", "--stack-for", "signal"]].concat();
    let mut roots = Tracer::attach(pid, &options).unwrap();
    let mut tool = scene.tool();
    tool.args(["attach", "--format", "json"]).args(&options);
    tool.arg("-p").arg(pid.to_string());
    let mut users = Tracer::start_command(&mut tool).unwrap();
    wait_for_begin(&mut roots, pid);
    wait_for_begin(&mut users, pid);
    for _ in 0..5 {
        tests::processes::signal(pid, libc::SIGUSR1).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    target.go().unwrap();
    target.wait_until_done().unwrap();
    target.end().unwrap();
    let own = std::process::id();
    let senders = |trace: &tests::tracer::Trace| {
        let mut stacks: BTreeMap<bool, (usize, usize)> = BTreeMap::new();
        for event in trace.events().unwrap() {
            let event: Value = serde_json::from_str(&event.line).unwrap();
            let is_sent = event["type"] == "linux_trace_signal_generate" && event["pid"] == pid;
            if is_sent && event["data"]["signal"] == libc::SIGUSR1 {
                let sender = event["data"]["sender_pid"].as_u64();
                let is_own = sender == Some(pid.unsigned_abs().into());
                let is_anothers = sender == Some(0) || sender == Some(own.into());
                assert!(is_own || is_anothers, "{event}");
                let count = stacks.entry(is_own).or_default();
                count.0 += 1;
                let frames = event["stack"].as_array().map_or(0, Vec::len);
                count.1 += usize::from(frames > 0);
            }
        }
        stacks
    };
    let (roots, users) = (roots.finish().unwrap(), users.finish().unwrap());
    let (all, seen) = (senders(&roots), senders(&users));
    // Root sees where the sender was, which is this test; the user sees where the own process was.
    assert_eq!((all[&false], seen[&false].1), ((5, 5), 0), "{seen:?}");
    assert_eq!(seen[&true], all[&true]);
    assert!(seen[&true].1 > 0, "{seen:?}");
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn what_is_given_and_what_is_withheld_are_together_what_root_sees() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    dist::compile("guarded", scene.stage.path()).unwrap();
    open_to_all(scene.stage.path()).unwrap();
    let steps = [
        "wait",
        "work:before",
        "dumpable:0",
        "work:hidden",
        "dumpable:1",
        "work:after",
    ];
    let (roots, users, said) = loop {
        let mut program = as_user(VICTIM, scene.stage.path(), "guarded");
        let (mut target, _) = Target::start(program.args(steps)).unwrap();
        let pid = target.pid();
        let events = format!("{ALL},thread-state");
        let mut roots = Tracer::attach(pid, &["--events", &events]).unwrap();
        let mut tool = scene.tool();
        tool.args(["attach", "--format", "json", "--events", &events, "-p"]);
        let mut users = Tracer::start_command(tool.arg(pid.to_string())).unwrap();
        wait_for_begin(&mut roots, pid);
        wait_for_begin(&mut users, pid);
        target.go().unwrap();
        let said = target.wait_until_done().unwrap();
        target.end().unwrap();
        let (roots, users) = (roots.finish().unwrap(), users.finish().unwrap());
        if is_told(&roots) && is_told(&users) {
            break (roots, users, said);
        }
    };
    // From the first fork to the end of the process: a trace need not have what its last thread
    // does after that.
    let of_both = |trace: &tests::tracer::Trace| {
        let events = trace.events().unwrap();
        let first = events.iter().find(|event| event.is_system("fork")).unwrap();
        let mut ends = events.iter().rev().filter(|event| event.is_system("exit"));
        let (from, to) = (first.ns, ends.next().unwrap().ns);
        // Where some are missing the stream says so by events of its own.
        let of_kernel = |event: &Event| event.line.contains(r#""type":"linux_trace_"#);
        let events = events.into_iter().filter(of_kernel);
        events
            .filter(|event| (from..=to).contains(&event.ns))
            .collect::<Vec<_>>()
    };
    let (of_users, of_roots) = (of_both(&users), of_both(&roots));
    // Types of events in the times in which all is given: until `before` is done, and from `after`
    // on. And the last events.
    let shown = |events: &[Event]| {
        let time = |name: &str, nth: usize| values_after(&said, name).unwrap()[0][nth];
        let (until, from) = (time("before", 2), time("after", 1));
        let mut types: [BTreeMap<String, usize>; 2] = Default::default();
        for event in events
            .iter()
            .filter(|event| event.ns < until || event.ns >= from)
        {
            let line: Value = serde_json::from_str(&event.line).unwrap();
            let types = &mut types[usize::from(event.ns >= from)];
            *types.entry(line["type"].to_string()).or_default() += 1;
        }
        let last = events.iter().rev().take(4).map(|event| &event.line);
        format!("{types:?} {:?}", last.collect::<Vec<_>>())
    };
    let withheld = users.summary().unwrap().lost["withheld"];
    assert_eq!(lost(&users), withheld, "{}", users.stderr);
    assert_eq!((lost(&roots), users.status.code()), (0, Some(1)));
    assert!(withheld > 100, "{}", users.stderr);
    assert_eq!(
        of_users.len() as u64 + withheld,
        of_roots.len() as u64,
        "{}, {}, {}",
        users.stderr,
        shown(&of_users),
        shown(&of_roots)
    );
    // What the trace says of it at its end, and what its log has.
    let log = scene.made("log");
    let mut tool = scene.tool();
    tool.args(["run", "--events", ALL, "--log"])
        .arg(&log)
        .arg("--");
    tool.arg(scene.stage.path().join("guarded"));
    let output = tool
        .args(["dumpable:0", "work:hidden", "end"])
        .output()
        .unwrap();
    assert!(
        words(&output).contains("against withheld: "),
        "{}",
        words(&output)
    );
    let mut info = Command::new(dist::tracer_user().unwrap());
    let info = info.arg("info").arg(&log).output().unwrap();
    let info = String::from_utf8(info.stdout).unwrap();
    assert!(info.contains("withheld"), "{info}");
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn a_waker_of_the_same_user_is_followed_without_root_and_anothers_is_not() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let pipe = scene.made("pipe");
    let made = Command::new("mkfifo")
        .args(["-m", "666"])
        .arg(&pipe)
        .status();
    assert!(made.unwrap().success());
    let shell = |user: u32, script: &str| {
        let mut shell = command_as(user, "sh");
        shell.args(["-c", script, "sh"]).arg(&pipe);
        Target::start(&mut shell).unwrap().0
    };
    // It holds both ends, so that it waits for ever.
    let reader = shell(
        VICTIM,
        "exec 3<>\"$1\"; echo ready; while read -r line <&3; do :; done",
    );
    let write = "exec 3>\"$1\"; echo ready; while sleep 0.02; do echo line >&3; done";
    let (own, others) = (shell(VICTIM, write), shell(ATTACKER, write));
    let mut tool = scene.tool();
    tool.args([
        "attach",
        "--format",
        "json",
        "--follow-wakers",
        "--no-inherit",
    ]);
    tool.args(["--events", "switch,wakeup", "-p"]);
    let mut trace = Tracer::start_command(tool.arg(reader.pid().to_string())).unwrap();
    trace.wait_for(|event| event.pid == own.pid()).unwrap();
    let is_anothers = |event: &Event| {
        event.is_system("wakeup")
            && event.pid == reader.pid()
            && event.line.contains("another process")
    };
    trace.wait_for(is_anothers).unwrap();
    let trace = trace.stop().unwrap();
    let events = trace.events().unwrap();
    let shown = [reader.pid(), own.pid()];
    // Nothing of the other user's, and nothing of this user's that has woken none of these.
    let named: std::collections::BTreeSet<_> = events
        .iter()
        .filter_map(|event| event.integer("waker_pid"))
        .collect();
    for event in events.iter().filter(|event| !shown.contains(&event.pid)) {
        let has_woken = event.pid == 0 || named.contains(&i64::from(event.pid));
        assert!(has_woken && event.pid != others.pid(), "{}", event.line);
    }
    let wakers = events
        .iter()
        .filter(|event| event.is_system("wakeup") && event.pid == reader.pid());
    let wakers: std::collections::BTreeSet<_> = wakers
        .filter_map(|event| event.integer("waker_pid"))
        .collect();
    assert!(wakers.contains(&i64::from(own.pid())), "{wakers:?}");
    assert!(!wakers.contains(&i64::from(others.pid())), "{wakers:?}");
    // The first is of the reader: the waker is followed from then on.
    let first = events
        .iter()
        .position(|event| event.pid == own.pid())
        .unwrap();
    let named = |event: &Event| event.integer("waker_pid") == Some(i64::from(own.pid()));
    assert!(events[..first].iter().any(named), "{}", trace.stderr);
}

/// Calls whose arguments are the same before and after them, and which nearly every program makes.
const CALLS: &str =
    "openat,close,read,write,newfstatat,unlinkat,lseek,getdents64,getppid,mmap,munmap";

#[test]
#[ignore = "needs root: loads eBPF"]
fn calls_as_they_end_are_those_of_strace_without_root() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let (log, theirs) = (scene.made("log"), scene.made("strace"));
    let script = "mkdir d; for i in 1 2 3 4 5 6 7 8; do echo $i > d/f$i; cat d/f$i > d/g$i; \
                  ls -l d; cat d/missing; done; rm -r d";
    let mut tool = scene.tool();
    tool.args(["run", "--events", "syscall", "--calls", "exit"]);
    tool.args(["--syscalls", CALLS, "--log"]).arg(&log);
    tool.args(["--", "strace", "-f", "-s", "64", "--trace", CALLS, "-o"]);
    tool.arg(&theirs).args(["sh", "-c", script]);
    let output = tool.env("LC_ALL", "C").output().unwrap();
    let said = words(&output);
    assert!(
        output.status.success() && said.contains(" 0 lost"),
        "{said}"
    );
    assert!(said.contains("kernel events from the agent at"), "{said}");
    let ours = call_lines::read_log(&dist::tracer_user().unwrap(), &log).unwrap();
    let theirs = call_lines::read_strace(&theirs).unwrap();
    let compared = call_lines::compare(&theirs, &ours, call_lines::normal);
    assert!(compared.all > 1000, "{}", compared.all);
    assert_eq!(compared.differ, []);
    // No event says that a call begins.
    let read = |events: &str| {
        let mut read = Command::new(dist::tracer_user().unwrap());
        let read = read.args(["read", "--format", "json", "--events", events]);
        let lines = String::from_utf8(read.arg(&log).output().unwrap().stdout).unwrap();
        lines.matches("linux_trace_syscall_").count()
    };
    assert_eq!(read("syscall-enter"), 0);
    assert!(read("syscall-exit") >= compared.all);
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn what_threads_work_for_is_what_the_program_says_without_root() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let own = works_for::compile(scene.stage.path(), "own", &["-DOWN", "-rdynamic"]).unwrap();
    open_to_all(scene.stage.path()).unwrap();
    let log = scene.made("log");
    let mut tool = scene.tool();
    tool.args(["run", "--trace-context", "--syscalls", "kcmp", "--no-user"]);
    tool.arg("--log").arg(&log).arg("--").arg(&own).arg("400");
    let output = tool.output().unwrap();
    // What it does while it is not dumpable is withheld, and counted.
    let said = words(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(" withheld"), "{said}");
    let read = |events: &[&str]| {
        let mut read = Command::new(dist::tracer_user().unwrap());
        let read = read.args(["read", "--format", "json"]).args(events);
        read.arg(&log).output().unwrap().stdout
    };
    let events = lines_of(&read(&[])).unwrap();
    let [with, without] = compare(&events, &changes(&output.stdout).unwrap(), true).unwrap();
    assert!(with > 4000 && without > 1000, "{with} {without}");
    // For what it works while it is not dumpable is not given, with what forks and ends there: no
    // event follows that would have it, so that they are looked at themselves.
    let shown = scene.made("shown");
    let mut tool = scene.tool();
    tool.args(["run", "--events", "thread-context,fork", "--no-user"]);
    tool.args(["--format", "json", "-o"]).arg(&shown).arg("--");
    let output = tool.arg(&own).arg("40").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    let shown = fs::read_to_string(shown).unwrap();
    let contexts = shown.matches("linux_trace_thread_context").count();
    let hidden = String::from_utf8_lossy(&output.stdout).contains(" 5ec2e7 ");
    assert!(hidden && contexts >= 4, "{shown}");
    assert!(!shown.contains("5ec2e7"), "{shown}");
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn windows_in_which_calls_are_recorded_without_root_have_all_of_them() {
    /// Calls of each of two kinds, in turn.
    const COPIED: usize = 600_000;
    /// Bytes of each.
    const BLOCK: u64 = 65_536;
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let log = scene.made("log");
    // On a busy machine the service may not have its turn in time: then calls are lost, and said
    // to be, in some windows; and there may be fewer windows.
    let is_whole = (0..5).any(|round| {
        let copied = if round == 0 { COPIED } else { 4 * COPIED };
        let mut tool = scene.tool();
        tool.args(["run", "--no-user", "--events", "filter", "--call-cost", "4"]);
        tool.args(["--syscalls", "read,write", "--stream-size", "64M"]);
        tool.args(["--force", "--log"]).arg(&log);
        tool.args(["--", "dd", "if=/dev/zero", "of=/dev/null"]);
        tool.args([format!("bs={BLOCK}"), format!("count={copied}")]);
        let output = tool.output().unwrap();
        let mut read = Command::new(dist::tracer_user().unwrap());
        let read = read.args(["read", "--format", "json"]).arg(&log);
        let events = lines_of(&read.output().unwrap().stdout).unwrap();
        let is = |event: &Value, name: &str| event["type"] == name;
        let windows: Vec<_> = events
            .split(|event| is(event, "posix_trace_filter"))
            .collect();
        // Beside what is copied it reads libraries, and says how much it was.
        let calls = |events: &[Value]| -> Vec<String> {
            let copies = events.iter().filter(|event| {
                is(event, "linux_trace_syscall_enter") && event["data"]["args"][2] == BLOCK
            });
            copies
                .map(|event| event["data"]["name"].to_string())
                .collect()
        };
        let all = calls(&events).len();
        eprintln!("{all} in {} windows: {}", windows.len(), words(&output));
        // It is a part of them, in some windows.
        assert!((1000..copied).contains(&all), "{all}");
        let is_lost = |event: &Value| is(event, "posix_trace_overflow");
        let whole = windows.iter().filter(|all| !all.iter().any(is_lost));
        let whole: Vec<_> = whole.map(|all| calls(all)).collect();
        for calls in &whole {
            let differ = calls.windows(2).all(|both| both[0] != both[1]);
            assert!(differ, "a call is missing among {}", calls.len());
        }
        windows.len() >= 3 && whole.iter().any(|calls| calls.len() > 500)
    });
    assert!(is_whole);
}
