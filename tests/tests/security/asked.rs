//! Processes that a client asks for: from when on it is given what they do, and their children.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use tests::attacker::{ATTACKER, VICTIM};
use tests::rights::missing_right;
use tests::target::{Target, values_after};

use crate::serve::{Service, address};

/// Attempts to have a process end while it is asked for.
const ATTEMPTS: usize = 5;

/// The error number of a process that has ended.
const ENDED: &str = "refused 3";

/// Types that are recorded where a client chooses them, each by programs of its own.
const CALLS: u32 = 43;
const MIGRATIONS: u32 = 47;

/// A process that does what the test says, and a client of the service.
struct Client {
    target: Target,
    pid: i32,
}

impl Client {
    /// Starts it as a process of this user's.
    fn start(service: &Service, user: u32) -> Self {
        Self::start_with(service, &[user.to_string()])
    }

    /// Starts it as a process of another user's that has a pid which another one had.
    fn start_as(service: &Service, pid: i32) -> Self {
        let client = Self::start_with(service, &[VICTIM.to_string(), pid.to_string()]);
        assert_eq!(client.pid, pid);
        client
    }

    fn start_with(service: &Service, arguments: &[String]) -> Self {
        let folder = service.folder.path();
        let mut client = Command::new(folder.join("agent_client"));
        client.env("LD_LIBRARY_PATH", folder.join("dist/lib"));
        client.arg(address(folder)).args(arguments);
        let (target, said) = Target::start(&mut client).unwrap();
        let pid = number(&said, "process");
        Self { target, pid }
    }

    fn ask(&mut self, line: &str) -> Vec<String> {
        self.target.ask(line).unwrap()
    }

    /// Makes a child.
    fn fork(&mut self) -> i32 {
        number(&self.ask("fork"), "child")
    }

    /// Has something answered that is asked in two parts.
    fn answer_to(&mut self, connection: u32, line: &str) -> Vec<String> {
        self.ask(line);
        self.ask(&format!("rest {connection}"));
        self.ask(&format!("answer {connection}"))
    }

    /// Gets a stream of this process, with its children or without.
    fn stream(&mut self, connection: u32, pid: i32, children: bool) {
        let hello = format!("hello {connection} {pid} {}", u8::from(children));
        assert_eq!(self.answer_to(connection, &hello), ["done"]);
        assert_eq!(self.ask(&format!("run {connection} 0")), ["done"]);
    }

    /// Returns how many events of each of two processes it is given, and its new names among these.
    fn given(&mut self, connection: u32, pids: [i32; 2]) -> [(u64, Vec<String>); 2] {
        let [one, other] = pids;
        let said = self.ask(&format!("collect {connection} {one} {other}"));
        pids.map(|pid| {
            let of = |word| {
                let prefix = format!("{word} {pid} ");
                let lines = said
                    .iter()
                    .filter_map(move |line| line.strip_prefix(&prefix));
                lines.map(str::to_owned).collect::<Vec<String>>()
            };
            (of("events")[0].parse().unwrap(), of("name"))
        })
    }
}

fn number(said: &[String], word: &str) -> i32 {
    i32::try_from(values_after(said, word).unwrap()[0][0]).unwrap()
}

#[test]
#[ignore = "loads eBPF"]
fn a_child_that_was_made_before_is_not_held_beyond_its_end() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let mut own = Client::start(&service, ATTACKER);
    let pid = own.pid;
    // Its fork is recorded, and heard of when the process is asked for with its children.
    own.stream(1, pid, false);
    let child = own.fork();
    own.stream(2, pid, true);
    own.ask(&format!("end {child}"));
    let mut other = Client::start_as(&service, child);
    // Another recording, in which all processes of the streams are marked.
    assert_eq!(own.ask("run 2 1"), ["done"]);
    for name in 0..20 {
        other.ask(&format!("name {name}"));
    }
    let [of_other, of_own] = own.given(2, [child, pid]);
    assert_eq!(of_other, (0, Vec::new()));
    assert!(of_own.0 > 0);
}

