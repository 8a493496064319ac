//! Tracing without root, through the service, beside root's trace of the same processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tests::attacker::{ATTACKER, VICTIM, as_user, command_as, give, open_to_all, stage};
use tests::dist;
use tests::event::Event;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::{Trace, Tracer};

/// Types of which each event is one that both observers see.
const TYPES: &str = "fork,exec,exit,switch,signal";

/// Rounds of the program.
const ROUNDS: usize = 30;

/// The service, on a socket of its own. Killed when dropped.
pub struct Service {
    child: Option<Child>,
    socket: PathBuf,
}

impl Service {
    fn start(stage: &Path) -> Self {
        let mut service = Self {
            child: None,
            socket: stage.join("service.sock"),
        };
        service.begin();
        service
    }

    /// Begins it, again where it was killed.
    pub fn begin(&mut self) {
        // As its unit has it.
        let mut serve = Command::new("nice");
        serve.args(["-n", "-10"]).arg(dist::tracer_user().unwrap());
        serve.arg("serve").arg("--socket").arg(&self.socket);
        serve.env_remove("NOTIFY_SOCKET");
        self.child = Some(serve.stdin(Stdio::null()).spawn().unwrap());
        tests::wait_until("the service", Duration::from_secs(30), || {
            Ok(UnixStream::connect(&self.socket).ok())
        })
        .unwrap();
    }

    /// Kills it.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Surroundings of a test: a folder with all that other users run, and the service.
pub struct Scene {
    /// The folder.
    pub stage: tempfile::TempDir,
    /// The service.
    pub service: Service,
}

impl Scene {
    /// Makes it.
    pub fn new() -> Self {
        let stage = stage(&["offspring"]).unwrap();
        open_to_all(stage.path()).unwrap();
        let service = Service::start(stage.path());
        fs::create_dir(stage.path().join("made")).unwrap();
        give(&stage.path().join("made"), VICTIM).unwrap();
        Self { stage, service }
    }

    /// A program of the victim that has not begun.
    pub fn target(&self) -> Target {
        let mut program = as_user(VICTIM, self.stage.path(), "offspring");
        Target::start(program.arg(ROUNDS.to_string())).unwrap().0
    }

    /// `tracer-user` as that user, who has no capability.
    pub fn tool(&self) -> Command {
        let mut tool = command_as(VICTIM, self.stage.path().join("dist/bin/tracer-user"));
        tool.env("LINUX_TRACE_AGENT", &self.service.socket);
        tool.current_dir(self.stage.path().join("made"));
        tool.stdin(Stdio::null());
        tool
    }

    fn attach(&self, pid: i32) -> Tracer {
        let mut tool = self.tool();
        let events = format!("{TYPES},thread-state");
        tool.args(["attach", "--format", "json", "--events", &events, "-p"]);
        Tracer::start_command(tool.arg(pid.to_string())).unwrap()
    }

