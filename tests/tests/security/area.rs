//! Hostile processes and trace areas: the owner of an area, and what a process may do in the area
//! of another.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use tests::attacker::{ATTACKER, VICTIM, as_user, stage};
use tests::dist;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::Tracer;

/// Name that a descriptor of an area has in `/proc`.
const NAME: &str = "/memfd:posix_trace_area (deleted)";

/// The areas that a process has mapped, by their inodes, as the kernel shows them.
fn areas_of(pid: i32) -> anyhow::Result<Vec<u64>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let of_areas = maps.lines().filter(|line| line.ends_with(NAME));
    let mut inodes: Vec<u64> = of_areas
        .filter_map(|line| line.split_ascii_whitespace().nth(4)?.parse().ok())
        .collect();
    inodes.sort_unstable();
    inodes.dedup();
    Ok(inodes)
}

/// Opens the area of a process.
fn open_area(pid: i32, how: i32) -> anyhow::Result<OwnedFd> {
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        let path = entry?.path();
        if std::fs::read_link(&path).is_ok_and(|link| link.as_os_str() == NAME) {
            let mut options = std::fs::OpenOptions::new();
            options.read(true).write(how == 0).custom_flags(how);
            return Ok(options.open(path)?.into());
        }
    }
    anyhow::bail!("process {pid} has no area")
}

