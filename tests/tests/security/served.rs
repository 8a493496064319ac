//! Files that a hostile process serves itself (FUSE), mapped by a process that is looked at: a
//! reader of such a file that gets no answer waits for ever.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tests::attacker::{ATTACKER, END_LIMIT, VICTIM, as_user, delay_limit, stage, usual_end};
use tests::dist;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::Tracer;

/// Makes a process with code mapped from a file whose server no longer answers; returns both. The
/// kind says what the process does then.
fn trap(stage: &Path, kind: &str) -> (i32, Target) {
    let folder = stage.join(kind);
    fs::create_dir(&folder).unwrap();
    let mut trap = Command::new(stage.join("fuse_trap"));
    trap.arg(ATTACKER.to_string()).arg("/bin/true").arg(&folder);
    trap.arg(kind);
    let (mut trap, said) = Target::start(&mut trap).unwrap();
    let mapper = values_after(&said, "process").unwrap()[0][0];
    let mapper = i32::try_from(mapper).unwrap();
    let maps = fs::read_to_string(format!("/proc/{mapper}/maps")).unwrap();
    let is_mapped = |line: &str| line.contains("r-xp") && line.ends_with("/program");
    assert!(maps.lines().any(is_mapped), "{maps}");
    trap.go().unwrap();
    trap.wait_for("silent").unwrap();
    (mapper, trap)
}

#[test]
#[ignore = "needs root: mounts a file system"]
fn a_mapped_file_that_a_silent_program_serves_is_not_asked_for() {
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["flood", "fuse_trap"]).unwrap();
    let (mapper, trap) = trap(stage.path(), "mapped");
    let mut victim = as_user(VICTIM, stage.path(), "flood");
    let (mut victim, _) = Target::start(victim.args(["1", "500", "1"])).unwrap();

    let start = Instant::now();
    let mut probes = Command::new("timeout");
    probes.args(["--kill-after=1", "30"]);
    probes.arg(dist::tracer_user().unwrap());
    let output = probes
        .arg("probes")
        .arg(mapper.to_string())
        .output()
        .unwrap();
    assert!(start.elapsed() < delay_limit(), "{:?}", start.elapsed());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    // It is reported; and what else there is is listed.
    assert!(
        errors.contains("a program of another user serves it (FUSE)"),
        "{errors}"
    );
    let listed = String::from_utf8_lossy(&output.stdout);
    assert!(listed.contains("fuse_trap:main"), "{errors}");

    // A probe in what both have mapped.
    let options = [
        "--events",
        "fork,user",
        "--probe",
        "libc.so.6:clock_nanosleep",
    ];
    let pids = [mapper, victim.pid()].map(|pid| pid.to_string());
    let start = Instant::now();
    let all = options.into_iter().chain(pids.iter().map(String::as_str));
    let mut tracer = Tracer::start("attach", all).unwrap();
    let own = victim.pid();
    tracer
        .wait_for(|event| event.is_user("marker") && event.pid == own)
        .unwrap();
    assert!(start.elapsed() < delay_limit(), "{:?}", start.elapsed());
    victim.go().unwrap();
    victim.wait_until_done().unwrap();
    let start = Instant::now();
    let trace = tracer.stop().unwrap();
    assert!(start.elapsed() < delay_limit(), "{:?}", start.elapsed());
    let events = trace.events().unwrap();
    let of_victim = |name: &str| {
        let events = events.iter().filter(|event| event.pid == own);
        events
            .filter(|event| event.event_type.contains(name))
            .count()
    };
    assert_eq!(of_victim("flood"), 500, "{}", trace.stderr);
    // It sleeps 500 times a second.
    assert_eq!(of_victim("clock_nanosleep"), 500, "{}", trace.stderr);
    assert!(
        trace
            .stderr
            .contains("a program of another user serves it (FUSE)"),
        "{}",
        trace.stderr
    );
    victim.end().unwrap();
    // Who asks cannot even be killed while it waits.
    let said = trap.end_saying().unwrap();
    assert_eq!(values_after(&said, "asked").unwrap()[0][0], 0, "{said:?}");
}

/// Tells whether the kernel withholds a file of a process in `/proc`: a reader waits until it is
/// killed.
fn is_held(pid: i32, name: &str) -> bool {
    let mut asker = Command::new("cat");
    asker.arg(format!("/proc/{pid}/{name}"));
    let mut asker = asker.stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let is_held = asker.try_wait().unwrap().is_none();
    let _ = asker.kill();
    asker.wait().unwrap();
    is_held
}

/// Asks what a process waits for that keeps the kernel from answering; the question itself comes to
/// an end.
fn assert_now_answers(held: i32, kind: &str) {
    let start = Instant::now();
    let mut now = Command::new("timeout");
    now.args(["--kill-after=1", "30"]);
    now.arg(dist::tracer_user().unwrap());
    let output = now
        .args(["why", "--now", "-p", &held.to_string()])
        .output()
        .unwrap();
    assert!(
        start.elapsed() < delay_limit(),
        "{kind}: {:?}",
        start.elapsed()
    );
    let said = String::from_utf8_lossy(&output.stdout);
    let expected = match kind {
        "page" => "waits for a page of memory",
        _ => "the kernel does not answer about 1 process",
    };
    assert!(said.contains(expected), "{kind}: {said} {output:?}");
}

#[test]
#[ignore = "needs root: mounts a file system"]
fn a_process_that_keeps_the_kernel_from_answering_holds_no_tracer_up() {
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["flood", "fuse_trap"]).unwrap();
    for kind in ["exec", "page"] {
        let (held, trap) = trap(stage.path(), kind);
        assert!(is_held(held, "environ"), "{kind}: the trap is not set");
        let mut victim = as_user(VICTIM, stage.path(), "flood");
        let (mut victim, _) = Target::start(victim.args(["1", "500", "1"])).unwrap();

        let start = Instant::now();
        let mut probes = Command::new("timeout");
        probes.args(["--kill-after=1", "10"]);
        probes.arg(dist::tracer_user().unwrap());
        let output = probes.arg("probes").arg(held.to_string()).output().unwrap();
        assert!(
            start.elapsed() < delay_limit(),
            "{kind}: {:?}",
            start.elapsed()
        );
        let errors = String::from_utf8_lossy(&output.stderr);
        let reported = format!("process {held} keeps the kernel from answering");
        assert!(errors.contains(&reported), "{kind}: {errors}");

        assert_now_answers(held, kind);
        let pids = [held, victim.pid()].map(|pid| pid.to_string());
        let start = Instant::now();
        let mut tracer = Tracer::start("attach", &pids).unwrap();
        let own = victim.pid();
        tracer
            .wait_for(|event| event.is_user("marker") && event.pid == own)
            .unwrap();
        assert!(
            start.elapsed() < delay_limit(),
            "{kind}: {:?}",
            start.elapsed()
        );
        victim.go().unwrap();
        victim.wait_until_done().unwrap();
        let (trace, ending) = tracer.stop_timed().unwrap();
        let is_in_time = ending.own < END_LIMIT || ending.own < usual_end().unwrap() + END_LIMIT;
        assert!(is_in_time, "{kind}: {ending:?}");
        let events = trace.events().unwrap();
        let of_victim = events
            .iter()
            .filter(|event| event.is_user("flood") && event.pid == own);
        assert_eq!(of_victim.count(), 500, "{kind}: {}", trace.stderr);
        assert!(is_held(held, "environ"), "{kind}: the trap was let go of");
        victim.end().unwrap();
        trap.end().unwrap();
    }
}
