//! The waits of threads at a moment: beside what the programs say themselves, strace and `/proc`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tests::dist;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::{namespace, terminal};

/// A process and a thread of it.
type Ids = (i64, i64);

/// Time that a busy machine may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Kinds of circles.
const KINDS: [&str; 7] = [
    "threads", "robust", "shared", "flock", "ofd", "pipes", "mixed",
];

/// Returns the answer about these processes.
fn answer(pids: &[i64]) -> Value {
    let pids: Vec<String> = pids.iter().map(i64::to_string).collect();
    let mut command = Command::new("timeout");
    command.arg("60").arg(dist::tracer_user().unwrap());
    command.args(["why", "--now", "--format", "json", "-p"]);
    let output = command.arg(pids.join(",")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn ids(of: &Value) -> Ids {
    (of["pid"].as_i64().unwrap(), of["tid"].as_i64().unwrap())
}

fn deadlocks(answer: &Value) -> Vec<Vec<Ids>> {
    let circles = answer["deadlocks"].as_array().unwrap().iter();
    circles
        .map(|circle| circle.as_array().unwrap().iter().map(ids).collect())
        .collect()
}

/// The circle that a program says, from its lowest thread on.
fn said(lines: &[String]) -> Vec<Ids> {
    let members = values_after(lines, "member").unwrap();
    let mut circle: Vec<Ids> = members
        .iter()
        .map(|of| (i64::try_from(of[0]).unwrap(), i64::try_from(of[1]).unwrap()))
        .collect();
    let lowest = circle.iter().enumerate().min_by_key(|(_, ids)| **ids);
    let first = lowest.unwrap().0;
    circle.rotate_left(first);
    circle
}

/// Asks until there is a deadlock: the members of a circle say that they are about to wait. Any
/// that is shown has to be that circle.
fn assert_named(circle: &[Ids], pids: &[i64], what: &str) {
    tests::wait_until("the deadlock", LIMIT, || {
        let found = deadlocks(&answer(pids));
        assert!(
            found.is_empty() || found == [circle.to_vec()],
            "{what}: {found:?}, {circle:?}"
        );
        Ok((!found.is_empty()).then_some(()))
    })
    .unwrap();
}

fn circle(program: &Path, kind: &str, count: u32, seed: u32) {
    let mut command = Command::new(program);
    command.args([kind, &count.to_string(), &seed.to_string()]);
    let (target, lines) = Target::start(&mut command).unwrap();
    let circle = said(&lines);
    // One of them leads to the others.
    let pid = i64::from(target.pid());
    let pids = match seed % 2 {
        0 => vec![circle[0].0],
        _ => vec![pid, circle[circle.len() - 1].0],
    };
    assert_named(&circle, &pids, &format!("{kind} {count} {seed}"));
    target.end().unwrap();
}

#[test]
#[ignore = "needs root: reads the memory of programs"]
fn circles_of_waits_are_named() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("circles", folder.path()).unwrap();
    if !tests::is_whole() {
        for (kind, count) in [("threads", 3), ("robust", 2), ("pipes", 3), ("mixed", 5)] {
            circle(&program, kind, count, count);
        }
        return;
    }
    for seed in 0..100 {
        for kind in KINDS {
            for count in [2, 3, 5] {
                circle(&program, kind, count, seed);
            }
        }
    }
}

#[test]
#[ignore = "needs root: makes a pid namespace"]
fn a_circle_in_a_pid_namespace_is_named_by_the_ids_outside() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("circles", folder.path()).unwrap();
    for kind in ["threads", "robust", "flock", "pipes"] {
        if kind != "robust" && !tests::is_whole() {
            continue;
        }
        let script = format!("\"$0\" {kind} 3 1");
        let mut shell = namespace::shell(1, &script, &[program.as_path()]);
        let (target, lines) = Target::start(&mut shell).unwrap();
        let outside = ids_outside(&program);
        let mut circle = said(&lines);
        for (pid, tid) in &mut circle {
            (*pid, *tid) = (outside[pid], outside[tid]);
        }
        let lowest = circle.iter().enumerate().min_by_key(|(_, ids)| **ids);
        let first = lowest.unwrap().0;
        circle.rotate_left(first);
        assert_named(&circle, &[circle[0].0], kind);
        drop(target);
    }
}

