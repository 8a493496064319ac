//! Proof of the right to trace a process, from places that have a `/proc` of their own: hardened
//! units, containers, pid namespaces; and files that look like such a proof.

use std::fs;
use std::process::Command;
use std::time::Instant;

use tests::attacker::{ATTACKER, VICTIM, command_as, delay_limit};
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::{is_whole, namespace};

use crate::serve::{Service, address, lines, sleeper};

/// Times that a pid is used again; in a whole run, and in any other.
const REUSED: [u32; 2] = [100_000, 300];

/// Place with a `/proc` of its own.
struct Place {
    name: &'static str,
    options: &'static [&'static str],
    mount: &'static str,
}

const PLACES: &[Place] = &[
    // As `ProtectKernelTunables=` makes it.
    Place {
        name: "another mount",
        options: &["--mount"],
        mount: "mount -t proc proc /proc",
    },
    // As `ProtectProc=invisible` and `ProcSubset=pid` make it.
    Place {
        name: "a mount that hides others",
        options: &["--mount"],
        mount: "mount -t proc -o hidepid=invisible,subset=pid proc /proc",
    },
    Place {
        name: "a pid namespace",
        options: &["--pid", "--fork", "--kill-child", "--mount-proc"],
        mount: ":",
    },
    Place {
        name: "a pid namespace in another",
        options: &[
            "--pid",
            "--fork",
            "--kill-child",
            "unshare",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ],
        mount: ":",
    },
];

/// Becomes a command of a user's in a place: `as USER COMMAND`.
const AS: &str = "as() { user=$1; shift; exec setpriv --reuid=$user --regid=$user --clear-groups \
                  --inh-caps=-all -- \"$@\"; };";

