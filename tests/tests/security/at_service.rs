//! Attacks on the service's events and on its time: programs with other rights, other users' names
//! and addresses, clients that do not listen.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use tests::attacker::{ATTACKER, VICTIM, command_as, delay_limit, give, open_to_all, peak_kib};
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::{dist, is_whole, wait_until};

use crate::serve::{SOON, Service, address, lines};

/// Rounds of a storm of programs; in a whole run, and in any other.
const ROUNDS: [u32; 2] = [500, 20];

/// Way to give a program other rights than those of its caller.
type Marking = fn(&Path);

/// Programs that their callers may not look into.
const SPECIAL: [(&str, Marking); 4] = [
    ("set-uid", |path| set_mode(path, 0o4755)),
    ("set-gid", |path| set_mode(path, 0o2755)),
    ("capable", |path| {
        let mut setcap = Command::new("setcap");
        assert!(
            setcap
                .arg("cap_net_raw+ep")
                .arg(path)
                .status()
                .unwrap()
                .success()
        );
    }),
    ("unreadable", |path| set_mode(path, 0o711)),
];

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
#[ignore = "loads eBPF"]
fn in_a_storm_of_forks_nothing_follows_the_exec_of_a_program_with_other_rights() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let folder = service.folder.path();
    let plain = dist::compile_static("exec_storm", &folder.join("dist")).unwrap();
    let special = SPECIAL.map(|(name, mark)| {
        let path = folder.join(name);
        fs::copy(&plain, &path).unwrap();
        set_mode(&path, 0o755);
        mark(&path);
        path
    });
    let rounds = ROUNDS[usize::from(!is_whole())];
    let seen = |programs: &[_]| {
        let mut storm = service.program(ATTACKER, "exec_storm");
        let output = storm
            .arg(rounds.to_string())
            .args(programs)
            .output()
            .unwrap();
        let said = lines(&output);
        ["children", "begun", "execs", "after", "lost"].map(|word| {
            let found = values_after(&said, word);
            found.unwrap_or_else(|_| panic!("{output:?}"))[0][0]
        })
    };
    // Each round has a child and a grandchild for each program, and each is seen up to its exec.
    let all = u64::from(rounds) * 8;
    assert_eq!(seen(&special), [all, all, 0, 0, 0]);
    let [children, begun, execs, after, lost] = seen(&[plain.clone(), plain.clone()]);
    let all = u64::from(rounds) * 4;
    assert_eq!([children, begun, execs, lost], [all, all, all, 0]);
    assert!(after > 10 * all, "{after}");
}

/// User and group that see every process, where a policy says so.
const MEMBER: u32 = 61_005;

/// Part of the names of others' programs.
const MARK: &str = "qXzMark";

/// Event as the agent has sent it.
struct Heard {
    pid: i64,
    tid: i64,
    address: u64,
    data: Vec<u8>,
}

/// Rest of a message.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap();
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        let mut value = 0;
        for place in 0.. {
            let byte = self.byte();
            value |= u64::from(byte & 127) << (7 * place);
            if byte & 128 == 0 {
                break;
            }
        }
        value
    }

    fn signed(&mut self) -> i64 {
        let zigzag = self.number();
        (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed()
    }

    /// The events of an answer to collect: `docs/agent.md` has the fields.
    fn events(&mut self) -> Vec<Heard> {
        assert_eq!(self.byte(), 2, "no events");
        let count = self.number();
        let event = |_| {
            let (_time, _kind) = (self.number(), self.number());
            let (pid, tid) = (self.signed(), self.signed());
            if self.byte() == 1 {
                let _cpu = self.number();
            }
            let _thread = self.number();
            let address = self.number();
            let _is_cut_off = self.byte();
            let length = self.number();
            let data = (0..length).map(|_| self.byte()).collect();
            Heard {
                pid,
                tid,
                address,
                data,
            }
        };
        (0..count).map(event).collect()
    }
}

