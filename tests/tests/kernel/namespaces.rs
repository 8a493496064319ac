//! Traces inside of pid namespaces, as in a container: against what the programs there say of
//! themselves.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use tests::cgroup::Cgroup;
use tests::dist;
use tests::event::Event;
use tests::namespace::{OwnIds, beyond, contradictions, is_mark_of_loss, shell};
use tests::processes::signal;
use tests::rights::missing_right;
use tests::tracer::{Trace, Tracer};

const EVENTS: &str = "user,fork,thread_create,exec,exit,thread_exit,switch,signal,wakeup";

/// A trace in which the program does its work once `is_begun` says that it is traced.
fn trace_of(program: &OwnIds, command: &mut Command, is_begun: impl Fn(&Event) -> bool) -> Trace {
    let mut tracer = Tracer::start_command(command).unwrap();
    tracer.wait_for(is_begun).unwrap();
    program.go().unwrap();
    tracer.finish().unwrap()
}

/// Checks that the trace of `program` is complete, and agrees with what the program says of itself.
fn is_true(trace: &Trace, program: &OwnIds) {
    assert_eq!(trace.status.code(), Some(0), "{}", trace.stderr);
    assert_eq!(trace.summary().unwrap().all_lost(), 0, "{}", trace.stderr);
    let said = program.ids().unwrap();
    assert_eq!(said.len(), 4, "{said:?}");
    let events = trace.events().unwrap();
    let wrong = contradictions(&events, &said);
    assert!(
        wrong.is_empty(),
        "{wrong:#?}\nsaid: {said:?}\n{}",
        trace.stderr
    );
}

/// The last pid that a namespace had given when all was done.
fn last_pid(folder: &Path) -> i32 {
    let last = fs::read_to_string(folder.join("last")).unwrap();
    last.trim().parse().unwrap()
}

