//! Arguments that programs are given as they begin, and data that calls gather from several
//! addresses.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::call_lines;
use tests::dist;
use tests::log_reader::Log;
use tests::rights::missing_right;

/// Program that runs itself with one list of arguments after the other, and writes down what the
/// kernel says that it was given.
const RUNS_ITSELF: &str = r#"#!/usr/bin/python3
import os, sys
folder = os.path.dirname(sys.argv[0])
nth = len(os.listdir(folder + "/given"))
with open("/proc/self/cmdline", "rb") as cmdline:
    given = cmdline.read()
with open(f"{folder}/given/{nth:03}", "wb") as file:
    file.write(given)
lists = [
    [], [""], ["a", "", "b c", "", ""], ["\n\t\"quoted\" \\ 'x' \x1b[2J"], [b"\xff\xfe not text"],
    ["x" * 900], ["x" * 3000], [str(n) for n in range(60)], [str(n) for n in range(2000)],
    ["x" * 50000], ["y" * 1000] * 200,
]
if nth < len(lists):
    os.execv(sys.argv[0], [sys.argv[0]] + lists[nth])
"#;

#[test]
#[ignore = "loads eBPF"]
fn an_exec_has_the_arguments_that_the_kernel_has() {
    // Of the last three lists, what is beyond is missing.
    assert_has_arguments("64", 4096, 3);
}

#[test]
#[ignore = "loads eBPF"]
fn an_exec_has_long_arguments_where_they_are_asked_for() {
    assert_has_arguments("64K", 65536, 1);
    assert_has_arguments("50000", 50000, 2);
}

/// Runs the program with this option, by which an exec has `space` bytes of its arguments: too few
/// for `truncated` of them.
fn assert_has_arguments(string_size: &str, space: usize, truncated: usize) {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    fs::write(&program, RUNS_ITSELF).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let given = folder.path().join("given");
    fs::create_dir(&given).unwrap();
    let log = Log::written_by(|log| {
        let mut run = Command::new(dist::tracer_user()?);
        run.args(["run", "--events", "exec"]);
        run.args(["--string-size", string_size, "--log"]).arg(log);
        let status = run.arg("--").arg(&program).status()?;
        anyhow::ensure!(status.success(), "{status}");
        Ok(())
    })
    .unwrap();
    let events = log.events(&[]).unwrap();
    let is_exec = |event: &&Value| event["type"] == "linux_trace_exec";
    let shown: Vec<_> = events.iter().filter(is_exec).collect();
    let mut files: Vec<_> = fs::read_dir(&given)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert_eq!((shown.len(), files.len()), (12, 12), "{shown:?}");
    for (event, file) in shown.iter().zip(&files) {
        let there = fs::read(file).unwrap();
        assert_eq!(event["data"]["file"], program.to_str().unwrap());
        assert_eq!(argv(event), list(&there, space), "{}", file.display());
        let missing = there.len().saturating_sub(space);
        let said = event["data"]["argv_missing_bytes"].as_u64();
        assert_eq!(said, (missing > 0).then_some(missing as u64));
        assert_eq!(event["truncated"], missing > 0);
    }
    // The same in words, in which nothing commands a terminal.
    let text = log.run("read", &[]).unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    for words in [
        r#""a", "", "b c", "", ""]"#,
        r#""\n\t\"quoted\" \\ 'x' \33[2J"]"#,
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let more = text.matches(", ...] /* ").count();
    assert_eq!(more, truncated, "{text}");
    assert_eq!(
        text.matches(" bytes more */ (truncated)").count(),
        truncated
    );
    // An expression chooses by one of them.
    let chosen = log.events(&["--filter", "\"b c\" in argv"]).unwrap();
    assert_eq!(chosen.len(), 1, "{chosen:?}");
}

/// The arguments that an event has.
fn argv(event: &Value) -> Vec<String> {
    let argv = event["data"]["argv"].as_array().unwrap().iter();
    argv.map(|argument| argument.as_str().unwrap().to_owned())
        .collect()
}

/// Returns the arguments that an event should have of those in `cmdline`.
fn list(cmdline: &[u8], space: usize) -> Vec<String> {
    let read = &cmdline[..cmdline.len().min(space)];
    let read = read.strip_suffix(&[0]).unwrap_or(read);
    let arguments = read.split(|byte| *byte == 0);
    arguments
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect()
}

/// Calls with vectors and messages of all shapes.
const VECTORS: &str = r#"
import os, socket
fd = os.open("file", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
os.writev(fd, [b"abc", b"", b"hello world" * 20])
os.writev(fd, [b"x%d" % n for n in range(30)])
os.lseek(fd, 0, 0)
parts = [bytearray(2), bytearray(5), bytearray(9)]
os.readv(fd, parts)
os.preadv(fd, [bytearray(500)], 3)
os.pwritev(fd, [b"x"] * 9, 1 << 33)
os.lseek(fd, 0, 2)
os.readv(fd, parts)
for bad in ([], [b""]):
    os.writev(fd, bad)
one, other = socket.socketpair()
one.sendmsg([b"one", b"two"])
other.recvmsg(100)
one.sendmsg([])
inet = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
inet.bind(("127.0.0.1", 0))
inet.sendmsg([b"dgram"], [], socket.MSG_DONTWAIT, inet.getsockname())
inet.recvmsg(3)
inet.setblocking(False)
try:
    inet.recvmsg(10)
except BlockingIOError:
    pass
os.close(fd)
try:
    os.writev(fd, [b"closed"])
except OSError:
    pass
os.environ.clear()
try:
    os.execve("/nowhere", ["a"] * 20, {"A": "B"})
except OSError:
    pass
if os.fork() == 0:
    os.execve("/bin/true", ["true", "-" * 80, "", "\""], {})
os.wait()
os.execve("/bin/true", ["x"] * 63, {"A%d" % n: "B" for n in range(200)})
"#;

#[test]
#[ignore = "loads eBPF"]
fn what_calls_gather_is_what_strace_says() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("vectors.py");
    fs::write(&script, VECTORS).unwrap();
    let (log, theirs) = (folder.path().join("log"), folder.path().join("strace"));
    let calls = "execve,readv,writev,preadv,preadv2,pwritev,pwritev2,sendmsg,recvmsg";
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--syscalls", calls, "--log"]).arg(&log);
    run.args(["--", "strace", "-f", "-s", "64", "-e"]);
    run.arg(format!("trace={calls}")).arg("-o").arg(&theirs);
    run.arg("/usr/bin/python3").arg(&script);
    let status = run.current_dir(folder.path()).status().unwrap();
    assert!(status.success(), "{status}");
    let compared = compared(&log, &theirs);
    assert!(compared.all >= 18, "{compared:?}");
    assert!(compared.differ.is_empty(), "{:#?}", compared.differ);
}

fn compared(log: &Path, theirs: &Path) -> call_lines::Compared {
    let ours = call_lines::read_log(&dist::tracer_user().unwrap(), log).unwrap();
    let theirs = call_lines::read_strace(theirs).unwrap();
    call_lines::compare(&theirs, &ours, call_lines::normal)
}
