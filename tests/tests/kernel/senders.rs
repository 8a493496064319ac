//! Wake-ups by packets of the loopback, beside what the senders themselves write down.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::dist;
use tests::log_reader::run;
use tests::rights::missing_right;

/// A call that may wake a thread, by the times at which it began and had ended.
struct Act {
    by: u64,
    whom: u64,
    from: u64,
    until: u64,
}

/// Facts that the program has written down.
struct Truth {
    roles: BTreeMap<String, u64>,
    acts: Vec<Act>,
}

impl Truth {
    fn read(file: &Path) -> Self {
        let mut truth = Self {
            roles: BTreeMap::new(),
            acts: Vec::new(),
        };
        for line in fs::read_to_string(file).unwrap().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |index: usize| words[index].parse().unwrap();
            if words[0] == "role" {
                truth.roles.insert(words[1].to_owned(), number(2));
            } else {
                truth.acts.push(Act {
                    by: number(1),
                    whom: number(2),
                    from: number(3),
                    until: number(4),
                });
            }
        }
        truth.acts.sort_by_key(|act| act.from);
        truth
    }

    /// Returns the last call of a thread that had begun at this time.
    fn last_act(&self, by: u64, at: u64) -> Option<&Act> {
        let began = self.acts.partition_point(|act| act.from <= at);
        self.acts[..began].iter().rfind(|act| act.by == by)
    }

    /// Tells whether some call that may wake the thread was under way at this time.
    fn may_be_woken(&self, whom: u64, at: u64) -> bool {
        let is_it = |act: &&Act| act.whom == whom && act.from <= at && at <= act.until;
        self.acts.iter().any(|act| is_it(&act))
    }
}

struct Run {
    _folder: tempfile::TempDir,
    log: PathBuf,
    truth: Truth,
    wakeups: Vec<Value>,
    /// Threads that get a CPU: when, on which, and who.
    switches: Vec<[Option<u64>; 3]>,
    /// Changes of the filter: beginnings and ends of windows.
    changes: usize,
}

impl Run {
    fn record(kind: &str, rounds: u64) -> Self {
        Self::record_with(kind, rounds, &[])
    }