/// The ids of the threads that run a program, by those in their own pid namespace.
fn ids_outside(program: &Path) -> BTreeMap<i64, i64> {
    let mut ids = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let tasks = fs::read_dir(entry.path().join("task"));
        for task in tasks.into_iter().flatten().filter_map(Result::ok) {
            let exe = fs::read_link(task.path().join("exe"));
            let status = fs::read_to_string(task.path().join("status"));
            // What has ended has no program any more, and is asked for by its process.
            let is_one = exe.map_or(true, |exe| exe == program);
            let Ok(status) = status else { continue };
            let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            let words = line.unwrap_or_default().split_ascii_whitespace();
            let all: Vec<i64> = words.filter_map(|id| id.parse().ok()).collect();
            if let (true, [outer, inner]) = (is_one && status.contains("circles"), &all[..]) {
                ids.insert(*inner, *outer);
            }
        }
    }
    ids
}

/// A process that is killed at the end, with its children.
struct Killed(Child);

impl Killed {
    fn start(command: &mut Command) -> Self {
        Self(command.process_group(0).spawn().unwrap())
    }

    fn pid(&self) -> i64 {
        i64::from(self.0.id())
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // Once it was waited for, its number may be another group's.
        if matches!(self.0.try_wait(), Ok(None)) {
            // SAFETY: takes integers only.
            unsafe { libc::kill(-self.0.id().cast_signed(), libc::SIGKILL) };
            let _ = self.0.wait();
        }
    }
}

/// Waits until a process is in a system call, by its number.
fn wait_until_in(pid: i64, numbers: &[i64]) {
    tests::wait_until("the call", LIMIT, || {
        let line = fs::read_to_string(format!("/proc/{pid}/syscall"))?;
        let number = line.split(' ').next().and_then(|word| word.parse().ok());
        Ok(number.filter(|number| numbers.contains(number)))
    })
    .unwrap();
}

/// The only thread of a process in an answer.
fn only(pid: i64) -> Value {
    let answer = answer(&[pid]);
    let mut threads = answer["threads"].as_array().unwrap().iter();
    let of = threads.find(|thread| ids(thread) == (pid, pid));
    of.unwrap().clone()
}

/// The system call that strace shows of a process that it attaches to.
fn straced(pid: i64) -> String {
    let mut strace = Command::new("timeout");
    strace.args(["--signal=INT", "1", "strace", "-p", &pid.to_string()]);
    let said = String::from_utf8(strace.output().unwrap().stderr).unwrap();
    let mut lines = said.lines().filter(|line| !line.starts_with("strace:"));
    let call = lines.find_map(|line| line.split_once('(')).unwrap();
    call.0.to_owned()
}

/// Checks what is said of a process beside strace and `/proc/PID/stack`; returns it.
fn assert_as_seen(pid: i64) -> Value {
    let thread = only(pid);
    let stack = fs::read_to_string(format!("/proc/{pid}/stack")).unwrap();
    let kernel_function = thread["kernel_function"].as_str().unwrap();
    let first = stack.lines().next().unwrap();
    assert!(
        first.contains(&format!("{kernel_function}+")),
        "{thread} {stack}"
    );
    assert_eq!(thread["syscall"], straced(pid).as_str(), "{thread}");
    thread["waits_for"].clone()
}

fn holders(wait: &Value) -> Vec<i64> {
    let holders = wait["holders"].as_array().unwrap().iter();
    holders
        .map(|holder| holder["pid"].as_i64().unwrap())
        .collect()
}

#[test]
#[ignore = "needs root: reads what others are in"]
fn a_program_that_hangs_is_shown_as_strace_and_the_kernel_show_it() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();

    // This process has the one end of a pipe.
    let mut reader = Command::new("cat");
    let mut reader = Killed::start(reader.stdin(Stdio::piped()).stdout(Stdio::null()));
    wait_until_in(reader.pid(), &[libc::SYS_read]);
    let wait = assert_as_seen(reader.pid());
    assert_eq!(wait["kind"], "pipe", "{wait}");
    assert_eq!(holders(&wait), [i64::from(std::process::id())]);
    drop(reader.0.stdin.take());
    reader.0.wait().unwrap();

    let holder = flock(&file, &["sleep", "1000"]);
    let waiter = flock(&file, &["true"]);
    wait_until_in(waiter.pid(), &[libc::SYS_flock]);
    let wait = assert_as_seen(waiter.pid());
    assert_eq!(
        (&wait["kind"], &wait["file"]),
        (&"file_lock".into(), &path(&file))
    );
    // Its child has the same open file.
    assert!(holders(&wait).contains(&holder.pid()), "{wait}");

    let mut shell = Command::new("sh");
    let parent = Killed::start(shell.args(["-c", "sleep 1000; true"]));
    wait_until_in(parent.pid(), &[libc::SYS_wait4]);
    let pid = parent.pid();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let child: i64 = children.trim().parse().unwrap();
    wait_until_in(child, &[libc::SYS_clock_nanosleep]);
    let thread = only(child);
    assert_eq!(thread["syscall"], "clock_nanosleep");
    assert_eq!(thread["waits_for"]["kind"], "time");
    let wait = assert_as_seen(parent.pid());
    assert_eq!(
        (&wait["kind"], holders(&wait)),
        (&"child".into(), vec![child])
    );

    // A stopped process says so itself, and where others wait for it.
    let pid = i32::try_from(child).unwrap();
    // SAFETY: takes integers only.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGSTOP) }, 0);
    tests::wait_until("the stop", LIMIT, || {
        let answer = answer(&[parent.pid()]);
        let mut threads = answer["threads"].as_array().unwrap().iter();
        let of = threads.find(|thread| thread["pid"] == child).unwrap();
        Ok((of["state"] == "stopped").then_some(()))
    })
    .unwrap();
    // SAFETY: takes integers only.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// A file system in user space (FUSE) that never answers. Ended with it.
