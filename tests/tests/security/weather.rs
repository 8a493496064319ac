//! The service in rough weather: no processor, no descriptor, no memory, and ended under load.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::Output;
use std::time::{Duration, Instant};

use tests::attacker::{ATTACKER, VICTIM, command_as, delay_limit};
use tests::rights::missing_right;
use tests::target::Target;
use tests::{is_whole, wait_until};

use crate::serve::{SERVICE, SOON, Service, lines};

/// Threads that want a processor all the time.
const BUSY: usize = 16;

/// Programs that have streams when the service is killed.
const PROGRAMS: usize = 8;

/// Longest time that a client waits for a service that does not answer.
const UNANSWERED: Duration = Duration::from_secs(5);

/// Output of a program whose children were all seen.
const SERVED: [&str; 2] = ["forks 7", "lost 1"];

fn ask(service: &Service) -> Output {
    service.program(VICTIM, "hidden_forks").output().unwrap()
}

/// Asks in vain, and not for long.
fn is_refused_in_time(service: &Service) {
    let start = Instant::now();
    let output = ask(service);
    assert!(!output.status.success(), "{output:?}");
    let took = start.elapsed();
    assert!(took < UNANSWERED + delay_limit(), "{took:?}");
}

/// Sets a limit of the service's, as `prlimit` names it.
fn limit(service: &Service, limit: &str) {
    let mut prlimit = command_as(SERVICE, "prlimit");
    prlimit.arg(format!("--pid={}", service.pid())).arg(limit);
    assert!(prlimit.status().unwrap().success(), "{limit}");
}

/// A service that has served, and has no program in the kernel any more.
fn idle() -> Service {
    let service = Service::start().unwrap();
    let output = ask(&service);
    assert_eq!(lines(&output), SERVED, "{output:?}");
    wait_until("the programs to be unloaded", SOON, || {
        Ok(service.objects().is_empty().then_some(()))
    })
    .unwrap();
    service
}

#[test]
#[ignore = "loads eBPF"]
fn threads_that_want_all_processors_keep_no_program_from_its_events() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let busy = || {
        let mut shell = command_as(ATTACKER, "sh");
        let script = "echo ready; while :; do :; done";
        Target::start(shell.args(["-c", script])).unwrap().0
    };
    let _busy: Vec<_> = (0..BUSY).map(|_| busy()).collect();
    // The first one has the programs loaded.
    for _ in 0..2 {
        let output = ask(&service);
        assert_eq!(lines(&output), SERVED, "{output:?}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_service_without_descriptors_refuses_and_serves_again_once_it_has_some() {
    if missing_right().is_some() {
        return;
    }
    let service = idle();
    let open = fs::read_dir(format!("/proc/{}/fd", service.pid())).unwrap();
    let open = open.count();
    // None for a connection; one; a proof too, but none for the programs.
    for free in [0, 1, 4, 8] {
        limit(&service, &format!("--nofile={}:", open + free));
        is_refused_in_time(&service);
    }
    limit(&service, "--nofile=1024:");
    let output = ask(&service);
    assert_eq!(lines(&output), SERVED, "{output:?}");
}

#[test]
#[ignore = "loads eBPF"]
fn a_service_without_memory_holds_no_program_up() {
    if missing_right().is_some() || !is_whole() {
        return;
    }
    let mut service = idle();
    let bytes = memory(&service, "VmSize") << 10;
    // Not enough to load programs: it refuses, or ends.
    limit(&service, &format!("--as={}", bytes + (8 << 20)));
    is_refused_in_time(&service);
    // As its manager starts it again.
    service.replace(|| {}).unwrap();
    let output = ask(&service);
    assert_eq!(lines(&output), SERVED, "{output:?}");
}

/// Returns a size of the service's memory in KiB, by its name in `/proc/PID/status`.
fn memory(service: &Service, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", service.pid())).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = size.unwrap().trim_start_matches(':').trim();
    kib.trim_end_matches(" kB").parse().unwrap()
}

/// Returns the KiB of the service's memory that are there, without rings of a third CPU and of
/// further ones.
fn memory_for_two_cpus(service: &Service) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{}/smaps", service.pid())).unwrap();
    let (mut is_ring, mut rings) = (false, 0);
    for line in maps.lines() {
        if let Some(size) = line.strip_prefix("Rss:").filter(|_| is_ring) {
            let kib: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
            rings += kib;
        } else if line.contains(" r--s ") {
            is_ring = line.ends_with("bpf-map");
        } else if line.starts_with("VmFlags:") {
            is_ring = false;
        }
    }
    let cpus = std::thread::available_parallelism().unwrap().get();
    let further = rings - rings * 2 / u64::try_from(cpus).unwrap().max(2);
    memory(service, "VmRSS") - further
}