#[test]
#[ignore = "loads eBPF"]
fn what_a_process_did_before_its_right_was_proven_is_not_given() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let (mut root, mut own) = (
        Client::start(&service, 0),
        Client::start(&service, ATTACKER),
    );
    let [neighbour, process] = [(); 2].map(|()| own.fork());
    own.stream(1, neighbour, true);
    root.stream(1, process, true);
    for line in ["dumpable 0", "name hidden", "dumpable 1", "name early"] {
        own.ask(&format!("in {process} {line}"));
    }
    assert_eq!(own.answer_to(1, &format!("add 1 {process}")), ["done"]);
    own.ask(&format!("in {process} name late"));
    let [of_own, _] = own.given(1, [process, 0]);
    assert_eq!(of_own.1, ["late"]);
    // They were recorded, for root.
    let [of_root, _] = root.given(1, [process, 0]);
    assert_eq!(of_root.1, ["hidden", "early", "late"]);
}

#[test]
#[ignore = "loads eBPF"]
fn children_of_a_process_that_root_traces_too_are_their_users_as_far_as_they_may_be_seen() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let (mut root, mut own) = (
        Client::start(&service, 0),
        Client::start(&service, ATTACKER),
    );
    let pid = own.pid;
    root.stream(1, pid, true);
    let before = own.fork();
    own.stream(1, pid, true);
    let after = own.fork();
    for child in [before, after] {
        for line in [
            "name seen",
            "dumpable 0",
            "name hidden",
            "dumpable 1",
            "name again",
        ] {
            own.ask(&format!("in {child} {line}"));
        }
    }
    // One that was made before the process was asked for is not guarded, and not given.
    let [of_first, of_second] = own.given(1, [before, after]);
    assert_eq!(of_first, (0, Vec::new()));
    assert_eq!(of_second.1, ["seen", "again"]);
    let [of_first, of_second] = root.given(1, [before, after]);
    assert_eq!(of_first.1, ["seen", "hidden", "again"]);
    // What is guarded for its user is guarded for root too.
    assert_eq!(of_second.1, ["seen", "again"]);
}

#[test]
#[ignore = "loads eBPF"]
fn types_that_a_client_chooses_interrupt_no_other() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let [mut own, mut other] = [ATTACKER, VICTIM].map(|user| Client::start(&service, user));
    for client in [&mut own, &mut other] {
        let pid = client.pid;
        client.stream(1, pid, true);
    }
    let pid = other.pid;
    assert_eq!(other.ask(&format!("run 1 {CALLS}")), ["done"]);
    // For these other programs are attached.
    for types in [MIGRATIONS, 0, MIGRATIONS] {
        assert_eq!(own.ask(&format!("run 1 {types}")), ["done"]);
    }
    let said = other.ask(&format!("collect 1 {pid} 0"));
    assert_eq!(values_after(&said, "lost").unwrap(), [[0]]);
    // Its calls until it asked.
    assert!(values_after(&said, "events").unwrap()[0][1] > 0, "{said:?}");
}

#[test]
#[ignore = "loads eBPF"]
fn a_process_that_ends_while_it_is_asked_for_is_not_taken_for_the_next_with_its_pid() {
    if missing_right().is_some() {
        return;
    }
    let is_refused = (0..ATTEMPTS).any(|_| {
        let service = Service::start().unwrap();
        is_refused_as_it_ends(&service)
    });
    assert!(is_refused, "no process ended while it was asked for");
}

/// Has a process end between the proof and the moment at which it is marked: the service loads the
/// programs of other recordings meanwhile. Returns whether it was refused for that; where it was
/// marked before, too, nothing is given of what has its pid then.
fn is_refused_as_it_ends(service: &Service) -> bool {
    let mut own = Client::start(service, ATTACKER);
    let [neighbour, process] = [(); 2].map(|()| own.fork());
    own.stream(1, neighbour, true);
    for connection in 2..=4 {
        let record = format!("record {connection} {}", 10 + connection);
        assert_eq!(own.ask(&record), ["done"]);
        own.ask(&format!("hello {connection} {neighbour} 1"));
    }
    own.ask(&format!("add 1 {process}"));
    own.ask("rest 2");
    sleep(Duration::from_millis(100));
    for connection in [3, 1, 4] {
        own.ask(&format!("rest {connection}"));
    }
    assert_eq!(own.ask("answer 2"), ["done"]);
    own.ask(&format!("end {process}"));
    let mut other = Client::start_as(service, process);
    // While it is marked, and until it is found to be another one.
    for name in 0..100 {
        other.ask(&format!("name {name}"));
        sleep(Duration::from_millis(20));
    }
    let added = own.ask("answer 1");
    for connection in [3, 4] {
        assert_eq!(own.ask(&format!("answer {connection}")), ["done"]);
    }
    let [of_other, _] = own.given(1, [process, 0]);
    assert_eq!(of_other.1, [""; 0], "{added:?}");
    added == [ENDED]
}