struct Silent(CString);

impl Silent {
    fn mount(on: &Path, device: &File) -> Self {
        let on = CString::new(on.as_os_str().as_bytes()).unwrap();
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0",
            device.as_raw_fd()
        );
        let options = CString::new(options).unwrap();
        // SAFETY: all are texts that live.
        let failed = unsafe {
            let options = options.as_ptr().cast();
            libc::mount(c"none".as_ptr(), on.as_ptr(), c"fuse".as_ptr(), 0, options)
        };
        assert_eq!(failed, 0, "{}", io::Error::last_os_error());
        Self(on)
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // SAFETY: a text that lives.
        unsafe { libc::umount2(self.0.as_ptr(), libc::MNT_DETACH) };
    }
}

/// Programs that hang, by name, with the call: of two that are alike, the one waits for a pipe and
/// the other one for a process that was stopped.
const HANGS: [(&str, i64, &str); 6] = [
    ("cat", libc::SYS_read, "read"),
    ("cat", libc::SYS_read, "read"),
    ("flock", libc::SYS_flock, "flock"),
    ("sh", libc::SYS_wait4, "wait4"),
    ("sleep", libc::SYS_clock_nanosleep, "clock_nanosleep"),
    ("cat", libc::SYS_openat, "openat"),
];

/// The first ones of them, which strace shows. The next one it interrupts, and shows the call that
/// begins it anew; the last one waits for a file system, and cannot be stopped.
const SHOWN_BY_STRACE: usize = 4;

/// Starts the program of each of [`HANGS`], in the pid namespace of a process where one is given.
fn start_hangs(namespace: Option<i64>, (file, silent): (&Path, &Path)) -> Vec<(Killed, i64)> {
    let (own, theirs) = UnixStream::pair().unwrap();
    let mut peer = Command::new("sleep");
    let peer = Killed::start(peer.arg("1000").stdin(OwnedFd::from(own)));
    // SAFETY: takes integers only.
    unsafe { libc::kill(peer.0.id().cast_signed(), libc::SIGSTOP) };
    let (file, asked) = (file.to_str().unwrap(), silent.join("file"));
    let arguments: [&[&str]; HANGS.len()] = [
        &[],
        &[],
        &[file, "true"],
        &["-c", "sleep 1000; true"],
        &["1000"],
        &[asked.to_str().unwrap()],
    ];
    let inputs = [
        Stdio::piped(),
        OwnedFd::from(theirs).into(),
        Stdio::null(),
        Stdio::null(),
        Stdio::null(),
        Stdio::null(),
    ];
    let mut all = vec![(peer, 0)];
    for ((hang, arguments), input) in HANGS.iter().zip(arguments).zip(inputs) {
        let mut command = inside(namespace, hang.0);
        let started = Killed::start(command.args(arguments).stdin(input));
        let pid = tests::wait_until("a program that hangs", LIMIT, || {
            let of = descendants(started.pid()).into_iter();
            let mut found = of.filter(|pid| {
                let is_it = fs::read_to_string(format!("/proc/{pid}/comm"));
                let call = fs::read_to_string(format!("/proc/{pid}/syscall"));
                is_it.is_ok_and(|name| name.trim_end() == hang.0)
                    && call.is_ok_and(|line| line.starts_with(&format!("{} ", hang.1)))
            });
            Ok(found.next_back())
        });
        all.push((started, pid.unwrap()));
    }
    all
}

