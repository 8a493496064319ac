//! Bad input: one clear line, exit code 2, and no trace.

use std::process::{Command, Stdio};

use tests::dist;
use tests::processes::wait_unreaped;
use tests::rights::{is_root, missing_right};

/// Runs `tracer-user` with arguments that cannot work and returns the line that it says.
fn refused(command: &mut Command) -> String {
    let output = command
        .stdin(Stdio::null())
        .output()
        .expect("it can be run");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let shown = format!("{command:?}: {}\n{stderr}", output.status);
    assert_eq!(output.status.code(), Some(2), "{shown}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{shown}");
    assert_eq!(stderr.lines().count(), 1, "{shown}");
    assert!(!stderr.contains("panicked"), "{shown}");
    stderr
}

fn tracer(arguments: &[&str]) -> Command {
    let mut command = Command::new(dist::tracer_user().expect("a distribution"));
    command.args(arguments);
    command
}

#[test]
fn what_cannot_be_a_process_is_refused() {
    for pid in ["0", "-1", "4194305", "99999999999", "me", ""] {
        refused(&mut tracer(&["attach", "--", pid]));
    }
}

#[test]
fn what_cannot_be_an_option_is_refused() {
    let pid = std::process::id().to_string();
    for options in [
        ["--duration", "soon"],
        ["--duration", "-1"],
        ["--events", "no-such-event"],
        ["--events", ""],
        ["--format", "no-such-format"],
        ["--ring-size", "0"],
        ["--ring-size", "8MB?"],
        ["--stream-size", "-1"],
        ["--thread-ring-size", "99999999999G"],
        ["--no-user", "--no-system"],
    ] {
        let line = refused(tracer(&["attach", &pid]).args(options));
        let names_it = options.iter().any(|word| line.contains(word));
        assert!(names_it, "the line does not say what is wrong: {line}");
    }
}

#[test]
#[ignore = "needs root"]
fn no_such_process_is_said_in_one_line() {
    if missing_right().is_some() {
        return;
    }
    // A process that has just ended: its identifier is not given to another so soon.
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let pid = child.id().to_string();
    let line = refused(&mut tracer(&["attach", &pid]));
    assert!(line.contains(&pid), "{line}");
}

#[test]
#[ignore = "needs root"]
fn a_process_that_has_ended_and_was_not_waited_for_is_refused() {
    if missing_right().is_some() {
        return;
    }
    let mut child = Command::new("true").spawn().unwrap();
    wait_unreaped(i32::try_from(child.id()).unwrap()).unwrap();
    let line = refused(&mut tracer(&["attach", &child.id().to_string()]));
    assert!(line.contains(&child.id().to_string()), "{line}");
    child.wait().unwrap();
}

#[test]
#[ignore = "needs root"]
fn a_command_that_cannot_be_started_is_said_in_one_line() {
    if missing_right().is_some() {
        return;
    }
    let line = refused(&mut tracer(&["run", "--", "/nowhere/at/all"]));
    assert!(line.contains("/nowhere/at/all"), "{line}");
    let line = refused(&mut tracer(&["run", "--", "/etc/passwd"]));
    assert!(line.contains("/etc/passwd"), "{line}");
}

#[test]
fn without_rights_it_says_which_one_is_missing() {
    // As root by giving all rights up, else as we are.
    let folder = tempfile::tempdir().unwrap();
    let mut command = if is_root() {
        let everyones = dist::copy_for_everyone(folder.path()).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(everyones.join("bin/tracer-user"));
        command
    } else {
        tracer(&[])
    };
    let line = refused(command.args(["attach", &std::process::id().to_string()]));
    assert!(line.contains("CAP_"), "{line}");
}
