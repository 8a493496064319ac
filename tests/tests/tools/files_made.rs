//! Files that the command line makes: nothing is replaced unasked, and nothing half-made stays.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output};

use tests::dist;
use tests::log_reader::Log;

/// Returns the names of the files in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// An export, killed by strace when it is about to give the output its name.
fn killed_export(log: &Log, to: &str, out: &Path) {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null"]);
    // Before the call is made: it fails, and the signal ends the program.
    strace.args(["-e", "inject=/^(link|rename):error=EIO:signal=KILL"]);
    strace.arg(dist::tracer_user().unwrap());
    strace
        .arg("export")
        .arg(log.path())
        .args(["--to", to, "-o"]);
    let output = strace.arg(out).output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{output:?}");
}

#[test]
fn what_a_killed_export_leaves_is_gone_at_once_or_with_the_next() {
    let log = Log::make(0).unwrap();
    for to in ["perfetto", "chrome", "parquet", "ctf"] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        killed_export(&log, to, &out);
        let left = names(folder.path());
        let is_folder = to == "ctf";
        assert_eq!(left.len(), usize::from(is_folder), "{to}: {left:?}");
        // Not under the name of a whole one.
        assert!(!out.exists());

        let path = out.to_str().unwrap();
        let output = log.run("export", &["--to", to, "-o", path]).unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(names(folder.path()), ["out"], "{to}");
        // Over one that is there, too.
        killed_export_over(&log, to, &out);
        let output = log.run("export", &["--to", to, "--force", "-o", path]);
        assert!(output.unwrap().status.success());
        assert_eq!(names(folder.path()), ["out"], "{to}");
    }
}

fn killed_export_over(log: &Log, to: &str, out: &Path) {
    let before = fs::metadata(out).unwrap().modified().unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null"]);
    strace.args(["-e", "inject=/^rename:error=EIO:signal=KILL"]);
    strace.arg(dist::tracer_user().unwrap());
    strace.arg("export").arg(log.path());
    strace.args(["--to", to, "--force", "-o"]).arg(out);
    let output = strace.output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{output:?}");
    // What was there is as it was.
    assert_eq!(fs::metadata(out).unwrap().modified().unwrap(), before);
}

fn logged(log: &Path, options: &[&str]) -> Output {
    let mut tracer = Command::new(dist::tracer_user().unwrap());
    tracer.args(["run", "--no-system"]).args(options);
    tracer.arg("--log").arg(log).args(["--", "true"]);
    tracer.output().unwrap()
}

#[test]
fn a_file_that_is_there_is_no_log_unless_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    for content in ["", "no log"] {
        fs::write(&log, content).unwrap();
        let refused = logged(&log, &[]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{content:?}: {said}");
        for option in ["--append", "--force"] {
            assert!(said.contains(option), "{said}");
        }
        assert_eq!(fs::read_to_string(&log).unwrap(), content);
    }
    // What is no log cannot be continued; an empty file can be, since a log begins there.
    assert_eq!(logged(&log, &["--append"]).status.code(), Some(2));
    assert_eq!(fs::read_to_string(&log).unwrap(), "no log");
    assert_eq!(logged(&log, &["--force"]).status.code(), Some(0));
    fs::write(&log, "").unwrap();
    assert_eq!(logged(&log, &["--append"]).status.code(), Some(0));
    assert_eq!(logged(&log, &["--append"]).status.code(), Some(0));
    assert_eq!(logged(&log, &[]).status.code(), Some(2));
}

#[test]
fn a_trace_that_cannot_begin_makes_no_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut tracer = Command::new(dist::tracer_user().unwrap());
    tracer.args(["run", "--no-system", "--log"]).arg(&log);
    let refused = tracer.args(["--", "/no/such/program"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert_eq!(names(folder.path()), [""; 0]);
}
