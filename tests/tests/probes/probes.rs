//! Probes of programs that have nothing of the library.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::bpftrace::Counted;
use tests::dist;
use tests::event::Event;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::{Trace, Tracer};

const ROUNDS: i64 = 1000;

fn start(program: &Path, rounds: i64) -> anyhow::Result<(Target, Vec<String>)> {
    Target::start(Command::new(program).arg(rounds.to_string()))
}

/// Attaches and waits until the program's switches are seen: then its probes are attached too.
fn attach(pid: i32, probes: &[&str]) -> anyhow::Result<Tracer> {
    let options = [&["--events", "switch"], probes].concat();
    let mut tracer = Tracer::attach(pid, &options)?;
    tracer.wait_for(|event| event.is_system("switch_in"))?;
    Ok(tracer)
}

/// The events of a type in one process, in order.
fn select<'a>(events: &'a [Event], event_type: &str, pid: i32) -> Vec<&'a Event> {
    let events = events.iter();
    let of_type = events.filter(|event| event.is_user(event_type) && event.pid == pid);
    of_type.collect()
}

fn sum(events: &[&Event], argument: &str) -> i64 {
    let values = events.iter().map(|event| event.integer(argument));
    values.map(|value| value.expect("an integer")).sum()
}

fn at(program: &Path, function: &str) -> String {
    format!("{}:{function}", program.display())
}

#[test]
#[ignore = "loads eBPF"]
fn bpftrace_counts_the_same_probes_as_often() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("probed", folder.path()).unwrap();
    let path = program.display();
    let script = format!(
        "usdt:{path}:probed:plain {{ @plain[pid] = count(); }} \
         usdt:{path}:probed:arguments {{ \
             @arguments[pid] = count(); @round[pid] = sum(arg0); @last[pid] = sum(arg3); }} \
         uprobe:{path}:work {{ @work[pid] = count(); @first[pid] = sum(arg0); }} \
         uretprobe:{path}:work {{ @returned[pid] = sum(retval); }}"
    );
    let mut counted = Counted::start(&program, &ROUNDS.to_string(), &script).unwrap();
    let pid = counted.pid();
    let (work, result) = (at(&program, "work"), "probed:work");
    let probes = [
        "--usdt",
        "probed:plain",
        "--usdt",
        "probed:arguments",
        "--probe",
        &work,
        "--retprobe",
        result,
    ];
    let tracer = attach(pid, &probes).unwrap();
    counted.target().go().unwrap();
    counted.target().wait_until_done().unwrap();
    let trace = tracer.stop().unwrap();
    let counts = counted.end().unwrap();

    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let events = trace.events().unwrap();
    let counted = |name: &str| counts.get(&format!("{name}[{pid}]")).copied();
    let seen = |event_type| select(&events, event_type, pid);
    let count = |event_type| i64::try_from(seen(event_type).len()).ok();
    assert_eq!(count("usdt:probed:plain"), counted("plain"));
    assert_eq!(count("usdt:probed:arguments"), counted("arguments"));
    assert_eq!(count("probe:work"), counted("work"));
    let arguments = seen("usdt:probed:arguments");
    assert_eq!(Some(sum(&arguments, "arg0")), counted("round"));
    assert_eq!(Some(sum(&arguments, "arg3")), counted("last"));
    assert_eq!(Some(sum(&seen("probe:work"), "arg0")), counted("first"));
    let results = seen("retprobe:work");
    assert_eq!(Some(sum(&results, "ret")), counted("returned"));
    assert_eq!(counted("plain"), Some(ROUNDS));
}