/// Everything that a user hears of its own process, in which others' processes take part: they wake
/// it, signal it, and take turns with it.
fn heard(service: &Service, user: u32) -> (Vec<u8>, Vec<Heard>, i32, Vec<i32>) {
    let folder = tempfile::tempdir_in(service.folder.path()).unwrap();
    let folder = folder.path();
    give(folder, user).unwrap();
    open_to_all(folder).unwrap();
    let fifo = folder.join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    set_mode(&fifo, 0o666);
    let [shell, sleep] = [("sh", 1), ("sleep", 2)].map(|(program, number)| {
        let path = folder.join(format!("{MARK}{number}"));
        fs::copy(format!("/bin/{program}"), &path).unwrap();
        path
    });
    let file = folder.join("heard");
    let mut hear = service.program(user, "attack_agent");
    hear.arg("hear").arg(address(service.folder.path()));
    let (hear, _) = Target::start(hear.arg(&fifo).arg(&file)).unwrap();
    let script = format!(
        "echo ready; while :; do echo {MARK} >{fifo}; kill -URG {pid}; {sleep} 0.002; done",
        fifo = fifo.display(),
        pid = hear.pid(),
        sleep = sleep.display(),
    );
    // Only root's may send it a signal; the others' fails.
    let others = [VICTIM, 0].map(|other| {
        let mut command = command_as(other, &shell);
        Target::start(command.args(["-c", &script]).stderr(Stdio::null()))
            .unwrap()
            .0
    });
    hear.wait_until_done().unwrap();
    let pids = others.iter().map(Target::pid).collect();
    let all = fs::read(&file).unwrap();
    let (mut rest, mut events) = (all.as_slice(), Vec::new());
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap();
        let (message, after) = after.split_at(length);
        events.append(&mut Bytes(message).events());
        rest = after;
    }
    (all, events, hear.pid(), pids)
}

/// How often the bytes of a number are in data.
fn count_in(events: &[Heard], number: i32) -> usize {
    let bytes = number.to_le_bytes();
    let all = events.iter().flat_map(|event| event.data.windows(4));
    all.filter(|window| *window == bytes).count()
}

/// Tells whether a number may be an address of the kernel's, and is no error and no small negative
/// number.
fn is_of_kernel(number: u64) -> bool {
    (0xffff_8000_0000_0000..0xffff_ffff_ff00_0000).contains(&number)
}

#[test]
#[ignore = "loads eBPF"]
fn no_byte_of_any_event_names_another_users_process_or_an_address_of_the_kernel() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start_with(&format!("[serve]\ngroup = \"{MEMBER}\"\n")).unwrap();
    let is_there = |all: &[u8]| {
        all.windows(MARK.len())
            .filter(|window| *window == MARK.as_bytes())
            .count()
    };
    let others_are_named = || {
        let (all, events, own, others) = heard(&service, ATTACKER);
        assert!(events.len() > 1000, "{}", events.len());
        assert_eq!(is_there(&all), 0);
        let pids: BTreeSet<i64> = events
            .iter()
            .flat_map(|event| [event.pid, event.tid])
            .collect();
        assert_eq!(pids, BTreeSet::from([i64::from(own)]));
        for event in &events {
            assert!(!is_of_kernel(event.address), "{:x}", event.address);
            let words = event.data.chunks_exact(8);
            let mut words = words.map(|word| u64::from_le_bytes(word.try_into().unwrap()));
            assert!(!words.any(is_of_kernel), "{:x?}", event.data);
        }
        others.iter().any(|other| count_in(&events, *other) > 0)
    };
    // A length or a duration may happen to be the number of a process, of others each time.
    assert!(!(0..3).all(|_| others_are_named()));
    // A member of the group that sees every process is told all of it.
    let (all, events, _own, others) = heard(&service, MEMBER);
    assert!(is_there(&all) > 10, "{}", is_there(&all));
    let named = others.iter().map(|other| count_in(&events, *other));
    let named: Vec<usize> = named.collect();
    assert!(named.iter().all(|count| *count > 10), "{named:?}");
}

