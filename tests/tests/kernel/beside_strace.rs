//! Thirteen third-party programs, and one of 32 bits, under strace and `tracer-user` in one run:
//! each call is the same line, with what its descriptors refer to. One of them, PostgreSQL, is in
//! `postgresql.rs`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::ffi::OsStr;
use std::net::TcpListener;
use std::process::Command;

use tests::beside_strace::{
    Beside, HUNDRED, SCRIPTS, Shown, assert_agrees, assert_has_reasons, programs,
};
use tests::call_lines::Compared;
use tests::rights::missing_right;

/// Runs a program of the folder by an interpreter.
fn compared<S: AsRef<OsStr>>(interpreter: &str, file: &str, arguments: &[S]) -> Compared {
    let mut command = Command::new(interpreter);
    command.arg(programs().join(file)).args(arguments);
    Beside::new()
        .unwrap()
        .compare(Shown::Paths, &mut command)
        .unwrap()
}

/// Runs one of the scripts for shells, and checks that all its lines agree.
fn script_agrees(shell: &str, name: &str, arguments: &[String]) {
    let mut words = vec![name.to_owned()];
    words.extend_from_slice(arguments);
    agrees(name, shell, SCRIPTS, &words);
}

/// Runs a program of the folder by an interpreter, and checks that all its lines agree.
fn agrees(name: &str, interpreter: &str, file: &str, arguments: &[String]) {
    if missing_right().is_some() {
        return;
    }
    let compared = compared(interpreter, file, arguments);
    assert_agrees(name, &compared, |name| HUNDRED.contains(&name));
}

/// Finds a port on which no process listens.
fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

#[test]
#[ignore = "loads eBPF"]
fn coreutils() {
    script_agrees("sh", "coreutils", &[]);
}

#[test]
#[ignore = "loads eBPF"]
fn git() {
    script_agrees("sh", "git", &[]);
}

#[test]
#[ignore = "loads eBPF"]
fn tar() {
    script_agrees("sh", "tar", &[]);
}

#[test]
#[ignore = "loads eBPF"]
fn tar_without_what_descriptors_are() {
    if missing_right().is_some() {
        return;
    }
    let mut command = Command::new("sh");
    command.arg(programs().join(SCRIPTS)).arg("tar");
    let compared = Beside::new().unwrap();
    let compared = compared.compare(Shown::Plain, &mut command).unwrap();
    assert!(!format!("{:?}", compared.lines).contains("AT_FDCWD<"));
    assert_agrees("tar", &compared, |name| HUNDRED.contains(&name));
}

#[test]
#[ignore = "loads eBPF"]
fn nginx() {
    script_agrees("bash", "nginx", &[free_port()]);
}

#[test]
#[ignore = "loads eBPF"]
fn redis() {
    script_agrees("bash", "redis", &[free_port()]);
}

#[test]
#[ignore = "loads eBPF"]
fn python() {
    agrees("python", "/usr/bin/python3", "python.py", &[]);
}

#[test]
#[ignore = "loads eBPF"]
fn node() {
    agrees("node", "node", "node.js", &[]);
}

#[test]
#[ignore = "loads eBPF"]
fn gcc() {
    script_agrees("sh", "gcc", &[]);
}

#[test]
#[ignore = "loads eBPF"]
fn ssh_keygen() {
    script_agrees("sh", "ssh-keygen", &[]);
}

/// Namespaces, mounts, credentials, and a filter of system calls.
#[test]
#[ignore = "loads eBPF"]
fn bwrap() {
    script_agrees("sh", "bwrap", &[]);
}

/// A program in Go, with threads of its own.
#[test]
#[ignore = "loads eBPF"]
fn podman() {
    script_agrees("sh", "podman", &[]);
}

/// Netlink: interfaces, addresses, routes, neighbours and rules.
#[test]
#[ignore = "loads eBPF"]
fn ip() {
    if missing_right().is_some() {
        return;
    }
    // A network of this thread's own, and of its children: other machines have more devices, and
    // longer lists of them.
    // SAFETY: takes an integer only, and changes nothing of other threads.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
    let set_up = "ip link set lo up && ip neigh add 127.0.0.2 lladdr 02:00:00:00:00:01 dev lo";
    let set_up = Command::new("sh").args(["-c", set_up]).status();
    assert!(set_up.unwrap().success());
    let compared = |beside: Beside| {
        let mut command = Command::new("sh");
        command.arg(programs().join(SCRIPTS)).arg("ip");
        beside.compare(Shown::Paths, &mut command).unwrap()
    };
    let all = compared(Beside::new().unwrap());
    // Datagrams are longer than what is read where no size is given: how many depends on the
    // devices. They are compared below.
    assert_agrees("ip", &all, |name| {
        HUNDRED.contains(&name) && name != "recvmsg"
    });
    // All that a record has space for, of these alone: strace's own calls have more of it too.
    let beside = Beside::new().unwrap();
    let whole = compared(beside.with_text_bytes_of("%network", 1000));
    assert_has_reasons(&whole);
    let count = |word: &str| {
        let lines = whole.lines.iter();
        lines.filter(|line| line.contains(word)).count()
    };
    for kind in ["LINK", "ADDR", "ROUTE", "NEIGH", "RULE"] {
        assert!(count(&format!("nlmsg_type=RTM_GET{kind}")) > 0, "{kind}");
        assert!(count(&format!("nlmsg_type=RTM_NEW{kind}")) > 0, "{kind}");
    }
    assert!(count("nlmsg_type=NLMSG_ERROR") > 0);
    // What differs is longer than a record has space for.
    for (theirs, ours) in &whole.differ {
        let bytes = theirs.rsplit(" = ").next().unwrap().parse::<u32>();
        assert!(bytes.unwrap() > 1000, "strace {theirs}\nours   {ours}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn calls_that_few_programs_make() {
    if missing_right().is_some() {
        return;
    }
    let beside = Beside::new().unwrap();
    let program = beside.work().join("rare");
    let compiled = Command::new("cc")
        .args(["-O1", "-w", "-o"])
        .args([&program, &programs().join("rare.c")])
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{complaint}");
    let compared = beside
        .compare(Shown::Paths, &mut Command::new(&program))
        .unwrap();
    assert!(compared.differ.is_empty(), "{:#?}", compared.differ);
    assert!(compared.all > 60, "{compared:?}");
}

#[test]
#[ignore = "loads eBPF"]
#[cfg(target_arch = "x86_64")]
fn a_program_of_32_bits() {
    if missing_right().is_some() {
        return;
    }
    let beside = Beside::new().unwrap();
    let program = beside.work().join("calls32");
    let source = programs().join("calls32.c");
    // Without the compiler's own library for 32 bits, whose package has no fixed name.
    let library = |name: &str| format!("/usr/lib32/{name}");
    let compiled = Command::new("gcc")
        .args(["-m32", "-O1", "-w", "-nostdlib", "-idirafter"])
        .args(["/usr/include/x86_64-linux-gnu", "-o"])
        .args([
            &program,
            &library("Scrt1.o").into(),
            &library("crti.o").into(),
            &source,
        ])
        .args(["-lc", &library("crtn.o")])
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{complaint}");
    let compared = beside
        .compare(Shown::Paths, &mut Command::new(&program))
        .unwrap();
    assert!(compared.all > 1000, "{compared:?}");
    assert_agrees("32 bits", &compared, |_| true);
}