/// A command, in the pid namespace of a process where one is given.
fn inside(namespace: Option<i64>, program: &str) -> Command {
    let Some(pid) = namespace else {
        return Command::new(program);
    };
    let mut command = Command::new("nsenter");
    command.args(["-t", &pid.to_string(), "-p", "-m", program]);
    command
}

/// A process, and all that it and its children have made.
fn descendants(pid: i64) -> Vec<i64> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        all.extend(children.split_ascii_whitespace().map(|pid| {
            let pid: i64 = pid.parse().unwrap();
            pid
        }));
        next += 1;
    }
    all
}

/// The number of a process in its own pid namespace.
fn own_number(pid: i64) -> i64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("NSpid:"));
    let last = line.unwrap().split_ascii_whitespace().last();
    last.unwrap().parse().unwrap()
}

/// Lines that strace shows of processes that it attaches to, as far as their arguments go.
fn straced_at_once(pids: &[i64]) -> Vec<String> {
    let start = |pid: &i64| {
        let mut strace = Command::new("timeout");
        strace.args(["--signal=INT", "1", "strace", "-p", &pid.to_string()]);
        strace.stderr(Stdio::piped()).spawn().unwrap()
    };
    let all: Vec<Child> = pids.iter().map(start).collect();
    let line = |strace: Child| {
        let said = strace.wait_with_output().unwrap().stderr;
        let said = String::from_utf8(said).unwrap();
        let mut lines = said.lines().filter(|line| !line.starts_with("strace:"));
        let line = lines.find(|line| line.contains('(')).unwrap();
        let line = line.split(" <").next().unwrap();
        line.split("strace: ").next().unwrap().trim_end().to_owned()
    };
    all.into_iter().map(line).collect()
}

/// A program that hangs, as others show it.
struct Shown {
    /// Its number outside.
    pid: i64,
    /// The number by which it is asked for.
    asked: i64,
    call: &'static str,
}