impl Place {
    /// A shell of root's in this place, with the service's address as `$0` and these arguments.
    fn shell(&self, service: &Service, script: &str, arguments: &[&str]) -> Command {
        let mut shell = Command::new("unshare");
        let script = format!("{} && {AS} {script}", self.mount);
        shell.args(self.options).args(["sh", "-c", &script]);
        shell.arg(address(service.folder.path())).args(arguments);
        shell.env("LD_LIBRARY_PATH", service.folder.path().join("dist/lib"));
        shell.env("LINUX_TRACE_AGENT", address(service.folder.path()));
        shell.env("LINUX_TRACE_DEBUG", "1");
        shell.current_dir(service.folder.path());
        shell
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_program_with_a_proc_of_its_own_is_given_its_events() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    for place in PLACES {
        let user = ATTACKER.to_string();
        let mut shell = place.shell(&service, "as $1 ./hidden_forks", &[&user]);
        let output = shell.output().unwrap();
        // As many as it made: three before no process may look into it, and four after.
        let said = lines(&output);
        assert_eq!(said, ["forks 7", "lost 1"], "{}: {output:?}", place.name);
    }
}

#[test]
#[ignore = "loads eBPF"]
fn in_a_proc_of_its_own_only_the_memory_of_the_process_proves_a_right() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    // Says of each proof, in a line, whether the kernel lets the user open it, and whether it is
    // granted: the process and the file.
    let script = "as $2 sleep 100 & theirs=$!; as $1 sleep 100 & own=$!; sleep 0.3; \
                  while read process file how; do \
                  process=$(eval echo $process) file=$(eval echo $file); \
                  as $1 ./attack_agent prove \"$0\" $process $file $how | tr '\\n' ' '; echo; \
                  done; kill $own $theirs";
    let proofs = [
        ("$own /proc/$own/mem", [1, 1]),
        ("$own /proc/$own/task/$own/mem", [1, 1]),
        ("$own /proc/self/mem", [1, 0]),
        ("$own /proc/$own/environ", [1, 0]),
        ("$own /proc/$own/status", [1, 0]),
        ("$own /proc/$own", [1, 0]),
        ("$own /dev/zero", [1, 0]),
        ("$own /proc/$own/mem path", [1, 0]),
        // The kernel does not open another user's, and lets any process name it.
        ("$theirs /proc/$theirs/mem", [0, 0]),
        ("$theirs /proc/$theirs/mem path", [1, 0]),
        ("$theirs /proc/$own/mem", [1, 0]),
    ];
    for place in PLACES {
        let [user, other] = [ATTACKER, VICTIM].map(|user| user.to_string());
        let asked: Vec<_> = proofs.iter().map(|(proof, _)| *proof).collect();
        let mut shell = place.shell(&service, script, &[&user, &other]);
        let file = service.folder.path().join("asked");
        fs::write(&file, asked.join("\n") + "\n").unwrap();
        shell.stdin(fs::File::open(file).unwrap());
        let output = shell.output().unwrap();
        let said = lines(&output);
        assert_eq!(said.len(), proofs.len(), "{}: {output:?}", place.name);
        for ((proof, expected), line) in proofs.iter().zip(&said) {
            let words: Vec<_> = line.split_whitespace().collect();
            let [opened, granted] = expected.map(|one| one.to_string());
            // Where others are hidden, what is not to be opened cannot even be named.
            let is_hidden = place.name.contains("hides") && proof.contains("$theirs/mem path");
            let opened = if is_hidden { "0".to_owned() } else { opened };
            assert_eq!(
                words,
                ["opened", &opened, "granted", &granted],
                "{proof}, in {}: {output:?}",
                place.name
            );
        }
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_proof_of_a_process_that_has_ended_is_none_of_the_next_with_its_pid() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let count = REUSED[usize::from(!is_whole())];
    let program = service.folder.path().join("attack_agent");
    let at = address(service.folder.path());
    let script = format!("exec \"$0\" reuse \"$1\" {ATTACKER} {VICTIM} {count}");
    let mut shell = namespace::shell(1, &script, &[&program, &at]);
    shell.env("LD_LIBRARY_PATH", service.folder.path().join("dist/lib"));
    let output = shell.output().unwrap();
    let said = lines(&output);
    let one = |word| values_after(&said, word).unwrap()[0][0];
    let asked = u64::from(count.div_ceil(100));
    assert_eq!(
        (one("granted"), one("renewed"), one("asked")),
        (0, asked, asked),
        "{said:?}"
    );
}

/// Makes sure that another user than the attacker is served, and soon.
fn assert_is_served(service: &Service) {
    let start = Instant::now();
    let output = service.program(VICTIM, "hidden_forks").output();
    let output = output.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(lines(&output), ["forks 7", "lost 1"], "{output:?}");
    assert!(start.elapsed() < delay_limit(), "{:?}", start.elapsed());
}

#[test]
#[ignore = "needs root: mounts a file system"]
fn a_file_that_a_process_serves_proves_nothing_and_holds_no_other_client_up() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let stage = service.folder.path();
    let own = sleeper(ATTACKER);
    let mounted = stage.join("mounted");
    fs::create_dir(&mounted).unwrap();
    let mut trap = Command::new(stage.join("fuse_trap"));
    trap.arg(ATTACKER.to_string()).arg("/bin/true");
    trap.arg(&mounted).arg("mapped");
    let (mut trap, said) = Target::start(&mut trap).unwrap();
    let inside = values_after(&said, "process").unwrap()[0][0];
    // The file that is served is where the memory of that process is, in that mount namespace.
    let pid = own.pid();
    let script = format!(
        "mount --bind {} /proc/{pid}/mem && exec setpriv --reuid={ATTACKER} --regid={ATTACKER} \
         --clear-groups --inh-caps=-all -- ./attack_agent prove {} {pid} /proc/{pid}/mem wait",
        mounted.join("program").display(),
        address(stage).display(),
    );
    let mut attack = Command::new("nsenter");
    attack.arg(format!("--mount=/proc/{inside}/ns/mnt"));
    attack.arg(format!("--wdns={}", stage.display()));
    attack.args(["sh", "-c", &script]);
    attack.env("LD_LIBRARY_PATH", stage.join("dist/lib"));
    let (mut attack, _) = Target::start(&mut attack).unwrap();
    trap.go().unwrap();
    trap.wait_for("silent").unwrap();
    attack.go().unwrap();
    // The kernel asks that process when the service closes the file, and gets no answer.
    for _ in 0..3 {
        assert_is_served(&service);
    }
    drop(trap);
    let said = attack.wait_until_done().unwrap();
    let one = |word| values_after(&said, word).unwrap()[0][0];
    assert_eq!((one("opened"), one("granted")), (1, 0), "{said:?}");
    drop(attack);
    // The same process, with the kernel's own file.
    let memory = format!("/proc/{pid}/mem");
    assert_eq!(service.proves(ATTACKER, pid, &memory, &[]), (1, 1));
}

