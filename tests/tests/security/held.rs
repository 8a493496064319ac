//! A traced process that its own user holds by `ptrace`: others are traced all the same, and the
//! trace ends when it is asked to.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use tests::attacker::{ATTACKER, VICTIM, as_user, delay_limit, peak_kib, stage};
use tests::cgroup::Cgroup;
use tests::event::Event;
use tests::processes::signal;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::Tracer;
use tests::wait_until;

/// Events of each program.
const EVENTS: usize = 500;

/// Time that the programs take themselves, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Words of a shell that run a program of the stage as this user.
fn words(user: u32, stage: &std::path::Path, arguments: &[&str]) -> String {
    let command = as_user(user, stage, arguments[0]);
    let words = command.get_args().map(|word| word.to_string_lossy());
    let words: Vec<_> = words
        .chain(arguments[1..].iter().map(|word| (*word).into()))
        .collect();
    format!(
        "LD_LIBRARY_PATH={}/dist/lib setpriv {}",
        stage.display(),
        words.join(" ")
    )
}

/// Returns the pid of the process that traces a process (ptrace), as the kernel says.
fn tracer_of(pid: u64) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.unwrap().trim().parse().unwrap()
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn a_process_that_its_user_holds_holds_no_tracer_up() {
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["flood", "holder"]).unwrap();
    for kind in ["exec", "now", "exit"] {
        let errors = stage.path().join(kind);
        let flood = stage.path().join("flood");
        // Files that say how far it is: the held one is traced, the held one emits, the victim is
        // traced.
        let moments = ["traced", "emits", "begins"];
        let [traced, emits, begins] = moments.map(|at| stage.path().join(format!("{kind}.{at}")));
        // Held amid its emissions, it emits for as long as that takes.
        let seconds = if kind == "now" { "60" } else { "1" };
        let held = words(
            ATTACKER,
            stage.path(),
            &["holder", kind, flood.to_str().unwrap(), "1", "500", seconds],
        );
        let victim = words(VICTIM, stage.path(), &["flood", "1", "500", "1"]);
        // The victim begins when the other is held. Each waits until its area is found, which is
        // another one than the tracer's.
        let script = format!(
            "go_after() {{ for i in $(seq 1200); do [ -e $1 ] && break; sleep 0.05; done; printf g; sleep $2; }}\n\
             export HOLD_AFTER={emits}\n\
             go_after {traced} {seconds} | {held} > /dev/null 2> {errors} &\n\
             until grep -q held {errors}; do sleep 0.05; done\n\
             go_after {begins} 2 | {victim} > /dev/null",
            emits = emits.display(),
            traced = traced.display(),
            begins = begins.display(),
            errors = errors.display(),
        );
        let mut tracer = Tracer::start("run", ["--", "sh", "-c", &script]).unwrap();
        if kind != "exec" {
            tracer.wait_for(|event| event.is_user("marker")).unwrap();
        }
        fs::write(&traced, "").unwrap();
        if kind == "now" {
            tracer.wait_for(|event| event.is_user("flood")).unwrap();
            fs::write(&emits, "").unwrap();
        }
        let said = wait_until("the holder", TIMEOUT, || {
            let said = fs::read_to_string(&errors).unwrap_or_default();
            Ok(said.ends_with('\n').then_some(said))
        })
        .unwrap();
        let said: Vec<String> = said.lines().map(str::to_owned).collect();
        let pids = values_after(&said, "held").unwrap().remove(0);
        let (held, holder) = (pids[0], pids[1]);
        assert_eq!(tracer_of(held), holder, "{kind}: it is not held");
        let is_held = |event: &Event| u64::try_from(event.pid) == Ok(held);
        tracer
            .wait_for(|event| event.is_user("marker") && !is_held(event))
            .unwrap();
        fs::write(&begins, "").unwrap();
        let of = |event: &Event, held: bool| event.is_user("flood") && is_held(event) == held;
        wait_until("all events of the victim", TIMEOUT, || {
            let events = tracer.so_far()?;
            let of_victim = events.iter().filter(|event| of(event, false)).count();
            Ok((of_victim >= EVENTS).then_some(()))
        })
        .unwrap();
        let peak = peak_kib(tracer.pid()).unwrap();
        let start = Instant::now();
        tracer.signal(libc::SIGINT).unwrap();
        // The first one was for the command, if that had not ended yet.
        std::thread::sleep(Duration::from_millis(500));
        let _ = tracer.signal(libc::SIGINT);
        let trace = tracer.finish().unwrap();
        assert!(
            start.elapsed() < delay_limit(),
            "{kind}: {:?}",
            start.elapsed()
        );
        assert_eq!(tracer_of(held), holder, "{kind}: it was let go");
        let holder = i32::try_from(holder).unwrap();
        // SAFETY: takes integers only. The kernel ends what it holds with it.
        unsafe { libc::kill(holder, libc::SIGKILL) };

        let events = trace.events().unwrap();
        let count = |is_held| events.iter().filter(|event| of(event, is_held)).count();
        assert_eq!(count(false), EVENTS, "{kind}: {}", trace.stderr);
        // What it emitted before it was held is there as well.
        match kind {
            "exec" => assert_eq!(count(true), 0),
            "now" => assert!(count(true) > 0),
            _ => assert_eq!(count(true), EVENTS),
        }
        assert_eq!(
            trace.summary().unwrap().all_lost(),
            0,
            "{kind}: {}",
            trace.stderr
        );
        assert!(peak < 260 * 1024, "{kind}: {peak} KiB");
    }
}