#[test]
#[ignore = "loads eBPF"]
fn arguments_are_those_of_the_program_and_of_its_child() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("probed", folder.path()).unwrap();
    let (mut target, _) = start(&program, ROUNDS).unwrap();
    let pid = target.pid();
    let probes = [
        "--events",
        "fork",
        "--usdt",
        "probed:arguments",
        "--usdt",
        "probed:memory",
        "--probe",
        "probed:work",
    ];
    let tracer = attach(pid, &probes).unwrap();
    target.go().unwrap();
    target.wait_until_done().unwrap();
    let trace = tracer.stop().unwrap();

    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let events = trace.events().unwrap();
    assert!(events.iter().map(|event| event.ns).is_sorted());
    let fork = events.iter().find(|event| event.is_system("fork"));
    let child = fork
        .and_then(|fork| fork.integer("child_pid"))
        .expect("a child");
    for process in [pid, i32::try_from(child).unwrap()] {
        let arguments = select(&events, "usdt:probed:arguments", process);
        let memory = select(&events, "usdt:probed:memory", process);
        let calls = select(&events, "probe:work", process);
        assert_eq!(arguments.len(), usize::try_from(ROUNDS).unwrap());
        assert_eq!(
            (memory.len(), calls.len()),
            (arguments.len(), arguments.len())
        );
        for (round, ((arguments, memory), call)) in
            (0..).zip(arguments.into_iter().zip(memory).zip(calls))
        {
            let values = |event: &Event, names: &[&str]| -> Vec<Option<i64>> {
                names.iter().map(|name| event.integer(name)).collect()
            };
            assert_eq!(
                values(arguments, &["arg0", "arg1", "arg2", "arg3"]),
                [round, -round, round << 40, 7].map(Some),
                "{}",
                arguments.line
            );
            let listed = [10, 20, 30, 65535][usize::try_from(round % 4).unwrap()];
            assert_eq!(
                values(memory, &["arg0", "arg1", "arg2"]),
                [-5, -5_000_000_000, listed].map(Some),
                "{}",
                memory.line
            );
            assert_eq!(values(call, &["arg0", "arg2"]), [round, 1 << 50].map(Some));
            // One cause after the other, in one thread.
            assert!(arguments.ns < memory.ns && memory.ns < call.ns);
        }
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_child_that_is_not_followed_is_not_recorded() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("probed", folder.path()).unwrap();
    let (mut target, _) = start(&program, ROUNDS).unwrap();
    let pid = target.pid();
    let tracer = attach(pid, &["--no-inherit", "--usdt", "probed:plain"]).unwrap();
    target.go().unwrap();
    target.wait_until_done().unwrap();
    let trace = tracer.stop().unwrap();

    let events = trace.events().unwrap();
    let passed = events
        .iter()
        .filter(|event| event.is_user("usdt:probed:plain"));
    assert_eq!(passed.clone().count(), usize::try_from(ROUNDS).unwrap());
    assert!(passed.into_iter().all(|event| event.pid == pid));
}

/// Returns how often the program says that it found its semaphore set.
fn armed(said: &[String]) -> anyhow::Result<u64> {
    let counts = values_after(said, "armed")?;
    counts
        .concat()
        .pop()
        .ok_or_else(|| anyhow::anyhow!("{said:?}"))
}

#[test]
#[ignore = "loads eBPF"]
fn a_semaphore_is_set_while_the_trace_lasts_and_not_longer() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("armed", folder.path()).unwrap();
    let (mut target, said) = start(&program, ROUNDS).unwrap();
    assert_eq!(armed(&said).unwrap(), 0, "no tracer listens yet");
    let tracer = attach(target.pid(), &["--usdt", "armed:watched"]).unwrap();
    target.go().unwrap();
    let said = target.wait_until_done().unwrap();
    let trace = tracer.stop().unwrap();

    let rounds = u64::try_from(ROUNDS).unwrap();
    assert_eq!(armed(&said).unwrap(), rounds);
    let events = trace.events().unwrap();
    let passed = select(&events, "usdt:armed:watched", target.pid());
    let rounds = passed.iter().map(|event| event.integer("arg0"));
    assert!(rounds.eq((0..ROUNDS).map(Some)));
    let (_, said) = start(&program, ROUNDS).unwrap();
    assert_eq!(armed(&said).unwrap(), 0, "no tracer listens any more");
}

#[test]
#[ignore = "loads eBPF"]
fn a_commands_library_is_probed_from_its_start() {
    if missing_right().is_some() {
        return;
    }
    // A command that sets its locale once, and prints nothing.
    let probes = ["--probe", "libc:setlocale", "--retprobe", "libc:setlocale"];
    let command = ["--events", "exit,probe", "--", "/bin/cat", "/dev/null"];
    let trace = Tracer::start("run", probes.iter().chain(&command))
        .and_then(Tracer::finish)
        .unwrap();

    assert_eq!(trace.status.code(), Some(0), "{}", trace.stderr);
    let events = trace.events().unwrap();
    let types: Vec<_> = events
        .iter()
        .map(|event| event.event_type.as_str())
        .collect();
    assert_eq!(types, ["probe:setlocale", "retprobe:setlocale", "exit"]);
    // Where the library's debug file is installed, the argument has a name.
    let category = ["arg0", "category"].map(|name| events[0].integer(name));
    assert!(category.contains(&Some(i64::from(libc::LC_ALL))));
    assert_ne!(events[1].integer("ret"), Some(0), "the locale's name");
}