#[test]
#[ignore = "loads eBPF"]
fn files_whose_closing_waits_hold_no_other_client_up() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    // More than a user may have connections.
    for count in ["10", "200"] {
        let mut attack = service.program(ATTACKER, "attack_agent");
        attack.arg("linger").arg(address(service.folder.path()));
        let (attack, _) = Target::start(attack.arg(count)).unwrap();
        for _ in 0..3 {
            assert_is_served(&service);
        }
        drop(attack);
    }
}

#[test]
#[ignore = "needs root: mounts a file system"]
fn a_connection_whose_closing_waits_for_a_file_system_holds_no_other_client_up() {
    if missing_right().is_some() {
        return;
    }
    // More than a user may have, and than there are threads for those that are refused.
    for count in ["1", "100"] {
        let service = Service::start().unwrap();
        let stage = service.folder.path();
        let mounted = stage.join("mounted");
        fs::create_dir(&mounted).unwrap();
        let mut trap = Command::new(stage.join("fuse_trap"));
        trap.arg(ATTACKER.to_string()).arg("/bin/true");
        trap.arg(&mounted).arg("unread").arg(address(stage));
        let (mut trap, _) = Target::start(trap.arg(count)).unwrap();
        trap.go().unwrap();
        trap.wait_for("silent").unwrap();
        for _ in 0..3 {
            assert_is_served(&service);
        }
        // The kernel has asked that process to take the bytes, for the service, and has no answer.
        let said = trap.end_saying().unwrap();
        assert!(values_after(&said, "asked").unwrap()[0][0] > 0, "{said:?}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn root_of_a_user_namespace_is_given_nothing_of_others() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let (own, theirs, roots) = (sleeper(ATTACKER), sleeper(VICTIM), sleeper(0));
    let asks = |pid: &str, file: &str, how: &str| {
        let script = format!(
            "exec ./attack_agent prove {} {pid} {file} {how}",
            address(service.folder.path()).display()
        );
        let mut unshare = command_as(ATTACKER, "unshare");
        unshare.args(["--user", "--map-root-user", "sh", "-c", &script]);
        unshare.env("LD_LIBRARY_PATH", service.folder.path().join("dist/lib"));
        let output = unshare.current_dir(service.folder.path()).output().unwrap();
        let said = lines(&output);
        let one = |word| values_after(&said, word).unwrap_or_else(|_| panic!("{output:?}"))[0][0];
        (one("opened"), one("granted"))
    };
    // The kernel opens none of them for a process of such a namespace, and lets it name all.
    for of in [&own, &theirs, &roots] {
        let pid = of.pid().to_string();
        let memory = format!("/proc/{pid}/mem");
        assert_eq!(asks(&pid, &memory, ""), (0, 0));
        assert_eq!(asks(&pid, &memory, "path"), (1, 0));
        assert_eq!(asks(&pid, "/proc/self/mem", ""), (1, 0));
    }
    // Itself: it may trace all there.
    assert_eq!(asks("$$", "/proc/$$/mem", ""), (1, 1));
}
