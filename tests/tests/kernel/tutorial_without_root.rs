//! Every command of the tutorial as a user without any capability, through the service.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::attacker::{VICTIM, command_as};
use tests::dist::{self, Linkage};
use tests::rights::missing_right;
use tests::target::Target;
use tests::{is_whole, wait_until};

use crate::without_root::{Scene, words};

/// Way in which a command of the tutorial is tried.
enum Tried {
    /// With these words in place of its own, after `tracer-user`; it succeeds.
    As(&'static str),
    /// With these words, and goes on while the next two are tried.
    Begun(&'static str),
    /// With these words, and is refused since it needs root: by this option.
    Refused(&'static str, &'static str),
    /// It is not: for this reason.
    Not(#[expect(dead_code, reason = "for readers")] &'static str),
}
use Tried::{As, Begun, Not, Refused};

/// The commands, as the tutorial has them. `PID` is a process of the user, `BUSY` one that runs,
/// `STACKS` a program with known functions.
const COMMANDS: &[(&str, Tried)] = &[
    (
        "run --events exec -- ldd /bin/ls",
        As("run --events exec -- ldd /bin/ls"),
    ),
    (
        "run --events exec --syscalls openat -- ldd /bin/ls",
        As("run --events exec --syscalls openat -- ldd /bin/ls"),
    ),
    (
        "run -y --syscalls %file,%desc,%network -- curl -s localhost:8000",
        As("run -y --syscalls %file,%desc,%network -- cat /etc/passwd"),
    ),
    (
        "attach --comm 'redis*' --duration 5s",
        As("attach --comm offspr* --duration 300ms"),
    ),
    (
        "attach --cgroup nginx.service --syscalls openat,connect",
        Not("a control group is for who may make one"),
    ),
    ("attach 4711", As("attach PID --duration 300ms")),
    (
        "attach $(pidof stuck) --syscalls all",
        As("attach PID --syscalls all --duration 300ms"),
    ),
    ("why --now -p $(pidof server)", As("why --now -p PID")),
    (
        "run --log ldd.log --syscalls all -- ldd /bin/ls",
        As("run --log ldd.log --syscalls all -- ldd /bin/ls"),
    ),
    ("info ldd.log", As("info ldd.log")),
    ("stat ldd.log", As("stat ldd.log")),
    (
        "read ldd.log --events exec --time delta",
        As("read ldd.log --events exec --time delta"),
    ),
    (
        "read ldd.log --pid 32568 --from 10ms --until 20ms",
        As("read ldd.log --pid 32568 --from 1ms --until 2ms"),
    ),
    (
        "read ldd.log --format json",
        As("read ldd.log --format json"),
    ),
    (
        "export ldd.log --to perfetto -o ldd.pftrace",
        As("export ldd.log --to perfetto -o ldd.pftrace"),
    ),
    (
        "export ldd.log --to parquet -o ldd.parquet",
        As("export ldd.log --to parquet -o ldd.parquet"),
    ),
    (
        "export ldd.log --to ctf -o ldd.ctf",
        As("export ldd.log --to ctf -o ldd.ctf"),
    ),
    (
        "attach --named nginx --log ring --full-policy loop --stream-size 64M --snapshots 8",
        Begun(
            "attach --named offspring --log ring --full-policy loop --stream-size 1M --snapshots 2",
        ),
    ),
    (
        "snapshot --log ring 4711",
        As("snapshot --log ring RECORDER"),
    ),
    ("stat ring.1", As("stat ring.1")),
    (
        "run --usdt python:gc__start --events probe --limit 3 -- /usr/bin/python3 -c 'import json, decimal'",
        Refused(
            "run --usdt python:gc__start --events probe -- true",
            "--usdt",
        ),
    ),
    (
        "run --no-user --events exec --probe 'libc.so.6:getenv(str)' --retprobe 'libc.so.6:getenv(str)' -- sort /dev/null",
        Refused(
            "run --no-user --events exec --probe libc.so.6:getenv(str) -- true",
            "--probe",
        ),
    ),
    (
        "events --tracepoints 'sock:inet_*'",
        As("events --tracepoints sock:inet_*"),
    ),
    (
        "run --tracepoint sock:inet_sock_set_state --events probe -- curl -s http://localhost:8000/",
        Refused(
            "run --tracepoint sock:inet_sock_set_state --events probe -- true",
            "--tracepoint",
        ),
    ),
    (
        "run --syscalls openat --stack user --events exec -- ls",
        As("run --syscalls openat --stack user --events exec -- ls"),
    ),
    (
        "run --syscalls openat --stack user,python --unwind dwarf,32K --events exec -- python3 job.py",
        As(
            "run --syscalls openat --stack user,python --unwind dwarf,32K --events exec -- python3 -c pass",
        ),
    ),
    (
        "run --sample 99 --stack user --log java.log -- java -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -jar app.jar",
        As("run --sample 99 --stack user --log java.log -- true"),
    ),
    (
        "run --syscalls getppid --stack user --unwind dwarf --events exec -- ./server",
        As(
            "run --syscalls getppid --stack user --unwind dwarf --events exec --log my.log -- STACKS 10 notes",
        ),
    ),
    ("read --inlined my.log", As("read --inlined my.log")),
    (
        "stat --flame on-cpu -o on.svg -p 4711 --duration 10s",
        As("stat --flame on-cpu -o on.svg -p BUSY --duration 500ms"),
    ),
    (
        "stat --flame off-cpu -o off.svg -- ./server --selftest",
        As("stat --flame off-cpu -o off.svg -- STACKS 1000 notes"),
    ),
    (
        "run --events user,switch,exit -- ./orders",
        As("run --events user,switch,exit -- STACKS 10 notes"),
    ),
    (
        "why -p $(head -1 data/postmaster.pid) --duration 3s --slowest 2 --usdt postgresql:query__start --usdt postgresql:query__done --span query",
        Refused(
            "why -p PID --duration 1s --usdt postgresql:query__start --span query",
            "--usdt",
        ),
    ),
    (
        "why -p $(pidof redis-server) --duration 3s --slowest 0 --probe redis-check-rdb:readQueryFromClient --retprobe redis-check-rdb:beforeSleep --span 'request=probe:readQueryFromClient..retprobe:beforeSleep'",
        Refused(
            "why -p PID --duration 1s --probe libc.so.6:read --retprobe libc.so.6:read --span request=probe:read..retprobe:read",
            "--probe",
        ),
    ),
    (
        "why --whole -- make -s -j2",
        As("why --whole -- STACKS 100 notes"),
    ),
    ("compare good.log bad.log", As("compare ldd.log ldd.log")),
    ("top 4711", As("top PID --once --duration 300ms")),
    (
        "attach $(pidof redis-server) --duration 2s --syscalls all --follow-wakers --report redis.html --probe redis-check-rdb:readQueryFromClient --retprobe redis-check-rdb:beforeSleep --span 'request=probe:readQueryFromClient..retprobe:beforeSleep'",
        As("attach PID --duration 300ms --syscalls all --follow-wakers --report redis.html"),
    ),
    (
        "report trace.log -o trace.html",
        As("report ldd.log -o trace.html"),
    ),
];

/// The commands of the tutorial, after `tracer-user` and up to where their output goes elsewhere.
fn commands(tutorial: &str) -> Vec<String> {
    let whole = tutorial.replace("\\\n", "");
    let mut commands = Vec::new();
    for line in whole.lines() {
        let Some(line) = line.strip_prefix("    $ ") else {
            continue;
        };
        let line = line.strip_prefix("sudo ").unwrap_or(line);
        let Some(command) = line.strip_prefix("tracer-user ") else {
            continue;
        };
        let ends = [" > ", " 2>", " | ", " &", "  #"].iter();
        let end = ends.filter_map(|end| command.find(end)).min();
        let command = command.get(..end.unwrap_or(command.len())).unwrap();
        commands.push(command.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    commands
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn every_command_of_the_tutorial_works_without_root_or_says_what_it_needs() {
    if missing_right().is_some() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let tutorial = fs::read_to_string(root.join("docs/tutorial.md")).unwrap();
    let tried: BTreeMap<_, _> = COMMANDS
        .iter()
        .map(|(command, tried)| (*command, tried))
        .collect();
    let all = commands(&tutorial);
    assert_eq!(all.len(), COMMANDS.len());
    let unknown = all
        .iter()
        .filter(|command| !tried.contains_key(command.as_str()));
    assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&String>::new());
    let scene = Scene::new();
    let source = root.join("tests/programs/stacks.c");
    let stacks = scene.stage.path().join("stacks");
    dist::compile_file("cc", &source, &stacks, &[], Linkage::Shared).unwrap();
    let target = scene.target();
    let pid = target.pid().to_string();
    let mut shell = command_as(VICTIM, "sh");
    let spins = "echo ready; while :; do :; done";
    let (busy, _) = Target::start(shell.args(["-c", spins])).unwrap();
    let recorder = Cell::new(0);
    let prepare = |typed: &str| {
        let mut tool: Command = scene.tool();
        for word in typed.split_whitespace() {
            match word {
                "PID" => tool.arg(&pid),
                "BUSY" => tool.arg(busy.pid().to_string()),
                "RECORDER" => tool.arg(recorder.get().to_string()),
                "STACKS" => tool.arg(&stacks),
                word => tool.arg(word),
            };
        }
        tool
    };
    let run = |typed: &str| prepare(typed).output().unwrap();
    let mut begun = None;
    let mut loaded = 0;
    for (command, tried) in COMMANDS {
        match tried {
            As(typed) => {
                let output = run(typed);
                let said = words(&output);
                assert!(output.status.success(), "{command}: {said}");
                loaded += usize::from(said.contains("kernel events from the agent at"));
            }
            Refused(typed, option) => {
                let output = run(typed);
                let said = words(&output);
                assert_eq!(output.status.code(), Some(2), "{command}: {said}");
                assert!(
                    said.contains(option) && said.contains("needs root"),
                    "{said}"
                );
            }
            Begun(typed) => {
                let tool = prepare(typed).spawn().unwrap();
                recorder.set(tool.id());
                begun = Some(tool);
                // It takes the signal that asks for a snapshot by then.
                let status = format!("/proc/{}/status", recorder.get());
                let takes = || {
                    let status = fs::read_to_string(&status)?;
                    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
                    let caught = u64::from_str_radix(caught.unwrap_or("0").trim(), 16)?;
                    let is_caught = caught & 1 << (libc::SIGUSR1 - 1) != 0;
                    Ok(is_caught.then_some(()))
                };
                wait_until("the recorder", Duration::from_secs(60), takes).unwrap();
            }
            Not(_) => {}
        }
        // The rest takes half a minute.
        if !is_whole() && loaded >= 3 {
            return;
        }
    }
    let mut recorder = begun.unwrap();
    tests::processes::signal(recorder.id().cast_signed(), libc::SIGINT).unwrap();
    assert!(recorder.wait().unwrap().success());
    assert!(loaded > 12, "{loaded}");
    for made in ["redis.html", "trace.html", "ldd.pftrace", "on.svg"] {
        assert!(
            fs::metadata(scene.made(made)).unwrap().len() > 1000,
            "{made}"
        );
    }
    let log = words_of_log(&scene.made("my.log"));
    for function in ["point", "main"] {
        assert!(log.contains(&format!("{function}+0x")), "{log}");
    }
}

fn words_of_log(log: &Path) -> String {
    let mut read = Command::new(dist::tracer_user().unwrap());
    let output = read.arg("read").arg(log).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}
