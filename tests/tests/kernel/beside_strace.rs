//! Thirteen third-party programs, and one of 32 bits, under strace and `tracer-user` in one run:
//! each call is the same line, with what its descriptors refer to. One of them, PostgreSQL, is in
//! `postgresql.rs`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::ffi::OsStr;
use std::net::TcpListener;
use std::process::Command;

use tests::beside_strace::{Beside, HUNDRED, Shown, assert_agrees, assert_has_reasons, programs};
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

/// Runs a program of the folder by an interpreter, and checks that all its lines agree.
fn agrees(interpreter: &str, file: &str, arguments: &[String]) {
    if missing_right().is_some() {
        return;
    }
    let compared = compared(interpreter, file, arguments);
    assert_agrees(file, &compared, |name| HUNDRED.contains(&name));
}

/// Finds a port on which no process listens.
fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

#[test]
#[ignore = "loads eBPF"]
fn coreutils() {
    agrees("sh", "coreutils.sh", &[]);
}

#[test]
#[ignore = "loads eBPF"]
fn git() {
    agrees("sh", "git.sh", &[]);
}

#[test]
#[ignore = "loads eBPF"]
fn tar() {
    agrees("sh", "tar.sh", &[]);
}

#[test]
#[ignore = "loads eBPF"]
fn tar_without_what_descriptors_are() {
    if missing_right().is_some() {
        return;
    }
    let mut command = Command::new("sh");
    command.arg(programs().join("tar.sh"));
    let compared = Beside::new().unwrap();
    let compared = compared.compare(Shown::Plain, &mut command).unwrap();
    assert!(!format!("{:?}", compared.lines).contains("AT_FDCWD<"));
    assert_agrees("tar", &compared, |name| HUNDRED.contains(&name));
}

#[test]
#[ignore = "loads eBPF"]
fn nginx() {
    agrees("bash", "nginx.sh", &[free_port()]);
}

#[test]
#[ignore = "loads eBPF"]
fn redis() {
    agrees("bash", "redis.sh", &[free_port()]);
}

#[test]
#[ignore = "loads eBPF"]
fn python() {
    agrees("/usr/bin/python3", "python.py", &[]);
}

#[test]
#[ignore = "loads eBPF"]
fn node() {
    agrees("node", "node.js", &[]);
}

#[test]
#[ignore = "loads eBPF"]
fn gcc() {
    agrees("sh", "gcc.sh", &[]);
}

#[test]
#[ignore = "loads eBPF"]
fn ssh_keygen() {
    agrees("sh", "ssh-keygen.sh", &[]);
}

/// Namespaces, mounts, credentials, and a filter of system calls.
#[test]
#[ignore = "loads eBPF"]
fn bwrap() {
    agrees("sh", "bwrap.sh", &[]);
}

/// A program in Go, with threads of its own.
#[test]
#[ignore = "loads eBPF"]
fn podman() {
    agrees("sh", "podman.sh", &[]);
}

/// Netlink: interfaces, addresses, routes, neighbours and rules.
#[test]
#[ignore = "loads eBPF"]
fn ip() {
    if missing_right().is_some() {
        return;
    }
    let compared = |beside: Beside| {
        let mut command = Command::new("sh");
        command.arg(programs().join("ip.sh"));
        beside.compare(Shown::Paths, &mut command).unwrap()
    };
    let all = compared(Beside::new().unwrap());
    assert_agrees("ip", &all, |name| HUNDRED.contains(&name));
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