#[test]
#[ignore = "loads eBPF"]
fn ten_users_with_streams_take_twelve_mebibytes_of_the_service() {
    // As it is built for tests it has more of its own program in memory.
    if missing_right().is_some() || !is_whole() {
        return;
    }
    let service = Service::start().unwrap();
    let programs: Vec<Target> = (0..10)
        .map(|nth| {
            let mut program = service.program(ATTACKER + 100 + nth, "agent_returns");
            let program = Target::start(&mut program).unwrap().0;
            program.wait_for("first").unwrap();
            program
        })
        .collect();
    // What loading takes is given back a little later.
    let mut kib = 0;
    let is_small = wait_until("memory to be given back", SOON, || {
        kib = memory_for_two_cpus(&service);
        Ok((kib <= 12 << 10).then_some(()))
    });
    assert!(is_small.is_ok(), "{kib} KiB");
    for program in programs {
        program.end_saying().unwrap();
    }
}

#[test]
#[ignore = "loads eBPF"]
fn processes_that_came_and_went_unseen_take_no_memory() {
    if missing_right().is_some() || !is_whole() {
        return;
    }
    let service = Service::start().unwrap();
    let mut program = service.program(VICTIM, "unseen_children");
    let program = Target::start(&mut program).unwrap().0;
    program.wait_for("some").unwrap();
    let before = memory(&service, "RssAnon");
    program.wait_for("more").unwrap();
    let after = memory(&service, "RssAnon");
    // A hundred bytes for each of the forty thousand; of those that have just left it knows more.
    assert!(after < before + 4000, "{before} {after} KiB");
    program.end_saying().unwrap();
}

#[test]
#[ignore = "loads eBPF"]
fn under_load_each_program_goes_on_with_the_next_service() {
    if missing_right().is_some() || !is_whole() {
        return;
    }
    let mut service = Service::start().unwrap();
    let start = |user| {
        let mut program = service.program(user, "agent_returns");
        let program = Target::start(&mut program).unwrap().0;
        program.wait_for("first").unwrap();
        program
    };
    let users = [ATTACKER, VICTIM].into_iter().cycle();
    let programs: Vec<_> = users.take(PROGRAMS).map(start).collect();
    let gap = || {
        for program in &programs {
            program.wait_for("gap").unwrap();
        }
    };
    service.replace(gap).unwrap();
    for program in programs {
        program.wait_for("again").unwrap();
        program.end_saying().unwrap();
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_stopped_service_holds_a_program_up_for_some_seconds_at_most() {
    if missing_right().is_some() || !is_whole() {
        return;
    }
    let service = Service::start().unwrap();
    let send = |signal| {
        // SAFETY: takes integers only; it is the test's child.
        assert_eq!(unsafe { libc::kill(service.pid(), signal) }, 0);
    };
    send(libc::SIGSTOP);
    is_refused_in_time(&service);
    send(libc::SIGCONT);
    wait_until("the service to answer", SOON, || {
        Ok((lines(&ask(&service)) == SERVED).then_some(()))
    })
    .unwrap();
}