    fn record_with(kind: &str, rounds: u64, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = dist::compile("senders", folder.path()).unwrap();
        let (log, file) = (folder.path().join("log"), folder.path().join("truth"));
        let mut command = Command::new("timeout");
        command.arg("300").arg(dist::tracer_user().unwrap());
        command.args(["run", "--ring-size", "16M"]).args(options);
        command.arg("--log").arg(&log).arg("--").arg(program);
        let output = command
            .args([kind, &rounds.to_string()])
            .arg(&file)
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(" 0 lost"), "{said}");
        let types = ["--format", "json", "--events", "wakeup,switch,filter"];
        let lines = String::from_utf8(run("read", &log, &types).unwrap().stdout).unwrap();
        let events = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let events: Vec<Value> = events.collect();
        let of_type = |name: &str| {
            let of_it = events.iter().filter(|event| event["type"] == name);
            of_it.cloned().collect::<Vec<Value>>()
        };
        let switch =
            |event: &Value| [&event["ns"], &event["cpu"], &event["tid"]].map(Value::as_u64);
        let switches = of_type("linux_trace_switch_in");
        Self {
            truth: Truth::read(&file),
            wakeups: of_type("linux_trace_wakeup"),
            switches: switches.iter().map(switch).collect(),
            changes: of_type("posix_trace_filter").len(),
            log,
            _folder: folder,
        }
    }

    /// Counts the wake-ups by packets. Each is by the thread whose last call was for the one that
    /// is woken, and by no other.
    fn packets(&self) -> usize {
        let of_packets = self.woken_by("packet");
        for event in &of_packets {
            let (by, whom) = (&event["data"]["waker_tid"], &event["tid"]);
            let at = event["ns"].as_u64().unwrap();
            let last = self.truth.last_act(by.as_u64().unwrap(), at);
            let is_for_it = last.is_some_and(|act| whom.as_u64() == Some(act.whom));
            assert!(is_for_it, "{event}");
        }
        of_packets.len()
    }

    /// Counts the wake-ups whose sender is not known, of those that a sender may have made.
    fn unknown(&self) -> usize {
        let in_call = |event: &&&Value| {
            let at = event["ns"].as_u64().unwrap();
            self.truth.may_be_woken(event["tid"].as_u64().unwrap(), at)
        };
        let of_others = [self.woken_by("softirq"), self.woken_by("unknown")].concat();
        of_others.iter().filter(in_call).count()
    }

    fn woken_by(&self, context: &str) -> Vec<&Value> {
        let is_it = |event: &&Value| event["data"]["waker_context"] == context;
        self.wakeups.iter().filter(is_it).collect()
    }

    /// Returns the traced thread that had the CPU of the event before.
    fn running_at(&self, event: &Value) -> Option<u64> {
        let (ns, cpu) = (event["ns"].as_u64(), event["cpu"].as_u64());
        let mut switches = self.switches.iter();
        let before = switches.rfind(|[at, on, _]| *on == cpu && *at <= ns);
        before.and_then(|[.., tid]| *tid)
    }

    fn role(&self, name: &str) -> u64 {
        self.truth.roles[name]
    }

    /// Counts the requests whose path goes through both senders, and those in which it ends at a
    /// wake-up whose sender is not known. No path goes through another thread.
    fn paths(&self, rounds: u64) -> (usize, usize) {
        let slowest = rounds.to_string();
        let why = run(
            "why",
            &self.log,
            &["--format", "json", "--slowest", &slowest],
        )
        .unwrap();
        let why: Value = serde_json::from_slice(&why.stdout).unwrap();
        let (mut exact, mut unknown) = (0, 0);
        for request in why["slowest"].as_array().unwrap() {
            let mut chain = ["proxy", "server"].map(|name| self.role(name)).into_iter();
            let mut parts = &request["parts"];
            let mut is_known = true;
            let (mut asker, mut asked) = (None, Some(self.role("client")));
            while let Some(wait) = of_socket(parts, asker) {
                let waker = &wait["waker"];
                is_known &= waker["kind"] == "thread";
                if !is_known {
                    break;
                }
                // What the server waits for is of the next request, and not within this one.
                let by = waker["thread"]["tid"].as_u64();
                assert!(by == chain.next(), "{request}");
                (asker, asked) = (asked, by);
                parts = &wait["within"];
            }
            exact += usize::from(is_known);
            unknown += usize::from(!is_known);
        }
        (exact, unknown)
    }
}

/// Returns the longest wait for a socket of these parts, but for one that ends as the thread is
/// asked: it may have waited for that when its asker begins.
fn of_socket(parts: &Value, asker: Option<u64>) -> Option<&Value> {
    let is_it = |part: &&Value| {
        let waker = part["waker"]["thread"]["tid"].as_u64();
        let is_asked = waker.is_some() && waker == asker;
        part["state"] == "blocked" && part["in"] == "recvfrom" && !is_asked
    };
    parts.as_array()?.iter().find(is_it)
}

/// Tells whether this kernel lets programs tell whose packet a soft interrupt hands over: it gives
/// its count of interrupts, and soft interrupts are not preempted.
fn tells_senders() -> bool {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    let release = read("/proc/sys/kernel/osrelease");
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    let mut part = || parts.next().and_then(|part| part.parse::<u32>().ok());
    let version = (part(), part());
    if version < (Some(5), Some(15)) {
        return false;
    }
    let is_new = version >= (Some(6), Some(2));
    let names_it = || {
        let names = read("/proc/kallsyms");
        ["__preempt_count", "pcpu_hot"]
            .map(|name| names.contains(name))
            .contains(&true)
    };
    let is_told = is_new || cfg!(target_arch = "aarch64") || names_it();
    is_told && !read("/proc/version").contains("PREEMPT_RT")
}