#[test]
#[ignore = "loads eBPF"]
fn a_program_that_only_its_mount_namespace_has_is_probed() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("probed", folder.path()).unwrap();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let script = "mount -t tmpfs tmpfs \"$1\" && cp \"$0\" \"$1/hidden\" && exec \"$1/hidden\" 100";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script])
        .args([&program, &inner]);
    let (mut target, _) = Target::start(&mut command).unwrap();
    let hidden = inner.join("hidden");
    assert!(
        !hidden.exists(),
        "it is to be seen in its own namespace only"
    );
    let work = at(&hidden, "work");
    let probes = [
        "--usdt",
        "probed:plain",
        "--probe",
        &work,
        "--retprobe",
        "hidden:work",
    ];
    let tracer = attach(target.pid(), &probes).unwrap();
    target.go().unwrap();
    target.wait_until_done().unwrap();
    let trace = tracer.stop().unwrap();

    let events = trace.events().unwrap();
    for event_type in ["usdt:probed:plain", "probe:work", "retprobe:work"] {
        assert_eq!(
            select(&events, event_type, target.pid()).len(),
            100,
            "{event_type}"
        );
    }
}

/// Returns the message of `attach` about a probe that it cannot set, which is one line.
fn refused(pid: i32, probe: [&str; 2]) -> String {
    let trace: Trace = Tracer::attach(pid, &probe)
        .and_then(Tracer::finish)
        .expect("a tracer");
    assert_eq!(trace.status.code(), Some(2), "{}", trace.stderr);
    assert_eq!(trace.stderr.lines().count(), 1, "{}", trace.stderr);
    trace.stderr
}

#[test]
#[ignore = "loads eBPF"]
fn what_cannot_be_probed_is_said_and_does_no_harm() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("probed", folder.path()).unwrap();
    let stripped = folder.path().join("stripped");
    let strip = Command::new("strip")
        .arg("-o")
        .args([&stripped, &program])
        .status();
    assert!(strip.unwrap().success());
    let (mut target, _) = start(&stripped, ROUNDS).unwrap();
    let pid = target.pid();

    let line = refused(pid, ["--probe", "stripped:work"]);
    assert!(line.contains("stripped of all symbols"), "{line}");
    let line = refused(pid, ["--usdt", "probed:nothing"]);
    assert!(line.contains("no static probe probed:nothing"), "{line}");
    let line = refused(pid, ["--usdt", "app:PLAIN"]);
    assert!(line.contains("is probed:plain meant?"), "{line}");
    let line = refused(pid, ["--probe", "nosuchlibrary:work"]);
    assert!(line.contains("libc.so.6"), "{line}");
    // Another program with symbols: a byte inside of its first instruction.
    let work = at(&program, "work+1");
    let line = refused(pid, ["--probe", &work]);
    assert!(
        line.contains("no instruction begins 1 bytes into work"),
        "{line}"
    );
    let line = refused(pid, ["--probe", "/etc/passwd:work"]);
    assert!(line.contains("/etc/passwd is no program"), "{line}");

    // Its static probes need no symbols.
    let tracer = attach(pid, &["--usdt", "probed:plain"]).unwrap();
    target.go().unwrap();
    target.wait_until_done().unwrap();
    let events = tracer.stop().unwrap().events().unwrap();
    let passed = select(&events, "usdt:probed:plain", pid);
    assert_eq!(passed.len(), usize::try_from(ROUNDS).unwrap());
    assert!(target.end().unwrap().success());
}

/// The lines of `tracer-user probes`.
fn listed(pid: i32, filter: &Path) -> Vec<Value> {
    let mut command = Command::new(dist::tracer_user().expect("an answer"));
    let output = command
        .args(["probes", "--format", "json", &pid.to_string()])
        .arg(filter)
        .output()
        .expect("an answer");
    assert!(output.status.success(), "{output:?}");
    let lines = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).expect("an answer"))
        .collect()
}

/// Returns what `readelf` or `nm` prints about the program.
fn said_of(program: &Path, command: &[&str]) -> String {
    let output = Command::new(command[0])
        .args(&command[1..])
        .arg(program)
        .output()
        .expect("an answer");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("an answer")
}

