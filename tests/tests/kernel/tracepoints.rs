//! Tracepoints of the kernel by name, beside what bpftrace sees at the same.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tests::bpftrace::Counted;
use tests::event::Event;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::Tracer;
use tests::{dist, mount};

const ROUNDS: i64 = 40;

/// Attaches and waits until the program's switches are seen: then its tracepoints are attached too.
fn attach(pid: i32, tracepoints: &str) -> anyhow::Result<Tracer> {
    let options = ["--events", "switch", "--tracepoint", tracepoints];
    let mut tracer = Tracer::attach(pid, &options)?;
    tracer.wait_for(|event| event.is_system("switch_in"))?;
    Ok(tracer)
}

/// The events of a tracepoint.
fn select<'a>(events: &'a [Event], tracepoint: &str) -> Vec<&'a Event> {
    let name = format!("tracepoint:{tracepoint}");
    events.iter().filter(|event| event.is_user(&name)).collect()
}

fn sum(events: &[&Event], field: &str) -> i64 {
    let values = events.iter().map(|event| event.integer(field));
    values.map(|value| value.expect("an integer")).sum()
}

fn start(program: &Path) -> anyhow::Result<Target> {
    let (target, _) = Target::start(Command::new(program).arg(ROUNDS.to_string()))?;
    Ok(target)
}

#[test]
#[ignore = "loads eBPF"]
fn bpftrace_sees_the_same_fields_as_often() {
    if missing_right().is_some() {
        return;
    }
    let _tracefs = mount::tracefs().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("reached", folder.path()).unwrap();
    // Of the signals those that it sends itself: as it ends, it is not traced any more. Of the
    // program alone: its children are not among the processes that it counts.
    let script = "tracepoint:signal:signal_generate /args->sig == 23/ { \
             @generated[pid] = count(); @sig[pid] = sum(args->sig); @to[pid] = sum(args->pid); } \
         tracepoint:sched:sched_process_fork { \
             @forks[pid] = count(); @children[pid] = sum(args->child_pid); } \
         tracepoint:syscalls:sys_enter_prctl { \
             @renames[pid] = count(); @options[pid] = sum(args->option); } \
         tracepoint:sock:inet_sock_set_state { \
             @states[pid] = count(); @new[pid] = sum(args->newstate); \
             @ports[pid] = sum(args->dport); @last[pid] = sum(args->daddr[3]); }";
    let mut counted = Counted::start(&program, &ROUNDS.to_string(), script).unwrap();
    let pid = counted.pid();
    let tracepoints = "signal:signal_generate,sched_process_fork,sys_enter_prctl,sock:inet_sock_*";
    let tracer = attach(pid, tracepoints).unwrap();
    counted.target().go().unwrap();
    counted.target().wait_until_done().unwrap();
    let trace = tracer.stop().unwrap();
    let counts = counted.end().unwrap();

    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let mut events = trace.events().unwrap();
    let is_other = |event: &Event| event.integer("sig").is_some_and(|signal| signal != 23);
    events.retain(|event| event.pid == pid && !is_other(event));
    let same = |tracepoint: &str, count: &str, sums: &[(&str, &str)]| {
        let counted = |name: &str| counts.get(&format!("{name}[{pid}]")).copied();
        let seen = select(&events, tracepoint);
        assert_eq!(i64::try_from(seen.len()).ok(), counted(count), "{counts:?}");
        for (field, name) in sums {
            assert_eq!(
                Some(sum(&seen, field)),
                counted(name),
                "{tracepoint} {field}"
            );
        }
        seen
    };
    let sums = [("sig", "sig"), ("pid", "to")];
    let generated = same("signal:signal_generate", "generated", &sums);
    assert!(i64::try_from(generated.len()).unwrap() >= ROUNDS);
    let sums = [("child_pid", "children")];
    let forks = same("sched:sched_process_fork", "forks", &sums);
    assert_eq!(i64::try_from(forks.len()).unwrap(), ROUNDS);
    same(
        "syscalls:sys_enter_prctl",
        "renames",
        &[("option", "options")],
    );
    let sums = [("newstate", "new"), ("dport", "ports")];
    let states = same("sock:inet_sock_set_state", "states", &sums);
    let last = |event: &&Event| event.data["daddr"][3].as_i64().unwrap();
    let last: i64 = states.iter().map(last).sum();
    assert_eq!(Some(last), counts.get(&format!("last[{pid}]")).copied());
}