#[test]
#[ignore = "loads eBPF"]
fn clients_that_stop_and_do_not_listen_cost_others_nothing() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let mut stop = service.program(ATTACKER, "attack_agent");
    stop.arg("stop").arg(address(service.folder.path()));
    let (stopped, _) = Target::start(stop.arg("16")).unwrap();
    wait_until("it to stop", SOON, || {
        let status = fs::read_to_string(format!("/proc/{}/status", stopped.pid()))?;
        Ok(status.contains("T (stopped)").then_some(()))
    })
    .unwrap();
    for _ in 0..3 {
        let start = Instant::now();
        let output = service.program(VICTIM, "kernel_events").output().unwrap();
        assert_eq!(lines(&output), ["ok"], "{output:?}");
        assert!(start.elapsed() < delay_limit(), "{:?}", start.elapsed());
    }
    // The user's share of events that wait is 32 MiB, and the loader takes some for a moment.
    let peak = peak_kib(service.pid()).unwrap();
    assert!(peak < 200 << 10, "{peak}");
}

/// Calls that change a file system, or could.
const CHANGES: &str = "creat,mkdir,mkdirat,mknod,mknodat,link,linkat,symlink,symlinkat,rename,renameat,\
                       renameat2,unlink,unlinkat,rmdir,truncate,ftruncate,chmod,fchmod,fchmodat,chown,\
                       fchown,fchownat,lchown,setxattr,lsetxattr,fsetxattr,utimensat,mount,bind";

#[test]
#[ignore = "loads eBPF"]
fn the_service_opens_nothing_for_writing_and_changes_no_file() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    // Once it answers it has begun, with memory of its own for its own trace points.
    let output = service.program(VICTIM, "kernel_events").output().unwrap();
    assert_eq!(lines(&output), ["ok"], "{output:?}");
    let folder = tempfile::tempdir().unwrap();
    let said = folder.path().join("calls");
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-e", "signal=none", "-o"])
        .arg(&said);
    strace.args(["-e", &format!("trace=open,openat,openat2,{CHANGES}")]);
    strace.arg("-p").arg(service.pid().to_string());
    let mut strace = strace.spawn().unwrap();
    wait_until("strace to be there", SOON, || {
        let status = fs::read_to_string(format!("/proc/{}/status", service.pid()))?;
        Ok((!status.contains("TracerPid:\t0")).then_some(()))
    })
    .unwrap();
    let own: (_, _, &[&str]) = (ATTACKER, "kernel_events", &[]);
    for (user, program, arguments) in [own, (VICTIM, "chosen_calls", &["chosen"])] {
        let mut program = service.program(user, program);
        let output = program.args(arguments).stdin(Stdio::null()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    // A client that has another /proc: so its files are compared by a program.
    let mut other = Command::new("unshare");
    other.args(["--mount", "sh", "-c"]);
    other.arg(format!(
        "mount -t proc proc /proc && exec setpriv --reuid={ATTACKER} --regid={ATTACKER} \
         --clear-groups --inh-caps=-all -- ./hidden_forks"
    ));
    other.current_dir(service.folder.path());
    other.env("LD_LIBRARY_PATH", service.folder.path().join("dist/lib"));
    other.env("LINUX_TRACE_AGENT", address(service.folder.path()));
    assert_eq!(lines(&other.output().unwrap()), ["forks 7", "lost 1"]);
    drop(service);
    strace.wait().unwrap();
    let calls = fs::read_to_string(&said).unwrap();
    let is_reading = |line: &str| {
        let is_open = line.contains(" openat(") || line.contains(" open(");
        let writes = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"];
        is_open && line.contains("O_RDONLY") && !writes.iter().any(|flag| line.contains(flag))
    };
    // A thread that ends before strace has seen a call of it.
    let is_none = |line: &str| line.ends_with(" ???( <detached ...>");
    let others = calls.lines().filter(|line| !is_reading(line));
    let others: Vec<_> = others.filter(|line| !is_none(line)).collect();
    assert!(others.is_empty(), "{others:#?}");
    assert!(calls.lines().count() > 20, "{calls}");
}