/// Runs each view of these programs, in the pid namespace of a process where one is given, and
/// compares. Returns what is shown to people.
fn assert_each_view_shows(namespace: Option<i64>, hangs: &[Shown], log: &Path) -> String {
    let pids: Vec<String> = hangs.iter().map(|hang| hang.asked.to_string()).collect();
    let pids = pids.join(",");
    let tool = dist::tracer_user().unwrap();
    let run = |options: &[&str]| {
        let mut command = inside(namespace, "timeout");
        command.arg("60").arg(&tool).args(options);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{options:?} {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let second = ["--duration", "1s", "-p", &pids];
    let log = log.to_str().unwrap();
    let attach = ["attach", "--no-user", "--syscalls", "all", "--log", log];
    run(&[&attach[..], &second].concat());
    let text = run(&["read", log]);
    let looks = run(&["read", log, "--format", "json"]);
    let looks = looks
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let looks: Vec<Value> = looks
        .filter(|event: &Value| event["type"] == "linux_trace_thread_state")
        .collect();
    let stat = run(&[&["stat", "--format", "json"], &second[..]].concat());
    let stat: Value = serde_json::from_str(&stat).unwrap();
    let top = run(&["top", "--once", "-p", &pids]);
    let now = run(&["why", "--now", "--format", "json", "-p", &pids]);
    let now: Value = serde_json::from_str(&now).unwrap();
    for hang in hangs {
        let name: Value = hang.call.into();
        let asked = hang.asked;
        let of = |all: &Value| {
            let mut all = all.as_array().unwrap().iter();
            all.find(|one| one["tid"] == asked).unwrap().clone()
        };
        let proc = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", hang.pid)).unwrap();
        let call = proc("syscall");
        let words: Vec<&str> = call.split_ascii_whitespace().collect();
        let state = proc("stat");
        let state = state.rsplit(") ").next().unwrap().split(' ').next();

        let look = looks.iter().find(|event| event["tid"] == asked);
        let data = &look.unwrap()["data"];
        assert_eq!(data["name"], name, "{data}");
        assert_eq!(data["number"].to_string(), words[0], "{data}");
        assert_eq!(data["state"], "blocked", "{data}");
        assert_eq!(data["kernel_state"].as_str(), state, "{data}");
        let arguments = data["args"].as_array().unwrap();
        assert!(arguments.len() >= 2, "{data}");
        for (argument, word) in arguments.iter().zip(&words[1..7]) {
            let word = u64::from_str_radix(&word[2..], 16).unwrap();
            // One with a sign is an `int`, whose register may have zeroes above it.
            let is_signed = argument.as_i64().is_some_and(|value| value < 0);
            let mask = if is_signed {
                u64::from(u32::MAX)
            } else {
                u64::MAX
            };
            let shown = argument.as_i64().map(i64::cast_unsigned);
            let shown = shown.or(argument.as_u64()).unwrap();
            assert_eq!(shown & mask, word & mask, "{data}");
        }
        let thread = of(&stat["threads"]);
        assert_eq!(thread["blocked_in"][0]["in"], name, "{thread}");
        assert_eq!(
            (&thread["running_ns"], &thread["unknown_ns"]),
            (&0.into(), &0.into()),
            "{thread}"
        );

        let line = top
            .lines()
            .rfind(|line| line.contains(&format!(" {asked} ")));
        let line = line.unwrap_or_else(|| panic!("{asked}: {top}"));
        assert!(line.contains(&format!(" {} ", hang.call)), "{line}");

        let thread = of(&now["threads"]);
        assert_eq!(thread["syscall"], name, "{thread}");
        let function = thread["kernel_function"].as_str().unwrap();
        let stack = proc("stack");
        let first = stack.lines().next().unwrap();
        assert!(
            first.contains(&format!("{function}+")),
            "{function} {stack}"
        );
        assert_eq!(proc("wchan"), function, "{thread}");
    }
    text
}

#[test]
#[ignore = "needs root: mounts and loads eBPF"]
fn each_view_shows_in_which_call_a_program_hangs() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let _holder = flock(&file, &["sleep", "1000"]);
    let device = File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .unwrap();
    let silent = folder.path().join("silent");
    fs::create_dir(&silent).unwrap();
    let mounted = Silent::mount(&silent, &device);
    let mut namespace = namespace::shell(1, "exec sleep 1000", &[]);
    let namespace = Killed::start(&mut namespace);
    let first = tests::wait_until("the first process inside", LIMIT, || {
        let mut all = descendants(namespace.pid()).into_iter();
        let is_it = |pid: &i64| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name == "sleep\n")
        };
        Ok(all.rfind(is_it))
    });
    let first = Some(first.unwrap());

    for namespace in [None, first] {
        let started = start_hangs(namespace, (&file, &silent));
        let pids: Vec<i64> = started[1..].iter().map(|(_, pid)| *pid).collect();
        let shown = pids.iter().zip(HANGS).map(|(pid, (_, _, call))| Shown {
            pid: *pid,
            asked: *pid,
            call,
        });
        let mut hangs: Vec<Shown> = shown.collect();
        let log = |name: &str| folder.path().join(format!("{name}{}", namespace.is_some()));
        let mut texts = vec![assert_each_view_shows(None, &hangs, &log("outside"))];
        if namespace.is_some() {
            for hang in &mut hangs {
                hang.asked = own_number(hang.pid);
            }
            texts.push(assert_each_view_shows(namespace, &hangs, &log("inside")));
        }
        for line in straced_at_once(&pids[..SHOWN_BY_STRACE]) {
            let line = format!("thread-state     blocked in {line}");
            assert!(
                texts.iter().all(|text| text.contains(&line)),
                "{line}: {texts:?}"
            );
        }
    }
    drop(mounted);
}

fn path(file: &Path) -> Value {
    file.to_str().unwrap().into()
}

fn flock(file: &PathBuf, command: &[&str]) -> Killed {
    let mut flock = Command::new("flock");
    let started = Killed::start(flock.arg(file).args(command));
    // The first one has it when its command runs.
    wait_until_in(started.pid(), &[libc::SYS_flock, libc::SYS_wait4]);
    started
}

#[test]
#[ignore = "needs root: reads what others are in"]
fn a_program_that_moves_is_in_no_deadlock() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("lockers", folder.path()).unwrap();
    let (target, _) = Target::start(Command::new(program).arg("8")).unwrap();
    let looks = if tests::is_whole() { 200 } else { 5 };
    for _ in 0..looks {
        let answer = answer(&[target.pid().into()]);
        assert!(deadlocks(&answer).is_empty(), "{answer}");
        let threads = answer["threads"].as_array().unwrap().iter();
        let own = threads.filter(|thread| thread["pid"] == i64::from(target.pid()));
        assert_eq!(own.count(), 9, "{answer}");
    }
}

/// A lock as the program says it: a number that is odd while a thread has it alone, that thread,
/// the address, the readers, and the bytes.
type Slot = [u64; 5];

