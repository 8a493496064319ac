//! Hostile processes that try to use up a tracer's budgets: names, mappings, memory, descriptors,
//! time. Another user's events are complete all the same, within seconds.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tests::attacker::{
    ATTACKER, END_LIMIT, MOST_MEMORY_KIB, VICTIM, as_user, delay_limit, peak_kib, stage, usual_end,
};
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::{Trace, Tracer};

/// Events of the victim.
const EVENTS: usize = 500;

fn victim(stage: &Path) -> Target {
    let mut command = as_user(VICTIM, stage, "flood");
    command.args(["1", &EVENTS.to_string(), "1"]);
    Target::start(&mut command).unwrap().0
}

fn squatters(stage: &Path, what: &[&str], count: usize) -> Vec<Target> {
    let start = |_| Target::start(as_user(ATTACKER, stage, "squatter").args(what)).unwrap();
    (0..count).map(|index| start(index).0).collect()
}

/// A tracer that is attached to all of them, and has seen the victim.
fn attach(others: &[i32], victim: &Target) -> Tracer {
    attach_with(&["--no-system"], others, victim)
}

fn attach_with(options: &[&str], others: &[i32], victim: &Target) -> Tracer {
    let pids = others.iter().copied().chain([victim.pid()]);
    let pids = pids.map(|pid| pid.to_string());
    let options = options
        .iter()
        .map(|option| (*option).to_owned())
        .chain(pids);
    let mut tracer = Tracer::start("attach", options).unwrap();
    let own = victim.pid();
    let is_there = |event: &tests::event::Event| event.is_user("marker") && event.pid == own;
    tracer.wait_for_some(1, "marker", is_there).unwrap();
    tracer
}

/// Lets the victim emit, and ends the trace. Checks that all of its events are there under their
/// name, within the limits of time and memory.
fn all_of_the_victim(mut tracer: Tracer, victim: &mut Target, before_kib: u64) -> Trace {
    let own = victim.pid();
    let start = Instant::now();
    victim.go().unwrap();
    victim.wait_until_done().unwrap();
    // It takes a second by itself.
    assert!(
        start.elapsed() < delay_limit() + Duration::from_secs(1),
        "the victim was held up"
    );
    let start = Instant::now();
    let is_flood = |event: &tests::event::Event| event.is_user("flood") && event.pid == own;
    tracer.wait_for_some(EVENTS, "flood", is_flood).unwrap();
    let took = start.elapsed();
    assert!(
        took < delay_limit(),
        "the victim's events came after {took:?}"
    );
    let peak = peak_kib(tracer.pid()).unwrap();
    assert!(peak < before_kib + MOST_MEMORY_KIB, "{peak} KiB");
    eprintln!("all events; {peak} KiB");
    end(tracer)
}

/// Ends the trace, which takes no longer than it may.
fn end(tracer: Tracer) -> Trace {
    let (trace, ending) = tracer.stop_timed().unwrap();
    eprintln!("{ending:?}");
    // On a slow machine even a trace that is not disturbed takes that long.
    let is_in_time = ending.own < END_LIMIT || ending.own < usual_end().unwrap() + END_LIMIT;
    assert!(is_in_time, "held up at the end: {ending:?}");
    trace
}