#[test]
#[ignore = "loads eBPF"]
fn fields_are_what_the_program_has_done() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("reached", folder.path()).unwrap();
    let mut target = start(&program).unwrap();
    let pid = target.pid();
    let tracepoints = "task:task_rename,sched_process_exec,inet_sock_set_state";
    let tracer = attach(pid, tracepoints).unwrap();
    target.go().unwrap();
    let said = target.wait_until_done().unwrap();
    let trace = tracer.stop().unwrap();
    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let events = trace.events().unwrap();

    // Text of a fixed size, and with what is escaped in JSON.
    let names = select(&events, "task:task_rename").into_iter();
    let names = names.filter(|event| event.pid == pid);
    let names: Vec<_> = names.filter_map(|event| event.word("newcomm")).collect();
    let expected: Vec<_> = (0..ROUNDS)
        .map(|round| format!("round \"{round}\""))
        .collect();
    assert_eq!(names, expected);
    // Text behind the fields, in the children, which are traced too.
    let execs = select(&events, "sched:sched_process_exec");
    assert_eq!(i64::try_from(execs.len()).unwrap(), ROUNDS);
    for exec in &execs {
        assert_eq!(exec.word("filename"), Some("/bin/true"), "{}", exec.line);
        assert_eq!(exec.integer("pid"), Some(i64::from(exec.pid)));
        assert_ne!(exec.pid, pid);
    }
    let pids: BTreeSet<_> = execs.iter().map(|exec| exec.pid).collect();
    assert_eq!(pids.len(), execs.len());
    // Arrays, and integers of 16 bits.
    let ports = values_after(&said, "ports").unwrap();
    let [port, listening] = ports[0][..] else {
        panic!("{said:?}");
    };
    let states = select(&events, "sock:inet_sock_set_state").into_iter();
    let connected = states.filter(|event| event.data["sport"] == json!(port));
    let connected: Vec<_> = connected.collect();
    assert!(!connected.is_empty());
    for event in connected {
        assert_eq!(event.data["dport"], json!(listening), "{}", event.line);
        assert_eq!(event.data["daddr"], json!([127, 0, 0, 1]), "{}", event.line);
        assert_eq!(event.data["family"], json!(libc::AF_INET), "{}", event.line);
    }
    target.end().unwrap();
}

#[test]
#[ignore = "loads eBPF"]
fn a_log_is_read_without_the_kernels_formats() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let tracer_user = dist::tracer_user().unwrap();
    let ran = Command::new(&tracer_user)
        .args([
            "run",
            "--events",
            "probe",
            "--tracepoint",
            "sched_process_exec",
            "--log",
        ])
        .arg(&log)
        .args(["--", "/bin/sh", "-c", "/bin/true; :"])
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let read = |options: &[&str]| {
        let mut command = Command::new(&tracer_user);
        // Nothing of the machine that it was recorded on.
        let output = command
            .arg("read")
            .args(options)
            .arg(&log)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = read(&[]);
    let line = text.lines().find(|line| line.contains("/bin/true"));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(
        line.contains("tracepoint:sched:sched_process_exec"),
        "{line}"
    );
    assert!(line.contains("filename=\"/bin/true\" pid="), "{line}");
    let json = read(&["--format", "json"]);
    assert!(
        json.contains("\"filename\":\"/bin/true\",\"pid\":"),
        "{json}"
    );
    let csv = read(&["--format", "csv"]);
    assert!(csv.contains("/bin/true"), "{csv}");
}

#[test]
#[ignore = "loads eBPF"]
fn what_there_is_not_is_refused_with_what_may_be_meant() {
    if missing_right().is_some() {
        return;
    }
    let tracer_user = dist::tracer_user().unwrap();
    let refused = |tracepoint: &str| {
        let options = ["run", "--tracepoint", tracepoint, "--", "/bin/true"];
        let output = Command::new(&tracer_user).args(options).output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused("sched:sched_swich").contains("is sched:sched_switch meant?"));
    assert!(refused("a:b:c").contains("\"a:b:c\" is no tracepoint"));
    assert!(refused("*").contains("more than 512"));
}

#[test]
#[ignore = "loads eBPF"]
fn the_list_has_names_and_fields_as_the_kernel_writes_them() {
    if missing_right().is_some() {
        return;
    }
    let tracer_user = dist::tracer_user().unwrap();
    let options = ["events", "--tracepoints", "sched:*", "--format", "json"];
    let output = Command::new(&tracer_user).args(options).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let listed = String::from_utf8(output.stdout).unwrap();
    let listed: Vec<serde_json::Value> = listed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let _tracefs = mount::tracefs().unwrap();
    let tracefs = Path::new("/sys/kernel/tracing/events/sched");
    let known = std::fs::read_dir(tracefs).unwrap();
    let known = known
        .filter(|entry| entry.as_ref().unwrap().path().is_dir())
        .count();
    assert_eq!(listed.len(), known);
    for tracepoint in &listed {
        let name = tracepoint["name"].as_str().unwrap();
        let format = std::fs::read_to_string(tracefs.join(name).join("format")).unwrap();
        let fields = tracepoint["fields"].as_array().unwrap();
        // Four are of all tracepoints.
        assert_eq!(
            format.matches("\tfield:").count(),
            fields.len() + 4,
            "{name}"
        );
        for field in fields {
            let size = format!("offset:{};\tsize:{};", field["offset"], field["size"]);
            let name = field["name"].as_str().unwrap();
            let line = format.lines().find(|line| line.contains(&size)).unwrap();
            assert!(line.contains(name), "{line} {name}");
        }
    }
}
