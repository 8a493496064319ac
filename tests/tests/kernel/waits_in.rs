//! Kernel functions that threads block in, beside what the kernel says of them in `/proc`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use serde_json::Value;
use tests::dist;
use tests::rights::missing_right;

/// Runs the program under the tracer: what it says, and the switches away of its threads.
fn traced() -> (String, Vec<Value>) {
    // On a disk: memory has no faults that wait.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = dist::compile("waits_in", folder.path()).unwrap();
    let (file, events) = (folder.path().join("file"), folder.path().join("events"));
    std::fs::write(&file, vec![7; 4 << 20]).unwrap();
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--events", "switch", "--format", "json", "--output"]);
    let output = run.arg(&events).arg("--").arg(program).arg(&file).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");

    let lines = std::fs::read_to_string(events).unwrap();
    let all = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let is_out = |event: &Value| event["type"] == "linux_trace_switch_out";
    (
        String::from_utf8(output.stdout).unwrap(),
        all.filter(is_out).collect(),
    )
}

/// The calls by which the C library polls.
#[cfg(target_arch = "x86_64")]
const POLL: (i64, &str) = (libc::SYS_poll, "poll");
#[cfg(not(target_arch = "x86_64"))]
const POLL: (i64, &str) = (libc::SYS_ppoll, "ppoll");

/// The call by which the C library waits for an epoll instance.
#[cfg(target_arch = "x86_64")]
const EPOLL_WAIT: (i64, &str) = (libc::SYS_epoll_wait, "epoll_wait");
#[cfg(not(target_arch = "x86_64"))]
const EPOLL_WAIT: (i64, &str) = (libc::SYS_epoll_pwait, "epoll_pwait");

#[test]
#[ignore = "needs root"]
fn threads_block_in_the_calls_that_the_kernel_says() {
    if missing_right().is_some() {
        return;
    }
    /// `nanosleep` of 32-bit programs.
    const COMPAT_NANOSLEEP: i64 = 162;
    let names = [
        (libc::SYS_futex, "futex"),
        (libc::SYS_read, "read"),
        (libc::SYS_clock_nanosleep, "clock_nanosleep"),
        POLL,
        EPOLL_WAIT,
        (libc::SYS_recvfrom, "recvfrom"),
        (COMPAT_NANOSLEEP, "nanosleep"),
    ];
    let (said, switches) = traced();

    let (faults, blocked) = said.split_once('\n').unwrap();
    assert_eq!(blocked.lines().count(), names.len(), "{said}");
    for line in blocked.lines() {
        let (tid, nr) = line.split_once(' ').unwrap();
        let (tid, nr): (i64, i64) = (tid.parse().unwrap(), nr.parse().unwrap());
        let (_, name) = names.iter().find(|(known, _)| *known == nr).unwrap();
        // The last but its end: there it is until the program ends.
        let mut of_thread = switches.iter().filter(|event| event["tid"] == tid);
        let last = of_thread.rfind(|event| event["data"]["state"] == "S");
        let last = last.unwrap();
        assert_eq!(last["data"]["waits_in"], *name, "{last}");
        assert_eq!(last["data"]["io_wait"], false, "{last}");
    }

    let [tid, "fault", count, left] = faults.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{said}");
    };
    let tid: i64 = tid.parse().unwrap();
    let [count, left] = [count, left].map(|number| number.parse::<usize>().unwrap());
    assert!(count >= 10, "{said}");
    let waits = switches.iter().filter(|event| {
        let data = &event["data"];
        event["tid"] == tid && data["waits_in"] == "page fault" && data["io_wait"] == true
    });
    // A disk may be done before the thread has begun to wait; and the program's own pages may have
    // been read too.
    let waits = waits.count();
    assert!(waits >= left / 2 && waits <= count + 100, "{waits}: {said}");
}

#[test]
#[ignore = "needs root"]
fn a_thread_that_does_not_block_is_in_nothing_and_one_that_ends_in_its_exit() {
    if missing_right().is_some() {
        return;
    }
    let (_, switches) = traced();

    let mut ends = 0;
    for event in switches {
        let data = &event["data"];
        let next = data["next_comm"].as_str().unwrap();
        match data["state"].as_str().unwrap() {
            // The kernel's own thread that moves others comes before all.
            "R" if next.starts_with("migration/") => {}
            "R" => assert!(data["waits_in"].is_null(), "{event}"),
            "X" => {
                ends += 1;
                assert_eq!(data["waits_in"], "exit", "{event}");
            }
            _ => assert!(data["waits_in"].is_string(), "{event}"),
        }
    }
    assert_eq!(ends, 8);
}