#[test]
#[ignore = "loads eBPF"]
fn attach_takes_and_shows_pids_of_its_own_namespace() {
    if missing_right().is_some() {
        return;
    }
    let tracer = dist::tracer_user().unwrap();
    for depth in 1..=3 {
        let folder = tempfile::tempdir().unwrap();
        let program = OwnIds::compile(folder.path()).unwrap();
        let script = format!(
            "\"$0\" \"$1\" & \"$2\" attach --format json --events {EVENTS} $!; status=$?; \
             sh -c 'echo $$' >\"$3\"; exit $status"
        );
        let last = folder.path().join("last");
        let arguments =
            [&program.program, &program.said, &tracer, &last].map(|path| path.as_path());
        let mut command = shell(depth, &script, &arguments);
        let trace = trace_of(&program, &mut command, |event| event.is_system("switch_in"));

        is_true(&trace, &program);
        let strange = beyond(&trace.events().unwrap(), last_pid(folder.path()));
        assert!(strange.is_empty(), "no pid of the namespace: {strange:#?}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_command_that_is_run_in_a_namespace_is_shown_by_its_pids_there() {
    if missing_right().is_some() {
        return;
    }
    let tracer = dist::tracer_user().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = OwnIds::compile(folder.path()).unwrap();
    let script = format!("\"$2\" run -o - --format json --events {EVENTS} -- \"$0\" \"$1\"");
    let arguments = [&program.program, &program.said, &tracer].map(|path| path.as_path());
    let mut command = shell(2, &script, &arguments);
    let trace = trace_of(&program, &mut command, |event| event.is_user("waiting"));

    is_true(&trace, &program);
}

#[test]
#[ignore = "loads eBPF"]
fn a_name_and_everything_are_those_of_the_namespace() {
    if missing_right().is_some() {
        return;
    }
    let tracer = dist::tracer_user().unwrap();
    for choice in ["--comm own_ids", "--all"] {
        let folder = tempfile::tempdir().unwrap();
        let program = OwnIds::compile(folder.path()).unwrap();
        // One of the same name is outside.
        let mut outside = Command::new(&program.program)
            .arg(folder.path().join("outside"))
            .spawn()
            .unwrap();
        // It begins after the tracer, which ends with it.
        let script = format!(
            "\"$2\" attach --format json --events {EVENTS} {choice} & tracer=$!; \
             while ! [ -s \"$3\" ]; do sleep 0.02; done; \
             \"$0\" \"$1\"; sleep 0.2; kill -INT $tracer; wait $tracer; status=$?; \
             sh -c 'echo $$' >\"$4\"; exit $status"
        );
        let [errors, last] = ["errors", "last"].map(|name| folder.path().join(name));
        let arguments = [&program.program, &program.said, &tracer, &errors, &last];
        let arguments = arguments.map(|path| path.as_path());
        let script = script.replacen(choice, &format!("{choice} 2>\"$3\""), 1);
        let mut command = shell(1, &script, &arguments);
        let trace = trace_of(&program, &mut command, |event| event.is_user("waiting"));
        outside.kill().unwrap();
        outside.wait().unwrap();

        let said = program.ids().unwrap();
        let events = trace.events().unwrap();
        let of_program = |event: &Event| said.values().any(|ids| ids.0 == event.pid);
        let (own, others): (Vec<_>, Vec<_>) = events.into_iter().partition(of_program);
        let wrong = contradictions(&own, &said);
        assert!(wrong.is_empty(), "{choice}: {wrong:#?}");
        if choice.starts_with("--comm") {
            assert!(others.is_empty(), "{others:#?}");
        } else {
            let last = last_pid(folder.path());
            let is_of_namespace = |event: &Event| (1..=last).contains(&event.pid);
            let strange = others.iter().find(|event| !is_of_namespace(event));
            assert!(strange.is_none(), "{strange:#?}");
        }
    }
}

#[test]
#[ignore = "loads eBPF"]
fn what_is_started_from_outside_in_the_namespace_is_part_of_everything() {
    if missing_right().is_some() {
        return;
    }
    let tracer = dist::tracer_user().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    let script = "readlink /proc/self/ns/pid >\"$1\"; \
                  exec \"$0\" attach --format json --events exec,exit --all";
    let mut command = shell(1, script, &[&tracer, &inner]);
    let mut trace = Tracer::start_command(&mut command).unwrap();
    let children = format!("/proc/{0}/task/{0}/children", trace.pid());
    let first = tests::wait_until("the namespace", Duration::from_secs(30), || {
        let pid = fs::read_to_string(&children)?.trim().parse::<u32>().ok();
        let is_written = fs::read_to_string(&inner).is_ok_and(|said| said.starts_with("pid:"));
        Ok(pid.filter(|_| is_written))
    })
    .unwrap();
    // As `docker exec` does it, until one has come after the beginning.
    let said = tests::wait_until("one that came in", Duration::from_secs(60), || {
        let mut enter = Command::new("nsenter");
        enter.args(["--pid", "--mount", "-t", &first.to_string()]);
        let output = enter.args(["sh", "-c", "echo $$; exit 3"]).output()?;
        let said: i32 = String::from_utf8(output.stdout)?.trim().parse()?;
        let is_it = |event: &Event| event.is_system("exit") && event.pid == said;
        Ok(trace_has(&mut trace, is_it).then_some(said))
    })
    .unwrap();
    // The tracer is the first process of its namespace.
    signal(first.cast_signed(), libc::SIGINT).unwrap();
    let trace = trace.finish().unwrap();
    let events = trace.events().unwrap();
    let of_it: Vec<_> = events.iter().filter(|event| event.pid == said).collect();
    assert!(of_it.iter().any(|e| e.is_system("exec")), "{of_it:#?}");
    assert!(
        of_it.iter().any(|e| e.integer("status") == Some(3)),
        "{of_it:#?}"
    );
}

/// Tells whether the trace has such an event now or soon.
fn trace_has(trace: &mut Tracer, is_it: impl Fn(&Event) -> bool) -> bool {
    for _ in 0..20 {
        let so_far = trace.so_far().unwrap();
        if so_far.iter().any(&is_it) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
#[ignore = "loads eBPF"]
fn of_a_control_group_only_what_has_a_pid_in_the_namespace_is_shown() {
    if missing_right().is_some() {
        return;
    }
    let tracer = dist::tracer_user().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let group = Cgroup::new().unwrap();
    let join = group.path().join("cgroup.procs");
    let work = "while :; do /bin/true; sleep 0.02; done";
    let mut outside = Command::new("sh")
        .args(["-c", &format!("echo $$ >\"$0\"; {work}")])
        .arg(&join)
        .spawn()
        .unwrap();
    let script = format!(
        "sh -c 'echo $$ >\"$0\"; echo $$ >\"$1\"; {work}' \"$2\" \"$3\" & \
         sleep 0.2; \"$0\" attach --format json --events fork,exit --duration 1s --cgroup \"$1\""
    );
    let said = folder.path().join("said");
    let arguments = [tracer.as_path(), group.path(), &join, &said];
    let trace = Tracer::start_command(&mut shell(1, &script, &arguments))
        .and_then(Tracer::finish)
        .unwrap();
    outside.kill().unwrap();
    outside.wait().unwrap();

    assert_eq!(trace.status.code(), Some(0), "{}", trace.stderr);
    let said: i32 = fs::read_to_string(said).unwrap().trim().parse().unwrap();
    let events = trace.events().unwrap();
    let forking: Vec<i32> = events
        .iter()
        .filter(|event| event.is_system("fork"))
        .map(|event| event.pid)
        .collect();
    assert!(forking.len() > 3, "{}", trace.stderr);
    assert!(
        forking.iter().all(|pid| *pid == said),
        "{said}: {forking:?}"
    );
    assert!(events.iter().all(|event| event.pid != 0));
}

/// Returns the pid, in the test's namespace, of the process that calls itself `inside` in a
/// namespace below, and runs `program`.
fn pid_of(program: &Path) -> i32 {
    tests::wait_until("the program", Duration::from_secs(30), || {
        let mut found = None;
        for entry in fs::read_dir("/proc")? {
            let path = entry?.path();
            let runs = fs::read_link(path.join("exe")).is_ok_and(|exe| exe == program);
            let name = path.file_name().and_then(|name| name.to_str());
            if let Some(pid) = name.and_then(|name| name.parse().ok()).filter(|_| runs) {
                found = Some(pid);
            }
        }
        Ok(found)
    })
    .unwrap()
}

/// The pid and tid of an event's thread in its own pid namespace.
fn inside(event: &Event) -> (i32, i32) {
    let line: serde_json::Value = serde_json::from_str(&event.line).unwrap();
    let id = |name: &str| {
        let id = line.get(name).and_then(serde_json::Value::as_i64);
        id.map_or(0, |id| i32::try_from(id).unwrap())
    };
    (id("ns_pid"), id("ns_tid"))
}

#[test]
#[ignore = "loads eBPF"]
fn user_events_of_a_namespace_below_carry_the_pids_of_the_kernels_events() {
    if missing_right().is_some() {
        return;
    }
    for (depth, options) in [(1, &[][..]), (2, &[]), (1, &["--no-system"])] {
        let folder = tempfile::tempdir().unwrap();
        let program = OwnIds::compile(folder.path()).unwrap();
        let arguments = [program.program.as_path(), &program.said];
        let mut shell = shell(depth, "\"$0\" \"$1\" & wait", &arguments)
            .spawn()
            .unwrap();
        let main = pid_of(&program.program);
        let events = if options.is_empty() { EVENTS } else { "user" };
        let options: Vec<&str> = ["--events", events]
            .iter()
            .chain(options)
            .copied()
            .collect();
        let mut tracer = Tracer::attach(main, &options).unwrap();
        tracer.wait_for(|event| event.is_user("waiting")).unwrap();
        program.go().unwrap();
        let trace = tracer.finish().unwrap();
        shell.wait().unwrap();

        assert_eq!(trace.status.code(), Some(0), "{}", trace.stderr);
        let said = program.ids().unwrap();
        let events = trace.events().unwrap();
        let mut ours = BTreeMap::new();
        for (word, ids) in &said {
            let is_it = |e: &&Event| e.is_user("here") && e.text() == Some(word);
            let event = events.iter().find(is_it).unwrap();
            if options.contains(&"--no-system") && event.pid == 0 {
                // A process that ended before the tracer could look is unknown, and reported as
                // such.
                assert_ne!(word, "main");
            } else {
                assert_ne!((event.pid, event.tid), *ids, "{word}: {}", event.line);
            }
            assert_eq!(inside(event), *ids, "{word}: {}", event.line);
            ours.insert(word.clone(), (event.pid, event.tid));
        }
        assert_eq!(ours["main"], (main, main));
        // The tracer has lost nothing, as its status says: where something is missing the kernel
        // did not report it.
        let unreported = trace.summary().unwrap().lost["kernel_not_told"];
        assert!(
            unreported > 0 || !events.iter().any(is_mark_of_loss),
            "{}",
            trace.stderr
        );
        if !options.contains(&"--no-system") {
            let wrong = contradictions(&events, &ours);
            assert!(
                wrong.is_empty(),
                "{wrong:#?}\nsaid: {said:?}, ours: {ours:?}"
            );
        }
    }
}

fn output(command: &mut Command) -> (Output, String) {
    let output = command.output().unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output, said)
}

#[test]
#[ignore = "needs root"]
fn a_proc_of_another_namespace_is_refused() {
    if missing_right().is_some() {
        return;
    }
    let tracer = dist::tracer_user().unwrap();
    for words in [
        &["attach", "1"][..],
        &["attach", "--no-system", "1"],
        &["run", "true"],
    ] {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork"]).arg(&tracer).args(words);
        let (output, said) = output(&mut command);
        assert!(!output.status.success(), "{said}");
        assert!(
            said.contains("/proc is not there, or is that of another pid namespace"),
            "{said}"
        );
        assert!(said.contains("mount -t proc"), "{said}");
    }
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork"]).arg(&tracer).arg("doctor");
    let (output, said) = output(&mut command);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("mount -t proc"), "{said}");
}

#[test]
#[ignore = "needs root"]
fn a_command_that_would_start_in_another_namespace_is_refused() {
    if missing_right().is_some() {
        return;
    }
    for words in [["run", "true"], ["attach", "--all"]] {
        let mut command = Command::new("unshare");
        command.arg("--pid").arg(dist::tracer_user().unwrap());
        let (output, said) = output(command.args(words));
        assert!(!output.status.success(), "{said}");
        assert!(said.contains("unshare --pid --fork"), "{said}");
    }
}

#[test]
#[ignore = "needs root"]
fn what_a_container_lacks_is_said_in_a_line() {
    if missing_right().is_some() {
        return;
    }
    // The distribution may lie where other users may not look, such as in a home.
    let folder = tempfile::tempdir().unwrap();
    let everyones = dist::copy_for_everyone(folder.path()).unwrap();
    let tracer = everyones.join("bin/tracer-user");
    let in_user_namespace = [
        "unshare",
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--mount-proc",
    ];
    let without_rights = [
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
        "setpriv",
        "--bounding-set=-sys_admin,-bpf",
        "--inh-caps=-sys_admin,-bpf",
    ];
    for (words, lack) in [
        (&in_user_namespace[..], "user namespace"),
        (&without_rights[..], "CAP_BPF is missing"),
    ] {
        for subcommand in [&["doctor"][..], &["attach", "--all"], &["run", "true"]] {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).arg(&tracer).args(subcommand);
            let (output, said) = output(&mut command);
            assert!(!output.status.success(), "{said}");
            assert!(said.contains(lack), "{said}");
            assert!(said.contains("--cap-add BPF"), "{said}");
            if subcommand[0] != "doctor" {
                assert_eq!(said.lines().count(), 1, "{said}");
            } else {
                assert!(said.contains("--pid=host"), "{said}");
            }
        }
    }
}