#[test]
fn the_probes_that_are_listed_are_those_that_readelf_and_nm_find() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["probed", "armed"] {
        let program: PathBuf = dist::compile(name, folder.path()).unwrap();
        let (target, _) = start(&program, 1).unwrap();
        let points = listed(target.pid(), &program);
        let of_kind = |kind: &str, member: &str| -> BTreeSet<String> {
            let of_kind = points.iter().filter(|point| point["kind"] == kind);
            of_kind
                .map(|point| point[member].as_str().unwrap().to_owned())
                .collect()
        };

        let notes = said_of(&program, &["readelf", "--notes"]);
        let after = |word: &str| -> BTreeSet<String> {
            let lines = notes.lines().map(str::trim);
            lines
                .filter_map(|line| line.strip_prefix(word))
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(of_kind("usdt", "name"), after("Name: "));
        assert_eq!(of_kind("usdt", "provider"), after("Provider: "));
        let code = said_of(&program, &["nm", "--defined-only", "--format=posix"]);
        let code = code.lines().filter_map(|line| {
            let mut words = line.split(' ');
            let name = words.next()?;
            words
                .next()
                .filter(|kind| matches!(*kind, "t" | "T"))
                .map(|_| name.to_owned())
        });
        assert_eq!(of_kind("function", "symbol"), code.collect());
    }
}

/// The program of `nested`, traced with these probes from before it begins until it has ended;
/// what it said, the trace, and how long the tracer took to end.
fn nested(
    rounds_and_depth: [&str; 2],
    probes: &[&str],
) -> anyhow::Result<(Vec<String>, Trace, Duration)> {
    let folder = tempfile::tempdir()?;
    let program = dist::compile("nested", folder.path())?;
    let (mut target, _) = Target::start(Command::new(&program).args(rounds_and_depth))?;
    let tracer = attach(target.pid(), probes)?;
    target.go()?;
    let said = target.wait_until_done()?;
    let start = Instant::now();
    let trace = tracer.stop()?;
    let took = start.elapsed();
    target.end()?;
    Ok((said, trace, took))
}

#[test]
#[ignore = "loads eBPF"]
fn returns_that_the_kernel_does_not_see_are_counted() {
    if missing_right().is_some() {
        return;
    }
    for (depth, seen) in [("64", 64), ("65", 64), ("200", 64)] {
        let (said, trace, _) = nested(["20", depth], &["--retprobe", "nested:deep"]).unwrap();

        let entered = values_after(&said, "entered").unwrap()[0][0];
        let returned = trace.events().unwrap();
        let returned = returned
            .iter()
            .filter(|event| event.is_user("retprobe:deep"));
        let returned = u64::try_from(returned.count()).unwrap();
        assert_eq!(returned, 20 * seen, "{depth}");
        let lost = &trace.summary().unwrap().lost;
        assert_eq!(lost["return_too_deep"], entered - returned, "{depth}");
        let is_lossless = entered == returned;
        assert_eq!(trace.status.code(), Some(i32::from(!is_lossless)));
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_thousand_probes_end_at_once() {
    if missing_right().is_some() {
        return;
    }
    let probes = ["--usdt", "nested:site", "--retprobe", "nested:deep"];
    let (_, trace, took) = nested(["1", "10"], &probes).unwrap();

    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let events = trace.events().unwrap();
    let passed = events
        .iter()
        .filter(|event| event.is_user("usdt:nested:site"));
    assert_eq!(passed.count(), 1000);
    println!("ended in {took:?}");
    if kernel_has_links_to_many_sites() {
        // A second on a machine that does nothing else.
        assert!(took < tests::timeout(Duration::from_secs(4)), "{took:?}");
    }
}

/// The kernel's own return probe ends such a program at its first exception.
#[test]
#[ignore = "loads eBPF"]
fn spans_of_a_function_leave_exceptions_jumps_and_other_stacks_alone() {
    const ROUNDS: u64 = 100_000;
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("unwinding", folder.path()).unwrap();
    let rounds = ROUNDS.to_string();
    let untraced = Command::new(&program).arg(&rounds).output().unwrap();
    assert!(untraced.status.success());
    let said = String::from_utf8_lossy(&untraced.stdout);
    let count_of = |word: &str| -> u64 {
        let (_, rest) = said.split_once(word).expect("it says so");
        let count = rest.split_whitespace().next().expect("a count");
        count.parse().expect("a number")
    };

    let span = at(&program, "handle");
    let traced = Command::new(dist::tracer_user().unwrap())
        .args(["stat", "--format", "json", "--span", &span, "--"])
        .args([program.as_os_str(), rounds.as_ref()])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&traced.stdout), said);
    // The answer comes behind what the program says, and 1 is for events that were lost.
    assert!(matches!(traced.status.code(), Some(0 | 1)), "{traced:?}");
    let answer = String::from_utf8_lossy(&traced.stderr);
    let start = answer.find('{').expect("an answer");
    let mut answers = serde_json::Deserializer::from_str(&answer[start..]).into_iter::<Value>();
    let answer = answers.next().expect("an answer").unwrap();
    let took = &answer["spans"][0]["took"];
    // The last one on the other stack never goes on.
    let returned = ROUNDS - count_of("thrown") - count_of("jumped") - 1;
    if answer["lost"] == 0 {
        assert_eq!(took["count"], returned, "{answer}");
    }
    assert!(took["count"].as_u64().unwrap() > returned / 2, "{took}");
}

