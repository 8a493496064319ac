//! Waits for what comes over a network or a pseudo-terminal, beside what the programs say of their
//! own ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::dist;
use tests::rights::missing_right;

/// Runs a program in a network namespace that has the server of another one for its neighbour. What
/// comes from there is left to the second processor, as a network card does.
const NEIGHBOURS: &str = r#"
set -e
unshare --net "$0" serve & far=$!
while [ "$(readlink /proc/$far/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
ip link add near type veth peer name far netns $far
ip address add 198.18.43.1/30 dev near
ip link set near up
nsenter -t $far -n sh -c 'ip address add 198.18.43.2/30 dev far; ip link set far up'
unshare --mount sh -c 'mount -t sysfs none /sys; echo 2 > /sys/class/net/near/queues/rx-0/rps_cpus'
"$1" run --ring-size 16M --log "$2" --no-user --syscalls %desc,%network -y -- "$0" ask 198.18.43.2 40
kill $far
"#;

/// The address of the server.
const SERVER: &str = "198.18.43.2:7043";

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The parts of the spans of one thread that are system calls of this name, without what lies
/// within them.
fn parts(log: &Path, call: &str, tid: i64) -> Vec<Value> {
    let mut why = Command::new(dist::tracer_user().unwrap());
    why.arg("why").arg(log).args(["--format", "json"]);
    why.args(["--slowest", "1000", "--span", &format!("syscall:{call}")]);
    let answer: Value = serde_json::from_str(&said(&mut why)).unwrap();
    let spans = answer["slowest"].as_array().unwrap().iter();
    let spans = spans.filter(|span| span["tid"] == tid);
    let parts = spans.flat_map(|span| span["parts"].as_array().unwrap().clone());
    parts.filter(|part| part["state"] == "blocked").collect()
}

/// Tells whether the kernel can connect network namespaces, and has soft interrupts that are no
/// threads.
fn hands_over_packets() -> bool {
    let version = std::fs::read_to_string("/proc/version").unwrap_or_default();
    let mut add = Command::new("unshare");
    add.args(["--net", "ip", "link", "add", "one", "type", "veth"]);
    let added = add.output().unwrap();
    let said = String::from_utf8_lossy(&added.stderr);
    let is_unknown = ["Unknown device type", "not supported"];
    let has_devices = added.status.success() || !is_unknown.iter().any(|one| said.contains(one));
    has_devices && !version.contains("PREEMPT_RT")
}

#[test]
#[ignore = "needs root: makes network namespaces and loads eBPF"]
fn a_packet_from_elsewhere_has_the_address_that_both_ends_say() {
    let cpus = std::thread::available_parallelism().unwrap().get();
    if missing_right().is_some() || cpus < 2 || !hands_over_packets() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("far_ends", folder.path()).unwrap();
    let log = folder.path().join("log");
    let mut command = Command::new("timeout");
    command.args(["60", "unshare", "--net", "sh", "-c", NEIGHBOURS]);
    command.arg(program).arg(dist::tracer_user().unwrap());
    let lines = said(command.arg(&log));
    let threads: BTreeMap<&str, Vec<&str>> = lines
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .map(|words| (words[0], words[1..].to_vec()))
        .collect();
    for (kind, call) in [
        ("tcp", "recvfrom"),
        ("polled", "poll"),
        ("udp", "recvfrom"),
        ("open", "recvfrom"),
    ] {
        let [tid, local, remote] = threads[kind][..] else {
            panic!("{lines}");
        };
        assert_eq!(remote, SERVER);
        let parts = parts(&log, call, tid.parse().unwrap());
        assert!(parts.len() >= 35, "{kind}: {parts:?}");
        let mut packets = 0;
        for part in &parts {
            let (object, waker) = (&part["object"], &part["waker"]);
            let is_soft = waker["kind"] == "softirq";
            if kind == "open" {
                // Another sender may have sent it.
                assert!(object.is_null() && waker["packet_from"].is_null(), "{part}");
                packets += usize::from(is_soft);
                continue;
            }
            assert_eq!(object["kind"], "connection", "{part}");
            assert_eq!(
                (&object["local"], &object["remote"]),
                (&local.into(), &SERVER.into())
            );
            assert_eq!(waker["packet_from"] == SERVER, is_soft, "{part}");
            packets += usize::from(is_soft);
        }
        // A thread of the kernel may have handed it over, where there is too much to do.
        assert!(packets * 10 >= parts.len() * 8, "{kind}: {parts:?}");
    }
    let mut why = Command::new(dist::tracer_user().unwrap());
    let all_spans = ["--slowest", "1000", "--span", "syscall:recvfrom"];
    let shown = said(why.arg("why").arg(&log).args(all_spans));
    let all = format!("blocked in recvfrom on TCP to {SERVER}, woken by a packet from {SERVER}");
    let local = threads["tcp"][1];
    let one = format!("in recvfrom on TCP {local} to {SERVER}, woken by a packet from {SERVER}");
    assert!(shown.contains(&all) && shown.contains(&one), "{shown}");
}

#[test]
#[ignore = "loads eBPF"]
fn a_wait_for_a_terminal_ends_at_the_thread_that_writes_to_its_other_end() {
    const ROUNDS: usize = 100;
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("far_ends", folder.path()).unwrap();
    let log = folder.path().join("log");
    let mut command = Command::new("timeout");
    command.arg("60").arg(dist::tracer_user().unwrap());
    command.args([
        "run",
        "--follow-wakers",
        "--ring-size",
        "16M",
        "--no-user",
        "-y",
    ]);
    command
        .args(["--syscalls", "read,write", "--log"])
        .arg(&log);
    command.arg("--").arg(program);
    let lines = said(command.args(["terminal", &ROUNDS.to_string()]));
    let words = |begin: &str| -> Vec<&str> {
        let mut lines = lines.lines();
        let line = lines.find(|line| line.starts_with(begin)).unwrap();
        line.split(' ').collect()
    };
    let (reader, writer) = (words("reader"), words("writer"));
    let writer: i64 = writer[1].parse().unwrap();
    let all = parts(&log, "read", reader[1].parse().unwrap());
    let is_of_terminal = |part: &&Value| part["object"]["path"] == reader[2];
    let all: Vec<&Value> = all.iter().filter(is_of_terminal).collect();
    assert!(all.len() * 10 >= ROUNDS * 9, "{}: {all:?}", all.len());
    let mut followed = 0;
    for part in &all {
        assert_eq!(part["object"]["kind"], "terminal", "{part}");
        // The kernel passes it on, in a thread of its own.
        let passed_on = &part["waker"]["thread"];
        let name = passed_on["comm"].as_str().unwrap_or_default();
        assert!(name.starts_with("kworker/"), "{part}");
        let within = part["within"].as_array().into_iter().flatten();
        let mut woken = within.filter(|part| part["state"] == "blocked");
        followed += usize::from(woken.any(|part| part["waker"]["thread"]["tid"] == writer));
    }
    // One that had other work to do was woken by another one.
    assert!(followed * 10 >= all.len() * 7, "{followed}: {all:?}");
    let mut why = Command::new(dist::tracer_user().unwrap());
    let shown = said(why.arg("why").arg(&log).args(["--span", "syscall:read"]));
    let words = format!("blocked in read on {}, woken by kworker/", reader[2]);
    assert!(
        shown.contains(&words) && shown.contains(", which passes on what comes there"),
        "{shown}"
    );
}