    /// A file that the victim makes.
    pub fn made(&self, name: &str) -> PathBuf {
        self.stage.path().join("made").join(name)
    }
}

/// Waits until the trace has said what the process does as it begins.
pub fn wait_for_begin(tracer: &mut Tracer, pid: i32) {
    let begins = |event: &Event| event.is_system("thread_state") && event.pid == pid;
    tracer.wait_for(begins).unwrap();
}

type Counts = BTreeMap<(i32, String), u64>;

/// Counts the events by process and type, from the first fork on: before it an observer may have
/// begun later.
fn counts(trace: &Trace) -> Counts {
    let events = trace.events().unwrap();
    let first = events.iter().find(|event| event.is_system("fork")).unwrap();
    let mut counts = Counts::new();
    for event in events.iter().filter(|event| event.ns >= first.ns) {
        let key = (event.pid, event.event_type.clone());
        *counts.entry(key).or_default() += 1;
    }
    counts
}

/// The number of lost events.
pub fn lost(trace: &Trace) -> u64 {
    trace.summary().unwrap().lost.values().sum()
}

/// The words of a command to people.
pub fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A program of the user, as root's trace and the user's own see it.
fn beside_root(scene: &Scene) -> (i32, Vec<String>, Trace, Trace) {
    let mut target = scene.target();
    let pid = target.pid();
    let events = format!("{TYPES},thread-state");
    let mut roots = Tracer::attach(pid, &["--events", &events]).unwrap();
    let mut users = scene.attach(pid);
    wait_for_begin(&mut roots, pid);
    wait_for_begin(&mut users, pid);
    target.go().unwrap();
    let said = target.wait_until_done().unwrap();
    target.end().unwrap();
    let (roots, users) = (roots.finish().unwrap(), users.finish().unwrap());
    (pid, said, roots, users)
}

/// Tells whether the kernel has reported every switch.
pub fn is_told(trace: &Trace) -> bool {
    trace.summary().unwrap().lost["kernel_not_told"] == 0
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn a_user_without_capabilities_sees_of_own_processes_what_root_sees() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    // The kernel may run a program of one observer and not that of the other at a switch, which it
    // says: then there is nothing to compare.
    let (pid, said, roots, users) = loop {
        let seen = beside_root(&scene);
        if is_told(&seen.2) && is_told(&seen.3) {
            break seen;
        }
    };
    assert_eq!((lost(&roots), lost(&users)), (0, 0), "{}", users.stderr);
    assert!(users.status.success(), "{}", users.stderr);
    let line = format!(
        "kernel events from the agent at {}",
        scene.service.socket.display()
    );
    assert!(users.stderr.contains(&line), "{}", users.stderr);
    assert!(
        !roots.stderr.contains("kernel events from"),
        "{}",
        roots.stderr
    );
    let (seen, all) = (counts(&users), counts(&roots));
    assert_eq!(seen, all);
    // What the program says of itself.
    let children = values_after(&said, "process").unwrap();
    assert_eq!(children.len(), ROUNDS);
    for child in children {
        let child = i32::try_from(child[0]).unwrap();
        for name in ["exec", "exit"] {
            assert_eq!(seen.get(&(child, name.to_owned())), Some(&1), "{child}");
        }
    }
    let handled = values_after(&said, "signals").unwrap()[0][0];
    let delivered = seen[&(pid, "signal_deliver".to_owned())];
    assert_eq!(handled, ROUNDS as u64);
    assert_eq!(delivered, handled, "{seen:?}");
    assert_eq!(seen[&(pid, "fork".to_owned())], ROUNDS as u64);
    // A thread has a name as soon as it is known.
    let events = users.events().unwrap();
    assert!(
        events
            .iter()
            .all(|event| !event.line.contains(r#""comm":"""#))
    );
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn a_log_and_an_export_without_root_have_what_roots_have() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let mut target = scene.target();
    let pid = target.pid().to_string();
    let (log, page) = (scene.made("log"), scene.made("page.html"));
    let mut users = scene.tool();
    let users = users.args(["attach", "--no-inherit", "-p", &pid, "--log"]);
    let users = users.arg(&log).args(["--to", "chrome", "-o"]);
    let mut users = users.arg(scene.made("chrome")).spawn().unwrap();
    let mut reports = scene.tool();
    let reports = reports.args(["attach", "-p", &pid, "--report"]);
    let mut reports = reports.arg(&page).spawn().unwrap();
    let mut ready = scene.attach(target.pid());
    wait_for_begin(&mut ready, target.pid());
    let roots_log = scene.stage.path().join("roots");
    let mut roots = Command::new(dist::tracer_user().unwrap());
    let roots = roots.args(["attach", "--no-inherit", "-p", &pid, "--log"]);
    let mut roots = roots.arg(&roots_log).spawn().unwrap();
    let read = |log: &Path, events: &str| {
        let mut read = Command::new(dist::tracer_user().unwrap());
        let read = read.args(["read", "--format", "json", "--events", events]);
        String::from_utf8(read.arg(log).output().unwrap().stdout).unwrap()
    };
    for log in [&log, &roots_log] {
        let has_begun = || Ok(read(log, "thread-state").contains(&pid).then_some(()));
        tests::wait_until("events in the log", Duration::from_secs(60), has_begun).unwrap();
    }
    target.go().unwrap();
    target.wait_until_done().unwrap();
    target.end().unwrap();
    for child in [&mut users, &mut reports, &mut roots] {
        assert!(child.wait().unwrap().success());
    }
    ready.finish().unwrap();

    let counted = |log: &Path| {
        let mut counts = BTreeMap::<String, u64>::new();
        let mut has_begun = false;
        for line in read(log, "fork,exec,exit,signal").lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            let Some(name) = value["type"].as_str() else {
                continue;
            };
            has_begun |= name == "linux_trace_fork";
            if has_begun {
                *counts.entry(name.to_owned()).or_default() += 1;
            }
        }
        counts
    };
    let (seen, all) = (counted(&log), counted(&roots_log));
    assert_eq!(seen, all);
    assert_eq!(seen["linux_trace_fork"], ROUNDS as u64);
    let export = fs::read_to_string(scene.made("chrome")).unwrap();
    let export: Value = serde_json::from_str(&export).unwrap();
    let of_type = |name: &str| {
        let events = export["traceEvents"].as_array().unwrap().iter();
        events.filter(|event| event["name"] == name).count()
    };
    assert_eq!(of_type("fork"), ROUNDS);
    assert!(
        fs::read_to_string(page)
            .unwrap()
            .contains("<title>process ")
    );
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn every_question_is_answered_without_root() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    for question in [
        &["stat", "--format", "json"][..],
        &["why", "--whole", "--format", "json"],
        &["top", "--once", "--format", "json"],
    ] {
        // It wakes up every 10 ms.
        let target = scene.target();
        let pid = target.pid();
        let mut tool = scene.tool();
        tool.args(question).args(["--duration", "1s", "-p"]);
        let output = tool.arg(pid.to_string()).output().unwrap();
        let said = words(&output);
        assert!(output.status.success(), "{question:?}: {said}");
        assert!(said.contains("kernel events from the agent at"), "{said}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let answer = answer.to_string();
        assert!(answer.contains(&format!("\"pid\":{pid}")), "{answer}");
        assert!(answer.contains("offspring"), "{answer}");
    }
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn a_command_is_traced_from_its_first_instruction_without_root() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let shown = scene.made("shown");
    let mut tool = scene.tool();
    tool.args([
        "run",
        "--format",
        "json",
        "--events",
        "fork,exec,exit",
        "-o",
    ]);
    tool.arg(&shown);
    tool.args(["--", "sh", "-c", "/bin/true; /bin/false; exit 4"]);
    let output = tool.output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", words(&output));
    let mut execs = Vec::new();
    let mut types = Vec::new();
    for line in fs::read_to_string(shown).unwrap().lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let Some(name) = value["type"].as_str() else {
            let lost = value["summary"]["lost"].as_object().unwrap();
            assert!(lost.values().all(|count| count == 0), "{line}");
            continue;
        };
        types.push(name.to_owned());
        if name == "linux_trace_exec" {
            execs.push(value["comm"].as_str().unwrap().to_owned());
        }
    }
    // Nothing of the process before it was the command.
    assert_eq!(types[0], "linux_trace_exec");
    assert_eq!(execs, ["sh", "true", "false"]);
    let of_type = |wanted: &str| types.iter().filter(|name| *name == wanted).count();
    assert_eq!(of_type("linux_trace_fork"), 2);
    assert_eq!(of_type("linux_trace_exit"), 3);
}

/// Name of a system call, and what is told of its arguments and its result but addresses.
type Told = (String, BTreeSet<String>);

/// System calls of a command, and what the tracer says beside them. A text that was not in memory
/// as the call began is told at its end.
fn calls(mut tool: Command, shown: &Path, options: &[&str]) -> (Vec<Told>, String) {
    tool.args(["run", "--no-user", "--events", "syscall", "-o"]);
    tool.arg(shown).args(["--format", "json"]).args(options);
    tool.args(["--", "cat", "/etc/passwd"]);
    // Of this test, and not of that user.
    tool.env_remove("LD_LIBRARY_PATH").stdin(Stdio::null());
    let output = tool.output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
    let mut calls: Vec<Told> = Vec::new();
    let shown = fs::read_to_string(shown).unwrap();
    for line in shown.lines().filter(|line| line.contains("\"type\"")) {
        let value: Value = serde_json::from_str(line).unwrap();
        let data = &value["data"];
        let told = ["arguments", "filled", "descriptors"];
        let told = told.iter().map(|part| &data[part]);
        let told = told.filter_map(Value::as_object).flatten();
        let told = told.map(|(name, value)| format!("{name}={value}"));
        let told = told.filter(|told| !told.contains("0x") && !told.contains("pipe:["));
        if data["result"].is_null() || calls.is_empty() {
            calls.push((data["name"].to_string(), told.collect()));
        } else if let Some((_, call)) = calls.last_mut() {
            call.extend(told);
        }
    }
    (calls, words(&output))
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn system_calls_are_chosen_and_have_their_arguments_without_root() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let as_root = || {
        let mut root = Command::new(dist::tracer_user().unwrap());
        root.current_dir(scene.stage.path().join("made"));
        root
    };
    for choice in [
        &["--syscalls", "openat,read,close"][..],
        &["--syscalls", "%file"],
        &["--syscalls", "all", "--failed"],
        &["--syscalls", "openat,read", "--string-size", "0"],
        &["--syscalls", "read,write,openat", "--string-size", "900"],
        &["--syscalls", "%file,read", "-y"],
        &[
            "--syscalls",
            "%file,read",
            "--descriptors=paths",
            "--string-size",
            "20",
        ],
    ] {
        let (own, said) = calls(scene.tool(), &scene.made("own"), choice);
        let (roots, said_to_root) = calls(as_root(), &scene.made("roots"), choice);
        assert_eq!(own, roots, "{choice:?}: {said} {said_to_root}");
        let of_file = |(_, told): &&(_, BTreeSet<_>)| told.contains("filename=\"/etc/passwd\"");
        let is_told = choice[1] != "all" && !choice.contains(&"0");
        assert_eq!(own.iter().filter(of_file).count(), usize::from(is_told));
        assert!(own.len() > 1, "{choice:?}: {own:?}");
    }
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn a_process_that_begins_later_is_found_without_root_and_anothers_is_not() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let mut tool = scene.tool();
    let events = format!("{TYPES},thread-state");
    tool.args(["attach", "--format", "json", "--events", &events]);
    let mut tracer = Tracer::start_command(tool.args(["--comm", "offspring"])).unwrap();
    let mut others = as_user(ATTACKER, scene.stage.path(), "offspring");
    let (others, _) = Target::start(others.arg("1")).unwrap();
    for _ in 0..2 {
        let mut target = scene.target();
        let pid = target.pid();
        wait_for_begin(&mut tracer, pid);
        target.go().unwrap();
        let said = target.wait_until_done().unwrap();
        target.end().unwrap();
        let children = values_after(&said, "process").unwrap();
        let last = i32::try_from(children.last().unwrap()[0]).unwrap();
        let is_its_end = |event: &Event| event.is_system("exit") && event.pid == last;
        tracer.wait_for(is_its_end).unwrap();
        let of_children = |event: &&Event| {
            let is_child = |child: &Vec<u64>| child[0] == u64::from(event.pid.unsigned_abs());
            event.is_system("exec") && children.iter().any(is_child)
        };
        let seen = tracer.so_far().unwrap();
        assert_eq!(seen.iter().filter(of_children).count(), ROUNDS);
    }
    let trace = tracer.stop().unwrap();
    assert!(trace.stderr.contains("once a second"), "{}", trace.stderr);
    assert_eq!(lost(&trace), 0);
    let events = trace.events().unwrap();
    assert!(events.iter().all(|event| event.pid != others.pid()));
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn what_is_not_given_without_root_is_refused_and_says_why() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let own = scene.target();
    let pid = own.pid().to_string();
    let mut others = as_user(ATTACKER, scene.stage.path(), "offspring");
    let (others, _) = Target::start(others.arg("1")).unwrap();
    let others = others.pid().to_string();
    let refused: [(&[&str], &[&str]); 4] = [
        (
            &["attach", "-p", &others],
            &["of another user (61001)", "root"],
        ),
        (&["stat", "-p", "1"], &["of another user (0)", "root"]),
        (
            &[
                "attach",
                "-p",
                &pid,
                "--stack",
                "user",
                "--stack-for",
                "user",
            ],
            &["--stack-for user", "needs root"],
        ),
        (
            &["attach", "-p", &pid, "--probe", "libc.so.6:malloc"],
            &["--probe", "needs root"],
        ),
    ];
    for (arguments, expected) in refused {
        let output = scene.tool().args(arguments).output().unwrap();
        let said = words(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        for word in expected {
            assert!(said.contains(word), "{arguments:?}: {said}");
        }
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    // Without the service: what is missing, and both ways to have it.
    let mut tool = scene.tool();
    tool.env("LINUX_TRACE_AGENT", scene.made("nothing"));
    if !Path::new("/run/tracer-user.sock").exists() {
        let output = tool.args(["attach", "-p", &pid]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = words(&output);
        assert!(
            said.contains("CAP_BPF and CAP_PERFMON are missing"),
            "{said}"
        );
        assert!(
            said.contains("run as root") && said.contains("tracer-user.socket"),
            "{said}"
        );
    }
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn a_trace_survives_the_service() {
    if missing_right().is_some() {
        return;
    }
    let mut scene = Scene::new();
    let mut target = scene.target();
    let pid = target.pid();
    let mut tracer = scene.attach(pid);
    wait_for_begin(&mut tracer, pid);
    scene.service.kill();
    // Its children of this time are seen by no observer.
    target.go().unwrap();
    let said = target.wait_until_done().unwrap();
    let unseen = values_after(&said, "process").unwrap();
    scene.service.begin();
    // It blocks and goes on once a signal comes: the first events after the return.
    let signalled = tests::wait_until("events again", Duration::from_secs(60), || {
        tests::processes::signal(pid, libc::SIGUSR1)?;
        let events = tracer.so_far()?;
        Ok(events
            .into_iter()
            .find(|event| event.is_system("signal_deliver")))
    });
    assert_eq!(signalled.unwrap().pid, pid);
    target.end().unwrap();
    let trace = tracer.finish().unwrap();
    assert_eq!(trace.status.code(), Some(1), "{}", trace.stderr);
    assert!(lost(&trace) >= 1, "{}", trace.stderr);
    let events = trace.events().unwrap();
    for child in unseen {
        let child = i32::try_from(child[0]).unwrap();
        assert!(events.iter().all(|event| event.pid != child));
    }
    // The end is seen again.
    assert!(
        events
            .iter()
            .any(|event| event.is_system("exit") && event.pid == pid)
    );
    let marks = events
        .iter()
        .filter(|event| event.event_type.to_lowercase().contains("overflow"));
    assert!(marks.count() >= 1, "{}", trace.stderr);
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn a_slow_program_is_explained_without_root() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/slow");
    let (into, shared) = (scene.stage.path(), dist::Linkage::Shared);
    let program = dist::compile_from(&sources, "row_lock", into, &["-g"], shared).unwrap();
    open_to_all(scene.stage.path()).unwrap();
    give(&scene.stage.path().join("made"), VICTIM).unwrap();
    let mut explain = scene.tool();
    explain.args(["explain", "--format", "json", "--"]);
    let said = explain.arg(&program).output().unwrap();
    let said = words(&said);
    // Where the events are from is told before it.
    let begin = said.find("\n{").map_or(0, |before| before + 1);
    let mut values = serde_json::Deserializer::from_str(&said[begin..]).into_iter::<Value>();
    let explained = values.next().unwrap().unwrap();
    let findings = explained["findings"].as_array();
    let mut findings = findings.unwrap_or_else(|| panic!("{said}")).iter();
    let first = findings.find(|found| found["rule"] != "cpu");
    let first = first.unwrap_or_else(|| panic!("{said}"));
    assert_eq!(first["rule"], "lock", "{said}");
    assert!(
        first["by"].as_str().unwrap().starts_with("holder"),
        "{said}"
    );
    assert!(
        first["where"].as_str().unwrap().contains("set_lock"),
        "{said}"
    );
}