/// Processes that take something for themselves beside the victim. Also with the kernel's events of
/// all of them, of which there are so many that a busy machine loses some: of such a trace only the
/// end is looked at.
fn attack(what: &str, count: usize) -> Option<Trace> {
    if missing_right().is_some() {
        return None;
    }
    attack_with(Kernel::Traced, &[what], count);
    Some(attack_with(Kernel::NotTraced, &[what], count))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kernel {
    Traced,
    NotTraced,
}

fn attack_with(kernel: Kernel, what: &[&str], count: usize) -> Trace {
    let stage = stage(&["flood", "squatter"]).unwrap();
    let mut squatters = squatters(stage.path(), what, count);
    let mut victim = victim(stage.path());
    let pids: Vec<i32> = squatters.iter().map(Target::pid).collect();
    let options: &[&str] = match kernel {
        Kernel::Traced => &[],
        Kernel::NotTraced => &["--no-system"],
    };
    let mut tracer = attach_with(options, &pids, &victim);
    let mut seen = HashSet::new();
    let is_new = |event: &tests::event::Event| {
        event.is_user("marker") && pids.contains(&event.pid) && seen.insert(event.pid)
    };
    tracer.wait_for_some(count, "marker", is_new).unwrap();
    let before = peak_kib(tracer.pid()).unwrap();
    for squatter in &mut squatters {
        squatter.go().unwrap();
        squatter.wait_until_done().unwrap();
    }
    // The tracer has seen what they did: it comes by every few milliseconds.
    std::thread::sleep(Duration::from_millis(500));
    let trace = match kernel {
        Kernel::Traced => end(tracer),
        Kernel::NotTraced => all_of_the_victim(tracer, &mut victim, before),
    };
    victim.end().unwrap();
    for squatter in squatters {
        squatter.end().unwrap();
    }
    trace
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn a_user_with_all_names_of_events_takes_no_name_of_others() {
    let Some(trace) = attack("names", 1) else {
        return;
    };
    // Those without a name are reported.
    let reported = "event types are shown without their names";
    assert!(trace.stderr.contains(reported), "{}", trace.stderr);
    let events = trace.events().unwrap();
    let named = events.iter().filter(|event| event.is_user("squatter 0"));
    assert_eq!(named.count(), 1);
    assert_eq!(trace.summary().unwrap().all_lost(), 0);
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn windows_of_one_user_take_no_mappings_and_memory_of_others() {
    // More than a process may have mappings.
    attack("windows", 17);
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn chunks_that_are_said_to_be_there_are_not_made() {
    attack("chunks", 3);
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn windows_that_are_written_to_hold_no_tracer_up() {
    // To look at all of one takes a tenth of a second.
    if let Some(trace) = attack("written", 24) {
        eprintln!("{}", trace.stderr);
    }
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn who_has_the_lock_of_an_areas_file_holds_no_tracer_up() {
    if missing_right().is_some() {
        return;
    }
    // Other users may do the same with a file that they serve (FUSE). Linux 6.1 has the device,
    // with CONFIG_USERFAULTFD.
    let device = File::options()
        .read(true)
        .write(true)
        .open("/dev/userfaultfd")
        .unwrap();
    // It stays open in what is run.
    // SAFETY: takes no pointers; no other value owns the descriptor.
    let inherited = unsafe { libc::dup(device.as_raw_fd()) };
    assert!(inherited > 2);
    let argument = inherited.to_string();
    // All that is looked at waits for the lock; or only what the tracer has itself to give back at
    // the end.
    for what in ["locked", "lock"] {
        attack_with(Kernel::NotTraced, &[what, &argument], 1);
        attack_with(Kernel::Traced, &[what, &argument], 1);
    }
    // SAFETY: opened above, and not used any more.
    unsafe { libc::close(inherited) };
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn chains_of_many_areas_take_no_memory_of_others() {
    attack("chains", 48);
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn a_user_with_all_streams_takes_none_of_others() {
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["flood", "squatter"]).unwrap();
    let mut squatter = squatters(stage.path(), &["streams"], 1).remove(0);
    squatter.go().unwrap();
    squatter.wait_until_done().unwrap();
    let mut victim = victim(stage.path());
    let tracer = attach(&[squatter.pid()], &victim);
    let before = peak_kib(tracer.pid()).unwrap();
    let trace = all_of_the_victim(tracer, &mut victim, before);
    // In its own area there is no slot left for the tracer's.
    let reported = format!("no user events of process {}", squatter.pid());
    assert!(trace.stderr.contains(&reported), "{}", trace.stderr);
    assert_eq!(trace.status.code(), Some(1), "{}", trace.stderr);
    victim.end().unwrap();
    squatter.end().unwrap();
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn a_user_with_more_areas_than_are_read_takes_no_events_of_others() {
    const AREAS: usize = 1200;
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["flood", "squatter"]).unwrap();
    let mut squatter = as_user(ATTACKER, stage.path(), "squatter");
    squatter.args(["areas", &AREAS.to_string()]);
    let (squatter, said) = Target::start(&mut squatter).unwrap();
    let processes = processes_of(&said);
    assert_eq!(processes.len(), AREAS);
    let mut victim = victim(stage.path());
    let tracer = attach(&processes, &victim);
    let before = peak_kib(tracer.pid()).unwrap();
    let trace = all_of_the_victim(tracer, &mut victim, before);
    // Of some nothing is read, and that is reported.
    assert_eq!(trace.status.code(), Some(1), "{}", trace.stderr);
    assert!(
        trace.stderr.contains("could not be read"),
        "{}",
        trace.stderr
    );
    victim.end().unwrap();
    squatter.end().unwrap();
}

/// Tells whether the kernel says that a process has a lease on a file.
fn has_lease(pid: i32) -> bool {
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let pid = pid.to_string();
    let of_process = |line: &str| line.split_ascii_whitespace().any(|word| word == pid);
    locks
        .lines()
        .any(|line| line.contains("LEASE") && of_process(line))
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn a_lease_on_an_area_holds_no_tracer_up() {
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["flood", "leaser"]).unwrap();
    let (leaser, _) = Target::start(&mut as_user(ATTACKER, stage.path(), "leaser")).unwrap();
    assert!(has_lease(leaser.pid()), "the trap is not set");
    let mut victim = victim(stage.path());
    let start = Instant::now();
    let tracer = attach(&[leaser.pid()], &victim);
    assert!(start.elapsed() < delay_limit(), "{:?}", start.elapsed());
    let before = peak_kib(tracer.pid()).unwrap();
    let trace = all_of_the_victim(tracer, &mut victim, before);
    assert!(has_lease(leaser.pid()), "the trap was let go of");
    let reported = format!("no user events of process {}", leaser.pid());
    assert!(trace.stderr.contains(&reported), "{}", trace.stderr);
    assert_eq!(trace.status.code(), Some(1), "{}", trace.stderr);
    victim.end().unwrap();
    leaser.end().unwrap();
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn each_of_many_areas_that_cannot_be_read_is_reported_by_its_process() {
    const AREAS: usize = 48;
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["flood", "leaser"]).unwrap();
    let leaser = || {
        Target::start(&mut as_user(ATTACKER, stage.path(), "leaser"))
            .unwrap()
            .0
    };
    let leasers: Vec<Target> = (0..AREAS).map(|_| leaser()).collect();
    let mut victim = victim(stage.path());
    let pids: Vec<i32> = leasers.iter().map(Target::pid).collect();
    let start = Instant::now();
    let tracer = attach(&pids, &victim);
    assert!(start.elapsed() < delay_limit(), "{:?}", start.elapsed());
    let before = peak_kib(tracer.pid()).unwrap();
    let trace = all_of_the_victim(tracer, &mut victim, before);
    for pid in pids {
        let reported = format!("no user events of process {pid} ");
        assert!(trace.stderr.contains(&reported), "{pid}: {}", trace.stderr);
    }
    let in_all = format!("the user events of {AREAS} processes could not be read");
    assert!(trace.stderr.contains(&in_all), "{}", trace.stderr);
    assert_eq!(trace.status.code(), Some(1), "{}", trace.stderr);
    victim.end().unwrap();
    for leaser in leasers {
        leaser.end().unwrap();
    }
}

/// The processes that a program says that there are.
fn processes_of(said: &[String]) -> Vec<i32> {
    if said.is_empty() {
        return Vec::new();
    }
    let lines = values_after(said, "process").unwrap();
    let pids = lines.iter().map(|values| i32::try_from(values[0]));
    pids.map(Result::unwrap).collect()
}

/// Attaches to a process of an unusual kind beside the victim; returns how the trace ended.
fn beside_odd(kind: &str, options: &[&str]) -> Option<(i32, Trace)> {
    if missing_right().is_some() {
        return None;
    }
    let stage = stage(&["flood", "odd"]).unwrap();
    let mut odd = as_user(ATTACKER, stage.path(), "odd");
    let (mut odd, said) = Target::start(odd.arg(kind)).unwrap();
    let mut processes = processes_of(&said);
    processes.push(odd.pid());
    let mut victim = victim(stage.path());
    let start = Instant::now();
    let tracer = attach_with(options, &processes, &victim);
    assert!(start.elapsed() < delay_limit(), "{:?}", start.elapsed());
    let before = peak_kib(tracer.pid()).unwrap();
    odd.go().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let trace = all_of_the_victim(tracer, &mut victim, before);
    victim.end().unwrap();
    let pid = odd.pid();
    odd.end().unwrap();
    Some((pid, trace))
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn descriptors_that_hundreds_of_processes_share_are_not_asked_for_one_by_one() {
    if let Some((_, trace)) = beside_odd("shared", &["--no-system"]) {
        assert_eq!(trace.status.code(), Some(0), "{}", trace.stderr);
    }
}

/// Huge pages that the machine has while this lives. Without them no process can map any, and the
/// test would look into none.
struct HugePages {
    before: String,
}

impl HugePages {
    const COUNT: &str = "/proc/sys/vm/nr_hugepages";

    /// Two of two MiB are what the fixed part of an area lies in.
    fn make() -> Self {
        let before = std::fs::read_to_string(Self::COUNT).unwrap();
        let count: u64 = before.trim().parse().unwrap();
        std::fs::write(Self::COUNT, (count + 4).to_string()).unwrap();
        let free = std::fs::read_to_string("/proc/meminfo").unwrap();
        let free = free
            .lines()
            .find_map(|line| line.strip_prefix("HugePages_Free:"));
        let made = Self { before };
        assert!(free.unwrap().trim().parse::<u64>().unwrap() >= 2);
        made
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = std::fs::write(Self::COUNT, &self.before);
    }
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn what_is_called_as_an_area_and_lies_in_huge_pages_is_none() {
    if missing_right().is_some() {
        return;
    }
    let _pages = HugePages::make();
    if let Some((pid, trace)) = beside_odd("huge", &["--no-system"]) {
        let reported = format!("no user events of process {pid}");
        assert!(trace.stderr.contains(&reported), "{}", trace.stderr);
        assert_eq!(trace.status.code(), Some(1), "{}", trace.stderr);
    }
}

#[test]
#[ignore = "needs root: traces kernel events"]
fn a_process_that_runs_programs_for_ever_holds_no_tracer_up() {
    // The others take long to look at, which is done after each exec. To show all their system
    // calls would take as long.
    let few: &[&str] = &["--events", "fork,exec,exit,user"];
    for (kind, options) in [("execs", &[][..]), ("heavy", few)] {
        if let Some((_, trace)) = beside_odd(kind, options) {
            let execs = trace.summary().unwrap().events.get("linux_trace_exec");
            assert!(execs.is_some_and(|count| *count > 100), "{kind}: {execs:?}");
        }
    }
}

/// The areas of which a process has a descriptor.
fn areas_read_by(pid: i32) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let is_area = |link: &PathBuf| link.to_string_lossy().contains("posix_trace_area");
    links.filter(is_area).count()
}

#[test]
#[ignore = "needs root: traces kernel events"]
fn areas_of_programs_that_a_process_ran_before_are_given_up() {
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["flood", "anew"]).unwrap();
    let (mut anew, _) = Target::start(&mut as_user(ATTACKER, stage.path(), "anew")).unwrap();
    let mut victim = victim(stage.path());
    let mut tracer = attach_with(&[], &[anew.pid()], &victim);
    let before = peak_kib(tracer.pid()).unwrap();
    anew.go().unwrap();
    // Each has an area of its own, which is found.
    let is_again = |event: &tests::event::Event| event.is_user("again");
    tracer.wait_for_some(100, "again", is_again).unwrap();
    std::thread::sleep(Duration::from_secs(8));
    let read = areas_read_by(tracer.pid());
    let trace = all_of_the_victim(tracer, &mut victim, before);
    let events = &trace.summary().unwrap().events;
    let found = usize::try_from(events["again"]).unwrap();
    // Those of the last second or two are read still.
    assert!(read * 3 < found, "{read} areas are read of {found}");
    victim.end().unwrap();
    anew.end().unwrap();
}