/// Tells whether the loopback has an address of version 6.
fn has_version_6() -> bool {
    let addresses = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    addresses.lines().any(|line| line.ends_with(" lo"))
}

/// Checks the wake-ups between a client, a proxy and a server, and the paths of requests.
fn a_proxy_is_gone_through(kind: &str, rounds: u64) {
    if missing_right().is_some() || !tells_senders() {
        return;
    }
    let run = Run::record(kind, rounds);
    let (known, unknown) = (run.packets(), run.unknown());
    assert!(
        known * 100 >= (known + unknown) * 99,
        "{kind}: {known}, {unknown}"
    );
    // Where both run at the same time, none of them waits.
    assert!(known as u64 >= rounds, "{kind}: {known}");
    let (exact, unknown) = run.paths(rounds);
    assert_eq!((exact + unknown) as u64, rounds);
    assert!(exact as u64 * 100 >= rounds * 99, "{kind}: {exact}");
}

#[test]
#[ignore = "loads eBPF"]
fn a_path_goes_through_a_proxy_of_tcp_to_its_server() {
    a_proxy_is_gone_through("tcp", 200);
    if has_version_6() {
        a_proxy_is_gone_through("tcp6", 100);
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_path_goes_through_a_proxy_of_udp_to_its_server() {
    a_proxy_is_gone_through("udp", 100);
}

#[test]
#[ignore = "loads eBPF"]
fn of_a_thousand_requests_through_a_proxy_each_path_is_that_which_its_senders_tell() {
    a_proxy_is_gone_through("tcp", 1000);
    if has_version_6() {
        a_proxy_is_gone_through("tcp6", 1000);
    }
    a_proxy_is_gone_through("udp", 1000);
}

#[test]
#[ignore = "loads eBPF"]
fn in_windows_of_switches_senders_are_as_well_known_as_in_whole_traces() {
    if missing_right().is_some() || !tells_senders() {
        return;
    }
    let run = Run::record_with("tcp", 40_000, &["--switch-cost", "1"]);
    // A window has ended, and another one begun.
    assert!(run.changes >= 2, "{}", run.changes);
    let (known, unknown) = (run.packets(), run.unknown());
    assert!(known * 100 >= (known + unknown) * 99, "{known}, {unknown}");
    assert!(known > 1000, "{known}");
}

#[test]
#[ignore = "loads eBPF"]
fn who_reads_wakes_the_writer_that_waits_for_place() {
    if missing_right().is_some() || !tells_senders() {
        return;
    }
    let run = Run::record("window", 100);
    let writer = run.role("client");
    let woken = run.woken_by("packet").into_iter();
    let woken = woken
        .filter(|event| event["tid"].as_u64() == Some(writer))
        .count();
    assert!(run.packets() > 0 && woken > 10, "{woken}");
}

#[test]
#[ignore = "loads eBPF"]
fn a_thread_that_sends_is_no_waker_when_a_timer_sends_beside_it() {
    if missing_right().is_some() || !tells_senders() {
        return;
    }
    let rounds = 20;
    let run = Run::record("nagle", rounds);
    let (reader, stranger) = (run.role("proxy"), run.role("server"));
    run.packets();
    let by_stranger = |event: &&Value| event["data"]["waker_tid"].as_u64() == Some(stranger);
    let is_readers = |event: &&Value| event["tid"].as_u64() == Some(reader);
    let of_reader = || run.wakeups.iter().filter(is_readers);
    assert_eq!(of_reader().filter(by_stranger).count(), 0);
    // But it is the one that was interrupted, where no other program had the CPU.
    let is_softirq = |event: &&Value| event["data"]["waker_context"] == "softirq";
    let interrupts = |event: &&Value| run.running_at(event) == Some(stranger);
    let (delayed, of_stranger) = (
        of_reader().filter(is_softirq).count(),
        of_reader().filter(is_softirq).filter(interrupts).count(),
    );
    assert!(
        delayed as u64 >= rounds / 2 && of_stranger > 0,
        "{delayed}, {of_stranger}"
    );
}