#[test]
#[ignore = "loads eBPF"]
fn a_return_probe_where_exceptions_pass_through_is_warned_of() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("unwinding", folder.path()).unwrap();
    let traced = Command::new(dist::tracer_user().unwrap())
        .args(["run", "--retprobe", &at(&program, "handle"), "--"])
        .args([program.as_os_str(), "7".as_ref()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&traced.stderr);
    assert!(said.contains(" has __cxa_throw: a program ends "), "{said}");
}

/// Tells whether the kernel is 6.6 or later.
fn kernel_has_links_to_many_sites() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("its release");
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    let mut part = || parts.next().and_then(|text| text.parse::<u32>().ok());
    (part(), part()) >= (Some(6), Some(6))
}

/// A program that runs while another file takes its name.
fn replaced(folder: &Path) -> anyhow::Result<(std::process::Child, PathBuf)> {
    let program = dist::compile("replaced", folder)?;
    let process = Command::new(&program).spawn()?;
    std::thread::sleep(Duration::from_millis(100));
    let new = folder.join("new");
    std::fs::copy(&program, &new)?;
    std::fs::rename(&new, &program)?;
    Ok((process, program))
}

#[test]
#[ignore = "loads eBPF"]
fn a_program_that_was_replaced_while_it_runs_is_probed_by_any_of_its_names() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut process, program) = replaced(folder.path()).unwrap();
    let pid = process.id();
    // What is listed is one of them.
    let listed = Command::new(dist::tracer_user().unwrap())
        .args(["probes", &pid.to_string(), ":work"])
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let listed = listed
        .lines()
        .next()
        .unwrap()
        .strip_prefix("--probe ")
        .unwrap()
        .to_owned();
    assert!(listed.contains(" (deleted):work"), "{listed}");
    for probe in [
        listed,
        "replaced:work".to_owned(),
        "replaced (deleted):work".to_owned(),
        at(&program, "work"),
        format!("/proc/{pid}/exe:work"),
    ] {
        let attach = Command::new(dist::tracer_user().unwrap())
            .args([
                "attach",
                &pid.to_string(),
                "--duration",
                "500ms",
                "--no-user",
            ])
            .args([
                "--format",
                "json",
                "--syscalls",
                "getppid",
                "--events",
                "probe",
            ])
            .args(["--probe", &probe])
            .output()
            .unwrap();
        assert!(attach.status.success(), "{probe}: {attach:?}");
        let lines = String::from_utf8(attach.stdout).unwrap();
        let count = |what: &str| lines.lines().filter(|line| line.contains(what)).count();
        // Each call of the function makes one of these system calls, and no other is made.
        let (probed, called) = (
            count("\"probe:work\""),
            count("\"syscall_enter\"").max(count("syscall_exit")),
        );
        assert!(probed > 2 && called > 2, "{probe}: {lines}");
        assert!(probed.abs_diff(called) <= 1, "{probe}: {probed} {called}");
    }
    let library = format!("/proc/{pid}/root/proc/self/maps:x");
    let attach = Command::new(dist::tracer_user().unwrap())
        .args(["attach", &pid.to_string(), "--probe", &library])
        .output()
        .unwrap();
    assert_eq!(attach.status.code(), Some(2), "{attach:?}");
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
#[ignore = "loads eBPF"]
fn a_function_of_cpp_is_probed_by_the_name_that_nm_and_stacks_show() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("overloads", folder.path()).unwrap();
    let nm = Command::new("nm").arg("-C").arg(&program).output().unwrap();
    let nm = String::from_utf8(nm.stdout).unwrap();
    let names: Vec<&str> = nm
        .lines()
        .filter_map(|line| line.splitn(3, ' ').nth(2))
        .filter(|name| name.contains("shop::") && name.contains("add("))
        .collect();
    assert_eq!(names.len(), 2, "{nm}");
    let whole = ["shop::Basket::add"];
    for name in names.iter().chain(&whole) {
        let why = Command::new(dist::tracer_user().unwrap())
            .args([
                "why",
                "--format",
                "json",
                "--span",
                &at(&program, name),
                "--",
            ])
            .arg(&program)
            .output()
            .unwrap();
        assert!(why.status.success(), "{name}: {why:?}");
        // The program's own words: how often it has called each.
        let said = String::from_utf8(why.stdout).unwrap();
        let is_of = |called: &str| called == *name || called.split('(').next() == Some(name);
        let expected: u64 = said
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .filter(|(called, _)| is_of(called))
            .map(|(_, count)| count.parse::<u64>().unwrap())
            .sum();
        let shown = String::from_utf8(why.stderr).unwrap();
        let why: Value = serde_json::from_str(&shown).expect(&shown);
        assert!(expected > 0, "{name}: {said}");
        assert_eq!(why["spans"][0]["took"]["count"], expected, "{name}: {why}");
    }
}