fn slots(file: &Path) -> Vec<Slot> {
    let bytes = fs::read(file).unwrap();
    let words = bytes
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
    let words: Vec<u64> = words.collect();
    words
        .chunks_exact(5)
        .map(|slot| slot.try_into().unwrap())
        .collect()
}

/// Counts the waits in an answer whose lock had one owner all the while, and those of which the
/// answer names it. None names another thread.
fn count_owners(answer: &Value, before: &[Slot], after: &[Slot]) -> (usize, usize) {
    let (mut known, mut named) = (0, 0);
    for thread in answer["threads"].as_array().unwrap() {
        let wait = &thread["waits_for"];
        let Some(address) = wait["address"].as_str() else {
            continue;
        };
        let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap();
        let has_it = |slot: &Slot| (slot[2]..slot[2] + slot[4]).contains(&address);
        let Some(index) = before.iter().position(has_it) else {
            continue;
        };
        let [number, owner, ..] = before[index];
        if number != after[index][0] {
            continue;
        }
        let holders = wait["holders"].as_array().unwrap();
        if number % 2 == 0 {
            assert!(holders.is_empty(), "{thread} {before:?}");
            continue;
        }
        known += 1;
        for holder in holders {
            assert_eq!(holder["tid"], owner, "{thread} {before:?} {after:?}");
            named += 1;
        }
    }
    (known, named)
}

/// Looks until so many waits with an owner were seen; all of those are named.
fn assert_owners_named(program: &Path, kind: &str, threads: u32, least: usize) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("owners");
    let mut command = Command::new(program);
    command.arg(&file).args([kind, &threads.to_string()]);
    let (target, _) = Target::start(&mut command).unwrap();
    let (mut known, mut named) = (0, 0);
    tests::wait_until("waits with an owner", LIMIT, || {
        let before = slots(&file);
        let answer = answer(&[target.pid().into()]);
        assert!(deadlocks(&answer).is_empty(), "{answer}");
        let (known_now, named_now) = count_owners(&answer, &before, &slots(&file));
        known += known_now;
        named += named_now;
        Ok((known >= least).then_some(()))
    })
    .unwrap();
    // A thread that is looked at as it begins to wait, or that ends its wait, is not.
    assert!(named * 100 >= known * 95, "{kind}: {named} of {known}");
}

#[test]
#[ignore = "needs root: reads the memory of programs"]
fn the_thread_that_has_a_lock_is_the_one_that_wrote_it_down() {
    if missing_right().is_some() {
        return;
    }
    const KINDS: [&str; 8] = [
        "normal",
        "recursive",
        "errorcheck",
        "adaptive",
        "robust",
        "shared",
        "inherit",
        "rwlock",
    ];
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("owners", folder.path()).unwrap();
    let least = if tests::is_whole() { 1000 } else { 4 };
    for kind in KINDS {
        if tests::is_whole() || ["robust", "rwlock"].contains(&kind) {
            assert_owners_named(&program, kind, 12, least);
        }
    }
}

#[test]
fn questions_that_cannot_be_answered_are_refused() {
    let refused = |options: &[&str]| {
        let mut command = Command::new(dist::tracer_user().unwrap());
        let output = command
            .args(["why", "--now"])
            .args(options)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["-p", "4194305"]).contains("no process has pid 4194305"));
    assert!(refused(&["trace.log"]).contains("--now is about processes that are there"));
    assert!(refused(&["--span", "x", "-p", "1"]).contains("cannot be used with"));
    assert!(refused(&["--comm", "no-such-name"]).contains("there are no processes called"));
}

#[test]
fn on_a_terminal_the_waits_of_many_fit_the_screen() {
    let sleeping = || Command::new("sleep").arg("60").spawn().unwrap();
    let mut sleeping: Vec<Child> = (0..40).map(|_| sleeping()).collect();
    let pids: Vec<String> = sleeping.iter().map(|one| one.id().to_string()).collect();
    let mut why = Command::new(dist::tracer_user().unwrap());
    why.args(["why", "--now", "-p"]).arg(pids.join(","));
    let shown = terminal::written_to(why, (100, 30));
    for one in &mut sleeping {
        one.kill().unwrap();
        one.wait().unwrap();
    }
    let shown = shown.unwrap();
    assert!(terminal::rows_of(&shown, 100) < 30, "{shown}");
    assert!(
        shown.contains("\ntruncated: ") && shown.ends_with(" | less\n"),
        "{shown}"
    );
}