/// Way in which a process may be held, by its user or by the machine's administrator.
#[derive(Debug)]
enum Hold {
    Signal,
    Ptrace,
    Freezer(Cgroup),
}

impl Hold {
    /// Prepares to hold the process, which is a child of the test.
    fn prepare(self, pid: i32) -> Self {
        match &self {
            Self::Signal => {}
            Self::Ptrace => ptrace(libc::PTRACE_SEIZE, pid),
            Self::Freezer(group) => {
                fs::write(group.path().join("cgroup.procs"), pid.to_string()).unwrap();
            }
        }
        self
    }

    fn hold(&self, pid: i32) {
        match self {
            Self::Signal => signal(pid, libc::SIGSTOP).unwrap(),
            Self::Ptrace => {
                ptrace(libc::PTRACE_INTERRUPT, pid);
                // SAFETY: takes integers and no pointer for the status.
                let stopped = unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) };
                assert_eq!(stopped, pid);
            }
            Self::Freezer(group) => {
                fs::write(group.path().join("cgroup.freeze"), "1").unwrap();
            }
        }
        wait_until("that it is held", TIMEOUT, || {
            Ok(self.is_held(pid).then_some(()))
        })
        .unwrap();
    }

    fn is_held(&self, pid: i32) -> bool {
        if let Self::Freezer(group) = self {
            let events = fs::read_to_string(group.path().join("cgroup.events")).unwrap();
            return events.contains("frozen 1");
        }
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.contains("State:\tT") || status.contains("State:\tt")
    }

    fn let_go(&self, pid: i32) {
        match self {
            Self::Signal => signal(pid, libc::SIGCONT).unwrap(),
            Self::Ptrace => ptrace(libc::PTRACE_CONT, pid),
            Self::Freezer(group) => {
                fs::write(group.path().join("cgroup.freeze"), "0").unwrap();
            }
        }
    }
}

fn ptrace(request: libc::c_uint, pid: i32) {
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: these requests read and write no memory of this process.
    let failed = unsafe { libc::ptrace(request, pid, nothing, nothing) };
    assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn a_controller_does_not_wait_for_a_process_that_is_held() {
    /// Number of rounds: enough that it is held amid an emission in one of them.
    const ROUNDS: usize = 12;
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["flood", "watcher"]).unwrap();
    fs::set_permissions(stage.path(), Permissions::from_mode(0o777)).unwrap();
    for hold in [
        Hold::Signal,
        Hold::Ptrace,
        Hold::Freezer(Cgroup::new().unwrap()),
    ] {
        let mut flood = as_user(ATTACKER, stage.path(), "flood");
        let (mut flood, _) = Target::start(flood.args(["2", "40000000", "60"])).unwrap();
        let pid = flood.pid();
        let hold = hold.prepare(pid);
        // One of root's, and one of its own user.
        let mut watchers = [0, ATTACKER].map(|user| {
            let mut watcher = as_user(user, stage.path(), "watcher");
            let log = stage.path().join(format!("{user}.log"));
            Target::start(watcher.arg(pid.to_string()).arg(log))
                .unwrap()
                .0
        });
        flood.go().unwrap();
        for round in 0..ROUNDS {
            std::thread::sleep(Duration::from_millis(20));
            hold.hold(pid);
            for watcher in &mut watchers {
                watcher.go().unwrap();
                let said = watcher.wait_until_done().unwrap();
                let longest = values_after(&said, "longest").unwrap().remove(0);
                assert!(
                    Duration::from_millis(longest[0]) < delay_limit(),
                    "{hold:?}, round {round}: {longest:?}"
                );
            }
            assert!(hold.is_held(pid));
            hold.let_go(pid);
        }
        hold.hold(pid);
        for watcher in watchers {
            let said = watcher.end_saying().unwrap();
            let longest = values_after(&said, "longest").unwrap().remove(0);
            eprintln!("{hold:?}: {longest:?}");
            assert!(
                Duration::from_millis(longest[0]) < delay_limit() && longest[1] > 0,
                "{hold:?}: {longest:?}"
            );
        }
        assert!(hold.is_held(pid));
        hold.let_go(pid);
        drop(flood);
    }
}