/// Number of events of each type in JSON lines.
fn types(lines: &str) -> std::collections::BTreeMap<String, usize> {
    let mut counts = std::collections::BTreeMap::new();
    for line in lines.lines() {
        let event: Value = serde_json::from_str(line).expect("a line of JSON");
        if let Some(name) = event["type"]
            .as_str()
            .filter(|name| name.contains("probe:"))
        {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    counts
}

#[test]
#[ignore = "loads eBPF"]
fn functions_of_cpp_and_without_a_type_are_found_by_names_and_patterns() {
    if missing_right().is_some() {
        return;
    }
    const SOURCE: &str = "
        __attribute__((noinline)) void f(int of) { __asm__ volatile(\"\" :: \"r\"(of)); }
        __attribute__((noinline)) void f(const char *of) { __asm__ volatile(\"\" :: \"r\"(of)); }
        namespace N { template <class T> struct B {
            __attribute__((noinline)) void go() { __asm__ volatile(\"\" :: \"r\"(this)); } }; }
        __asm__(\".globl bare\\nbare: ret\\n\");
        extern \"C\" void bare();
        int main() { f(1); f(1); f(\"x\"); N::B<long>().go(); N::B<int>().go(); N::B<int>().go();
            bare(); bare(); bare(); return 0; }";
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("a.cc"), folder.path().join("a"));
    std::fs::write(&source, SOURCE).unwrap();
    let mut compiler = Command::new("g++");
    assert!(
        compiler
            .arg("-O1")
            .arg("-o")
            .arg(&program)
            .arg(&source)
            .status()
            .unwrap()
            .success()
    );
    // gdb names the same functions.
    let mut gdb = Command::new("gdb");
    gdb.args(["-batch", "-ex", "info functions", "-ex", "info symbol bare"])
        .arg(&program);
    let gdb = String::from_utf8(gdb.output().unwrap().stdout).unwrap();
    for name in [
        "f(int)",
        "f(char const*)",
        "N::B<long>::go()",
        "N::B<int>::go()",
        "bare",
    ] {
        assert!(gdb.contains(name), "{name}: {gdb}");
    }
    let both = [("probe:N::B<int>::go()", 2), ("probe:N::B<long>::go()", 1)];
    for (symbol, expected) in [
        ("f(int)", &[("probe:f", 2)][..]),
        ("f(char const*)", &[("probe:f(char const*)", 1)]),
        ("N::B<long>::go", &[("probe:N::B<long>::go", 1)]),
        ("N::B<*>::go", &both),
        ("N::*", &both),
        ("bare", &[("probe:bare", 3)]),
    ] {
        let shown = folder.path().join("shown");
        let output = Command::new(dist::tracer_user().unwrap())
            .args([
                "run",
                "--format",
                "json",
                "--events",
                "user",
                "--probe",
                &at(&program, symbol),
            ])
            .arg("-o")
            .arg(&shown)
            .arg("--")
            .arg(&program)
            .output()
            .unwrap();
        assert!(output.status.success(), "{symbol}: {output:?}");
        let expected = expected
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count));
        let found = types(&std::fs::read_to_string(&shown).unwrap());
        assert_eq!(found, expected.collect(), "{symbol}");
    }
}