/// Lets a command inherit the first descriptor of each pair as the second.
fn hand_on(command: &mut Command, descriptors: Vec<(OwnedFd, RawFd)>) {
    let copy = move || {
        for (from, to) in &descriptors {
            // SAFETY: takes integers only.
            if unsafe { libc::dup2(from.as_raw_fd(), *to) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: `dup2` is async-signal-safe, and nothing is allocated.
    unsafe { command.pre_exec(copy) };
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn who_has_given_privileges_up_does_not_read_what_the_privileged_emit() {
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["privileged", "spy"]).unwrap();
    let mut command = Command::new(stage.path().join("privileged"));
    command.arg(ATTACKER.to_string());
    command.arg(stage.path().join("spy")).arg("no other user");
    let (mut target, _) = Target::start(&mut command).unwrap();
    let mut tracer = Tracer::attach(target.pid(), &["--no-system"]).unwrap();
    tracer.wait_for(|event| event.is_user("marker")).unwrap();
    target.go().unwrap();
    let said = target.wait_until_done().unwrap();
    let trace = tracer.stop().unwrap();
    target.end().unwrap();

    let count = |word| {
        let lines: Vec<String> = said.iter().map(|line| line.replace("spy ", "")).collect();
        values_after(&lines, word).unwrap()[0][0]
    };
    // The area is handed on, for programs of the same user; this one cannot open it.
    assert!(count("found") > 0, "{said:?}");
    assert_eq!(count("read"), 0, "{said:?}");
    let events = trace.events().unwrap();
    let secrets = events.iter().filter(|event| event.is_user("secret"));
    assert_eq!(secrets.count(), 100);
    assert_eq!(trace.summary().unwrap().all_lost(), 0);
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn a_program_that_is_run_as_another_user_has_an_area_of_its_own_and_is_traced_in_it() {
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["flood"]).unwrap();
    // The tracer makes an area for the command, which is `setpriv`, of root; what it becomes is not
    // root's. It waits a second.
    let flood = as_user(VICTIM, stage.path(), "flood");
    let words: Vec<_> = flood
        .get_args()
        .map(|word| word.to_string_lossy())
        .collect();
    let line = format!(
        "(sleep 1; printf g; sleep 1) | setpriv {} 1 1000 1",
        words.join(" ")
    );
    let mut command = Command::new(dist::tracer_user().unwrap());
    command.args(["run", "--format", "json", "--output"]);
    let output = stage.path().join("out");
    command.arg(&output).args(["--", "sh", "-c", &line]);
    command.env("LD_LIBRARY_PATH", stage.path().join("dist/lib"));
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let events = std::fs::read_to_string(&output).unwrap();
    let flood = |line: &&str| line.contains("\"type\":\"flood\"");
    assert_eq!(events.lines().filter(flood).count(), 1000);
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn an_area_of_another_user_is_not_taken_up() {
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["flood"]).unwrap();
    let arguments = ["1", "1000", "1"];
    let mut attacker = as_user(ATTACKER, stage.path(), "flood");
    let (attacker, _) = Target::start(attacker.args(arguments)).unwrap();
    let theirs = areas_of(attacker.pid()).unwrap();
    assert_eq!(theirs.len(), 1);
    for user in [0, VICTIM] {
        // As a program that is not careful about what it inherits starts another one.
        let mut victim = Command::new(stage.path().join("flood"));
        victim.uid(user).args(arguments);
        victim.env("LD_LIBRARY_PATH", stage.path().join("dist/lib"));
        let open = |how| open_area(attacker.pid(), how).unwrap();
        hand_on(
            &mut victim,
            vec![
                (open(0), 3),
                (open(0), 992),
                (open(libc::O_PATH), 993),
                (open(0), 1000),
            ],
        );
        let (mut victim, _) = Target::start(&mut victim).unwrap();
        let own = areas_of(victim.pid()).unwrap();
        assert_eq!(own.len(), 1, "{own:?}");
        assert_ne!(own, theirs, "as user {user}");

        // A controller is not led to the wrong one by the descriptors either.
        let mut tracer = Tracer::attach(victim.pid(), &["--no-system"]).unwrap();
        tracer.wait_for(|event| event.is_user("marker")).unwrap();
        victim.go().unwrap();
        victim.wait_until_done().unwrap();
        let trace = tracer.stop().unwrap();
        let events = trace.events().unwrap();
        let flood = events.iter().filter(|event| event.is_user("flood"));
        assert_eq!(flood.count(), 1000);
        assert_eq!(trace.summary().unwrap().all_lost(), 0);
        victim.end().unwrap();
    }
    attacker.end().unwrap();
}

#[test]
#[ignore = "needs root: makes a set-uid program"]
fn a_set_uid_program_takes_up_no_area() {
    use std::os::unix::fs::PermissionsExt as _;
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&[]).unwrap();
    // With the library inside: what is set-uid does not look for libraries where the environment
    // says.
    dist::compile_static("flood", stage.path()).unwrap();
    let set_uid = stage.path().join("flood");
    // Of the very user whose area it is handed, so that nothing but its being set-uid shows.
    std::os::unix::fs::chown(&set_uid, Some(VICTIM), None).unwrap();
    std::fs::set_permissions(&set_uid, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let ordinary = stage.path().join("ordinary");
    std::fs::copy(&set_uid, &ordinary).unwrap();
    std::fs::set_permissions(&ordinary, std::fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = ["1", "1000", "1"];
    let mut owner = as_user(VICTIM, stage.path(), "ordinary");
    let (owner, _) = Target::start(owner.args(arguments)).unwrap();
    let theirs = areas_of(owner.pid()).unwrap();

    for (program, user, is_taken) in [(&set_uid, ATTACKER, false), (&ordinary, VICTIM, true)] {
        let mut command = Command::new(program);
        command.uid(user).gid(user).args(arguments);
        command.env("LD_LIBRARY_PATH", stage.path().join("dist/lib"));
        let handed = open_area(owner.pid(), libc::O_PATH).unwrap();
        hand_on(&mut command, vec![(handed, 1000)]);
        let (taker, _) = Target::start(&mut command).unwrap();
        let own = areas_of(taker.pid()).unwrap();
        assert_eq!(
            own == theirs,
            is_taken,
            "as user {user}: {own:?}, {theirs:?}"
        );
        taker.end().unwrap();
    }
    owner.end().unwrap();
}

#[test]
#[ignore = "needs root: looks at files of other users"]
fn an_area_is_its_users_alone() {
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["flood"]).unwrap();
    let mut command = as_user(VICTIM, stage.path(), "flood");
    let (target, _) = Target::start(command.args(["1", "1000", "1"])).unwrap();
    let file = std::fs::File::from(open_area(target.pid(), 0).unwrap());
    let facts = file.metadata().unwrap();
    assert_eq!((facts.uid(), facts.mode() & 0o7777), (VICTIM, 0o600));
    target.end().unwrap();
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn no_process_emits_under_the_pid_of_another() {
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["flood", "forger"]).unwrap();
    let mut victim = as_user(VICTIM, stage.path(), "flood");
    let (victim, _) = Target::start(victim.args(["1", "1000", "1"])).unwrap();
    let claimed = victim.pid().to_string();
    for options in [&["--no-system"][..], &[]] {
        let mut command = Command::new(dist::tracer_user().unwrap());
        command.arg("run").args(options);
        command.args(["--format", "json", "--output"]);
        let output = stage.path().join("out");
        command.arg(&output).arg("--");
        command.arg(stage.path().join("forger")).arg("100");
        command.env("LD_LIBRARY_PATH", stage.path().join("dist/lib"));
        command.env("CLAIMED", &claimed);
        let ended = command.output().unwrap();
        let events = std::fs::read_to_string(&output).unwrap();
        let pid = format!("\"pid\":{claimed},");
        assert!(
            !events.lines().any(|line| line.contains(&pid)),
            "{options:?}"
        );
        let forged = events
            .lines()
            .filter(|line| line.contains("\"type\":\"forged\""));
        assert_eq!(
            forged.filter(|line| line.contains("\"pid\":0,")).count(),
            100
        );
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert!(errors.contains("100 user events say"), "{errors}");
    }
    victim.end().unwrap();
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn areas_of_others_take_away_no_descriptors_that_are_needed() {
    const OTHERS: usize = 80;
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["flood"]).unwrap();
    let start = |user, events: &str| {
        let mut command = as_user(user, stage.path(), "flood");
        Target::start(command.args(["1", events, "1"])).unwrap().0
    };
    let others: Vec<Target> = (0..OTHERS).map(|_| start(ATTACKER, "500")).collect();
    let mut victim = start(VICTIM, "1000");
    // With fewer descriptors than there are areas; the limit may be raised.
    let mut command = Command::new("prlimit");
    command.args(["--nofile=64:4096", "--"]);
    command.arg(dist::tracer_user().unwrap());
    command.args(["attach", "--no-system", "--format", "json"]);
    command.args(
        others
            .iter()
            .chain([&victim])
            .map(|target| target.pid().to_string()),
    );
    let mut tracer = Tracer::start_command(&mut command).unwrap();
    let own = victim.pid();
    tracer
        .wait_for(|event| event.is_user("marker") && event.pid == own)
        .unwrap();
    victim.go().unwrap();
    victim.wait_until_done().unwrap();
    let trace = tracer.stop().unwrap();
    let events = trace.events().unwrap();
    let of_victim = events
        .iter()
        .filter(|event| event.is_user("flood") && event.pid == own);
    assert_eq!(of_victim.count(), 1000);
    assert_eq!(trace.status.code(), Some(0), "{}", trace.stderr);
}

#[test]
#[ignore = "needs root, as the other tests here"]
fn a_command_has_the_limit_that_it_would_have_had() {
    if missing_right().is_some() {
        return;
    }
    let mut command = Command::new("prlimit");
    command.args(["--nofile=300:400", "--"]);
    command.arg(dist::tracer_user().unwrap());
    command.args(["run", "--no-system", "--output", "/dev/null", "--"]);
    command.args(["sh", "-c", "ulimit -Sn; ulimit -Hn"]);
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "300\n400\n");
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn a_signal_is_answered_whatever_a_target_writes_into_its_area() {
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["flood", "scribbler"]).unwrap();
    for kind in ["any", "likely", "marks"] {
        scribble(stage.path(), kind);
    }
}

/// Runs a process that writes nonsense of this kind into its area, beside a victim.
fn scribble(stage: &Path, kind: &str) {
    let mut hostile = as_user(ATTACKER, stage, "scribbler");
    let (mut hostile, _) = Target::start(hostile.arg(kind)).unwrap();
    let mut victim = as_user(VICTIM, stage, "flood");
    let (mut victim, _) = Target::start(victim.args(["1", "1000", "1"])).unwrap();
    let (theirs, own) = (hostile.pid(), victim.pid());
    let pids = [theirs, own].map(|pid| pid.to_string());
    // Made-up events come faster than they are printed: the stream has space for them, so that they
    // push none of the victim's out.
    let options = ["--no-system", "--stream-size", "128M"]
        .into_iter()
        .chain(pids.iter().map(String::as_str));
    let mut tracer = Tracer::start("attach", options).unwrap();
    for pid in [theirs, own] {
        tracer
            .wait_for(|event| event.is_user("marker") && event.pid == pid)
            .unwrap();
    }
    hostile.go().unwrap();
    hostile.wait_until_done().unwrap();
    victim.go().unwrap();
    victim.wait_until_done().unwrap();
    // They need not wait for the end of the trace.
    let is_flood = |event: &tests::event::Event| event.is_user("flood") && event.pid == own;
    tracer.wait_for_some(1000, "flood", is_flood).unwrap();
    let peak = tests::attacker::peak_kib(tracer.pid()).unwrap();
    let start = std::time::Instant::now();
    let trace = tracer.stop().unwrap();
    let took = start.elapsed();
    let events = trace.events().unwrap();
    let of_victim = events
        .iter()
        .filter(|event| event.is_user("flood") && event.pid == own);
    assert_eq!(of_victim.count(), 1000);
    // A second, and what a busy machine takes.
    assert!(
        took < tests::timeout(std::time::Duration::from_secs(5)),
        "{took:?}"
    );
    assert!(peak < 260 * 1024, "{peak} KiB");
    let lost = &trace.summary().unwrap().lost;
    // What was written was looked at: of marks nothing is lost.
    assert_eq!(
        lost.values().any(|count| *count > 0),
        kind != "marks",
        "{lost:?}"
    );
    eprintln!("{kind}: ended after {took:?}, {peak} KiB, {lost:?}");
}
